// What a network sees in a picture, or in what a camera shows: found by the server, drawn here, told in a table.
import {json} from "./api.js"
import {$, choices, files, make, milliseconds} from "./dom.js"
import {drawn} from "./found.js"
import {opened} from "./pictures.js"

const MOST_ROWS = 100
const TITLES = {detect: "boxes", classify: "classes", segment: "masks", pose: "keypoints", read: "text", embed: "vector"}
let sights = []    // networks that are for pictures, as the server tells
let known = ""     // the networks that it was asked for
let last = null    // the file that was tried
let number = 0     // of the try
let camera = null  // the stream of one that runs

/** Take up the networks that are loaded; whether one of them is for pictures. */
export async function networks(list) {
  const ready = list.filter(entry => entry.state === "READY").map(entry => entry.name).sort()
  const now = JSON.stringify(ready)
  if (now === known) return sights.length > 0
  known = now
  try {
    sights = ready.length ? (await json("v1/vision/models")).data.filter(one => one.routes.length) : []
  } catch {
    known = "" // asked again with the next look
    return sights.length > 0
  }
  choices($("vision-model"), sights.map(one => one.model))
  change()
  return sights.length > 0
}

const chosen = () => sights.find(one => one.model === $("vision-model").value)

function change() {
  const sight = chosen()
  number++ // what runs on the network before is shown no more
  $("vision-result").hidden = true
  $("vision-error").textContent = ""
  if (!sight) return
  const before = $("vision-route").value
  choices($("vision-route"), sight.routes, route => TITLES[route] || route)
  $("vision-route").value = sight.routes.includes(before) ? before : sight.routes.at(-1)
  $("vision-head").textContent = `${sight.head}; takes ${sight.width} × ${sight.height} pixels.`
}

/** Ask about a picture and show the answer; whether that went well. */
async function attempt(file) {
  const sight = chosen()
  if (!sight) return false
  const mine = ++number
  $("vision-error").textContent = ""
  try {
    const bitmap = await opened(file)
    const form = new FormData()
    form.append("image", file)
    form.append("model", sight.model)
    if ($("vision-score").value) form.append("score", $("vision-score").value)
    if ($("vision-labels").files[0]) form.append("labels", $("vision-labels").files[0])
    const start = performance.now()
    const answer = await json(`v1/vision/${$("vision-route").value}`, {body: form})
    if (mine === number) show(file, bitmap, answer, performance.now() - start)
    bitmap.close()
    return mine === number
  } catch (error) {
    if (mine === number) fail(error.message)
    return false
  }
}

function fail(message) {
  $("vision-result").hidden = true
  $("vision-error").textContent = message
}

function show(file, bitmap, answer, time) {
  const {found, width, height} = answer
  const canvas = drawn(bitmap, answer)
  canvas.setAttribute("role", "img")
  canvas.setAttribute("aria-label", `The picture, and what was found in it: ${found.length}`)
  const took = `${milliseconds(time)} there and back, ${milliseconds(answer.run_us / 1000)} in the network`
  const count = found.length === 1 ? "1 found" : `${found.length} found`
  $("vision-result").replaceChildren(
    make("div", {className: "head"}, make("h2", {}, file.name || "Picture"), make("span", {className: "chip loaded", id: "vision-count"}, count)),
    make("figure", {className: "seen"}, canvas),
    make("p", {className: "soft", id: "vision-told"}, `${width} × ${height} pixels; ${took}.`),
    make("div", {className: "scroll"}, table(found)))
  $("vision-result").hidden = false
}

const COLUMNS = [
  ["Class", one => one.label], ["Text", one => one.text], ["Score", one => one.score?.toFixed(3)],
  ["Share", one => one.share === undefined ? undefined : `${(100 * one.share).toFixed(1)} %`],
  ["Box (x1, y1, x2, y2)", one => one.box?.map(Math.round).join(", ")], ["Keypoints", one => one.keypoints && String(one.keypoints.length)],
  ["Numbers", one => one.vector && String(one.vector.length)],
]

function table(found) {
  const rows = found.slice(0, MOST_ROWS)
  const columns = COLUMNS.filter(([, cell]) => rows.some(one => cell(one) !== undefined))
  return make("table", {id: "vision-found"}, make("caption", {className: "unseen"}, "What was found, best first"),
    make("thead", {}, make("tr", {}, ...columns.map(([title]) => make("th", {scope: "col"}, title)))),
    make("tbody", {}, ...rows.map(one => make("tr", {}, ...columns.map(([, cell]) => make("td", {}, cell(one) ?? ""))))))
}

// -- the camera

async function record() {
  if (camera) return stop()
  $("vision-error").textContent = ""
  try {
    camera = await navigator.mediaDevices.getUserMedia({video: {facingMode: "environment"}})
  } catch (error) {
    return fail(`there is no camera: ${error.message}`)
  }
  $("vision-camera").textContent = "Stop the camera"
  const video = make("video", {muted: true, playsInline: true, srcObject: camera})
  try {
    await video.play()
    while (camera && !$("view-vision").hidden && await attempt(await frame(video))) await new Promise(requestAnimationFrame)
  } catch (error) {
    if (camera) fail(error.message)
  }
  stop()
}

function stop() {
  for (const track of camera?.getTracks() || []) track.stop()
  camera = null
  $("vision-camera").textContent = "Camera"
}

/** What a video shows now as a file. */
function frame(video) {
  const canvas = make("canvas", {width: video.videoWidth, height: video.videoHeight})
  canvas.getContext("2d").drawImage(video, 0, 0)
  return new Promise(done => canvas.toBlob(blob => done(new File([blob], "Camera", {type: "image/jpeg"})), "image/jpeg", 0.9))
}

export function start() {
  const again = () => { if (last && !camera) attempt(last) }
  const take = ([file]) => { stop(); last = file; attempt(file) }
  $("vision-model").addEventListener("change", () => { change(); again() })
  for (const name of ["vision-route", "vision-score", "vision-labels"]) $(name).addEventListener("change", again)
  $("vision-drop").addEventListener("click", () => $("vision-file").click())
  $("vision-camera").hidden = !navigator.mediaDevices?.getUserMedia // browsers hide it from pages without https
  $("vision-camera").addEventListener("click", record)
  files($("view-vision"), $("vision-file"), take, () => !$("view-vision").hidden)
}
