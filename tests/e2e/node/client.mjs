// Uses the openai package as any program would, and prints what came of it as JSON.
import OpenAI from "openai";

const [baseURL, chatModel, embeddingModel] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "not needed", timeout: 30_000 });
const messages = [{ role: "user", content: "the lemon" }];
const found = {};

const chat = await client.chat.completions.create({ model: chatModel, messages, max_tokens: 8 });
found.chat = chat.choices[0].message.content;

found.streamed = "";
found.chunks = 0;
for await (const chunk of await client.chat.completions.create({
  model: chatModel,
  messages,
  max_tokens: 8,
  stream: true,
})) {
  found.streamed += chunk.choices[0]?.delta?.content ?? "";
  found.chunks += 1;
}

const completion = await client.completions.create({ model: chatModel, prompt: "the lemon", max_tokens: 8 });
found.completion = completion.choices[0].text;

const embeddings = await client.embeddings.create({ model: embeddingModel, input: ["the lemon", "a pod"] });
found.embeddings = embeddings.data.map((item) => item.embedding.length);

found.models = [];
for await (const model of client.models.list()) found.models.push(model.id);

try {
  await client.chat.completions.create({ model: "nobody", messages });
} catch (error) {
  found.unknown = { type: error.constructor.name, status: error.status, code: error.code };
}

console.log(JSON.stringify(found));
