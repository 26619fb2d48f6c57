// The form that has the model write with and without the watermark.

import { whenApiKeyChanges } from "./api-key.js";
import { requestJson } from "./api.js";
import { Column } from "./column.js";
import { announce, byId, element, markField, submitByKey } from "./elements.js";

const MODES = {
  chat: { label: "Message", example: "Write a short story about a lighthouse keeper and a storm." },
  text: { label: "Beginning of the text", example: "The lighthouse had been dark for a year." },
};

/**
 * Make the form work.
 *
 * @param judge is given a text that somebody wants judged.
 */
export function playground({ judge }) {
  const prompt = byId("prompt");
  const write = byId("write-button");
  const stop = byId("write-stop");
  const marked = new Column(byId("column-marked"), { judge });
  const plain = new Column(byId("column-plain"), { judge, kindly: whyNotPlain });
  let running = null;

  async function writeBoth() {
    if (running || !ready()) return;
    running = new AbortController();
    busy(true);
    byId("columns").hidden = false;
    const { path, body } = question();
    const unmarked = { ...body, watermark: { enabled: false } };
    const outcomes = await Promise.all([
      marked.write(path, body, running.signal),
      plain.write(path, unmarked, running.signal),
    ]);
    running = null;
    busy(false);
    announce(`With the watermark: ${outcomes[0]}. Without the watermark: ${outcomes[1]}.`);
  }

  function busy(yes) {
    if (!yes && document.activeElement === stop) write.focus();
    // Not `disabled`, which would take the focus from under the keyboard.
    write.setAttribute("aria-disabled", String(yes));
    stop.disabled = !yes;
    if (yes) announce("Writing both texts.");
  }

  byId("write-form").addEventListener("submit", (event) => {
    event.preventDefault();
    writeBoth();
  });
  submitByKey(prompt);
  stop.addEventListener("click", () => running?.abort());
  byId("write-form").addEventListener("change", (event) => {
    if (event.target.name === "mode") showMode();
  });
  prompt.value ||= MODES[mode()].example;
  showMode();
  offerModels();
  whenApiKeyChanges(offerModels);
}

function mode() {
  return document.querySelector("input[name=mode]:checked").value;
}

/** Label the prompt; an example that nobody changed makes way for that of the other mode. */
function showMode() {
  const prompt = byId("prompt");
  byId("prompt-label").textContent = MODES[mode()].label;
  if (Object.values(MODES).some(({ example }) => example === prompt.value)) {
    prompt.value = MODES[mode()].example;
  }
}

/** Whether every field is fit to be sent; the first that is not takes the focus. */
function ready() {
  const prompt = byId("prompt");
  markField(prompt, byId("prompt-error"), prompt.value.trim() ? "" : "Write something first.");
  for (const id of ["temperature", "length"]) {
    const field = byId(id);
    const fits = field.value !== "" && field.validity.valid;
    const wanted = id === "length" ? "Enter an integer" : "Enter a number";
    const words = fits ? "" : `${wanted} from ${field.min} to ${field.max}.`;
    markField(field, byId(`${id}-error`), words);
  }
  const wrong = byId("write-form").querySelector("[aria-invalid]");
  if (wrong) {
    announce(byId(`${wrong.id}-error`).textContent);
    wrong.focus();
  }
  return !wrong;
}

function question() {
  const text = byId("prompt").value;
  const body = {
    temperature: Number(byId("temperature").value),
    max_tokens: Number(byId("length").value),
    stream: true,
  };
  if (byId("model").value) body.model = byId("model").value;
  if (mode() === "text") return { path: "v1/completions", body: { ...body, prompt: text } };
  const messages = [{ role: "user", content: text }];
  return { path: "v1/chat/completions", body: { ...body, messages } };
}

/** Fill the list of models, which is shown where there is something to choose. */
async function offerModels() {
  const select = byId("model");
  try {
    const { data } = await requestJson("v1/models", { ask: false });
    select.replaceChildren(...data.map(({ id }) => element("option", { value: id }, id)));
    byId("model-field").hidden = data.length < 2;
  } catch {
    // Without a list the server uses its own; if it cannot, it will say so when asked to write.
    select.replaceChildren();
    byId("model-field").hidden = true;
  }
}

/** A server may refuse to write without the watermark. That is its policy and no error. */
function whyNotPlain(failure) {
  if (failure.status !== 403) return null;
  const kind = "This server does not write without the watermark for you.";
  const how = "Whoever runs it can allow that by the setting policy.switch_off.";
  return `${kind} It says: “${failure.message}” ${how}`;
}
