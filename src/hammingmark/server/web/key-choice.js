// The keys of the server, with a box to tick for each.

import { askForApiKey, whenApiKeyChanges } from "./api-key.js";
import { failureOf, requestJson } from "./api.js";
import { byId, element } from "./elements.js";
import { ownerInWords, showOperator } from "./operator.js";
import { capitalized, counted } from "./words.js";

const MANY = 4; // from here on, buttons choose all and none

/**
 * Offer the keys. They are read again whenever the API key changes.
 *
 * @returns {{all: () => object[], chosen: () => string[] | null}}: the keys, and the ids of those
 *   chosen; null stands for all the server has.
 */
export function keyChoice() {
  const list = byId("key-list");
  const details = byId("key-details");
  const note = byId("key-note");
  const retry = byId("keys-retry");
  let keys = [];
  const boxes = () => [...list.querySelectorAll("input")];

  async function load() {
    let words = "";
    keys = [];
    retry.hidden = true;
    try {
      const [answer] = await Promise.all([
        requestJson("v1/watermark/keys", { ask: false }),
        showOperator(),
      ]);
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
    const names = namesOf(keys);
    list.replaceChildren(
      ...keys.map((key, i) => row(key, names[i], chosenBefore.get(key.id) ?? true)),
    );
    byId("key-details-list").replaceChildren(...keys.map((key) => element("li", {}, about(key))));
    details.hidden = !keys.length;
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

/** The names under which keys are offered: whose they are, and their own where several are alike. */
function namesOf(keys) {
  const owners = keys.map((key) => capitalized(ownerInWords({ key_id: key.id }, keys)));
  return keys.map((key, i) => {
    const isAlone = owners.filter((owner) => owner === owners[i]).length === 1;
    return isAlone ? owners[i] : `${owners[i]}: ${key.name}`;
  });
}

/** What experts may want to know of a key. */
function about({ id, name, method, label, derived_keys: more, marks, retired }) {
  const use = label ? `in use by its label ${label}` : "in use";
  const known = [
    id,
    method,
    retired ? "retired" : null,
    marks ? use : null,
    more ? `with ${counted(more, "derived key")}` : null,
  ];
  return `${name}: ${known.filter(Boolean).join(", ")}`;
}

function row(key, name, checked) {
  const box = element("input", { type: "checkbox", name: "key", value: key.id, checked });
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
        name,
        key.retired ? element("span", { class: "hint" }, " retired") : null,
      ),
    ),
  );
}
