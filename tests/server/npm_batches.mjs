// What npm's package openai makes of files and batches: `node npm_batches.mjs URL` prints an object of findings, JSON.
import { OpenAI, toFile } from "openai";

async function main(baseURL) {
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  const line = (custom_id, content, more = {}) =>
    JSON.stringify({
      custom_id,
      method: "POST",
      url: "/v1/chat/completions",
      body: { model: "tiny", messages: [{ role: "user", content }], ...more },
    });
  const lines = [line("a", "What is 2 + 3?"), line("wrong", "What is 2 + 3?", { temperature: 1000 })];
  const file = await client.files.create({ file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"), purpose: "batch" });
  const made = { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h", metadata: { of: "npm" } };
  let batch = await client.batches.create(made);
  while (!["completed", "failed", "expired", "cancelled"].includes(batch.status)) {
    await new Promise((done) => setTimeout(done, 50));
    batch = await client.batches.retrieve(batch.id);
  }
  const read = async (id) => JSON.parse((await (await client.files.content(id)).text()).trim());
  const [good, bad] = [await read(batch.output_file_id), await read(batch.error_file_id)];
  const batches = [];
  for await (const one of client.batches.list({ limit: 1 })) batches.push(one.id);
  const files = [];
  for await (const one of client.files.list({ limit: 1, order: "asc" })) files.push(one.id);
  const cancelled = await client.batches.cancel(batch.id).catch((error) => error.status);
  const deleted = await client.files.delete(file.id);
  return {
    status: batch.status,
    counts: batch.request_counts,
    metadata: batch.metadata,
    said: good.response.body.choices[0].message.content,
    refused: bad.response.status_code,
    batches: batches.includes(batch.id),
    files: [file.id, batch.output_file_id, batch.error_file_id].every((id) => files.includes(id)),
    cancelled,
    deleted: deleted.deleted,
    gone: await client.files.retrieve(file.id).catch((error) => error.status),
  };
}

main(process.argv[2]).then((found) => console.log(JSON.stringify(found)));
