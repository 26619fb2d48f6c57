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

/** A p-value as a number: `0.0003`, `5 × 10⁻⁸`. */
export function pValue(p) {
  if (p === 0) return "0";
  if (p >= 1e-5) return String(Number(p.toPrecision(2)));
  const [digits, power] = p.toExponential(1).split("e-");
  const raised = [...power].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
  return `${Number(digits)} × 10⁻${raised}`;
}

/** A p-value as a number of cases: `1 of 20,000 cases`. Never rarer than it is. */
export function cases(p) {
  if (p > 0.99) return "nearly all cases";
  if (p >= 0.095) return `about ${Math.ceil(100 * p - 1e-9)} in 100 cases`;
  if (p < RAREST) return "fewer than 1 in a billion cases";
  const many = 1 / p;
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(many)) - 1);
  const rounded = unit * Math.floor(many / unit + 1e-9);
  return `1 in ${grouped.format(rounded)} cases`;
}

/** What a p-value means, as a sentence. It is corrected for the number of keys already. */
export function meaning(p, keys) {
  const without = keys > 1 ? `any of these ${grouped.format(keys)} keys` : "this key";
  return `A text written without ${without} would score as high in ${cases(p)}.`;
}

/** A false-positive rate: `1 %`. */
export function percent(share) {
  return `${figure(100 * share)} %`;
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
