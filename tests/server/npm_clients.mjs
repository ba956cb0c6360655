// What npm's clients make of a server: `npm_clients.mjs URL` prints an object of findings, JSON.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { Ollama } from "ollama";
import { OpenAI } from "openai";
import { z } from "zod";

const model = "tiny";
const question = "What is 2 + 3?";
const asked = [];
const weather = {
  get_weather: tool({
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      asked.push(city);
      return '{"sky": "rainy", "degrees": 14}';
    },
  }),
};

async function text(stream) {
  let said = "";
  for await (const piece of stream) said += piece;
  return said;
}

async function openai(baseURL) {
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  const first = await client.responses.create({ model, input: question });
  const events = [];
  for await (const event of await client.responses.create({ model, input: question, stream: true })) events.push(event);
  const gathered = await client.responses.stream({ model, input: question }).finalResponse();
  const more = await client.responses.create({ model, input: "What is 1 + 1?", previous_response_id: first.id });
  const kept = await client.responses.retrieve(first.id);
  await client.responses.delete(first.id);
  const gone = await client.responses.retrieve(first.id).catch((error) => error.status);
  return {
    first: first.output_text,
    streamed: events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta).join(""),
    gathered: gathered.output_text,
    more: more.output_text,
    kept: kept.id === first.id,
    gone,
  };
}

async function ai(baseURL) {
  const asks = { model: createOpenAI({ baseURL, apiKey: "none" })(model), maxRetries: 0 };
  const first = await generateText({ ...asks, prompt: question });
  const streamed = streamText({ ...asks, prompt: question });
  const talk = [{ role: "user", content: question }, ...first.response.messages, { role: "user", content: "What is 1 + 1?" }];
  const stop = stepCountIs(3);
  const prompt = "What is the weather in Lisbon?";
  const called = streamText({ ...asks, prompt, tools: weather, stopWhen: stop });
  const schema = z.object({ wet: z.boolean(), dry: z.boolean() });
  const failed = generateText({ ...asks, prompt: "word ".repeat(3000) }).catch((error) => error.statusCode);
  return {
    first: first.text,
    reason: first.finishReason,
    tokens: first.usage.outputTokens,
    streamed: await text(streamed.textStream),
    more: (await generateText({ ...asks, messages: talk })).text,
    called: (await generateText({ ...asks, prompt, tools: weather, stopWhen: stop })).text,
    called_in_pieces: await text(called.textStream),
    asked,
    object: (await generateObject({ ...asks, schema, prompt: question })).object,
    failed: await failed,
  };
}

async function ollama(host) {
  const client = new Ollama({ host });
  const messages = [{ role: "user", content: question }];
  const first = await client.chat({ model, messages });
  let streamed = "";
  for await (const part of await client.chat({ model, messages, stream: true })) streamed += part.message.content;
  const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const tools = [{ type: "function", function: { name: "get_weather", description: "The weather.", parameters: city } }];
  const prompt = [{ role: "user", content: "What is the weather in Lisbon?" }];
  const called = await client.chat({ model, messages: prompt, tools });
  return {
    first: first.message.content,
    streamed,
    models: (await client.list()).models.map((found) => found.name),
    call: called.message.tool_calls[0].function,
    failed: await client.chat({ model: "other", messages }).catch((error) => error.status_code),
  };
}

const url = process.argv[2];
console.log(JSON.stringify({ openai: await openai(`${url}/v1`), ai: await ai(`${url}/v1`), ollama: await ollama(url) }));
