// The result of judging a text: the verdict in words, the text, a legend and a table.

import { announce, element, figures } from "./elements.js";
import {
  bits,
  edgesInWords,
  isAtEdge,
  isJudged,
  isWhole,
  otherFigures,
  passageInWords,
  pieceNoun,
  strength,
  STRENGTHS,
} from "./evidence.js";
import { originInWords, ownerInWords } from "./operator.js";
import { reportButtons } from "./report.js";
import { tintedText } from "./tinted-text.js";
import {
  capitalized,
  counted,
  meaning,
  ofAHundred,
  percent,
  pValue,
  scoreInWords,
  times,
} from "./words.js";

const HEADLINES = {
  found: "The watermark was found",
  part: "The watermark was found in part of the text",
  weak: "Weak evidence for the watermark",
  absent: "No watermark was found",
  unknown: "The test cannot tell",
  short: "Too short to tell",
};

const STALE = "The text above has changed since it was judged.";

const NO_SCORES = "This server does not tell the scores of single sentences.";

const NO_SECRET =
  "This method has no secret: anyone can compute the score and write text that has it. The p-value " +
  "is not exact, and human text may be called watermarked more often than it says.";

const LIMITS = [
  "The verdict is on the text, or on a passage, and not on single sentences: some sentences of any " +
    "text score high.",
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
 * @param detail how much of a verdict the server tells.
 * @param question what was asked of the server.
 */
export function showResult(section, { result, source, keys, detail, question }) {
  const hasScores = result.pieces.some(isJudged);
  const outcome = outcomeOf(result);
  const { view, places } = tintedText(result, source);
  section.className = `result ${outcome}`;
  section.replaceChildren(
    element(
      "div",
      { class: "verdict" },
      element("h2", { id: "verdict", tabindex: -1 }, HEADLINES[outcome]),
      ...sentences(result, outcome, keys),
      ...warnings(result),
      element("dl", { class: "figures" }, ...figures(facts(result, outcome, keys))),
      technicalDetails(result, outcome, keys),
      reason(result, outcome),
      element("p", { id: "stale", class: "hint", hidden: true }, STALE),
    ),
    passageList(result, places, keys) ?? "",
    result.pieces.length ? element("h3", {}, "The text") : "",
    result.passages.length ? element("p", { id: "edges", class: "hint" }, edgesInWords(result)) : "",
    hasScores || result.passages.length ? legend(result, hasScores) : "",
    detail !== "scores" ? element("p", { id: "no-scores", class: "hint" }, NO_SCORES) : "",
    result.pieces.length ? view : "",
    hasScores ? table(result) : "",
    explanation(),
    reportButtons(question),
    copyButton(result),
  );
  section.hidden = false;
}

function outcomeOf(result) {
  const { watermarked, passages, likelihood_ratio: ratio } = result;
  if (watermarked) return "found";
  if (passages.length) return "part";
  if (typeof ratio === "number") return "weak";
  if (watermarked === false) return "absent";
  return isPowerUnknown(result) ? "unknown" : "short";
}

/**
 * Whether there is no verdict because nobody knows how often marked text would be found
 * (`is_power_unknown` in `hammingmark/reports/text.py`). Otherwise a text is too short for one.
 */
function isPowerUnknown(result) {
  const { power_as_written: power, attainable_p_value: attainable, level, pieces } = result;
  if (pieces.length < 2 && pieceNoun(result) !== "token") return false;
  return typeof power !== "number" && attainable <= level;
}

/** The verdict for people who have never heard of a p-value. */
function sentences(result, outcome, keys) {
  const { p_value: p, level, keys: searched } = result;
  const said = [];
  const [passage] = result.passages;
  if (outcome === "found") said.push(origin(result, result, keys));
  if (outcome === "part") {
    said.push(
      origin(passage.key_id ? passage : result, result, keys),
      `The marked passage is ${passageInWords(passage, result)}. ` +
        `${passageMeaning(passage.p_value, result)} As a whole, the text does not stand out.`,
    );
  } else if (outcome === "found" && passage && !isWhole(passage, result)) {
    said.push(`The marked passage is ${passageInWords(passage, result)}.`);
  } else if (outcome === "absent") {
    said.push("That does not mean that a person wrote the text.");
  } else if (outcome === "weak") {
    said.push(
      `Such a score is ${times(result.likelihood_ratio)} as probable in a marked text like this ` +
        "one as in a text without the watermark. The text is too short for a verdict.",
    );
  } else if (outcome === "short") {
    said.push("The text may or may not be watermarked. A longer text would decide.");
  } else if (outcome === "unknown") {
    said.push(
      "The text may or may not be watermarked: how often marked text like this one would be found " +
        "is not known for this method.",
    );
  }
  if (p !== null && outcome !== "part" && outcome !== "weak") {
    said.push(`${meaning(p, searched, result.exact)} ${comparison(p, level, outcome)}`);
  }
  const shown = said.filter(Boolean).map((words) => element("p", {}, words));
  const power = powerInWords(result);
  // Where the watermark was found, what else would have been found is an aside.
  const look = outcome === "found" || outcome === "part" ? "hint" : null;
  if (power) shown.push(element("p", { class: look }, power));
  return shown;
}

/** Whose watermark was found, which is nobody's where the method has no secret. */
function origin(found, { exact, method }, keys) {
  if (exact) return originInWords(found, keys);
  return `The text scores like text of the method ${method}, whoever wrote it.`;
}

/** How often marked texts like this one would be found, and what that assumes. */
function powerInWords(result) {
  const { power_as_written: written, power_reworded: reworded } = result;
  if (typeof written !== "number") return "";
  const noun = pieceNoun(result);
  const chosen = noun === "token" ? "every token" : `every ${noun} but the first`;
  const found =
    `If ${chosen} of this text had been chosen with the key and left as it was, ` +
    `${ofAHundred(written)} such texts would be found`;
  const after = typeof reworded === "number" ? `; if reworded, ${ofAHundred(reworded)}` : "";
  const least = result.detectable_passage;
  const part = least
    ? ` A marked passage of about ${counted(least, pieceNoun(result))} or more, left as it was, ` +
      "would probably be found."
    : "";
  return `${found}${after}.${part}`;
}

/** What limits the verdict, such as a language that the encoder does not read. */
function warnings(result) {
  const messages = (result.warnings ?? []).map(({ message }) => message);
  if (!result.exact) messages.unshift(NO_SECRET);
  return messages.map((message) =>
    element("p", { class: "message warning" }, element("strong", {}, "Warning. "), message),
  );
}

/** What the sentences do not say: why no verdict was possible, or why a small p-value is none. */
function reason(result, outcome) {
  const { p_value: p, level, decision_threshold: threshold } = result;
  const small = outcome === "absent" && p !== null && p <= level;
  if (!result.reason || !(outcome === "short" || small || typeof threshold === "number")) return null;
  return element("p", { id: "reason", class: "hint" }, result.reason);
}

function comparison(p, level, outcome) {
  if (p > level) return `That is not rare enough: you allow ${percent(level)}.`;
  // Passages were searched, too, and each search is another chance: the reason has the figures.
  return outcome === "found" ? `That is rarer than the ${percent(level)} you allow.` : "";
}

function passageMeaning(p, { keys, exact }) {
  const whole = "would score as high";
  return meaning(p, keys, exact).replace(whole, "would have a passage that scores as high");
}

function facts(result, outcome, keys) {
  const all = [];
  const parts = partsOf(result);
  if (result.p_value !== null) {
    const name = parts.length ? "p-value of the whole text" : "p-value";
    all.push([name, pValue(result.p_value)]);
  } else {
    all.push(["False alarms allowed", percent(result.level)]);
  }
  for (const [k, passage] of parts) {
    const name = parts.length === 1 ? "the marked passage" : `passage ${k + 1}`;
    all.push([`p-value of ${name}`, pValue(passage.p_value)]);
  }
  if (result.exact && (outcome === "found" || outcome === "part")) {
    const found = outcome === "part" && result.passages[0].key_id ? result.passages[0] : result;
    if (found.key_id) all.push(["Watermark of", ownerInWords(found, keys)]);
  }
  const left = (result.excluded_keys ?? []).length;
  if (left) all.push(["Keys that could not be searched", String(left)]);
  return all;
}

/** The passages with their numbers from 0, but for one that is the whole text. */
function partsOf(result) {
  return [...result.passages.entries()].filter(([, passage]) => !isWhole(passage, result));
}

/** What experts want to know besides. */
function technicalDetails(result, outcome, keys) {
  const all = expertFacts(result, outcome, keys);
  return element(
    "details",
    { id: "technical-details" },
    element("summary", {}, "Details for experts"),
    element("dl", { class: "figures" }, ...figures(all)),
  );
}

function expertFacts(result, outcome, keys) {
  const isFound = outcome === "found" || outcome === "part" || result.keys === 1;
  const all = [];
  // Of several keys one is always nearest; that is no finding, and would look like one.
  if (result.key_id && isFound) {
    all.push(["Key", keyName(result.key_id, keys)]);
    if (result.label) all.push(["Label", result.label]);
  }
  for (const [k, { key_id: id, label }] of result.passages.entries()) {
    if (!id || id === result.key_id) continue;
    all.push([`Key of passage ${k + 1}`, keyName(id, keys) + (label ? `, label ${label}` : "")]);
  }
  all.push(["Keys searched", String(result.keys)]);
  const left = (result.excluded_keys ?? []).map(({ key_id: id }) => keyName(id, keys));
  if (left.length) all.push(["Not searched", left.join(", ")]);
  const judged = result.pieces.filter(isJudged);
  // Of any text some are; only where the watermark was found does their number say something.
  if (judged.length && outcome === "found") {
    const valid = judged.filter((piece) => piece.valid).length;
    all.push(["Above the threshold", `${valid} of ${judged.length} ${pieceNoun(result)}s`]);
  }
  if (result.method) all.push(["Method", result.method]);
  if (result.null) all.push(["Test", `${result.statistic}, ${result.null}`]);
  return all;
}

function keyName(id, keys) {
  const name = keys.find((key) => key.id === id)?.name;
  return name ? `${name} (${id})` : id;
}

function passageList(result, places, keys) {
  if (!partsOf(result).length) return null;
  const isOfSeveral = new Set(result.passages.map((passage) => passage.key_id)).size > 1;
  const items = result.passages.map((passage, k) => {
    const words = capitalized(passageInWords(passage, result));
    const link = element("a", { href: `#passage-${k + 1}` }, words);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      places[k].focus();
      places[k].scrollIntoView({ block: "nearest" });
    });
    return element("li", {}, link, isOfSeveral ? `: ${ownerInWords(passage, keys)}` : "");
  });
  return element(
    "nav",
    { id: "passages", "aria-labelledby": "passages-title" },
    element("h3", { id: "passages-title" }, "Marked passages"),
    element("ol", {}, ...items),
  );
}

