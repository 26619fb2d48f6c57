// What a text of the playground cost, in words: pairs of a name and a value.

import { counted, figure, pValue } from "./words.js";

/** A text's length in words for people: `12 sentences, 210 words`. */
export function lengthInWords(text) {
  const words = countOf(text, "word", ({ isWordLike }) => isWordLike);
  return `${counted(countOf(text, "sentence"), "sentence")}, ${counted(words, "word")}`;
}

/** What a finished text cost. Of a text that another server writes, only the first two are known. */
export function costOf(mark, { text, seconds }) {
  const pairs = [
    ["Length", lengthInWords(text)],
    ["Time", `${Number(seconds.toPrecision(2))} seconds`],
  ];
  if (mark.status !== "unmarked" && mark.sentences) {
    pairs.push(["Sentences with the mark", `${mark.accepted} of ${mark.sentences}${others(mark)}`]);
  }
  if (mark.emitted_tokens) pairs.push(["The model wrote", work(mark)]);
  if (typeof mark.p_value === "number") pairs.push(["p-value", pValue(mark.p_value)]);
  if (mark.key_id) pairs.push(["Key", mark.label ? `${mark.key_id}, ${mark.label}` : mark.key_id]);
  return pairs;
}

/** What the other sentences are, such as the first of an answer, which the key never chooses. */
function others({ sentences, accepted, fallbacks = 0 }) {
  const own = sentences - accepted - fallbacks;
  const parts = [
    fallbacks ? `for ${fallbacks} no draft fitted` : "",
    own > 0 ? `${own} left as the model wanted` : "",
  ].filter(Boolean);
  return parts.length ? ` (${parts.join(", ")})` : "";
}

function work({ drawn_tokens: drawn, written_tokens: written, emitted_tokens: emitted }) {
  if (drawn === emitted) return `this text alone (${counted(emitted, "token")})`;
  return `${figure(written / emitted)} times this text (${written} tokens for ${emitted})`;
}

function countOf(text, granularity, counts = ({ segment }) => /\p{L}|\p{N}/u.test(segment)) {
  if (!Intl.Segmenter) {
    const pattern = granularity === "word" ? /[\p{L}\p{N}]+/gu : /[\p{L}\p{N}][^.!?]*/gu;
    return (text.match(pattern) ?? []).length;
  }
  let count = 0;
  for (const part of new Intl.Segmenter("en", { granularity }).segment(text)) {
    count += counts(part) ? 1 : 0;
  }
  return count;
}
