// What one piece of a text says: how strong, and in which words.

import { figure, scoreInWords, signed } from "./words.js";

const DEVIATES = 4; // standard deviations that count as the largest score
const STRONG = 0.4; // share of the way from the threshold to the largest score
const FAR = 0.35; // share of the way from the threshold to the smallest

/** The strengths, strongest first, with their words for the legend and for each piece. */
export const STRENGTHS = {
  strong: "Far above the threshold: strong evidence for the watermark",
  enough: "Above the threshold: evidence for the watermark",
  below: "Below the threshold",
  far: "Far below the threshold",
  none: "Not judged",
};

/** Whether a piece has a score that counts; one that is repeated has a score and does not. */
export function isJudged({ score, counted }) {
  return typeof score === "number" && counted !== false;
}

/** How strong the evidence of a piece is: a name in STRENGTHS. */
export function strength(piece, { unit_threshold: threshold, max_score: scale }) {
  if (!isJudged(piece)) return "none";
  const largest = scale ?? DEVIATES;
  const smallest = scale === null || scale === undefined ? -DEVIATES : 0;
  const enough = piece.valid ?? piece.score >= threshold;
  if (enough) {
    return share(piece.score - threshold, largest - threshold) >= STRONG ? "strong" : "enough";
  }
  return share(threshold - piece.score, threshold - smallest) >= FAR ? "far" : "below";
}

/** What the pieces of a result are called. */
export function pieceNoun({ unit }) {
  return unit === "token" ? "token" : "sentence";
}

/** A run of pieces, counted from 1: `Sentences 3 to 9`. */
export function runInWords(begin, end, result) {
  const noun = pieceNoun(result);
  const name = noun[0].toUpperCase() + noun.slice(1);
  return end - begin === 1 ? `${name} ${begin + 1}` : `${name}s ${begin + 1} to ${end}`;
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
