// Building the page out of nodes: text is always text, never markup.

export const $ = id => document.getElementById(id)

/** An element; properties are set as such, children are nodes or text. */
export function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role") made.setAttribute(name, value)
    else made[name] = value
  }
  made.append(...children.filter(child => child !== null && child !== ""))
  return made
}

/** Options of a select; what was chosen stays chosen where it is still there. `text` says what an option is called. */
export function choices(select, values, text = value => value) {
  const before = select.value
  const now = JSON.stringify(values.map(value => [value, text(value)]))
  if (select.shownChoices === now) return
  select.shownChoices = now
  select.replaceChildren(...values.map(value => make("option", {value}, text(value))))
  if (values.includes(before)) select.value = before
}

/** Files that are dropped on a place, chosen by its input, or (where `pasted` says so) pasted. */
export function files(place, input, take, pasted = () => false) {
  const over = event => {
    event.preventDefault()
    place.classList.toggle("over", event.type === "dragover")
  }
  place.addEventListener("dragover", over)
  place.addEventListener("dragleave", over)
  place.addEventListener("drop", event => {
    over(event)
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files])
  })
  input.addEventListener("change", () => {
    const chosen = [...input.files]
    input.value = ""
    if (chosen.length) take(chosen)
  })
  document.addEventListener("paste", event => {
    const found = [...(event.clipboardData?.files || [])]
    if (!found.length || !pasted()) return
    event.preventDefault()
    take(found)
  })
}

/** To the clipboard, also where the page came without https. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = make("textarea", {value: text, className: "unseen"})
    document.body.append(area)
    area.select()
    document.execCommand("copy")
    area.remove()
  }
}

const UNITS = ["B", "KB", "MB", "GB", "TB"]

export function bytes(count) {
  let unit = 0
  for (; count >= 1000 && unit < UNITS.length - 1; unit++) count /= 1000
  return `${count < 10 && unit ? count.toFixed(1) : Math.round(count)} ${UNITS[unit]}`
}

export function milliseconds(value) {
  return value < 10 ? `${value.toFixed(1)} ms` : value < 10000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`
}
