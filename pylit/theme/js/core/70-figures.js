// Knobs of a figure: what they do is loaded when a reader reaches for one.
for (const form of findAll("[data-demo]")) {
  const ready = () => load("figures.js").then(() => window.pylit.knobs(form));
  for (const sign of ["pointerover", "focusin"]) form.addEventListener(sign, ready, { once: true });
}
