// A network tried by a picture: resized here, sent by the Open Inference Protocol, the answer as a table.
import {ask, json} from "./api.js"
import {$, choices, files, make, milliseconds} from "./dom.js"
import {fitted, opened, pixels} from "./pictures.js"

const TOP = 5
const MOST_CLASSES = 100000
const FITS = {stretch: "stretched", crop: "cropped in the middle", letterbox: "framed in grey"}
const HALF = new Float32Array(1 << 16) // all values of FP16
const READ = {
  FP32: Float32Array, FP64: Float64Array, INT8: Int8Array, INT16: Int16Array, INT32: Int32Array, INT64: BigInt64Array,
  UINT8: Uint8Array, UINT16: Uint16Array, UINT32: Uint32Array, UINT64: BigUint64Array, BOOL: Uint8Array, FP16: Uint16Array, BF16: Uint16Array,
}
let metadata = null
let describing = null // the promise of it
let labels = []
let last = null // the file that was tried
let number = 0  // of the try

export function networks(list) {
  choices($("network"), list.filter(entry => entry.state === "READY").map(entry => entry.name))
  if ($("network").value !== (metadata?.name ?? "")) change()
}

function change() {
  number++ // what runs on the network before is shown no more
  describing = describe()
}

async function describe() {
  const name = $("network").value
  metadata = null
  $("network-error").textContent = ""
  $("network-result").hidden = true
  $("network-tensors").tBodies[0]?.remove()
  $("network-drop").disabled = !name
  choices($("network-input"), [])
  if (!name) return
  try {
    const found = await json(`v2/models/${encodeURIComponent(name)}`)
    if ($("network").value !== name) return
    metadata = found
  } catch (error) {
    return fail(error.message)
  }
  const row = (kind, tensor) => make("tr", {}, make("th", {scope: "row"}, tensor.name), make("td", {}, kind), make("td", {}, tensor.datatype), make("td", {}, shape(tensor)))
  $("network-tensors").append(make("tbody", {}, ...metadata.inputs.map(one => row("input", one)), ...metadata.outputs.map(one => row("output", one))))
  choices($("network-input"), metadata.inputs.filter(pictureLike).map(one => one.name))
  if (!$("network-input").value) fail("No input of this network has the shape of a picture: four dimensions, of them 1, 3 or 4 channels.")
  varies()
}

const shape = tensor => tensor.shape.map(dim => dim < 0 ? "any" : dim).join(" × ")
const chosen = () => metadata?.inputs.find(one => one.name === $("network-input").value)
const pictureLike = tensor => tensor.shape.length === 4 && layoutOf(tensor) !== null

/** Where the channels are: nhwc as networks here have it, nchw where only that fits; null for no picture. */
function layoutOf({shape: dims}) {
  if ([1, 3, 4].includes(dims[3])) return "nhwc"
  return [1, 3, 4].includes(dims[1]) ? "nchw" : null
}

function varies() {
  const input = chosen()
  const open = input && input.shape.slice(1).some(dim => dim < 0)
  for (const field of document.querySelectorAll(".varies")) field.hidden = !open
}

function fail(message) {
  $("network-result").hidden = true
  $("network-error").textContent = message
}

async function attempt(file) {
  await describing
  const input = chosen()
  if (!input) return
  const mine = ++number
  last = file
  $("network-error").textContent = ""
  try {
    const bitmap = await opened(file)
    const layout = layoutOf(input)
    const [rows, columns, channels] = layout === "nhwc" ? [1, 2, 3] : [2, 3, 1]
    const size = dim => input.shape[dim] > 0 ? input.shape[dim] : Number($(dim === rows ? "network-height" : "network-width").value)
    const [height, width, depth] = [size(rows), size(columns), input.shape[channels]]
    const fit = $("network-fit").value, order = $("network-order").value
    const same = bitmap.width === width && bitmap.height === height
    const canvas = fitted(bitmap, width, height, fit)
    const told = [
      same ? `${width} × ${height} pixels as they are` : `${bitmap.width} × ${bitmap.height} pixels, ${FITS[fit]} to ${width} × ${height} by this browser`,
      depth === 1 ? "grey (0.299 R + 0.587 G + 0.114 B)" : order.toUpperCase() + (depth === 4 ? " and alpha" : ""),
      "sent as UINT8, 0 to 255", "mean and scale are those in the model's file, applied by the server",
    ]
    bitmap.close()
    const dims = input.shape.map((dim, index) => index === rows ? height : index === columns ? width : dim > 0 ? dim : 1)
    const one = pixels(canvas, depth, layout, order === "bgr")
    const picture = new Uint8Array(one.length * dims[0])
    for (let row = 0; row < dims[0]; row++) picture.set(one, row * one.length)
    if (dims[0] > 1) told.push(`the same picture in all ${dims[0]} rows`)
    const tensors = [{name: input.name, datatype: "UINT8", shape: dims, data: picture, ...(layout === "nchw" ? {layout} : {})}]
    for (const other of metadata.inputs) {
      if (other === input) continue
      const shaped = other.shape.map(dim => dim > 0 ? dim : 1)
      const Type = READ[other.datatype] || Float32Array
      tensors.push({name: other.name, datatype: other.datatype, shape: shaped, data: new Uint8Array(Type.BYTES_PER_ELEMENT * shaped.reduce((a, b) => a * b, 1))})
      told.push(`zeros for ${other.name}`)
    }
    const start = performance.now()
    const outputs = await infer(metadata.name, tensors)
    const time = performance.now() - start
    if (mine === number) show(file, canvas, told, outputs, time)
  } catch (error) {
    if (mine === number) fail(error.message)
  }
}

