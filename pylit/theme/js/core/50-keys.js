// Shortcuts, and the dialog that lists them.
const help = find("#help");
const openHelp = () => help.showModal();
find("#help-button").onclick = openHelp;

// Search is a script of its own, and its index others; the field can be typed into at once.
const search = find("#search");
const prepareSearch = () => load("search.js").then(() => window.pylit.prepare());
const openSearch = () => {
  if (!search.open) search.showModal();
  search.querySelector("input").select();
  prepareSearch().then(
    () => window.pylit.search(),
    () => { search.querySelector("[role=status]").textContent = _("The index of the site did not load."); },
  );
};
const searchButton = find("#search-button");
searchButton.onclick = openSearch;
for (const sign of onPoint) {
  searchButton.addEventListener(sign, () => prepareSearch().catch(() => {}), { once: true });
}

// A click beside a dialog closes it.
for (const dialog of [help, search]) {
  dialog.onclick = ({ target }) => {
    if (target === dialog) dialog.close();
  };
}

const SINGLE = {
  j: () => step(1),
  k: () => step(-1),
  s: () => find("#shapes-button")?.click(),
  w: () => find("#wrap-button")?.click(),
  n: () => stepLit(1),
  p: () => stepLit(-1),
  "/": openSearch,
  "?": openHelp,
};
addEventListener("keydown", (event) => {
  const { key, target } = event;
  const typing = target.closest?.("input, textarea, select, dialog, [contenteditable]");
  const act = event.ctrlKey || event.metaKey
    ? key.toLowerCase() === "k" && !event.shiftKey && openSearch
    : !typing && root.dataset.keys !== "off" && SINGLE[key];
  if (!act || event.altKey) return;
  event.preventDefault();
  act();
});
