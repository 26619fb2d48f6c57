// Finds judged sentences in the text as it was pasted.
//
// The server joins wrapped lines and respells quotes, spaces and look-alikes of letters before it
// splits a text, and leaves out headings, tables and code. So sentences are sought by their ink
// alone.

const SINGLE_QUOTES = /[\u2018-\u201b]/g;
const DOUBLE_QUOTES = /[\u201c-\u201f]/g;
// White space, characters without ink, and the mark of a quotation, which wrapped lines repeat.
const UNSEEN = new RegExp(
  "[\\s>\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u180b-\\u180f\\u200b-\\u200f" +
    "\\u202a-\\u202e\\u2060-\\u206f\\ufe00-\\ufe0f\\ufeff]",
);
const ASCII = /^[\x21-\x7e]+$/;
const LATIN = /^[A-Za-z\u00c0-\u024f]$/;

/**
 * Each piece with the text before it that belongs to no piece.
 *
 * @returns {{parts: {before: string, text: string}[], after: string}}, the whole source in order;
 *   or the pieces one after another where they are not found.
 */
export function align(pieces, source) {
  const text = source.normalize("NFC");
  const { ink, begins, ends } = inkOf(text);
  const parts = [];
  let seen = 0;
  let shown = 0;
  for (const piece of pieces) {
    const sought = inkOf(piece.normalize("NFC")).ink;
    const at = sought ? find(sought, ink, seen) : -1;
    if (at < 0) return inSequence(pieces);
    const begin = begins[at];
    const end = ends[at + sought.length - 1];
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

/** Where a piece begins in a text, in which its letters may be look-alikes; -1 if nowhere. */
function find(sought, ink, begin) {
  const at = ink.indexOf(sought, begin);
  if (at >= 0) return at;
  const spelled = [...sought].map((character) =>
    LATIN.test(character)
      ? `[${character}\\u{250}-\\u{10ffff}]`
      : character.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"),
  );
  const pattern = new RegExp(spelled.join(""), "gu");
  pattern.lastIndex = begin;
  return pattern.exec(ink)?.index ?? -1;
}

/** The characters of a text that can be seen, and where each of them begins and ends. */
function inkOf(text) {
  // Quotes are one character long however they are spelled, so that places stay.
  const even = text.replace(SINGLE_QUOTES, "'").replace(DOUBLE_QUOTES, '"');
  const characters = [];
  const begins = [];
  const ends = [];
  let end = 0;
  for (const character of even) {
    const begin = end;
    end += character.length;
    if (UNSEEN.test(character)) continue;
    const plain = character.normalize("NFKC");
    for (const unit of (ASCII.test(plain) ? plain : character).split("")) {
      characters.push(unit);
      begins.push(begin);
      ends.push(end);
    }
  }
  return { ink: characters.join(""), begins, ends };
}
