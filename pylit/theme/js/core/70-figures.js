// What a reader may do with a figure is loaded when one reaches for it, or for one with steps, comes near.
for (const form of findAll("[data-stage]")) {
  const figure = form.closest("figure");
  const ready = () => load("figures.js").then(() => window.pylit.stage(form));
  let begun;
  const once = () => { begun ??= ready().catch(() => {}) };
  for (const sign of onPoint) figure.addEventListener(sign, once, { once: true });
  if (!figure.querySelector(".steps")) continue;
  new IntersectionObserver(([{ isIntersecting }], observer) => {
    if (!isIntersecting) return;
    observer.disconnect();
    once();
  }, { rootMargin: "50%" }).observe(figure);
}
// A model that runs in the page is loaded when a reader presses its button, and so is a replay of the code: by
// its button or by the shape of a tensor.
const open = (button, script, start) => load(script).then(start).catch(() => {
  button.outerHTML = `<p role="alert">${_("This did not load. Reload the page to try again.")}</p>`;
  find("[role=alert]").scrollIntoView({ block: "nearest" });
});
for (const button of findAll("[data-live]")) {
  button.onclick = () => open(button, "live/panel.js", () => window.pylit.live.open(button));
}
const replay = find(".replay-start");
if (replay) {
  root.dataset.replay = "";
  addEventListener("click", ({ target }) => {
    const from = target.closest?.(".replay-start, .c samp");
    if (from) open(replay, "replay.js", () => window.pylit.replay(from));
  });
}
