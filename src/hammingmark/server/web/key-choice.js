// The keys of the server, with a box to tick for each.

import { askForApiKey, whenApiKeyChanges } from "./api-key.js";
import { failureOf, requestJson } from "./api.js";
import { byId, element } from "./elements.js";
import { counted } from "./words.js";

const MANY = 4; // from here on, buttons choose all and none

/**
 * Offer the keys. They are read again whenever the API key changes.
 *
 * @returns {{all: () => object[], chosen: () => string[] | null}}: the keys, and the ids of those
 *   chosen; null stands for all the server has.
 */
export function keyChoice() {
  const list = byId("key-list");
  const note = byId("key-note");
  const retry = byId("keys-retry");
  let keys = [];
  const boxes = () => [...list.querySelectorAll("input")];

  async function load() {
    let words = "";
    keys = [];
    retry.hidden = true;
    try {
      const answer = await requestJson("v1/watermark/keys", { ask: false });
      keys = answer.keys;
      if (!keys.length) words = "The server has no keys yet.";
      if (keys.length >= MANY) words = `${counted(keys.length, "key")} in all.`;
    } catch (error) {
      const failure = failureOf(error);
      retry.hidden = failure.status !== 401;
      words =
        failure.status === 403
          ? "You cannot see the list of keys. All keys of the server are searched."
          : failure.message;
    }
    note.textContent = words;
    note.hidden = !words;
    const chosenBefore = new Map(boxes().map((box) => [box.value, box.checked]));
    list.replaceChildren(...keys.map((key) => row(key, chosenBefore.get(key.id) ?? true)));
    for (const id of ["keys-all", "keys-none"]) byId(id).hidden = keys.length < MANY;
  }

  const tick = (checked) => boxes().forEach((box) => (box.checked = checked));
  byId("keys-all").addEventListener("click", () => tick(true));
  byId("keys-none").addEventListener("click", () => tick(false));
  retry.addEventListener("click", () => askForApiKey());
  whenApiKeyChanges(load);
  load();

  return {
    all: () => keys,
    chosen() {
      const ticked = boxes().filter((box) => box.checked);
      return ticked.length === boxes().length ? null : ticked.map((box) => box.value);
    },
  };
}

function row(key, checked) {
  const box = element("input", { type: "checkbox", name: "key", value: key.id, checked });
  const about = [key.id, key.method, key.retired ? "retired" : null, key.marks ? "in use" : null];
  return element(
    "li",
    {},
    element(
      "label",
      { class: "choice" },
      box,
      element(
        "span",
        {},
        key.name ?? key.id,
        " ",
        element("span", { class: "hint" }, about.filter(Boolean).join(", ")),
      ),
    ),
  );
}
