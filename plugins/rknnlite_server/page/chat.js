// The conversation: questions with pictures, answers as they come, calls of tools.
import {ask, events} from "./api.js"
import {$, choices, copy, files, make, milliseconds} from "./dom.js"
import {show as showMarkdown} from "./markdown.js"
import {refresh} from "./models.js"
import {dataUrl} from "./pictures.js"
import {BUILT_IN, answerOf, toolsOf} from "./tools.js"

const MOST_PICTURES = 16
const MOST_ROUNDS = 8 // of tools of the page without a word of the user
const talk = []     // turns: what was asked, what was said to it (as the API takes both), and where it is shown
let running = null  // of the answer that is coming
let pending = []    // pictures to send, as data URLs
let cards = new Map()

/** The models that chat, by the cards of the server's list. */
export function models(list) {
  const chatting = list.filter(card => !card.meta?.task && card.capabilities?.[0] !== "embedding")
  cards = new Map(chatting.map(card => [card.id, card]))
  const names = [...cards.keys()].sort((a, b) => waits(a) - waits(b)) // who is there comes first, and is chosen first
  choices($("model"), names, name => waits(name) ? `${name} (${cards.get(name).status.value})` : name)
  $("empty").textContent = chatting.length ? "Ask something." : "This server has no language model."
}

const waits = name => (cards.get(name)?.status?.value ?? "loaded") !== "loaded"
const sees = () => cards.get($("model").value)?.capabilities?.includes("vision") ?? true // who is not loaded has not told

// -- what is asked

function remark(text) {
  $("remark").textContent = text
  $("remark").hidden = !text
}

async function addPictures(found) {
  remark("")
  if (!sees()) return remark(`${$("model").value} takes text only: it has no encoder of images.`)
  for (const file of found) {
    if (pending.length >= MOST_PICTURES) return remark(`${MOST_PICTURES} pictures at most.`)
    try {
      pending.push(await dataUrl(file))
    } catch (error) {
      remark(error.message)
    }
  }
  showPending()
}

function showPending() {
  $("pictures").hidden = !pending.length
  $("pictures").replaceChildren(...pending.map((url, index) => make("li", {}, make("img", {src: url, alt: `Picture ${index + 1}`}), make("button", {
    type: "button", className: "remove", "aria-label": `Take picture ${index + 1} away`,
    onclick: () => { pending.splice(index, 1); showPending(); $("question").focus() },
  }, "×"))))
}

const content = (text, urls) => urls.length
  ? [...urls.map(url => ({type: "image_url", image_url: {url}})), ...(text ? [{type: "text", text}] : [])]
  : text

/** All that is sent: turns that were answered, and this one; calls that nobody answered have no result. */
function messages(turn) {
  const system = $("system").value.trim()
  const found = system ? [{role: "system", content: system}] : []
  for (const one of talk) {
    if (one !== turn && !one.said.length) continue
    found.push(one.asked)
    for (const said of one.said) {
      found.push(said)
      for (const call of said.tool_calls || []) {
        found.push(one.results.get(call.id) || {role: "tool", tool_call_id: call.id, content: "(no result)"})
      }
    }
    if (one !== turn && one.said[one.said.length - 1].tool_calls) found.push({role: "assistant", content: "(stopped)"})
  }
  return found
}

function request(turn) {
  const body = {model: $("model").value, stream: true, stream_options: {include_usage: true}}
  if ($("temperature").value !== "") body.temperature = Number($("temperature").value)
  if ($("most").value !== "") body.max_tokens = Number($("most").value)
  const seed = $("seed").value.trim()
  if (seed && !/^-?\d+$/.test(seed)) throw new Error("the seed must be a whole number")
  const tools = [...Object.keys(BUILT_IN).filter(name => $(name).checked).map(name => BUILT_IN[name].told), ...toolsOf($("tools").value)]
  if (tools.length) body.tools = tools
  const text = JSON.stringify({...body, messages: messages(turn)})
  return seed ? `{"seed": ${BigInt(seed)}, ${text.slice(1)}` : text // 64 bits are more than a number of JavaScript holds
}

// -- what is shown

function bubble(role, ...parts) {
  $("empty").hidden = true
  const message = make("article", {className: "message " + role, "aria-label": role === "user" ? "You" : "Answer"}, ...parts)
  $("talk").append(message)
  below(true)
  return message
}

function button(label, onclick) {
  return make("button", {type: "button", className: "small", onclick}, label)
}

