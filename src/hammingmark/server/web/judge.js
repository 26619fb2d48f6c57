// The form that judges a text.

import { failureOf, requestJson, wasStopped } from "./api.js";
import { announce, byId, element, markField, submitByKey } from "./elements.js";
import { acceptFiles } from "./files.js";
import { keyChoice } from "./key-choice.js";
import { showResult } from "./result.js";
import { counted } from "./words.js";

/**
 * Make the form work.
 *
 * @returns a function that puts a text into the form and judges it.
 */
export function judging() {
  const field = byId("judge-text");
  const fieldError = byId("judge-text-error");
  const problem = byId("judge-error");
  const stop = byId("judge-stop");
  const button = byId("judge-button");
  const section = byId("result");
  const choice = keyChoice();
  let running = null;

  function take(text) {
    field.value = text;
    changed();
  }

  function changed() {
    byId("judge-length").textContent = field.value
      ? counted(field.value.length, "character")
      : "";
    markField(field, fieldError, "");
    const stale = byId("stale");
    if (stale) stale.hidden = false;
  }

  function ready() {
    const keys = choice.chosen();
    markField(byId("key-choice"), byId("key-error"), keys?.length === 0 ? "Choose a key." : "");
    markField(field, fieldError, field.value.trim() ? "" : "Paste a text first.");
    const wrong = byId("panel-judge").querySelector("[aria-invalid]");
    if (!wrong) return true;
    announce(wrong === field ? fieldError.textContent : byId("key-error").textContent);
    (wrong.matches("textarea") ? wrong : wrong.querySelector("input")).focus();
    return false;
  }

  async function judge() {
    running?.abort();
    problem.replaceChildren();
    if (!ready()) return;
    const mine = new AbortController();
    running = mine;
    busy(true);
    const source = field.value;
    const body = question(source, choice.chosen());
    try {
      const answer = await requestJson("v1/watermark/detect", { body, signal: mine.signal });
      showResult(section, {
        result: answer.results[0],
        source,
        keys: choice.all(),
        detail: answer.detail,
        question: body,
      });
      byId("stale").hidden = field.value === source;
      announce("");
      byId("again").hidden = false;
      section.scrollIntoView({ block: "start" });
      byId("verdict").focus({ preventScroll: true });
    } catch (error) {
      if (wasStopped(error)) {
        if (running === mine) announce("Stopped.");
      } else {
        announce("");
        hideResult(); // it was of another question
        problem.replaceChildren(element("p", { class: "message error" }, failureOf(error).message));
      }
    } finally {
      if (running === mine) {
        running = null;
        busy(false);
      }
    }
  }

  function hideResult() {
    section.hidden = true;
    byId("again").hidden = true;
  }

  function busy(yes) {
    if (!yes && document.activeElement === stop) button.focus();
    button.textContent = yes ? "Judging…" : "Judge";
    stop.hidden = !yes;
    section.classList.toggle("waiting", yes);
    if (yes) announce("Judging the text.");
  }

  submitByKey(field);
  field.addEventListener("input", changed);
  byId("judge-form").addEventListener("submit", (event) => {
    event.preventDefault();
    judge();
  });
  stop.addEventListener("click", () => running?.abort());
  byId("clear-button").addEventListener("click", () => {
    running?.abort();
    take("");
    problem.replaceChildren();
    hideResult();
    section.replaceChildren();
    field.focus();
  });
  acceptFiles({
    zone: byId("drop-zone"),
    button: byId("file-button"),
    input: byId("file-input"),
    take(text, name) {
      take(text);
      announce(`${name} was read.`);
      field.focus();
    },
    refuse(words) {
      markField(field, fieldError, words);
      announce(words);
    },
  });
  if (field.value) changed(); // what the browser kept of the form when the page was loaded again

  return (text) => {
    take(text);
    judge();
  };
}

function question(source, keys) {
  const body = {
    text: source.replace(/[\ud800-\udfff]/gu, "\ufffd"), // half a character cannot be sent
    level: Number(document.querySelector("input[name=level]:checked").value),
    edits: byId("edits").checked,
  };
  if (keys) body.keys = keys;
  return body;
}
