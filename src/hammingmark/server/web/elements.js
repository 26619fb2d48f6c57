// Elements made from data. Text goes in as text nodes, so no text can become markup.

/** An element with attributes and children; attributes that are null or false are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Pairs of a name and a value, for a description list. */
export function figures(pairs) {
  return pairs.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)),
  );
}

/** Say something to screen readers that the page shows elsewhere. */
export function announce(words) {
  byId("status").textContent = words;
}

/** Have Ctrl+Enter, or Command+Enter, in a text field submit its form. */
export function submitByKey(field) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
    event.preventDefault();
    field.form.requestSubmit();
  });
}

/** Show what is wrong with a field beside it, or nothing. */
export function markField(field, note, words) {
  note.textContent = words;
  note.hidden = !words;
  if (words) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
}
