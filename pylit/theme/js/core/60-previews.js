// The first link in code that a reader points at loads the script that shows previews. When it is
// there, the reader may point at another one.
let pointed;
const firstPointed = (event) => {
  pointed = event;
  const link = event.target.closest?.("a.x");
  if (!link || event.pointerType === "touch") return;
  load("previews.js").then(() => {
    for (const sign of ["pointerover", "focusin"]) removeEventListener(sign, firstPointed);
    if (pointed) window.pylit.preview(pointed);
    pointed = undefined;
  });
};
for (const sign of ["pointerover", "focusin"]) addEventListener(sign, firstPointed);
