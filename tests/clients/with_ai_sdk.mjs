// The AI SDK, unchanged, by both of its providers: node with_ai_sdk.mjs, with BASE_URL set.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";

const STATUSES = ["marked", "partly", "unmarked"];
const baseURL = process.env.BASE_URL;
const openai = createOpenAI({ baseURL, apiKey: "unused" });
// Without this, the provider for compatible services drops the field `watermark`.
const metadataExtractor = {
  extractMetadata: async ({ parsedBody }) => ({ service: { watermark: parsedBody.watermark } }),
  createStreamExtractor: () => {
    let watermark;
    return {
      processChunk: (chunk) => (watermark = chunk?.watermark ?? watermark),
      buildMetadata: () => ({ service: { watermark } }),
    };
  },
};
const compatible = createOpenAICompatible({ name: "service", baseURL, metadataExtractor });
const clock = tool({
  description: "Tells the time in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async () => "noon",
});

function check(mark) {
  assert.ok(STATUSES.includes(mark?.status), `no status of the mark: ${JSON.stringify(mark)}`);
}

for (const model of [openai("hammingmark"), openai.chat("hammingmark"), compatible("hammingmark")]) {
  const asked = { model, prompt: "Why does it rain?", maxOutputTokens: 40, maxRetries: 0 };
  const whole = await generateText(asked);
  assert.ok(whole.text);
  check(whole.response.body.watermark);
  assert.ok(STATUSES.includes(whole.response.headers["x-watermark-status"]));

  const stream = streamText({ ...asked, includeRawChunks: true, tools: { clock } });
  let mark;
  for await (const part of stream.fullStream) {
    assert.notEqual(part.type, "error", JSON.stringify(part));
    if (part.type === "raw") mark = part.rawValue.watermark ?? part.rawValue.response?.watermark ?? mark;
  }
  assert.ok((await stream.text).trim());
  check(mark);
  if (model.provider.startsWith("service")) {
    check((await stream.providerMetadata).service.watermark);
    check(whole.providerMetadata.service.watermark);
  }
  await assert.rejects(
    generateObject({ ...asked, schema: z.object({ name: z.string() }) }),
    (error) => APICallError.isInstance(error) && error.data.error.code === "unmarkable",
  );
}
