// Shortcuts, and the dialog that lists them.
const help = find("#help");
const singleKeys = find("#single-keys");
singleKeys.checked = settings.get("keys") !== "off";
singleKeys.addEventListener("change", () => settings.set("keys", singleKeys.checked ? "on" : "off"));
find("#help-button").addEventListener("click", () => help.showModal());

// Search is a script of its own, and its index others; the field can be typed into at once.
const search = find("#search");
const prepareSearch = () => load("search.js").then(() => load("search-index.js"));
const openSearch = () => {
  if (!search.open) search.showModal();
  search.querySelector("input").select();
  prepareSearch().then(
    () => window.pylit.search(),
    () => { search.querySelector("[role=status]").textContent = "The index of the site did not load."; },
  );
};
const searchButton = find("#search-button");
searchButton.addEventListener("click", openSearch);
for (const sign of ["focus", "pointerenter"]) {
  searchButton.addEventListener(sign, () => prepareSearch().catch(() => {}), { once: true });
}

// A click beside a dialog closes it.
for (const dialog of [help, search]) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}

const SINGLE = {
  j: () => step(1),
  k: () => step(-1),
  s: switchShapes,
  w: switchWrap,
  n: () => stepLit(1),
  p: () => stepLit(-1),
  "/": openSearch,
  "?": () => help.showModal(),
};
addEventListener("keydown", (event) => {
  const command = event.ctrlKey || event.metaKey;
  if (command && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openSearch();
    return;
  }
  const typing = event.target.closest?.("input, textarea, select, dialog, [contenteditable]");
  const act = SINGLE[event.key];
  if (!act || command || event.altKey || typing || !singleKeys.checked) return;
  event.preventDefault();
  act();
});