/** Run a network: JSON, and the bytes of the tensors behind it; outputs with `values`. */
async function infer(name, tensors) {
  const inputs = tensors.map(({name, datatype, shape, data, layout}) => ({
    name, datatype, shape, parameters: {binary_data_size: data.length, ...(layout ? {layout} : {})},
  }))
  const head = new TextEncoder().encode(JSON.stringify({inputs, parameters: {binary_data_output: true}}))
  const response = await ask(`v2/models/${encodeURIComponent(name)}/infer`, {
    body: new Blob([head, ...tensors.map(one => one.data)]),
    headers: {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": String(head.length)},
  })
  const body = await response.arrayBuffer()
  const length = Number(response.headers.get("Inference-Header-Content-Length"))
  const told = JSON.parse(new TextDecoder().decode(length ? body.slice(0, length) : body))
  let at = length
  return told.outputs.map(output => {
    const size = output.parameters?.binary_data_size
    if (size === undefined) return {...output, values: output.data}
    const part = body.slice(at, at += size)
    return {...output, values: values(output.datatype, part)}
  })
}

function values(datatype, part) {
  const found = new READ[datatype](part)
  if (datatype === "BF16") return new Float32Array(Uint32Array.from(found, bits => bits << 16).buffer)
  if (datatype !== "FP16") return found
  if (!HALF[1]) for (let bits = 0; bits < 1 << 16; bits++) HALF[bits] = half(bits)
  return Float32Array.from(found, bits => HALF[bits])
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023
  if (exponent === 31) return rest ? NaN : sign * Infinity
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : 2 ** -14 * rest / 1024)
}

// -- what is shown

function show(file, canvas, told, outputs, time) {
  const place = $("network-result")
  const figure = make("figure", {}, canvas, make("figcaption", {className: "soft"}, "What the network was shown"))
  canvas.setAttribute("role", "img")
  canvas.setAttribute("aria-label", "The picture as it was sent")
  const ranked = outputs.find(classes)
  place.replaceChildren(
    make("div", {className: "head"}, make("h2", {}, file.name || "Picture"), make("span", {className: "chip loaded", id: "network-time"}, `${milliseconds(time)} there and back`)),
    make("div", {className: "shown"}, figure, ranked ? top(ranked) : null),
    make("p", {className: "soft", id: "network-told"}, told.join("; ") + "."),
    make("div", {className: "scroll"}, table(outputs)))
  place.hidden = false
}

const classes = output => {
  const long = output.shape.filter(dim => dim !== 1)
  return long.length === 1 && long[0] >= 2 && long[0] <= MOST_CLASSES && output.datatype !== "BOOL"
}

/** The largest values of an output; shares by softmax unless they are shares already. */
function top(output) {
  const found = Array.from(output.values, Number)
  const sum = found.reduce((a, b) => a + b, 0)
  const shares = found.every(value => value >= -1e-3 && value <= 1.001) && Math.abs(sum - 1) < 0.02
  const most = found.reduce((a, b) => b > a ? b : a, -Infinity)
  const whole = shares ? 1 : found.reduce((total, value) => total + Math.exp(value - most), 0)
  const order = [...found.keys()].sort((a, b) => found[b] - found[a]).slice(0, TOP)
  const rows = order.map(index => {
    const share = shares ? found[index] : Math.exp(found[index] - most) / whole
    return make("tr", {}, make("th", {scope: "row"}, labels[index] ?? String(index)),
      make("td", {}, make("meter", {min: 0, max: 1, value: share, "aria-label": `share of ${labels[index] ?? index}`})),
      make("td", {}, `${(100 * share).toFixed(1)} %`), make("td", {className: "soft"}, plain(found[index])))
  })
  return make("table", {id: "network-top"},
    make("caption", {}, `Top ${rows.length} of ${output.name}, ${shares ? "shares as the network gives them" : "shares by a softmax taken here"}`),
    make("tbody", {}, ...rows))
}

function table(outputs) {
  const rows = outputs.map(output => {
    let least = Infinity, most = -Infinity, sum = 0, odd = 0
    for (const each of output.values) {
      const value = Number(each)
      if (!Number.isFinite(value)) { odd++; continue }
      if (value < least) least = value
      if (value > most) most = value
      sum += value
    }
    const count = output.values.length - odd
    return make("tr", {}, make("th", {scope: "row"}, output.name), make("td", {}, output.datatype), make("td", {}, output.shape.join(" × ")),
      ...(count ? [least, most, sum / count] : [NaN, NaN, NaN]).map(value => make("td", {className: "number"}, plain(value))),
      make("td", {className: "number"}, String(odd)))
  })
  return make("table", {id: "network-outputs"}, make("caption", {className: "unseen"}, "Outputs"),
    make("thead", {}, make("tr", {}, ...["Output", "Type", "Shape", "Min", "Max", "Mean", "Not finite"].map(
      (text, index) => make("th", {scope: "col", className: index > 2 ? "number" : ""}, text)))),
    make("tbody", {}, ...rows))
}

const plain = value => Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "–"

export function start() {
  const drop = $("network-drop")
  const again = () => { if (last && !$("network-result").hidden) attempt(last) }
  $("network").addEventListener("change", change)
  $("network-input").addEventListener("change", varies)
  for (const name of ["network-fit", "network-order"]) $(name).addEventListener("change", again)
  $("network-labels").addEventListener("change", async () => {
    const file = $("network-labels").files[0]
    labels = file ? (await file.text()).replace(/\r/g, "").replace(/\n+$/, "").split("\n").slice(0, MOST_CLASSES) : []
    again()
  })
  drop.addEventListener("click", () => $("network-file").click())
  files($("view-network"), $("network-file"), ([file]) => attempt(file), () => !$("view-network").hidden)
}
