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
// Acts where the address leads to what is meant, now or later.
const addressed = (isMeant, act) => {
  const look = () => {
    const target = targetOf(location);
    if (target && isMeant(target)) act();
  };
  addEventListener("hashchange", look);
  look();
};
for (const button of findAll("[data-live]")) {
  const start = (from) => window.pylit.live.open(button, from);
  const press = () => open(button, "live/panel.js", () => start());
  button.onclick = press;
  // A link to its section is as good as the button, also where a picture stands between them. Who comes near
  // finds it open.
  const heading = findAll("h2").findLast((one) => one.compareDocumentPosition(button) & Node.DOCUMENT_POSITION_FOLLOWING);
  addressed((target) => button.isConnected && (target === heading || button.closest(".s")?.contains(target)), press);
  new IntersectionObserver(([{ isIntersecting }]) => {
    if (isIntersecting && !navigator.connection?.saveData) load("live/panel.js").then(() => start("near")).catch(() => {});
  }, { rootMargin: "100%" }).observe(button);
}
const replay = find(".replay-start");
if (replay) {
  root.dataset.replay = "";
  addEventListener("click", ({ target }) => {
    const from = target.closest?.(".replay-start, .c samp");
    if (from) open(replay, "replay.js", () => window.pylit.replay(from));
  });
  // So does a link to the button.
  addressed((target) => target === replay, () => replay.click());
}
