// Server-sent events, read from the body of an answer as they arrive.

/** The data of each event. Ends when the connection does. */
export async function* serverSentEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // A line end may be cut between two reads: what follows the last blank line waits.
      const events = (rest + value).split(/\r?\n\r?\n/);
      rest = events.pop();
      for (const event of events) {
        const data = event
          .split(/\r?\n/)
          .filter((line) => line.startsWith("data:"))
          .map((line) => line.slice("data:".length).replace(/^ /, ""))
          .join("\n");
        if (data) yield data;
      }
    }
  } finally {
    // A reader that stops early lets the server stop too. A broken stream refuses; that is known.
    reader.cancel().catch(() => {});
  }
}
