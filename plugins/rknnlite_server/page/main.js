// The frame: which part is shown, the key, and whether the server is there.
import {json, key} from "./api.js"
import * as chat from "./chat.js"
import {$} from "./dom.js"
import * as figures from "./figures.js"
import * as models from "./models.js"
import * as network from "./network.js"
import * as speech from "./speech.js"
import * as vision from "./vision.js"

const AGAIN = 1000 // milliseconds
let open = false   // whether the server has let us in and its models are there

function notice(text, bad = false) {
  $("notice").textContent = text
  $("notice").hidden = !text
  $("notice").classList.toggle("error", bad)
}

/** Show the part that the address names, the first one that there is where it names none. */
function view() {
  const links = [...document.querySelectorAll("#views a")]
  const there = links.filter(link => !link.hidden).map(link => link.dataset.view)
  const wanted = location.hash.slice(1)
  const chosen = there.includes(wanted) ? wanted : there[0]
  for (const link of links) {
    if (link.dataset.view === chosen) link.setAttribute("aria-current", "page")
    else link.removeAttribute("aria-current")
    $(`view-${link.dataset.view}`).hidden = !open || link.dataset.view !== chosen
  }
  document.body.dataset.view = chosen
  if (!open) return
  if (chosen === "models") models.refresh().catch(() => {})
  if (chosen === "figures") figures.draw()
}

const link = (name, there) => { document.querySelector(`#views a[data-view=${name}]`).hidden = !there }

/** The part for pictures is there once the server has told of a network that is for them. */
async function see(networks) {
  const there = await vision.networks(networks)
  const {hidden} = document.querySelector("#views a[data-view=vision]")
  link("vision", there)
  if (there === hidden && location.hash === "#vision") view()
}

function lock(message) {
  if (!open && !$("lock").hidden && !key.get()) return // heard before
  open = false
  notice("")
  $("lock").hidden = false
  $("lock-error").textContent = key.get() ? message : ""
  $("forget").hidden = true
  $("views").hidden = true
  key.set("")
  view()
  $("key").focus()
}

async function connect() {
  let offer
  try {
    offer = await json("page/server.json")
  } catch (error) {
    if (error.status === 401) return // lock() has heard of it
    notice(error.message, true)
    return setTimeout(connect, AGAIN)
  }
  $("lock").hidden = true
  $("server").textContent = `rknnlite ${offer.version}`
  $("forget").hidden = !key.get()
  if (!offer.ready) {
    notice(offer.failure || "The models are being loaded…", Boolean(offer.failure))
    return setTimeout(connect, AGAIN)
  }
  open = true
  notice("")
  $("views").hidden = false
  link("network", offer.networks)
  try {
    await models.start(offer, (language, networks) => {
      chat.models(language)
      network.networks(networks)
      see(networks)
      link("speech", speech.models(language))
      link("chat", language.some(card => !card.meta?.task) || offer.pull || !offer.networks)
    })
  } catch (error) {
    if (error.status !== 401) notice(error.message, true)
    return setTimeout(connect, AGAIN)
  }
  figures.start(offer)
  view()
  if (!$("view-chat").hidden) $("question").focus({preventScroll: true})
}

// What is dropped beside its place must not take the page's.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, event => event.preventDefault())
window.addEventListener("hashchange", view)
window.addEventListener("locked", event => lock(event.detail))
$("lock-form").addEventListener("submit", event => {
  event.preventDefault()
  key.set($("key").value.trim())
  $("key").value = ""
  connect()
})
$("forget").addEventListener("click", () => {
  key.set("")
  location.reload()
})
chat.start()
network.start()
speech.start()
vision.start()
connect()
