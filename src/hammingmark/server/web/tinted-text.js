// A judged text, each piece tinted by its evidence, its marked passages in frames.

import { align, join } from "./alignment.js";
import { element } from "./elements.js";
import {
  bits,
  isAtEdge,
  isJudged,
  otherFigures,
  passageInWords,
  pieceNoun,
  scoreAndThreshold,
  strength,
  STRENGTHS,
} from "./evidence.js";
import { explain } from "./tooltip.js";
import { capitalized } from "./words.js";

/**
 * Show a result's text.
 *
 * One piece can be reached with Tab; arrow keys, Home and End go on from there. Where the server
 * tells no scores there is nothing to say of a piece, and only passages are shown.
 *
 * @returns {{view: Element, places: Element[]}} the text, and for each passage the element that
 *   takes the focus.
 */
export function tintedText(result, source) {
  const pieces = result.pieces.map((piece) => piece.text);
  const { parts, after } = result.unit === "token" ? join(pieces) : align(pieces, source);
  const spans = result.pieces.map((piece, i) => tinted(piece, i, parts[i].text, result));
  const { content, places } = framed(result, { spans, parts, after });
  const tells = result.pieces.some(isJudged);
  const text = element("div", {
    id: "tinted-text",
    class: "tinted-text",
    role: "group",
    dir: "auto",
    "aria-label": tells ? "The text, tinted by its evidence" : "The text",
    "aria-describedby": tells ? "text-hint" : null,
  });
  text.append(content);
  if (!tells) return { view: element("div", { class: "reading" }, text), places };
  const hint = element(
    "p",
    { id: "text-hint", class: "hint" },
    `Point at a ${pieceNoun(result)} for its details, or go from one to the next with the ` +
      "arrow keys.",
  );
  const tooltip = element("div", { id: "piece-tooltip", class: "tooltip", role: "tooltip" });
  tooltip.hidden = true;
  const view = element("div", { class: "reading" }, hint, text, tooltip);
  explain(view, {
    tooltip,
    selector: ".piece",
    describe: (span) => details(Number(span.dataset.index), result),
  });
  moveWithArrows(text, spans);
  return { view, places };
}

function tinted(piece, i, text, result) {
  const how = strength(piece, result);
  // A screen reader may tell highlighted text from other text.
  const tag = how === "strong" || how === "enough" ? "mark" : "span";
  const edge = isAtEdge(i, result) ? " edge" : "";
  return element(tag, { class: `piece ${how}${edge}`, tabindex: -1, "data-index": i }, text);
}

/** Pieces and what stands between them, with a frame around each passage. */
function framed(result, { spans, parts, after }) {
  const owners = ownersOf(result);
  const content = document.createDocumentFragment();
  const places = [];
  let frame = null;
  spans.forEach((span, i) => {
    const owner = owners[i];
    const begins = owner !== null && (i === 0 || owners[i - 1] !== owner);
    const ends = i > 0 && owners[i - 1] !== null && owners[i - 1] !== owner;
    let before = parts[i].before;
    // A frame begins a line of its own, so that white space at its edges would be an empty line.
    if (ends) before = before.trimStart();
    if (begins) before = before.trimEnd();
    if (begins || ends) frame = null;
    (frame ?? content).append(before);
    if (begins) {
      frame = passageFrame(result, owner, places[owner] === undefined);
      places[owner] ??= frame;
      content.append(frame);
    }
    (frame ?? content).append(span);
  });
  content.append(frame ? after.trimStart() : after);
  result.passages.forEach((passage, k) => {
    places[k] ??= spans[passage.begin];
  });
  return { content, places };
}

function passageFrame(result, k, isFirst) {
  const passage = result.passages[k];
  const edges = passage.rough ? "" : ". Its edges are uncertain";
  const name = `Marked passage ${k + 1}: ${passageInWords(passage, result)}${edges}`;
  return element(
    "div",
    {
      class: "passage",
      role: "group",
      "aria-label": name,
      id: isFirst ? `passage-${k + 1}` : null,
      tabindex: -1,
    },
    element("span", { class: "passage-name", "aria-hidden": "true" }, name),
  );
}

/** For each piece its passage, the best where two overlap, or null. */
function ownersOf({ pieces, passages }) {
  const owners = new Array(pieces.length).fill(null);
  passages.forEach(({ begin, end }, k) => {
    for (let i = begin; i < Math.min(end, owners.length); i += 1) owners[i] ??= k;
  });
  return owners;
}

/** What is known of one piece, for the tooltip. */
function details(i, result) {
  const piece = result.pieces[i];
  const noun = pieceNoun(result);
  const transition = result.unit === "transition" && isJudged(piece);
  const title = `${capitalized(noun)} ${i + 1}${transition ? ", compared with the one before" : ""}`;
  const how = strength(piece, result);
  const nodes = [
    element("strong", {}, `${title}. `),
    element("span", {}, `${STRENGTHS[how]}. `),
  ];
  const score = scoreAndThreshold(piece, result);
  if (score) nodes.push(element("span", {}, `${score} `));
  const given = bits(piece);
  if (given) nodes.push(squares(given));
  const others = otherFigures(piece).map(([label, value]) => `${label} ${value}`);
  if (others.length) nodes.push(element("span", {}, `${others.join(", ")}. `));
  if (isAtEdge(i, result)) {
    const words = "Near an edge of a marked passage, and perhaps not part of it.";
    nodes.push(element("span", {}, words));
  } else if (piece.in_passage) nodes.push(element("span", {}, "In a marked passage."));
  return nodes;
}

/** Bits as small squares, full where they match. */
function squares(given) {
  const matching = [...given].filter((bit) => bit === "1").length;
  const row = element("span", {
    class: "bits",
    role: "img",
    "aria-label": `${matching} of ${given.length} bits match: ${given}. `,
  });
  for (const bit of given) {
    row.append(element("span", { class: bit === "1" ? "bit matches" : "bit" }));
  }
  const words = ` ${matching} of ${given.length} bits match. `;
  return element("span", {}, row, element("span", { "aria-hidden": "true" }, words));
}

function moveWithArrows(text, spans) {
  if (!spans.length) return;
  let at = 0;
  spans[at].tabIndex = 0;

  function reach(to) {
    spans[at].tabIndex = -1;
    at = to;
    spans[at].tabIndex = 0;
  }

  text.addEventListener("focusin", (event) => {
    const piece = event.target.closest(".piece");
    if (piece) reach(Number(piece.dataset.index));
  });
  text.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const leftwards = getComputedStyle(text).direction === "rtl";
    const step = { ArrowRight: leftwards ? -1 : 1, ArrowLeft: leftwards ? 1 : -1 }[event.key];
    // From a passage that has the focus, go to its first piece.
    const frame = event.target.classList.contains("passage") ? event.target : null;
    const from = frame ? Number(frame.querySelector(".piece").dataset.index) - (step ?? 0) : at;
    const to = { Home: 0, End: spans.length - 1 }[event.key] ?? (step ? from + step : null);
    if (to === null || to < 0 || to >= spans.length) return;
    event.preventDefault();
    reach(to);
    spans[to].focus();
  });
}
