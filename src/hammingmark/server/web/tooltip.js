// One tooltip for all pieces of a text: on hover and on focus, put away with Escape.

const DELAY = 200; // milliseconds in which the pointer may move from a piece to the tooltip
const GAP = 6; // pixels between a piece and the tooltip

/**
 * Show a tooltip for the pieces in a container, which must be positioned and hold the tooltip.
 *
 * @param container listens for all its pieces, so that thousands of them cost nothing.
 * @param tooltip an element with role="tooltip" and an id.
 * @param selector of the pieces.
 * @param describe given a piece, returns the nodes to show.
 */
export function explain(container, { tooltip, selector, describe }) {
  let hovered = null;
  let focused = null;
  let dismissed = null;
  let shown = null;
  let leaving = 0;

  function update() {
    const piece = hovered ?? focused;
    if (piece !== dismissed) dismissed = null;
    const wanted = dismissed ? null : piece;
    if (wanted === shown) return;
    shown?.removeAttribute("aria-describedby");
    shown = wanted;
    tooltip.hidden = !wanted;
    if (!wanted) return;
    tooltip.replaceChildren(...describe(wanted));
    wanted.setAttribute("aria-describedby", tooltip.id);
    place(container, tooltip, wanted);
  }

  function hover(piece) {
    clearTimeout(leaving);
    hovered = piece;
    update();
  }

  container.addEventListener("pointerover", (event) => {
    const piece = event.target.closest(selector);
    if (piece) hover(piece);
    else if (tooltip.contains(event.target)) clearTimeout(leaving);
    else leave();
  });
  container.addEventListener("pointerleave", leave);
  container.addEventListener("focusin", (event) => {
    focused = event.target.closest(selector);
    // The keyboard has moved on from wherever the pointer happens to rest.
    hovered = null;
    update();
  });
  container.addEventListener("focusout", () => {
    focused = null;
    update();
  });
  // The pointer may be at rest over a piece while the focus is elsewhere.
  const put = new AbortController();
  document.addEventListener(
    "keydown",
    (event) => {
      if (!container.isConnected) put.abort();
      else if (event.key === "Escape" && shown) {
        dismissed = shown;
        update();
      }
    },
    { signal: put.signal },
  );

  function leave() {
    clearTimeout(leaving);
    leaving = setTimeout(() => hover(null), DELAY);
  }
}

/** Above the piece, where it covers what was read already; below where there is no room. */
function place(container, tooltip, piece) {
  const frame = container.getBoundingClientRect();
  const box = piece.getBoundingClientRect();
  // A piece may run over several lines; one that begins with a line break hardly begins there.
  const lines = [...piece.getClientRects()];
  const start = lines.find((line) => line.width > 1 && line.height > 1) ?? box;
  tooltip.style.setProperty("left", "0px");
  tooltip.style.setProperty("top", "0px");
  const { width, height } = tooltip.getBoundingClientRect();
  const left = Math.max(0, Math.min(start.left - frame.left, frame.width - width));
  const above = box.top - height - GAP;
  const below = Math.min(box.bottom + GAP, window.innerHeight - height);
  const top = above >= 0 ? above : Math.max(0, below);
  tooltip.style.setProperty("left", `${left}px`);
  tooltip.style.setProperty("top", `${top - frame.top}px`);
}
