// What npm's clients of Anthropic's API make of a server: `anthropic_clients.mjs URL QUESTION WEATHER` prints JSON.
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [url, question, weather] = process.argv.slice(2);
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

async function ai() {
  const model = createAnthropic({ baseURL: `${url}/v1`, apiKey: "none" })("tiny");
  const whole = await generateText({ model, prompt: question, maxOutputTokens: 50 });
  const stream = streamText({ model, prompt: question, maxOutputTokens: 50 });
  let pieces = 0, streamed = "";
  for await (const piece of stream.textStream) { pieces++; streamed += piece; }
  const get_weather = tool({ inputSchema: jsonSchema(city), execute: async () => ({ sky: "rainy", degrees: 14 }) });
  const options = { model, prompt: weather, maxOutputTokens: 60, tools: { get_weather }, stopWhen: stepCountIs(2) };
  const called = await generateText(options);
  const calledInPieces = streamText(options);
  for await (const piece of calledInPieces.textStream) {}
  const schema = z.object({ wet: z.boolean(), dry: z.boolean() });
  const made = await generateObject({ model, schema, prompt: question, maxOutputTokens: 60 });
  const input = (steps) => steps[0].toolCalls[0].input;
  return {
    whole: whole.text, streamed, pieces, reason: await stream.finishReason, usage: await stream.usage,
    inputs: [input(called.steps), input(await calledInPieces.steps)], told: called.text, object: made.object,
  };
}

async function sdk() {
  const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
  const ask = { model: "tiny", max_tokens: 60 };
  const messages = [{ role: "user", content: question }];
  const whole = await client.messages.create({ ...ask, messages });
  const streamed = await client.messages.stream({ ...ask, messages }).finalText();
  const tools = [{ name: "get_weather", input_schema: city }];
  const asked = { role: "user", content: weather };
  const called = await client.messages.stream({ ...ask, tools, messages: [asked] }).finalMessage();
  const [call] = called.content;
  const result = { type: "tool_result", tool_use_id: call.id, content: '{"sky": "rainy", "degrees": 14}' };
  const talk = [asked, { role: "assistant", content: called.content }, { role: "user", content: [result] }];
  const told = await client.messages.create({ ...ask, tools, messages: talk });
  const asks = [];
  const run = async ({ city }) => { asks.push(city); return '{"sky": "rainy", "degrees": 14}'; };
  const runner = betaZodTool({ name: "get_weather", description: "", inputSchema: z.object({ city: z.string() }), run });
  await client.beta.messages.toolRunner({ ...ask, tools: [runner], messages: [asked] }).runUntilDone();
  const format = zodOutputFormat(z.object({ wet: z.boolean(), dry: z.boolean() }));
  const parsed = await client.messages.parse({ ...ask, messages, output_config: { format } });
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  const counted = await client.messages.countTokens({ model: "tiny", messages });
  const failed = await client.messages.create({ ...ask, model: "other", messages }).catch(
    (error) => [error.status, error.error.error.type, Boolean(error.requestID)]);
  return {
    whole: whole.content[0].text, streamed, input: call.input, told: told.content[0].text, models,
    counted: counted.input_tokens, failed, asks, parsed: parsed.parsed_output,
  };
}

console.log(JSON.stringify({ ai: await ai(), sdk: await sdk() }));
