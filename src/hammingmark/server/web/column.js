// One column of the playground: a text as it is written, its cost, its troubles.

import { brokenOff, Failure, failureOf, request, wasStopped } from "./api.js";
import { costOf, lengthInWords } from "./cost.js";
import { element, figures } from "./elements.js";
import { serverSentEvents } from "./stream.js";
import { asSentence, duration, meaning } from "./words.js";

const STATES = { marked: "Marked.", partly: "Partly marked.", unmarked: "Not marked." };
const TICK = 500; // milliseconds between two looks at the clock

/** A column of the page. */
export class Column {
  /**
   * @param section the element that holds the parts.
   * @param judge is given the text when somebody wants it judged.
   * @param kindly given a failure, returns words for one that is no error, otherwise null.
   */
  constructor(section, { judge, kindly = () => null }) {
    this.parts = {};
    for (const part of section.querySelectorAll("[data-part]")) {
      this.parts[part.dataset.part] = part;
    }
    this.kindly = kindly;
    this.parts.judge.addEventListener("click", () => judge(this.text.trim()));
  }

  get text() {
    return this.parts.text.textContent;
  }

  /**
   * Write a text, sentence by sentence.
   *
   * @returns words that say how it went.
   */
  async write(path, body, signal) {
    const { text, state, problem, judge, cost } = this.parts;
    for (const part of [text, state, problem, cost]) part.replaceChildren();
    judge.hidden = true;
    text.setAttribute("aria-busy", "true");
    this.begun = performance.now();
    this.watermark = null;
    this.finish = null;
    this.showProgress();
    const clock = setInterval(() => this.showProgress(), TICK);
    try {
      await this.read(path, body, signal);
      this.showCost();
      state.textContent = this.ending();
      return "finished";
    } catch (error) {
      if (wasStopped(error)) {
        state.textContent = "Stopped.";
        return "stopped";
      }
      state.textContent = this.text ? "Not finished." : "The model wrote nothing.";
      const failure = failureOf(error);
      const kind = this.kindly(failure);
      const look = kind ? "message" : "message error";
      problem.replaceChildren(element("p", { class: look }, kind ?? failure.message));
      return kind ? "refused" : "failed";
    } finally {
      clearInterval(clock);
      text.removeAttribute("aria-busy");
      judge.hidden = !this.text.trim();
      if (!this.watermark && !this.text) cost.replaceChildren();
    }
  }

  async read(path, body, signal) {
    const answer = await request(path, { body, signal });
    for await (const data of serverSentEvents(answer.body)) {
      if (data === "[DONE]") return;
      this.take(parsed(data));
    }
    throw new Failure(brokenOff());
  }

  take(chunk) {
    if (chunk.error) {
      throw new Failure(`The server failed. ${asSentence(String(chunk.error.message ?? ""))}`);
    }
    const choice = chunk.choices?.[0];
    const added = choice?.delta?.content ?? choice?.text;
    if (added) this.parts.text.append(element("span", { class: "arrived" }, added));
    if (choice?.finish_reason) this.finish = choice.finish_reason;
    if (chunk.watermark) this.watermark = chunk.watermark;
  }

  get seconds() {
    return (performance.now() - this.begun) / 1000;
  }

  showCost() {
    const { text, seconds } = this;
    this.parts.cost.replaceChildren(...figures(costOf(this.watermark ?? {}, { text, seconds })));
  }

  showProgress() {
    const { cost, state } = this.parts;
    state.textContent = navigator.onLine
      ? "Writing…"
      : "This device is offline. Press Stop if nothing more arrives.";
    cost.replaceChildren(
      ...figures([
        ["Length so far", lengthInWords(this.text)],
        ["Time so far", duration(Math.floor(this.seconds))],
      ]),
    );
  }

  ending() {
    const said = [STATES[this.watermark?.status] ?? "Finished."];
    if (this.watermark?.reason) said.push(asSentence(this.watermark.reason));
    if (this.finish === "length") said.push("It ended at the maximum length.");
    if (typeof this.watermark?.p_value === "number") said.push(meaning(this.watermark.p_value, 1));
    return said.join(" ");
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new Failure(brokenOff());
  }
}