function legend(result, hasScores) {
  const used = new Set(hasScores ? result.pieces.map((piece) => strength(piece, result)) : []);
  const items = Object.entries(STRENGTHS)
    .filter(([name]) => used.has(name) && name !== "usual") // which has no tint
    .map(([name, words]) =>
      element(
        "li",
        {},
        element("span", { class: `sample ${name}`, "aria-hidden": "true" }, "abc"),
        ` ${words}`,
      ),
    );
  if (result.passages.length) {
    const sample = element("span", { class: "sample framed", "aria-hidden": "true" }, "abc");
    const where = result.passages[0].rough ? "somewhere here is a marked passage" : "a marked passage";
    items.push(element("li", {}, sample, ` In a frame: ${where}`));
  }
  if (result.pieces.some((_, i) => isAtEdge(i, result))) {
    const tint = hasScores ? "enough" : "none";
    const sample = element("span", { class: `sample ${tint} edge`, "aria-hidden": "true" }, "abc");
    const words = result.passages[0].rough ? "perhaps marked" : "near an uncertain edge";
    items.push(element("li", {}, sample, ` Hatched: ${words}`));
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
  const names = ["No.", "Score", "Evidence", capitalized(noun)];
  const heads = names.map((name) => element("th", { scope: "col" }, name));
  const body = element("tbody");
  result.pieces.forEach((piece, i) => {
    const place = isAtEdge(i, result) ? ", near an edge of a passage" : ", in a passage";
    const passage = piece.in_passage ? place : "";
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
