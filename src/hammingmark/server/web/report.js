// A dated report on the text that was judged, to print or to keep. The server makes it and keeps
// nothing.

import { failureOf, requestJson } from "./api.js";
import { announce, element } from "./elements.js";

/**
 * Buttons that open the report on a text, or save it.
 *
 * @param question what was asked of the server for the verdict.
 */
export function reportButtons(question) {
  const note = element("p", { id: "report-note", class: "hint" });
  let made = null;

  /** The report; made once, when it is first wanted. */
  function report() {
    const body = { ...question, utc_offset: -new Date().getTimezoneOffset() };
    made ??= requestJson("v1/watermark/report", { body }).catch((error) => {
      made = null;
      throw error;
    });
    return made;
  }

  function button(id, words, act) {
    const made = element("button", { type: "button", id }, words);
    made.addEventListener("click", async () => {
      say("Making the report.");
      try {
        say(await act());
      } catch (error) {
        say(failureOf(error).message);
      }
    });
    return made;
  }

  function say(words) {
    note.textContent = words;
    announce(words);
  }

  async function open() {
    // A browser opens a tab only in answer to a click, so before the report is there.
    const tab = window.open("", "_blank");
    try {
      const { html, report: data } = await report();
      if (!tab) {
        save(fileName(data, "html"), html, "text/html");
        return "The browser does not open a tab here. The report was saved instead.";
      }
      tab.opener = null;
      tab.location.replace(URL.createObjectURL(new Blob([html], { type: "text/html" })));
      return "The report is in a new tab. Print it or save it from there.";
    } catch (error) {
      tab?.close();
      throw error;
    }
  }

  async function saveAs(kind) {
    const { html, report: data } = await report();
    if (kind === "html") save(fileName(data, kind), html, "text/html");
    else save(fileName(data, kind), `${JSON.stringify(data, null, 2)}\n`, "application/json");
    return "The report was saved.";
  }

  return element(
    "div",
    { id: "report", class: "report" },
    element("h3", {}, "Report"),
    element(
      "p",
      { class: "hint" },
      "With the date, the verdict, what may be concluded from it and what may not, and the text.",
    ),
    element(
      "div",
      { class: "buttons" },
      button("open-report", "Open to print", open),
      button("save-report", "Save as a page", () => saveAs("html")),
      button("save-json", "Save as JSON", () => saveAs("json")),
    ),
    note,
  );
}

/** Of the day and the text, so that reports on several texts do not have one name. */
function fileName({ made_local: made, text_sha256: hash }, ending) {
  return `report-${made.slice(0, 10)}-${hash.slice(0, 8)}.${ending}`;
}

function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
