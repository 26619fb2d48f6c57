// Requests to the service, and what to tell a person when one fails.

import { apiKey, askForApiKey } from "./api-key.js";
import { asSentence, duration } from "./words.js";

/** A request that failed, in words for a person. `status` is 0 if no answer came. */
export class Failure extends Error {
  constructor(words, status = 0) {
    super(words);
    this.status = status;
  }
}

/** A failure for anything that was thrown. */
export function failureOf(error) {
  return error instanceof Failure ? error : new Failure(brokenOff());
}

/** Whether it was the person who stopped the request. */
export function wasStopped(error) {
  return error?.name === "AbortError";
}

/** Words for a connection that ended early. */
export function brokenOff() {
  return "The connection was lost. Check that the server is running, then try again.";
}

/**
 * The answer to a request, its status below 400. An API key is asked for where one is needed.
 *
 * @param path relative to the page, so that the service may live below any address.
 * @throws Failure, or the browser's AbortError.
 */
export async function request(path, { body, signal, ask = true } = {}) {
  for (;;) {
    const sent = apiKey();
    const answer = await send(path, { body, signal, key: sent });
    if (answer.ok) return answer;
    if (answer.status === 401 && ask) {
      // Somebody may have given a key while this request was under way.
      if (apiKey() !== sent) continue;
      if (await askForApiKey(sent ? "The server does not know this key." : "")) continue;
    }
    throw await refusal(answer);
  }
}

/** The answer's JSON. */
export async function requestJson(path, options) {
  const answer = await request(path, options);
  try {
    return await answer.json();
  } catch (error) {
    if (wasStopped(error)) throw error;
    throw new Failure(brokenOff());
  }
}

async function send(path, { body, signal, key }) {
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const options = { headers, signal, cache: "no-store", credentials: "same-origin" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    options.method = "POST";
    options.body = JSON.stringify(body);
  }
  try {
    return await fetch(path, options);
  } catch (error) {
    if (wasStopped(error)) throw error;
    throw new Failure(
      "The server cannot be reached. Check that it is running and that you are connected, " +
        "then try again.",
    );
  }
}

async function refusal(answer) {
  const said = asSentence(await message(answer));
  const { status } = answer;
  const seconds = secondsToWait(answer.headers.get("Retry-After"));
  if (status === 401) {
    return new Failure("This server needs an API key. Press “API key” to enter one.", status);
  }
  if (status === 429) return new Failure(`Too many requests. ${tryAgain(seconds)}`, status);
  if (status === 503) {
    return new Failure(`The server is not ready. ${said} ${tryAgain(seconds)}`, status);
  }
  if (status >= 500) return new Failure(`The server failed. ${said}`, status);
  return new Failure(said || `The server refused the request (${status}).`, status);
}

/** What the server says of an error, in OpenAI's shape or FastAPI's. */
async function message(answer) {
  try {
    const { error, detail, reasons } = await answer.json();
    if (error?.message) return String(error.message);
    if (typeof detail === "string") return detail;
    if (Array.isArray(detail)) return detail.map((each) => each.msg).join(" ");
    if (Array.isArray(reasons)) return reasons.join(" ");
  } catch {
    // A proxy may answer with a page of its own; its words help nobody.
  }
  return "";
}

/** Seconds that a server asks to wait, from a number or a date; null if it does not say. */
function secondsToWait(header) {
  if (!header) return null;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(1, Math.ceil(seconds)) : null;
}

function tryAgain(seconds) {
  if (seconds === null) return "Try again in a moment.";
  const at = new Date(Date.now() + 1000 * seconds).toLocaleTimeString("en-GB");
  return `Try again in ${duration(seconds)}, at ${at}.`;
}