function showQuestion(text, urls) {
  return bubble("user",
    urls.length ? make("div", {className: "shown-pictures"}, ...urls.map((url, index) => make("img", {src: url, alt: `Picture ${index + 1}`}))) : null,
    text ? make("div", {className: "text"}, text) : null)
}

/** The nodes of an answer that grows. */
function showAnswer() {
  const shown = {text: make("div", {className: "text"}), figures: make("span", {className: "figures"}), actions: make("div", {className: "actions"}), thought: null}
  shown.below = make("div", {className: "below"}, shown.figures, shown.actions)
  shown.message = bubble("assistant", shown.text, shown.below)
  shown.message.setAttribute("aria-busy", "true")
  return shown
}

function think(shown, text) {
  if (!shown.thought) {
    shown.thought = make("div", {})
    shown.message.prepend(make("details", {className: "thought"}, make("summary", {}, "Thoughts"), shown.thought))
  }
  shown.thought.append(text)
}

function below(always = false) {
  const place = $("talk")
  if (always || place.scrollHeight - place.scrollTop - place.clientHeight < 120) place.scrollTop = place.scrollHeight
}

/** Draws what is put into it, no more often than it takes to do so. */
function drawing(shown) {
  let text = "", timer = 0, cost = 0
  const now = () => {
    timer = 0
    const start = performance.now()
    showMarkdown(shown.text, text)
    below()
    cost = performance.now() - start
  }
  return {
    put: value => { text = value; timer = timer || setTimeout(now, Math.min(500, 16 + 4 * cost)) },
    end: () => { clearTimeout(timer); now() },
  }
}

// -- answers

async function answer(turn, round = 0) {
  if (running) return
  const shown = showAnswer()
  turn.nodes.push(shown.message)
  const said = {role: "assistant", content: ""}
  const calls = []
  const draw = drawing(shown)
  const start = performance.now()
  let first = 0, tokens = 0, cached = 0, note = "", failed = ""
  const figures = () => {
    const seconds = (performance.now() - first) / 1000
    const rate = first && tokens > 1 && seconds > 0 ? `${((tokens - 1) / seconds).toFixed(1)} tokens/s` : ""
    shown.figures.textContent = [rate, tokens ? `${tokens} tokens` : "", cached ? `${cached} cached` : "",
      first ? `first after ${milliseconds(first - start)}` : "", note].filter(Boolean).join(" · ")
  }
  running = new AbortController()
  busy(true)
  const loads = waits($("model").value)
  if (loads) shown.figures.textContent = "the model is loaded first"
  try {
    const response = await ask("v1/chat/completions", {
      body: new Blob([request(turn)], {type: "application/json"}), signal: running.signal,
    })
    for await (const event of events(response)) {
      if (event.usage) {
        tokens = event.usage.completion_tokens
        cached = event.usage.prompt_tokens_details?.cached_tokens || 0
      }
      const choice = event.choices?.[0]
      if (!choice) continue
      if (choice.finish_reason === "length") note = "cut off at the limit"
      const delta = choice.delta || {}
      if (delta.reasoning_content) think(shown, delta.reasoning_content)
      if (delta.content) draw.put(said.content += delta.content)
      for (const part of delta.tool_calls || []) gather(calls, part)
      if (delta.content || delta.reasoning_content || delta.tool_calls) {
        first = first || performance.now()
        tokens += event.usage ? 0 : 1
        figures()
        below()
      }
    }
  } catch (error) {
    if (error.name === "AbortError") note = "stopped"
    else failed = error.message
    calls.length = 0 // what was cut off calls nothing
  }
  draw.end()
  figures()
  shown.message.setAttribute("aria-busy", "false")
  if (calls.length) said.tool_calls = calls
  if (said.content || calls.length) turn.said.push(said)
  shown.text.hidden = !said.content && !failed && (calls.length > 0 || shown.thought !== null)
  if (failed) shown.text.append(make("p", {className: "error"}, failed))
  $("said").textContent = failed ? "" : note === "stopped" ? "Stopped." : calls.length ? "The model calls a tool." : "The answer is complete."
  running = null
  busy(false)
  if (loads) refresh().catch(() => {})
  if (said.content) shown.actions.append(button("Copy", event => { copy(said.content); flash(event.currentTarget) }))
  again()
  if (calls.length) await results(turn, shown, calls, round)
  below()
}

function flash(pressed) {
  pressed.textContent = "Copied"
  setTimeout(() => { pressed.textContent = "Copy" }, 1500)
}

