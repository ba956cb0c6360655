// What the server is asked, with the key of this tab.

/** What the server said, or that it said nothing. */
export class ServerError extends Error {
  constructor(message, status = 0) {
    super(message)
    this.status = status
  }
}

export const key = {
  get: () => sessionStorage.getItem("key") || "",
  set: value => value ? sessionStorage.setItem("key", value) : sessionStorage.removeItem("key"),
}

/** Whether the key has a limit of requests, which looking too often would use up. */
export const limits = {there: false}

/** A response that is well; `body` is an object (sent as JSON), or what fetch takes with the headers given. */
export async function ask(path, {body, headers = {}, ...more} = {}) {
  const plain = body === undefined || body instanceof FormData || body instanceof Blob || ArrayBuffer.isView(body)
  const sent = {...headers}
  if (!plain) sent["Content-Type"] = "application/json"
  if (key.get()) sent["Authorization"] = "Bearer " + key.get()
  let response
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST", headers: sent, body: plain ? body : JSON.stringify(body), cache: "no-store", ...more,
    })
  } catch (error) {
    if (error.name === "AbortError") throw error
    throw new ServerError(`the server does not answer (${error.message})`)
  }
  limits.there ||= response.headers.has("x-ratelimit-limit-requests")
  if (response.ok) return response
  const error = new ServerError(await reason(response), response.status)
  if (response.status === 401) window.dispatchEvent(new CustomEvent("locked", {detail: error.message}))
  throw error
}

export const json = async (path, options) => (await ask(path, options)).json()

async function reason(response) {
  try {
    const {error} = await response.json()
    return String(typeof error === "string" ? error : error.message)
  } catch {
    return `the server answered ${response.status}`
  }
}

/** The lines of a response as they come. */
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ""
  try {
    while (true) {
      const {value, done} = await reader.read()
      if (done) break
      const parts = (rest + value).split("\n")
      rest = parts.pop()
      yield* parts
    }
    if (rest) yield rest
  } finally {
    reader.cancel().catch(() => {})
  }
}

/** The objects of server-sent events; raises what an `error` among them says. */
export async function* events(response) {
  for await (const line of lines(response)) {
    if (!line.startsWith("data:")) continue
    const data = line.slice(5).trim()
    if (data === "[DONE]") return
    yield checked(JSON.parse(data))
  }
}

/** The objects of lines of JSON; raises what an `error` among them says. */
export async function* objects(response) {
  for await (const line of lines(response)) if (line.trim()) yield checked(JSON.parse(line))
}

function checked(found) {
  if (found.error) throw new ServerError(String(found.error.message || found.error))
  return found
}
