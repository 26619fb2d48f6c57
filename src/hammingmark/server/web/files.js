// Text files, from a button or dropped on the page.

import { counted } from "./words.js";

const MOST_BYTES = 4_000_000; // more than this makes a text field crawl
const ENDINGS = /\.(txt|text|md|markdown)$/i;

/**
 * Take files by drag and drop and by a button.
 *
 * @param take is given the text.
 * @param refuse is given the words why not.
 */
export function acceptFiles({ zone, button, input, take, refuse }) {
  async function read(files) {
    if (files.length > 1) return refuse("One file at a time, please.");
    const [file] = files;
    if (!file) return undefined;
    if (!ENDINGS.test(file.name) && !file.type.startsWith("text/")) {
      return refuse(`${file.name} is no .txt or .md file. Paste its text instead.`);
    }
    if (file.size > MOST_BYTES) {
      const limit = counted(MOST_BYTES / 1e6, "megabyte");
      return refuse(`${file.name} has more than ${limit}. Take a part of it.`);
    }
    try {
      const text = await file.text();
      if (text.includes("\0")) return refuse(`${file.name} does not hold plain text in UTF-8.`);
      return take(text.replace(/^\ufeff/, ""), file.name);
    } catch {
      return refuse(`${file.name} cannot be read.`);
    }
  }

  button.addEventListener("click", () => input.click());
  input.addEventListener("change", async () => {
    await read([...input.files]);
    input.value = ""; // so that the same file can be chosen again
  });

  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // a drag enters a child before it leaves the parent
  const over = (by) => {
    depth = Math.max(0, depth + by);
    zone.classList.toggle("drag-over", depth > 0);
  };
  zone.addEventListener("dragenter", (event) => carriesFiles(event) && over(1));
  zone.addEventListener("dragleave", (event) => carriesFiles(event) && over(-1));
  // A file dropped beside the field would otherwise replace the page.
  window.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = zone.contains(event.target) ? "copy" : "none";
  });
  window.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    over(-depth);
    if (zone.contains(event.target)) read([...event.dataTransfer.files]);
  });
}
