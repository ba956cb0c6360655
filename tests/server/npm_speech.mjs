// What npm's clients make of speech models: `npm_speech.mjs URL WAV` prints an object of findings, JSON.
import { createOpenAI } from "@ai-sdk/openai";
import * as ai from "ai";
import fs from "node:fs";
import { OpenAI, toFile } from "openai";

const baseURL = process.argv[2];
const wav = fs.readFileSync(process.argv[3]);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const provider = createOpenAI({ baseURL, apiKey: "none" });
const transcribe = ai.transcribe ?? ai.experimental_transcribe;
const generateSpeech = ai.generateSpeech ?? ai.experimental_generateSpeech;

async function transcription(options) {
  return client.audio.transcriptions.create({ model: "whisper", file: await toFile(wav, "a.wav"), ...options });
}

const events = [];
for await (const event of await transcription({ stream: true })) events.push(event.type);
const said = await client.audio.speech.create({ model: "mms", voice: "alloy", input: "abc", response_format: "wav" });
const heard = await transcribe({ model: provider.transcription("whisper"), audio: wav, maxRetries: 0 });
const spoken = await generateSpeech({ model: provider.speech("mms"), text: "abc", outputFormat: "wav", maxRetries: 0 });
console.log(
  JSON.stringify({
    text: (await transcription({})).text,
    segments: (await transcription({ response_format: "verbose_json" })).segments.length,
    subtitles: await transcription({ response_format: "vtt" }),
    translated: (await client.audio.translations.create({ model: "whisper", file: await toFile(wav, "a.wav") })).text,
    events,
    said: (await said.arrayBuffer()).byteLength,
    heard: heard.text,
    spoken: [spoken.audio.mediaType, spoken.audio.uint8Array.length],
  }),
);
