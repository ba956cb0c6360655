// Figures of the last minutes as lines, read from what the server has for Prometheus.
import {ask, limits} from "./api.js"
import {$, bytes, make} from "./dom.js"

const EVERY = 2000       // milliseconds
const SELDOM = 10000     // with a key that has a limit, and then only while they are seen
const KEPT = 5 * 60000
const SHORTEST = 60000   // milliseconds that a line shows at the beginning
const OWN = /^\/(metrics|page\/.*|health|v1\/health|v2\/health\/.*)?$/ // routes that no work is
const WIDTH = 240, HEIGHT = 48
const SVG = "http://www.w3.org/2000/svg"
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g

const two = value => value < 10 ? value.toFixed(1) : String(Math.round(value))
const rate = (name, wanted) => (now, before, seconds) => Math.max(0, sum(now, name, wanted) - sum(before, name, wanted)) / seconds
const level = name => now => now.has(name) ? sum(now, name) : null
const FIGURES = [
  {title: "Requests", unit: "/s", show: two, of: rate("rknnlite_requests_total", labels => !OWN.test(labels.route))},
  {title: "Tokens made", unit: "/s", show: two, of: rate("rknnlite_generated_tokens_total"), needs: "rknnlite_running"},
  {title: "Tokens read", unit: "/s", show: two, of: rate("rknnlite_prompt_tokens_total"), needs: "rknnlite_running"},
  {title: "Runs of networks", unit: "/s", show: two, of: rate("rknnlite_network_run_seconds_count"), needs: "rknnlite_network_run_seconds_count"},
  {title: "Being computed", unit: "", show: String, of: now => sum(now, "rknnlite_running") + sum(now, "rknnlite_network_running")},
  {title: "In the queue", unit: "", show: String, of: now => sum(now, "rknnlite_waiting") + sum(now, "rknnlite_network_waiting")},
  {title: "Memory", unit: "", show: bytes, of: level("process_resident_memory_bytes")},
  {title: "NPU load", unit: " %", show: two, of: now => mean(now, "rknnlite_npu_load_percent"), most: 100},
  {title: "Temperature", unit: " °C", show: two, of: now => highest(now, "rknnlite_temperature_celsius")},
]
const points = [] // {at, values}, the oldest first
let before = null

const rows = (found, name) => found.get(name) || []
const sum = (found, name, wanted = () => true) => rows(found, name).reduce((total, row) => wanted(row.labels) ? total + row.value : total, 0)
const highest = (found, name) => found.has(name) ? Math.max(...rows(found, name).map(row => row.value)) : null
const mean = (found, name) => found.has(name) ? sum(found, name) / rows(found, name).length : null

/** Prometheus' text as rows by name. */
export function parsed(text) {
  const found = new Map()
  for (const line of text.split("\n")) {
    const match = line[0] === "#" ? null : LINE.exec(line)
    if (!match || match[1].endsWith("_bucket")) continue
    const labels = Object.fromEntries([...(match[2] || "").matchAll(LABEL)].map(([, name, value]) => [name, value]))
    if (!found.has(match[1])) found.set(match[1], [])
    found.get(match[1]).push({labels, value: Number(match[3])})
  }
  return found
}

async function look() {
  const now = parsed(await (await ask("metrics")).text())
  const at = Date.now()
  if (before) {
    const seconds = (at - before.at) / 1000
    points.push({at, values: FIGURES.map(figure => figure.needs && !now.has(figure.needs) ? null : figure.of(now, before.found, seconds))})
    while (points.length && points[0].at < at - KEPT) points.shift()
  }
  before = {at, found: now}
  if (!$("view-figures").hidden) draw()
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

/** A line through values over time; a gap where nobody looked. */
function sparkline(index, most) {
  const end = points[points.length - 1].at
  const span = Math.min(KEPT, Math.max(SHORTEST, end - points[0].at))
  const known = points.filter(point => point.values[index] !== null)
  const top = most || Math.max(...known.map(point => point.values[index])) * 1.1 || 1
  let path = "", from = end
  for (const {at, values} of known) {
    const x = WIDTH * (1 - (end - at) / span), y = HEIGHT - 3 - (HEIGHT - 6) * values[index] / top
    path += `${path && at - from < 2 * SELDOM ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`
    from = at
  }
  return svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "sparkline", "aria-hidden": "true"},
    svg("path", {d: `M0 ${HEIGHT - 1}H${WIDTH}`, class: "ground"}), svg("path", {d: path, class: "line"}))
}

export function draw() {
  if (points.length < 2) return
  const now = points[points.length - 1].values
  $("figures-note").textContent = ""
  $("figures").replaceChildren(...FIGURES.flatMap(({title, unit, show, most}, index) => {
    if (now[index] === null) return []
    const values = points.map(point => point.values[index]).filter(value => value !== null)
    return [make("li", {className: "card figure"},
      make("div", {className: "head"}, make("h3", {}, title), make("strong", {}, show(now[index]) + unit)), sparkline(index, most),
      make("p", {className: "soft"}, `${show(Math.min(...values))} to ${show(Math.max(...values))}${unit} in ${minutes()}`))]
  }))
}

function minutes() {
  const seconds = Math.round((points[points.length - 1].at - points[0].at + EVERY) / 1000)
  return seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
}

export function start(offer) {
  clearInterval(start.timer)
  if (!offer.metrics) {
    $("figures-note").textContent = "This server counts nothing: start it with --metrics."
    return
  }
  $("figures-note").textContent = "The first figures come in a few seconds."
  const safely = () => {
    const seen = !document.hidden && $("lock").hidden
    if (!seen || (limits.there && ($("view-figures").hidden || Date.now() - before?.at < SELDOM))) return
    look().catch(error => { if (!$("view-figures").hidden) $("figures-note").textContent = error.message })
  }
  start.timer = setInterval(safely, EVERY)
  safely()
}
