// Who runs this server, and whose watermark a text has.

import { requestJson } from "./api.js";
import { byId, element } from "./elements.js";

let about = { operator: {}, version: "" };
let asked = null;

/** Who runs this server, once `showOperator` has learned it, and the version of its software. */
export function aboutServer() {
  return about;
}

/** Show on the page who runs this server; done once that is known or cannot be. */
export function showOperator() {
  asked ??= show();
  return asked;
}

async function show() {
  try {
    about = await requestJson("v1/watermark/about", { ask: false });
  } catch {
    return; // the page works without it
  }
  const { name, contact, url } = about.operator;
  if (name) byId("operator").textContent = `Run by ${name}.`;
  byId("operator").hidden = !name;
  const parts = [name ? `This server is run by ${name}.` : "", ...contactOf(contact), ...linkTo(url)];
  byId("operator-contact").replaceChildren(...parts);
  byId("operator-contact").hidden = !(name || contact || url);
}

/**
 * Whose watermark a text has, as a sentence.
 *
 * @param found a verdict that found one, or a marked passage.
 * @param keys the keys that the server listed.
 */
export function originInWords({ key_id: id, label }, keys) {
  if (!id) return "";
  const { name } = about.operator;
  if (name) {
    const own = isOwn({ key_id: id, label }, keys);
    return own ? `Marked by ${name}’s service.` : `Marked with a key of ${name}.`;
  }
  const listed = keys.find((key) => key.id === id);
  return listed ? `Marked with the key “${listed.name}”.` : `Marked with the key ${id}.`;
}

/** Whose key it is: the operator's service, or the name of the key where no operator is named. */
export function ownerInWords(found, keys) {
  const { name } = about.operator;
  if (name) return isOwn(found, keys) ? `${name}’s service` : `another key of ${name}`;
  return keys.find((key) => key.id === found.key_id)?.name ?? found.key_id;
}

function isOwn({ key_id: id, label }, keys) {
  const listed = keys.find((key) => key.id === id);
  // Keys that are derived by the server's own labels are not listed.
  return listed ? listed.own : Boolean(keys.length && label);
}

function contactOf(contact) {
  if (!contact) return [];
  const isAddress = /^[^\s@]+@[^\s@]+$/.test(contact);
  const shown = isAddress ? element("a", { href: `mailto:${contact}` }, contact) : contact;
  return [" Contact: ", shown, "."];
}

function linkTo(url) {
  return url ? [" ", element("a", { href: url, rel: "noreferrer" }, "About this service"), "."] : [];
}
