// OpenAI's client for Node, unchanged: node with_openai.mjs, with BASE_URL set.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const STATUSES = ["marked", "partly", "unmarked"];
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "unused", maxRetries: 0 });
const model = "hammingmark";
const chat = {
  model,
  messages: [{ role: "user", content: "Why does it rain?" }],
  max_tokens: 40,
};
const response = { model, input: "Why does it rain?", max_output_tokens: 40 };

function check(mark) {
  assert.ok(STATUSES.includes(mark?.status), `no status of the mark: ${JSON.stringify(mark)}`);
}

async function refuses(asked, kind, code) {
  await assert.rejects(asked, (error) => error instanceof kind && error.code === code);
}

const { data, response: head } = await client.chat.completions.create(chat).withResponse();
check(data.watermark);
assert.equal(head.headers.get("x-watermark-status"), data.watermark.status);

let last;
let text = "";
for await (const chunk of await client.chat.completions.create({ ...chat, stream: true })) {
  text += chunk.choices[0]?.delta.content ?? "";
  last = chunk;
}
assert.ok(text.trim());
check(last.watermark);

const streamed = await client.chat.completions.stream(chat).finalChatCompletion();
check(streamed.watermark);

check((await client.responses.create(response)).watermark);
const final = await client.responses.stream(response).finalResponse();
assert.ok(final.output_text);
check(final.watermark);

const abandoned = await client.chat.completions.create({ ...chat, stream: true });
for await (const _ of abandoned) break;

const format = zodResponseFormat(z.object({ name: z.string() }), "event");
const { BadRequestError, NotFoundError, APIConnectionTimeoutError } = OpenAI;
const { completions } = client.chat;
await refuses(completions.parse({ ...chat, response_format: format }), BadRequestError, "unmarkable");
await refuses(completions.create({ ...chat, logprobs: true }), BadRequestError, "unmarkable");
await refuses(completions.create({ ...chat, model: "gpt-5" }), NotFoundError, "model_not_found");
await refuses(completions.create(chat, { timeout: 1 }), APIConnectionTimeoutError);
