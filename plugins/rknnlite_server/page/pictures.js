// Pictures of the user, read and resized in the browser.
import {make} from "./dom.js"

const MOST_SIDE = 2048 // pixels of a picture in a message; encoders take fewer
const MOST_BYTES = 4 << 20
const GREY = "rgb(114, 114, 114)" // of a frame, as YOLO's training has it

/** The pixels of a file, turned as its camera says; raises Error for what is no picture. */
export async function opened(file) {
  try {
    return await createImageBitmap(file, {colorSpaceConversion: "none", premultiplyAlpha: "none"})
  } catch {
    throw new Error(`${file.name || "this"} is no picture that this browser can read`)
  }
}

/** A data URL for a message: the file itself where it is a small JPEG or PNG, else drawn anew. */
export async function dataUrl(file) {
  const bitmap = await opened(file)
  try {
    const factor = Math.min(1, MOST_SIDE / Math.max(bitmap.width, bitmap.height))
    if (factor === 1 && file.size <= MOST_BYTES && /^image\/(png|jpeg)$/.test(file.type)) return await read(file)
    const [width, height] = [bitmap.width, bitmap.height].map(side => Math.max(1, Math.round(side * factor)))
    const canvas = make("canvas", {width, height})
    const context = canvas.getContext("2d")
    context.fillStyle = "#fff" // behind what is transparent: JPEG has no such pixels
    context.fillRect(0, 0, width, height)
    context.imageSmoothingQuality = "high"
    context.drawImage(bitmap, 0, 0, width, height)
    return canvas.toDataURL("image/jpeg", 0.92)
  } finally {
    bitmap.close()
  }
}

const read = file => new Promise((resolve, reject) => {
  const reader = new FileReader()
  reader.onload = () => resolve(reader.result)
  reader.onerror = () => reject(reader.error)
  reader.readAsDataURL(file)
})

/** A canvas of that size with the picture in it; `fit` is stretch, crop or letterbox. */
export function fitted(bitmap, width, height, fit) {
  const canvas = make("canvas", {width, height})
  const context = canvas.getContext("2d", {willReadFrequently: true})
  context.fillStyle = fit === "letterbox" ? GREY : "#000"
  context.fillRect(0, 0, width, height)
  context.imageSmoothingQuality = "high"
  const ratios = [width / bitmap.width, height / bitmap.height]
  const factor = fit === "crop" ? Math.max(...ratios) : Math.min(...ratios)
  const drawn = fit === "stretch" ? [width, height] : [bitmap.width * factor, bitmap.height * factor]
  context.drawImage(bitmap, (width - drawn[0]) / 2, (height - drawn[1]) / 2, ...drawn)
  return canvas
}

/** Bytes of the pixels in the order of a tensor; `channels` is 1 (grey), 3 or 4, `layout` nhwc or nchw. */
export function pixels(canvas, channels, layout, bgr) {
  const {width, height} = canvas
  const {data} = canvas.getContext("2d").getImageData(0, 0, width, height)
  const count = width * height
  const made = new Uint8Array(count * channels)
  for (let pixel = 0; pixel < count; pixel++) {
    const [red, green, blue, alpha] = data.subarray(4 * pixel, 4 * pixel + 4)
    const values = channels === 1 ? [0.299 * red + 0.587 * green + 0.114 * blue + 0.5] : bgr ? [blue, green, red, alpha] : [red, green, blue, alpha]
    for (let channel = 0; channel < channels; channel++) {
      made[layout === "nchw" ? channel * count + pixel : pixel * channels + channel] = values[channel]
    }
  }
  return made
}
