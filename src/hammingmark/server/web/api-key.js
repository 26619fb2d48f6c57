// The API key: asked for in a dialog, kept for this tab of the browser only.

import { byId } from "./elements.js";

const PLACE = "hammingmark-api-key";
const listeners = [];
let key = stored();
let asking = null;

/** The key to send, or an empty string. */
export function apiKey() {
  return key;
}

/** Call a function whenever the key changes. */
export function whenApiKeyChanges(listener) {
  listeners.push(listener);
}

/** Make the button in the header and the dialog work. */
export function offerApiKey() {
  byId("api-key-button").addEventListener("click", () => askForApiKey());
  showState();
}

/**
 * Ask for the key. Two requests that are refused together share one dialog.
 *
 * @param complaint what was wrong with the last key, or nothing.
 * @returns whether a key was given.
 */
export function askForApiKey(complaint = "") {
  asking ??= ask(complaint).finally(() => {
    asking = null;
  });
  return asking;
}

function ask(complaint) {
  const dialog = byId("api-key-dialog");
  const field = byId("api-key");
  const error = byId("api-key-error");
  field.value = "";
  error.textContent = complaint;
  byId("api-key-forget").hidden = !key;
  return new Promise((resolve) => {
    const done = new AbortController();
    const on = (target, type, act) =>
      target.addEventListener(type, act, { signal: done.signal });
    let given = false;
    on(byId("api-key-form"), "submit", (event) => {
      event.preventDefault();
      const typed = field.value.trim();
      if (!/^[\x21-\x7e]+$/.test(typed)) {
        error.textContent = typed
          ? "An API key contains only ASCII letters, digits and punctuation, without spaces. Paste it again."
          : "Paste the key here, or press Cancel.";
        field.focus();
        return;
      }
      given = true;
      change(typed);
      dialog.close();
    });
    on(byId("api-key-cancel"), "click", () => dialog.close());
    on(byId("api-key-forget"), "click", () => {
      change("");
      dialog.close();
    });
    on(dialog, "close", () => {
      done.abort();
      field.value = "";
      resolve(given);
    });
    dialog.showModal();
    field.focus();
  });
}

function change(to) {
  key = to;
  try {
    if (to) sessionStorage.setItem(PLACE, to);
    else sessionStorage.removeItem(PLACE);
  } catch {
    // Storage may be switched off; then the key lives as long as the page.
  }
  showState();
  for (const listener of listeners) listener();
}

function showState() {
  byId("api-key-button").textContent = key ? "API key: given" : "API key";
}

function stored() {
  try {
    return sessionStorage.getItem(PLACE) ?? "";
  } catch {
    return "";
  }
}
