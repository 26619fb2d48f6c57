// The result of judging a text: the verdict in words, the text, a legend and a table.

import { announce, element, figures } from "./elements.js";
import {
  bits,
  isJudged,
  otherFigures,
  pieceNoun,
  runInWords,
  strength,
  STRENGTHS,
} from "./evidence.js";
import { tintedText } from "./tinted-text.js";
import { meaning, percent, pValue, scoreInWords } from "./words.js";

const HEADLINES = {
  found: "The watermark was found",
  part: "The watermark was found in part of the text",
  absent: "No watermark was found",
  short: "Too short to tell",
};

const STALE = "The text above has changed since it was judged.";

const LIMITS = [
  "“No watermark was found” is not “a person wrote it”. Another model may have written the text, " +
    "or the watermark was lost in rewriting.",
  "The p-value is how often a text without the watermark scores as high. It is not the chance " +
    "that this text has none. If few of your texts are marked, allow fewer false alarms.",
  "Marked text that somebody quotes is still marked.",
  "Whoever has the key file can imitate the watermark.",
];

/**
 * Show a result in a section.
 *
 * @param section what it held before is replaced.
 * @param result one of the answer's `results`.
 * @param source the text that was judged.
 * @param keys the keys that the server listed, for their names.
 */
export function showResult(section, { result, source, keys }) {
  const outcome = outcomeOf(result);
  const { view, places } = tintedText(result, source);
  section.className = `result ${outcome}`;
  section.replaceChildren(
    element(
      "div",
      { class: "verdict" },
      element("h2", { id: "verdict", tabindex: -1 }, HEADLINES[outcome]),
      ...sentences(result, outcome),
      element("dl", { class: "figures" }, ...figures(facts(result, outcome, keys))),
      result.reason ? element("p", { id: "reason", class: "hint" }, result.reason) : null,
      element("p", { id: "stale", class: "hint", hidden: true }, STALE),
    ),
    passageList(result, places, keys) ?? "",
    result.pieces.length ? element("h3", {}, "The text") : "",
    result.pieces.length ? legend(result) : "",
    result.pieces.length ? view : "",
    result.pieces.length ? table(result) : "",
    explanation(),
    copyButton(result),
  );
  section.hidden = false;
}

function outcomeOf({ watermarked, passages }) {
  if (watermarked) return "found";
  if (passages.length) return "part";
  return watermarked === false ? "absent" : "short";
}

/** The verdict for people who have never heard of a p-value. */
function sentences(result, outcome) {
  const { p_value: p, level, keys, power } = result;
  const said = [];
  if (outcome === "part") {
    const { begin, end, p_value: passage } = result.passages[0];
    const carry = end - begin === 1 ? "carries" : "carry";
    said.push(
      `${runInWords(begin, end, result)} ${carry} it. ${passageMeaning(passage, keys)} ` +
        "As a whole, the text does not stand out.",
    );
  } else if (outcome === "absent") {
    said.push("That does not mean that a person wrote the text.");
  } else if (outcome === "short") {
    said.push("The text may or may not be watermarked. A longer text would decide.");
  }
  if (p !== null && outcome !== "part") {
    said.push(`${meaning(p, keys)} ${comparison(p, level)}`);
  }
  if (!result.watermarked && typeof power === "number") {
    said.push(
      `Of 100 marked texts like this one that were edited, about ${Math.round(100 * power)} ` +
        "would be found.",
    );
  }
  return said.map((words) => element("p", {}, words));
}

function comparison(p, level) {
  return p <= level
    ? `That is rarer than the ${percent(level)} you allow.`
    : `That is not rare enough: you allow ${percent(level)}.`;
}

function passageMeaning(p, keys) {
  const whole = "would score as high";
  return meaning(p, keys).replace(whole, "would have a passage that scores as high");
}

function facts(result, outcome, keys) {
  const found = outcome === "found" || outcome === "part" || result.keys === 1;
  const all = [];
  if (result.p_value !== null) {
    const name = outcome === "part" ? "p-value of the whole text" : "p-value";
    all.push([name, pValue(result.p_value)]);
  }
  // Of several keys one is always nearest; that is no finding.
  if (result.key_id) all.push([found ? "Key" : "Nearest key", keyName(result.key_id, keys)]);
  if (result.key_id && result.label) all.push(["Label", result.label]);
  if (result.keys > 1) all.push(["Keys searched", String(result.keys)]);
  const judged = result.pieces.filter(isJudged);
  if (judged.length) {
    const valid = judged.filter((piece) => piece.valid).length;
    all.push(["Above the threshold", `${valid} of ${judged.length} ${pieceNoun(result)}s`]);
  }
  if (result.method) all.push(["Method", result.method]);
  return all;
}

