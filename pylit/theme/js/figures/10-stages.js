// Figures that a reader steps through and changes. Each of the functions in `stages` gets the data that the
// figure was drawn from, the values of its knobs, a way to find elements by their `data-p`, and the step,
// from 0: on the way from one step to the next it is a fraction. It draws, and says in words what there is
// to see.
const { _ } = window.pylit;
const stages = {};
// A large number, as the language of the page writes it.
const grouped = (number) => number.toLocaleString(document.documentElement.lang);
const short = (number) => `${Math.round(number * 10) / 10}`;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const beside = matchMedia("(min-width: 60rem)");
const DURATION = 350;

window.pylit.stage = (form) => {
  const figure = form.closest("figure");
  const data = JSON.parse(form.querySelector("script").textContent);
  const output = form.querySelector("output");
  const all = (selector) => [...figure.querySelectorAll(selector)];
  const parts = (name) => all(`[data-p="${name}"]`);
  const inputs = all("input");
  const steps = all(".steps button");
  const panels = all(".by-step > svg");
  // Where the drawing is, and the step to which it goes.
  let at = 0;
  let step = 0;

  const draw = () => {
    const values = {};
    for (const input of inputs) {
      if (input.type === "radio") {
        if (input.checked) values[input.name] = Number(input.value);
        continue;
      }
      values[input.name] = input.valueAsNumber;
      input.closest("p").querySelector("b").textContent = input.value.replace("-", "\u2212");
    }
    const said = stages[form.dataset.stage](data, values, parts, at);
    // What has not changed is not said again.
    if (at === step && output.value !== said) output.value = said;
  };

  // A token may have values for sliders; moved by hand, they may be those of another token or of none.
  const presets = inputs.filter((input) => input.dataset.sets).map((input) => [input, JSON.parse(input.dataset.sets)]);
  const slider = (name) => inputs.find((input) => input.name === name);
  form.oninput = ({ target }) => {
    const chosen = presets.find(([input]) => input === target);
    for (const [name, value] of Object.entries(chosen?.[1] ?? {})) slider(name).value = value;
    if (!chosen) {
      for (const [input, sets] of presets) {
        input.checked = Object.entries(sets).every(([name, value]) => slider(name).valueAsNumber === value);
      }
    }
    draw();
  };

  for (const part of all(".grab")) {
    const { x, y, unit } = part.dataset;
    let from;
    part.onpointerdown = ({ clientX, clientY, pointerId }) => {
      const scale = part.ownerSVGElement.viewBox.baseVal.width / part.ownerSVGElement.clientWidth / unit;
      from = [[x, clientX, scale], [y, clientY, -scale]].filter(([name]) => name)
        .map(([name, start, each]) => [slider(name), slider(name).valueAsNumber, start, each]);
      part.setPointerCapture(pointerId);
    };
    part.onpointermove = ({ clientX, clientY }) => {
      from?.forEach(([input, value, start, each]) => {
        input.value = value + ((each > 0 ? clientX : clientY) - start) * each;
        form.oninput({ target: input });
      });
    };
    part.onpointerup = part.onpointercancel = () => (from = undefined);
  }

  // The step is chosen with a button or an arrow key, or it is that of the paragraph in sight.
  const paragraphs = [...figure.closest(".s")?.querySelectorAll(":scope > .d > ol > li") ?? []];
  let moving;
  const go = (to) => {
    step = to;
    for (const [marked, name] of [[panels, "at"], [paragraphs, "at"]]) {
      marked.forEach((one, i) => one.classList.toggle(name, i === step));
    }
    steps.forEach((button, i) => (button.ariaPressed = `${i === step}`));
    cancelAnimationFrame(moving);
    const [from, began] = [at, performance.now()];
    const move = (now) => {
      const part = calm.matches ? 1 : Math.min(Math.max(now - began, 0) / DURATION, 1);
      at = part < 1 ? from + (step - from) * part * part * (3 - 2 * part) : step;
      draw();
      if (part < 1) moving = requestAnimationFrame(move);
    };
    if (from === step) draw();
    else move(began);
  };
  if (steps.length) {
    steps.forEach((button, i) => (button.onclick = () => go(i)));
    addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const { top, bottom } = figure.getBoundingClientRect();
      const taken = event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey
        || event.target.closest?.("input, textarea, select, dialog, pre, [tabindex=\"0\"], [contenteditable]:not(main)");
      if (!by || taken || bottom < innerHeight * 0.2 || top > innerHeight * 0.8) return;
      event.preventDefault();
      go(Math.min(Math.max(step + by, 0), steps.length - 1));
    });
    // Where the figure stands below its paragraphs, it waits at the first step.
    let seen = 0;
    const follow = () => {
      if (!beside.matches || !paragraphs.length) return;
      const line = innerHeight * 0.5;
      const now = Math.max(paragraphs.findLastIndex((one) => one.getBoundingClientRect().top < line), 0);
      if (now !== seen) go(Math.min((seen = now), steps.length - 1));
    };
    for (const sign of ["scroll", "resize"]) addEventListener(sign, follow, { passive: true });
    go(0);
    follow();
  } else draw();
};
