// What was found in a picture, drawn on it: boxes, turned boxes, masks, keypoints, names.

const MOST_SIDE = 1600 // pixels of what is drawn
const SURE = 0.5       // score from which on a keypoint is drawn
const SKELETON = [ // of people, as COCO numbers their points
  [15, 13], [13, 11], [16, 14], [14, 12], [11, 12], [5, 11], [6, 12], [5, 6], [5, 7], [6, 8], [7, 9], [8, 10], [1, 2], [0, 1], [0, 2],
  [1, 3], [2, 4], [3, 5], [4, 6],
]

const colour = (number, alpha = 1) => `hsl(${(number * 137 + 355) % 360} 75% 50% / ${alpha})`

/** A canvas with the picture and what an answer of the server tells of it. */
export function drawn(bitmap, {found, width, height}) {
  const factor = Math.min(1, MOST_SIDE / Math.max(width, height))
  const canvas = document.createElement("canvas")
  canvas.width = Math.max(1, Math.round(width * factor))
  canvas.height = Math.max(1, Math.round(height * factor))
  const context = canvas.getContext("2d")
  context.imageSmoothingQuality = "high"
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  const size = Math.max(11, Math.round((canvas.width + canvas.height) / 70))
  Object.assign(context, {lineWidth: Math.max(1, size / 7), font: `${size}px sans-serif`, textBaseline: "top", lineJoin: "round"})
  for (const one of [...found].reverse()) { // the surest on top
    if (one.mask?.counts) mask(context, one.mask, colour(one.class, 0.45))
    const scaled = values => values.map(value => value * factor)
    context.strokeStyle = context.fillStyle = colour(one.class ?? 0)
    if (one.rotated) turned(context, [...scaled(one.rotated.slice(0, 4)), one.rotated[4]])
    else if (one.box) context.strokeRect(...corner(scaled(one.box)))
    if (one.keypoints) points(context, one.keypoints.map(([x, y, score]) => [x * factor, y * factor, score]))
    if (one.box) label(context, scaled(one.box), `${one.label} ${one.score.toFixed(2)}`, size, colour(one.class))
  }
  return canvas
}

const corner = ([x1, y1, x2, y2]) => [x1, y1, x2 - x1, y2 - y1]

function turned(context, [x, y, width, height, angle]) {
  context.save()
  context.translate(x, y)
  context.rotate(angle)
  context.strokeRect(-width / 2, -height / 2, width, height)
  context.restore()
}

/** Runs column by column, the first outside: each is a strip of a column, or several. */
function mask(context, {shape: [height, width], counts}, style) {
  const {canvas} = context
  const [across, down] = [canvas.width / width, canvas.height / height]
  context.fillStyle = style
  context.beginPath()
  let at = 0
  counts.forEach((count, index) => {
    let left = index % 2 ? count : 0
    for (let start = at; left > 0;) {
      const row = start % height, length = Math.min(left, height - row)
      context.rect(Math.floor(start / height) * across, row * down, across, length * down)
      start += length
      left -= length
    }
    at += count
  })
  context.fill()
}

function points(context, list) {
  const sure = list.map(([, , score]) => score >= SURE)
  for (const [a, b] of list.length === 17 ? SKELETON : []) {
    if (!sure[a] || !sure[b]) continue
    context.beginPath()
    context.moveTo(list[a][0], list[a][1])
    context.lineTo(list[b][0], list[b][1])
    context.stroke()
  }
  list.forEach(([x, y], index) => {
    if (!sure[index]) return
    context.beginPath()
    context.arc(x, y, context.lineWidth * 1.5, 0, 2 * Math.PI)
    context.fill()
  })
}

function label(context, [x1, y1], text, size, ground) {
  const width = context.measureText(text).width + size / 2, height = size * 1.3
  const x = Math.max(0, Math.min(x1, context.canvas.width - width)), y = y1 >= height ? y1 - height : Math.max(0, y1)
  context.fillStyle = ground
  context.fillRect(x, y, width, height)
  context.fillStyle = "#fff"
  context.fillText(text, x + size / 4, y + size * 0.15)
}
