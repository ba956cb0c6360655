// Tools that a model may call: those of this page, which it computes itself, and those of the user, who answers by hand.

const function_ = (name, description, parameters) => ({type: "function", function: {name, description, parameters}})

const CLOCK = function_("clock", "The date, the time and the time zone at the user's place.", {type: "object", properties: {}})
const CALCULATOR = function_("calculator", "The value of an arithmetic expression of numbers, + - * / % ^ and parentheses.", {
  type: "object", properties: {expression: {type: "string"}}, required: ["expression"],
})

/** Those of the page, by name: what is told of them, and what they do. */
export const BUILT_IN = {
  clock: {told: CLOCK, call: () => {
    const now = new Date()
    return {time: now.toISOString(), local: now.toString(), zone: Intl.DateTimeFormat().resolvedOptions().timeZone}
  }},
  calculator: {told: CALCULATOR, call: given => ({value: calculated(String(given.expression ?? ""))})},
}

/** The user's tools out of JSON: a list of functions, each bare or as OpenAI's API has it. Raises Error. */
export function toolsOf(text) {
  if (!text.trim()) return []
  let found
  try {
    found = JSON.parse(text)
  } catch (error) {
    throw new Error(`the tools are no JSON: ${error.message}`)
  }
  return (Array.isArray(found) ? found : [found]).map((tool, index) => {
    const inner = tool?.function ?? tool
    if (typeof inner?.name !== "string" || !inner.name) throw new Error(`tool ${index + 1} has no "name"`)
    if (BUILT_IN[inner.name]) throw new Error(`${inner.name} is a tool of this page; choose another name`)
    return {type: "function", function: {parameters: {type: "object", properties: {}}, ...inner}}
  })
}

/** What a tool of the page answers, as text; an error is an answer, too. */
export function answerOf(name, args) {
  try {
    return JSON.stringify(BUILT_IN[name].call(args.trim() ? JSON.parse(args) : {}))
  } catch (error) {
    return JSON.stringify({error: error.message})
  }
}

/** The value of an arithmetic expression, by descent; raises Error for what is none. */
export function calculated(text) {
  if (text.length > 1000) throw new Error("the expression is too long")
  const rest = text.replaceAll("×", "*").replaceAll("÷", "/").replaceAll("**", "^")
  const tokens = rest.match(/\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|[-+*/%^()]|\S/g) || []
  let at = 0
  const next = (...wanted) => wanted.includes(tokens[at]) ? tokens[at++] : ""
  const sum = () => {
    let value = product()
    for (let sign; (sign = next("+", "-"));) value = sign === "+" ? value + product() : value - product()
    return value
  }
  const product = () => {
    let value = signed()
    for (let sign; (sign = next("*", "/", "%"));) {
      const other = signed()
      value = sign === "*" ? value * other : sign === "/" ? value / other : value % other
    }
    return value
  }
  const signed = () => next("-") ? -signed() : next("+") ? signed() : power()
  const power = () => {
    const base = whole()
    return next("^") ? base ** signed() : base
  }
  const whole = () => {
    if (next("(")) {
      const value = sum()
      if (!next(")")) throw new Error("a parenthesis is not closed")
      return value
    }
    const token = tokens[at++]
    if (token === undefined || !/^[\d.]/.test(token) || Number.isNaN(Number(token))) throw new Error(`${token ?? "the end"} where a number should be`)
    return Number(token)
  }
  const value = sum()
  if (at < tokens.length) throw new Error(`${tokens[at]} is not understood`)
  if (!Number.isFinite(value)) throw new Error("the value is not finite")
  return value
}
