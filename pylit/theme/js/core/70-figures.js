// Knobs of a figure: what they do is loaded when a reader reaches for one.
for (const form of findAll("[data-demo]")) {
  const ready = () => load("figures.js").then(() => window.pylit.knobs(form));
  for (const sign of ["pointerover", "focusin"]) form.addEventListener(sign, ready, { once: true });
}
// A model that runs in the page is loaded when a reader presses its button.
for (const one of findAll("[data-live]"))
  one.onclick = () => load("live/panel.js").then(
    () => window.pylit.live.open(one),
    () => { one.outerHTML = '<p role="alert">The model did not load. Reload the page to try again.</p>'; },
  );
// So is a replay of the code, by its button or by the shape of a tensor.
const replay = find(".replay-start");
if (replay) {
  root.dataset.replay = "";
  addEventListener("click", ({ target }) => {
    const from = target.closest?.(".replay-start, .c samp");
    if (from) load("replay.js").then(() => window.pylit.replay(from)).catch(() => {
      replay.outerHTML = '<p role="alert">The replay did not load. Reload the page to try again.</p>';
      find("[role=alert]").scrollIntoView({ block: "nearest" });
    });
  });
}