function keyName(id, keys) {
  const name = keys.find((key) => key.id === id)?.name;
  return name ? `${name} (${id})` : id;
}

function passageList(result, places, keys) {
  if (!result.passages.length) return null;
  const items = result.passages.map(({ begin, end, p_value: p, key_id: key, label }, k) => {
    const whole = begin === 0 && end === result.pieces.length ? " (the whole text)" : "";
    const words = runInWords(begin, end, result) + whole;
    const link = element("a", { href: `#passage-${k + 1}` }, words);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      places[k].focus();
      places[k].scrollIntoView({ block: "nearest" });
    });
    const under = key ? `, key ${keyName(key, keys)}` : "";
    const labelled = label ? `, label ${label}` : "";
    return element("li", {}, link, `: p = ${pValue(p)}${under}${labelled}`);
  });
  return element(
    "nav",
    { id: "passages", "aria-labelledby": "passages-title" },
    element("h3", { id: "passages-title" }, "Marked passages"),
    element("ol", {}, ...items),
  );
}

function legend(result) {
  const used = new Set(result.pieces.map((piece) => strength(piece, result)));
  const items = Object.entries(STRENGTHS)
    .filter(([name]) => used.has(name))
    .map(([name, words]) =>
      element(
        "li",
        {},
        element("span", { class: `sample ${name}`, "aria-hidden": "true" }, "abc"),
        ` ${words}`,
      ),
    );
  if (result.passages.length) {
    items.push(
      element(
        "li",
        {},
        element("span", { class: "sample framed", "aria-hidden": "true" }, "abc"),
        " In a frame: a marked passage",
      ),
    );
  }
  return element("ul", { id: "legend", class: "legend", "aria-label": "Legend" }, ...items);
}

/** The same as a table. It is made when it is opened, since it may have thousands of rows. */
function table(result) {
  const noun = pieceNoun(result);
  const box = element(
    "details",
    { id: "evidence-table" },
    element("summary", {}, `The same as a table, a row for each ${noun}`),
  );
  box.addEventListener("toggle", () => {
    if (box.open && !box.querySelector("table")) box.append(tableOf(result, noun));
  });
  return box;
}

function tableOf(result, noun) {
  const names = ["No.", "Score", "Evidence", noun[0].toUpperCase() + noun.slice(1)];
  const heads = names.map((name) => element("th", { scope: "col" }, name));
  const body = element("tbody");
  result.pieces.forEach((piece, i) => {
    const passage = piece.in_passage ? ", in a passage" : "";
    const given = bits(piece);
    const others = otherFigures(piece).map(([name, value]) => `${name} ${value}`);
    if (given) others.unshift(`bits ${given}`);
    body.append(
      element(
        "tr",
        {},
        element("th", { scope: "row" }, String(i + 1)),
        element("td", {}, isJudged(piece) ? scoreInWords(piece.score, result.max_score) : "none"),
        element("td", {}, [short(strength(piece, result)) + passage, ...others].join("; ")),
        element("td", { class: "piece-text" }, piece.text),
      ),
    );
  });
  return element(
    "table",
    {},
    element("caption", {}, `At least ${figureOf(result)} is needed.`),
    element("thead", {}, element("tr", {}, ...heads)),
    body,
  );
}

function figureOf({ unit_threshold, max_score }) {
  return `a score of ${scoreInWords(unit_threshold, max_score)}`;
}

function short(name) {
  return STRENGTHS[name].split(":")[0];
}

function explanation() {
  return element(
    "details",
    {},
    element("summary", {}, "What this says, and what it does not"),
    element("ul", { class: "prose" }, ...LIMITS.map((point) => element("li", {}, point))),
  );
}

function copyButton(result) {
  const button = element("button", { type: "button", id: "copy-json" }, "Copy result as JSON");
  const note = element("span", { id: "copy-note", class: "hint" });
  button.addEventListener("click", async () => {
    const copied = await copy(JSON.stringify(result, null, 2));
    const words = copied ? "Copied." : "The browser does not allow copying here.";
    note.textContent = words;
    announce(words);
  });
  return element("div", { class: "buttons" }, button, note);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** Browsers have no clipboard on addresses without TLS, but for this old way. */
function copyBySelection(text) {
  const before = document.activeElement;
  const hidden = { class: "visually-hidden", "aria-hidden": "true", tabindex: -1 };
  const area = element("textarea", hidden);
  area.value = text;
  document.body.append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
    before?.focus();
  }
}
