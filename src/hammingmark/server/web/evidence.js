// What one piece of a text says: how strong, and in which words.

import { counted, figure, scoreInWords, signed } from "./words.js";

const DEVIATES = 4; // standard deviations that count as the largest score
const STRONG = 0.4; // share of the way from the threshold to the largest score
const FAR = 0.35; // share of the way from the threshold to the smallest

/** The strengths, strongest first, with their words for the legend and for each piece. */
export const STRENGTHS = {
  strong: "Far above the threshold: strong evidence for the watermark",
  enough: "Above the threshold: evidence for the watermark",
  below: "Below the threshold",
  far: "Far below the threshold",
  chance: "Above the threshold, as parts of any text are by chance: no evidence",
  usual: "Below the threshold",
  none: "Not judged",
};

/** Whether a piece has a score that counts; one that is repeated has a score and does not. */
export function isJudged({ score, counted }) {
  return typeof score === "number" && counted !== false;
}

/**
 * Whether the score of a piece is evidence: only where the watermark was found. Elsewhere a high
 * score means nothing. The report of the command has the same rule (`hammingmark/reports/text.py`).
 */
function isEvidence(piece, { watermarked, passages }) {
  return passages.length ? piece.in_passage : watermarked === true;
}

/** How strong the evidence of a piece is: a name in STRENGTHS. */
export function strength(piece, result) {
  const { unit_threshold: threshold, max_score: scale } = result;
  if (!isJudged(piece)) return "none";
  const largest = scale ?? DEVIATES;
  const smallest = scale === null || scale === undefined ? -DEVIATES : 0;
  const enough = piece.valid ?? piece.score >= threshold;
  if (!isEvidence(piece, result)) return enough ? "chance" : "usual";
  if (enough) {
    return share(piece.score - threshold, largest - threshold) >= STRONG ? "strong" : "enough";
  }
  return share(threshold - piece.score, threshold - smallest) >= FAR ? "far" : "below";
}

/** What the pieces of a result are called. */
export function pieceNoun({ unit }) {
  return unit === "token" ? "token" : "sentence";
}

/** A passage, counted from 1: `about sentences 3 to 9`. */
export function passageInWords({ begin, end, rough }, result) {
  const noun = pieceNoun(result);
  const run = end - begin === 1 ? `${noun} ${begin + 1}` : `${noun}s ${begin + 1} to ${end}`;
  return rough ? `somewhere within ${run}` : `about ${run}`;
}

/**
 * Whether a piece lies in passages only near their edges, and so may be outside of them. Of a
 * passage that is told roughly, each piece may (`is_near_edge` in `hammingmark/reports/text.py`).
 */
export function isAtEdge(i, { passages }) {
  const inside = passages.filter(({ begin, end }) => begin <= i && i < end);
  return (
    inside.length > 0 &&
    inside.every(
      (passage) =>
        passage.rough || Math.min(i - passage.begin, passage.end - 1 - i) < innerMargin(passage),
    )
  );
}

/** How many pieces at either end of a passage may lie outside of the true one. */
function innerMargin({ begin, end, edge_margin: margin }) {
  return Math.min(margin, Math.max(1, Math.floor((end - begin - 1) / 2)));
}

/** How uncertain the edges of the passages are (`edges_in_words` in the same file). */
export function edgesInWords(result) {
  const [passage, ...others] = result.passages;
  const noun = pieceNoun(result);
  if (passage.rough) {
    return (
      "Only the quarters of the text that a marked passage touches are told. It may begin and end " +
      `anywhere within them, and each ${noun} there may be anyone’s.`
    );
  }
  const { begin, end, edge_margin: margin } = passage;
  const inner = innerMargin(passage);
  const whole = counted(margin, noun);
  const later = `The passage may begin up to ${counted(inner, noun)} later`;
  const isFirst = begin === 0;
  const isLast = end === result.pieces.length;
  let words;
  if (others.length || !(isFirst || isLast)) {
    const name = others.length ? "A passage" : "The passage";
    words = `${name} may begin and end up to ${whole} earlier or later`;
  } else if (isFirst && isLast) words = `${later}, or end up to ${inner} earlier`;
  else if (isFirst) words = `${later}, and end up to ${margin} earlier or later`;
  else {
    words = `The passage may begin up to ${whole} earlier or later, or end up to ${inner} earlier`;
  }
  return `${words}, and sometimes more. What stands near an edge may be anyone’s.`;
}

/** Whether a passage is the whole text, of which the verdict has said everything. */
export function isWhole({ begin, end, rough }, { pieces }) {
  return !rough && begin === 0 && end === pieces.length;
}

/** The score of a piece and what was needed; empty where nothing was judged. */
export function scoreAndThreshold(piece, { unit_threshold: threshold, max_score: scale }) {
  if (!isJudged(piece)) return "";
  const needed = scale === null || scale === undefined ? signed(threshold) : figure(threshold);
  return `Score ${scoreInWords(piece.score, scale)}; at least ${needed} is needed.`;
}

/** Bits of a piece as a string of 0 and 1, or null. */
export function bits(piece) {
  const given = isJudged(piece) ? piece.details?.bits : null;
  return typeof given === "string" && /^[01]+$/.test(given) ? given : null;
}

/** The other figures of a piece: pairs of a name and a value in words. The bits tell the match. */
export function otherFigures(piece) {
  return Object.entries(isJudged(piece) ? (piece.details ?? {}) : {})
    .filter(([name, value]) => typeof value === "number" && !(name === "match" && bits(piece)))
    .map(([name, value]) => [name.replaceAll("_", " "), figure(value)]);
}

function share(part, whole) {
  return whole > 0 ? part / whole : 1;
}
