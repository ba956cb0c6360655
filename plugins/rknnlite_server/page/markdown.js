// The little Markdown that models write, as nodes: code, headings, lists, bold, italic. Links and markup stay text.
import {make} from "./dom.js"

const FENCE = /^\s{0,3}(```+|~~~+)\s*([\w+#.-]*)[^`]*$/
const HEADING = /^(#{1,6})\s+(.*)$/
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/
const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(\S|\S[\s\S]*?\S)\*\*|(?<![\w*])\*([^\s*]|[^\s*][^*]*?[^\s*])\*(?![\w*])/g

/** The blocks of a text: their kind and their source, which are compared to find out what has changed. */
export function blocks(text) {
  const found = []
  let open = null // a fence, a paragraph or a list that goes on
  const end = () => { if (open) found.push(open); open = null }
  for (const line of text.split("\n")) {
    if (open?.kind === "code") {
      if (line.trim() === open.fence) { open.closed = true; end() } else open.lines.push(line)
      continue
    }
    const fence = FENCE.exec(line)
    if (fence) { end(); open = {kind: "code", fence: fence[1], language: fence[2], lines: []}; continue }
    if (!line.trim()) { end(); continue }
    const heading = HEADING.exec(line)
    if (heading) { end(); found.push({kind: "heading", level: heading[1].length, lines: [heading[2]]}); continue }
    const item = ITEM.exec(line)
    const kind = item ? (/\d/.test(item[2]) ? "ol" : "ul") : "p"
    if (item && open?.kind !== kind) { end(); open = {kind, start: parseInt(item[2], 10) || 1, lines: []} }
    if (!open) open = {kind: "p", lines: []}
    if (item) open.lines.push({depth: Math.min(item[1].length >> 1, 4), text: item[3]})
    else if (open.kind === "p") open.lines.push(line)
    else open.lines[open.lines.length - 1].text += "\n" + line.trim()
  }
  end()
  return found
}

const LONGEST = 20000 // characters of a paragraph in which marks are looked for

function inline(text) {
  if (text.length > LONGEST) return [text]
  const made = []
  let at = 0
  for (const match of text.matchAll(INLINE)) {
    made.push(text.slice(at, match.index))
    const [whole, , code, bold, italic] = match
    made.push(code !== undefined ? make("code", {}, code) : bold !== undefined ? make("strong", {}, bold) : make("em", {}, italic))
    at = match.index + whole.length
  }
  return [...made, text.slice(at)]
}

function node(block) {
  switch (block.kind) {
    case "code": return make("pre", {tabIndex: 0}, make("code", {}, block.lines.join("\n")))
    case "heading": return make("h" + Math.min(block.level + 2, 6), {}, ...inline(block.lines[0]))
    case "p": return make("p", {}, ...inline(block.lines.join("\n")))
    default: return make(block.kind, block.kind === "ol" ? {start: block.start} : {}, ...block.lines.map(
      line => make("li", {className: `deep-${line.depth}`}, ...inline(line.text))))
  }
}

/** Show a text in an element; blocks that have not changed since the last call stay as they are. */
export function show(element, text) {
  const before = element.shownBlocks || []
  const now = blocks(text).map(block => ({source: JSON.stringify(block), block}))
  let same = 0
  while (same < before.length && same < now.length && before[same].source === now[same].source) same++
  while (element.childNodes.length > same) element.lastChild.remove()
  element.append(...now.slice(same).map(one => node(one.block)))
  element.shownBlocks = now
}
