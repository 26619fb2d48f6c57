// Finds judged sentences in the text as it was pasted.
//
// The server joins wrapped lines and respells quotes and spaces before it splits a text, and leaves
// out headings, tables and code. So sentences are sought by their ink alone.

const SINGLE_QUOTES = /[\u2018-\u201b]/g;
const DOUBLE_QUOTES = /[\u201c-\u201f]/g;
// White space, characters without ink, and the mark of a quotation, which wrapped lines repeat.
const UNSEEN = new RegExp(
  "[\\s>\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u180b-\\u180f\\u200b-\\u200f" +
    "\\u202a-\\u202e\\u2060-\\u206f\\ufe00-\\ufe0f\\ufeff]",
);

/**
 * Each piece with the text before it that belongs to no piece.
 *
 * @returns {{parts: {before: string, text: string}[], after: string}}, the whole source in order;
 *   or the pieces one after another where they are not found.
 */
export function align(pieces, source) {
  const text = source.normalize("NFC");
  const { ink, places } = inkOf(text);
  const parts = [];
  let seen = 0;
  let shown = 0;
  for (const piece of pieces) {
    const sought = inkOf(piece.normalize("NFC")).ink;
    const at = sought ? ink.indexOf(sought, seen) : -1;
    if (at < 0) return inSequence(pieces);
    const begin = places[at];
    const end = places[at + sought.length - 1] + 1;
    parts.push({ before: text.slice(shown, begin), text: text.slice(begin, end) });
    seen = at + sought.length;
    shown = end;
  }
  return { parts, after: text.slice(shown) };
}

/** Tokens have white space of their own, and are put together as they are. */
export function join(pieces) {
  return { parts: pieces.map((text) => ({ before: "", text })), after: "" };
}

function inSequence(pieces) {
  return { parts: pieces.map((text, i) => ({ before: i ? " " : "", text })), after: "" };
}

/** The characters of a text that can be seen, and where each of them stands. */
function inkOf(text) {
  // Quotes are one character long however they are spelled, so that places stay.
  const even = text.replace(SINGLE_QUOTES, "'").replace(DOUBLE_QUOTES, '"');
  const characters = [];
  const places = [];
  for (let i = 0; i < text.length; i += 1) {
    if (UNSEEN.test(even[i])) continue;
    characters.push(even[i]);
    places.push(i);
  }
  return { ink: characters.join(""), places };
}
