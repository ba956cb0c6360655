// The models of the server: how they stand, loaded and unloaded, and new ones that are fetched.
import {ask, json, limits, objects} from "./api.js"
import {$, bytes, make} from "./dom.js"

const EVERY = 2000 // milliseconds between two looks at the list, while it is seen
const SELDOM = 10000 // with a key that has a limit
let offer = {}
let changed = () => {}
const busy = new Map() // by name: what is being done to a model, as text
const failures = new Map()
let looked = 0 // when

/** Read both lists and tell `changed` of them. */
export async function refresh() {
  looked = Date.now()
  const [language, networks] = await Promise.all([
    json("v1/models").then(found => found.data),
    offer.networks ? json("v2/repository/index", {body: {}}) : [],
  ])
  show(language, networks)
  changed(language, networks)
}

function show(language, networks) {
  $("spoken-of").hidden = !language.length
  $("networks-of").hidden = !networks.length
  $("no-models").hidden = Boolean(language.length || networks.length)
  update($("language-models"), language.map(languageCard))
  update($("networks"), networks.map(networkCard))
}

/** Replace what has changed, so that the focus stays where it is. */
function update(list, cards) {
  const before = new Map([...list.children].map(item => [item.dataset.name, item]))
  const now = cards.map(card => {
    const old = before.get(card.name)
    const source = JSON.stringify([card.status, card.progress, card.facts, card.error, card.buttons.map(one => one.label)])
    if (old?.source === source) return old
    const focus = old?.contains(document.activeElement)
    const item = drawn(card)
    item.dataset.name = card.name
    item.source = source
    if (focus) setTimeout(() => item.querySelector("button")?.focus())
    return item
  })
  if (now.length !== list.children.length || now.some((item, index) => item !== list.children[index])) list.replaceChildren(...now)
}

const WORDS = {loaded: "loaded", loading: "loading", unloaded: "not loaded", failed: "failed"}

function drawn({name, status, progress, facts, error, buttons}) {
  return make("li", {className: "card"},
    make("div", {className: "head"}, make("h3", {}, name), make("span", {className: "chip " + status}, WORDS[status] || status)),
    facts.length ? make("p", {className: "soft"}, facts.join(" · ")) : null,
    progress ? make("progress", {"aria-label": `Loading ${name}`, ...(progress[1] ? {max: progress[1], value: progress[0]} : {})}) : null,
    progress?.[1] ? make("p", {className: "soft"}, `${progress[0]} of ${progress[1]}`) : null,
    error ? make("p", {className: "error"}, error) : null,
    buttons.length ? make("div", {className: "buttons"}, ...buttons.map(({label, press}) => make("button", {
      type: "button", onclick: press, "aria-label": `${label} ${name}`,
    }, label))) : null)
}

function languageCard(card) {
  const {id: name, meta = {}, status, capabilities = []} = card
  const pinned = !status
  const value = busy.has(name) ? "loading" : status?.value || "loaded"
  const facts = [meta.size ? bytes(meta.size) : "", meta.n_ctx ? `${meta.n_ctx} tokens of context` : "", meta.task || "",
    capabilities.filter(one => one !== "completion").join(", "), pinned ? "named on the command line, stays loaded" : ""].filter(Boolean)
  const buttons = []
  if (!pinned && (value === "unloaded" || value === "failed")) buttons.push({label: "Load", press: () => loadLanguage(name)})
  if (!pinned && value === "loaded") buttons.push({label: "Unload", press: () => act(name, "models/unload", {model: name})})
  const progress = value === "loading" ? busy.get(name) || [status?.done || 0, status?.total || 0] : null
  return {name, status: value, facts, progress, error: failures.get(name) || status?.error, buttons}
}

function networkCard({name, state, reason}) {
  const key = `network ${name}`
  const ready = state === "READY"
  const failed = !ready && reason && reason !== "unloaded"
  const value = busy.has(key) ? "loading" : ready ? "loaded" : failed ? "failed" : "unloaded"
  const path = `v2/repository/models/${encodeURIComponent(name)}/`
  const buttons = []
  if (value !== "loading") {
    if (ready) {
      buttons.push({label: "Try", press: () => {
        if ([...$("network").options].some(option => option.value === name)) $("network").value = name
        $("network").dispatchEvent(new Event("change"))
        location.hash = "#network"
      }})
    }
    buttons.push(ready ? {label: "Unload", press: () => act(key, path + "unload", {})} : {label: "Load", press: () => act(key, path + "load", {})})
  }
  return {name, status: value, facts: [], progress: value === "loading" ? [0, 0] : null, error: failures.get(key) || (failed ? reason : ""), buttons}
}

async function act(key, path, body, work = ask) {
  failures.delete(key)
  busy.set(key, [0, 0])
  refresh().catch(() => {})
  try {
    await work(path, {body})
  } catch (error) {
    failures.set(key, error.message)
  }
  busy.delete(key)
  await refresh().catch(() => {})
}

const loadLanguage = name => act(name, "models/load", {model: name, stream: true}, async (path, options) => {
  for await (const line of objects(await ask(path, options))) {
    if (line.status !== "loading") continue
    busy.set(name, [line.completed, line.total])
    await refresh()
  }
})

async function pull(event) {
  event.preventDefault()
  const stop = new AbortController()
  const rows = new Map()
  const place = $("pull-progress")
  place.replaceChildren()
  $("pull-start").hidden = true
  $("pull-stop").hidden = false
  $("pull-stop").onclick = () => stop.abort()
  const name = $("pull-name").value.trim()
  try {
    const response = await ask("api/pull", {body: {model: $("pull-url").value.trim(), ...(name ? {as: name} : {})}, signal: stop.signal})
    for await (const line of objects(response)) {
      let row = rows.get(line.status)
      if (!row) {
        row = {text: make("span", {}), bar: make("progress", {"aria-label": line.status})}
        row.bar.hidden = !line.total
        rows.set(line.status, row)
        place.append(make("p", {className: "pulled"}, row.text, row.bar))
      }
      row.text.textContent = line.total ? `${line.status}: ${bytes(line.completed)} of ${bytes(line.total)}` : line.status
      if (line.total) Object.assign(row.bar, {hidden: false, max: line.total, value: line.completed})
    }
    $("pull-url").value = $("pull-name").value = ""
  } catch (error) {
    place.append(make("p", {className: "error"}, error.name === "AbortError" ? "stopped; asked again, it goes on where it was" : error.message))
  }
  $("pull-start").hidden = false
  $("pull-stop").hidden = true
  await refresh().catch(() => {})
}

export async function start(offered, tell) {
  offer = offered
  changed = tell
  $("pull").hidden = !offer.pull
  $("pull").onsubmit = pull
  clearInterval(start.timer)
  start.timer = setInterval(() => {
    if (!$("view-models").hidden && !document.hidden && !(limits.there && Date.now() - looked < SELDOM)) refresh().catch(() => {})
  }, EVERY)
  await refresh()
}
