// Tabs, as the ARIA authoring practices have them: arrow keys, Home and End move and select.

/**
 * Make a tab list work. The address may name a tab after `#`, such as `#playground`.
 *
 * @returns a function that shows the tab with a given id.
 */
export function tabs(list) {
  const all = [...list.querySelectorAll("[role=tab]")];
  const panel = (tab) => document.getElementById(tab.getAttribute("aria-controls"));
  const name = (tab) => tab.id.replace("tab-", "");

  function select(chosen) {
    for (const tab of all) {
      const selected = tab === chosen;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      panel(tab).hidden = !selected;
    }
    history.replaceState(null, "", `#${name(chosen)}`);
  }

  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) select(tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = all.indexOf(event.target);
    const to = {
      ArrowRight: (at + 1) % all.length,
      ArrowLeft: (at + all.length - 1) % all.length,
      Home: 0,
      End: all.length - 1,
    }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    select(all[to]);
    all[to].focus();
  });

  const asked = all.find((tab) => `#${name(tab)}` === location.hash);
  if (asked) select(asked);
  return (id) => select(document.getElementById(id));
}
