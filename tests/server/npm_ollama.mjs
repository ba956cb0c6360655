// What npm's `ollama` makes of a server: `node npm_ollama.mjs URL FILES` prints an object of findings, JSON.
import { Ollama } from "ollama";

const messages = [{ role: "user", content: "What is 2 + 3?" }];

async function statuses(stream) {
  const found = [];
  for await (const part of stream) if (found[found.length - 1] !== part.status) found.push(part.status);
  return found;
}

async function main([host, files]) {
  const client = new Ollama({ host });
  const pulled = await statuses(await client.pull({ model: `${files}/far.rknn`, stream: true }));
  const created = await statuses(
    await client.create({ model: "bot", from: "far", system: "Be brief.", parameters: { num_predict: 30 }, stream: true }),
  );
  const shown = await client.show({ model: "bot" });
  const first = await client.chat({ model: "far", messages });
  let streamed = "";
  for await (const part of await client.chat({ model: "far", messages, stream: true })) streamed += part.message.content;
  await client.generate({ model: "bot", prompt: "", keep_alive: "5m" });
  const running = (await client.ps()).models.map((model) => model.name).sort();
  const embedded = await client.embed({ model: "far", input: "text" }).catch((error) => error.status_code);
  await client.copy({ source: "far", destination: "near" });
  for (const model of ["far", "near"]) await client.delete({ model });
  const left = (await client.list()).models.map((model) => model.name);
  const gone = await client.delete({ model: "far" }).catch((error) => error.status_code);
  const findings = {
    pulled: [pulled[0], pulled[pulled.length - 1]],
    created,
    shown: shown.capabilities,
    system: shown.system,
    said: first.message.content,
    streamed,
    running,
    embedded,
    left,
    gone,
  };
  console.log(JSON.stringify(findings));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
