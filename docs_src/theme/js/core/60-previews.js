// The first link in code that a reader points at loads the script that shows previews.
const firstPointed = (event) => {
  const link = event.target.closest?.("a.x");
  if (!link || event.pointerType === "touch") return;
  for (const sign of ["pointerover", "focusin"]) removeEventListener(sign, firstPointed);
  load("previews.js").then(() => window.pylit.preview(event));
};
for (const sign of ["pointerover", "focusin"]) addEventListener(sign, firstPointed);
