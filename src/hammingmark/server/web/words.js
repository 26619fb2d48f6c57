// Numbers and messages in words for people who have never heard of a p-value.

const grouped = new Intl.NumberFormat("en-GB");
const plain = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const RAREST = 1e-9; // beyond this, numbers of cases say nothing more

/** A number of things: `1 sentence`, `1,200 sentences`. */
export function counted(count, noun) {
  return `${grouped.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A number with three significant digits. */
export function figure(value) {
  return plain.format(value).replace("-", "−");
}

/** A score: a deviate with its sign, or so many of the largest score. */
export function scoreInWords(score, scale) {
  if (scale !== null && scale !== undefined) return `${figure(score)} of ${figure(scale)}`;
  return signed(score);
}

/** A number with its sign and two digits after the point. */
export function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

/**
 * A p-value with two significant digits, rounded up, so that it is never shown smaller than it is.
 * The report of the command rounds alike (`format_p_value` in `hammingmark/reports/text.py`).
 */
export function roundedUp(p) {
  const [digits, power] = p.toExponential().split("e"); // the shortest digits that denote p
  const all = digits.replace(".", "").padEnd(2, "0");
  const two = Number(all.slice(0, 2)) + (/[1-9]/.test(all.slice(2)) ? 1 : 0);
  return Number(`${two}e${Number(power) - 1}`);
}

/** A p-value as a number, rounded up: `0.0003`, `5 × 10⁻⁸`. */
export function pValue(p) {
  const rounded = roundedUp(p);
  if (rounded === 0 || rounded >= 1e-4) return String(rounded);
  const [digits, power] = rounded.toExponential().split("e-");
  const raised = [...power].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
  return `${digits} × 10⁻${raised}`;
}

/** A p-value as a number of cases: `1 in 20,000 cases`. Never rarer than it is. */
export function cases(p) {
  const shown = roundedUp(p);
  if (shown > 0.99) return "nearly all cases";
  if (shown >= 0.095) return `about ${Math.ceil(100 * shown - 1e-9)} in 100 cases`;
  if (shown < RAREST) return "fewer than 1 in a billion cases";
  const many = 1 / shown;
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(many)) - 1);
  const rounded = unit * Math.floor(many / unit + 1e-9);
  return `1 in ${grouped.format(rounded)} cases`;
}

/**
 * What a p-value means, as a sentence. It is corrected for the number of keys already.
 *
 * @param isExact whether it is exact; that of a method without a secret is not.
 */
export function meaning(p, keys, isExact = true) {
  if (!isExact) {
    return `By an estimate, a text without the watermark would score as high in ${cases(p)}.`;
  }
  const without = keys > 1 ? `any of these ${grouped.format(keys)} keys` : "this key";
  return `A text written without ${without} would score as high in ${cases(p)}.`;
}

/** A false-positive rate: `1 %`. */
export function percent(share) {
  return `${figure(100 * share)} %`;
}

/** A share as a number of cases, as in `hammingmark/reports/text.py`; never told as none or all. */
export function ofAHundred(share) {
  const of = Math.round(100 * share);
  if (of < 1) return "fewer than 1 of 100";
  return of > 99 ? "more than 99 of 100" : `about ${of} of 100`;
}

/** A likelihood ratio: `about 5 times`. */
export function times(ratio) {
  return `about ${ratio < 9.95 ? ratio.toFixed(1) : ratio.toFixed(0)} times`;
}

/** A time to wait: `12 seconds`, `3 minutes`. */
export function duration(seconds) {
  return seconds < 120 ? counted(seconds, "second") : counted(Math.ceil(seconds / 60), "minute");
}

/** Words from elsewhere as a sentence. */
export function asSentence(words) {
  const trimmed = words.trim();
  return !trimmed || /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

/** Words that begin with a capital. */
export function capitalized(words) {
  return words[0].toUpperCase() + words.slice(1);
}