/** A call comes in pieces, of which the first has its name. */
function gather(calls, part) {
  const call = calls[part.index ?? 0] ||= {id: "", type: "function", function: {name: "", arguments: ""}}
  if (part.id) call.id = part.id
  call.function.name += part.function?.name || ""
  call.function.arguments += part.function?.arguments || ""
}

/** Show calls and have them answered: by the page, or by the user; then the model goes on. */
async function results(turn, shown, calls, round) {
  const open = new Set()
  const go = () => { if (!open.size && talk.includes(turn) && shown.message.isConnected) return answer(turn, round + 1) }
  for (const call of calls) {
    const {name, arguments: args} = call.function
    const box = make("div", {className: "call"}, make("p", {}, "Calls ", make("code", {}, `${name}(${args})`)))
    shown.below.before(box)
    if (Object.hasOwn(BUILT_IN, name) && $(name).checked && round < MOST_ROUNDS) {
      settle(turn, call, box, answerOf(name, args))
      continue
    }
    open.add(call.id)
    const area = make("textarea", {rows: 2, className: "result", "aria-label": `Result of ${name}`, placeholder: "The result, as text or JSON"})
    const form = make("form", {className: "row"}, area, make("button", {type: "submit", className: "primary"}, "Answer"))
    form.addEventListener("submit", event => {
      event.preventDefault()
      if (running) return
      form.remove()
      settle(turn, call, box, area.value)
      open.delete(call.id)
      go()
    })
    box.append(form)
    area.focus()
  }
  if (!open.size) await go()
}

function settle(turn, call, box, text) {
  turn.results.set(call.id, {role: "tool", tool_call_id: call.id, content: text})
  box.append(make("p", {}, "Result ", make("code", {}, text)))
}

/** The button that has the last question answered anew. */
function again() {
  for (const old of document.querySelectorAll(".again")) old.remove()
  const turn = talk[talk.length - 1]
  const place = turn?.nodes[turn.nodes.length - 1]?.querySelector(".actions")
  const pressed = button("Again", () => {
    if (running) return
    for (const node of turn.nodes.splice(0)) node.remove()
    turn.said.length = 0
    turn.results.clear()
    answer(turn)
  })
  pressed.classList.add("again")
  pressed.setAttribute("aria-label", "Answer again")
  place?.append(pressed)
}

function busy(now) {
  $("send").hidden = now
  $("stop").hidden = !now
  document.body.dataset.state = now ? "busy" : "idle"
  if (!now && !matchMedia("(pointer: coarse)").matches) $("question").focus() // elsewhere a keyboard would cover the answer
}

function grow() {
  $("question").style.height = "auto"
  $("question").style.height = `${$("question").scrollHeight + 2}px`
}

function fresh() {
  running?.abort()
  talk.length = 0
  pending = []
  showPending()
  remark("")
  for (const message of document.querySelectorAll(".message")) message.remove()
  $("empty").hidden = false
}

function checkTools() {
  try {
    toolsOf($("tools").value)
    $("tools-error").textContent = ""
  } catch (error) {
    $("tools-error").textContent = error.message
  }
}

export function start() {
  $("form").addEventListener("submit", event => {
    event.preventDefault()
    const text = $("question").value.trim()
    if ((!text && !pending.length) || running || !$("model").value) return
    if (pending.length && !sees()) return remark(`${$("model").value} takes text only: take the pictures away.`)
    const urls = pending
    pending = []
    showPending()
    remark("")
    $("question").value = ""
    grow()
    for (const form of document.querySelectorAll(".call form")) form.remove()
    showQuestion(text, urls)
    const turn = {asked: {role: "user", content: content(text, urls)}, said: [], results: new Map(), nodes: []}
    talk.push(turn)
    answer(turn)
  })
  $("question").addEventListener("keydown", event => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault()
      $("form").requestSubmit()
    }
  })
  $("question").addEventListener("input", grow)
  $("stop").addEventListener("click", () => running?.abort())
  $("fresh").addEventListener("click", fresh)
  $("attach").addEventListener("click", () => sees() ? $("files").click() : addPictures([]))
  $("model").addEventListener("change", () => remark(""))
  $("tools").addEventListener("input", checkTools)
  files($("view-chat"), $("files"), addPictures, () => !$("view-chat").hidden)
  const wide = matchMedia("(min-width: 64rem)")
  const fold = () => { $("settings").open = wide.matches }
  wide.addEventListener("change", fold)
  fold()
  busy(false)
}
