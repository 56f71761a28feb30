// The first link in code that a reader points at loads the script that shows previews. When it is
// there, the reader may point at another one.
let pointed;
const firstPointed = (event) => {
  pointed = event;
  if (!event.target.closest?.("a.x") || event.pointerType === "touch") return;
  load("previews.js").then(() => {
    for (const sign of onPoint) removeEventListener(sign, firstPointed);
    if (pointed) window.pylit.preview(pointed);
    pointed = undefined;
  });
};
for (const sign of onPoint) addEventListener(sign, firstPointed);
// A finger that touches a word of the glossary stays on the page.
addEventListener("click", (event) => {
  const term = event.target.closest?.("a.g");
  if (!term || !matchMedia("(hover: none)").matches) return;
  event.preventDefault();
  load("previews.js").then(() => window.pylit.sheet(term)).catch(() => { location = term.href });
});
