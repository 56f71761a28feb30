// The panel: a step, the line that ran, where it was called from, and its tensors.
const PACES = { slow: 2400, normal: 1200, fast: 500 };
const root = document.documentElement;
let dock;
let data;
let now = 0;
let opener;
let marked = [];
let playing;

const icon = (path) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  svg.firstChild.setAttribute("d", path);
  return svg;
};
const tool = (name, path, onclick, properties) =>
  button(icon(path), onclick, { "aria-label": name, title: name, ...properties });

// “attend, called by forward”: with their classes where those differ.
const whereText = ({ event, stack, loop }) => {
  const paths = stack.toReversed().map((name) => name.split("."));
  const isOne = new Set(paths.map(([owner]) => owner)).size === 1;
  const [inner, outer, ...others] = paths.map((path) => path.slice(isOne ? -1 : -2).join("."));
  const first = {
    call: outer ? `${outer} calls ${inner}` : `${inner} is called`,
    line: outer ? `${inner}, called by ${outer}` : inner,
    return: outer ? `${inner} returns to ${outer}` : `${inner} returns`,
  }[event];
  const turns = loop.map(([target, turn, all]) => `loop over ${target}, ${turn}${all ? ` of ${all}` : ""}`);
  return [first, ...others.map((name) => `called by ${name}`), ...turns].join(", ");
};

const codeOf = (line) => {
  let text = "";
  for (let at = document.getElementById(`L${line}`)?.nextSibling; at && !at.matches?.(".n, samp"); at = at.nextSibling) text += at.textContent;
  return text.trim();
};

// The line that ran stands between the bar and the panel. Code that sticks moves while the page does,
// so we look again.
const reveal = () => {
  const first = marked[0];
  if (!first || dock.hidden) return;
  const folded = first.closest("details");
  if (folded) folded.open = true;
  for (let times = 0; times < 4; times++) {
    const { top } = first.getBoundingClientRect();
    const { bottom } = marked.at(-1).getBoundingClientRect();
    const high = document.querySelector(".bar").getBoundingClientRect().bottom + 8;
    const low = dock.getBoundingClientRect().top - 8;
    if (top >= high && (bottom <= low || top < high + 8)) break;
    const room = Math.max(low - high - (bottom - top), 0);
    scrollBy({ top: top - high - room * 0.4, behavior: "instant" });
  }
};

const mark = ({ line, last = line }) => {
  for (const number of marked) {
    number.classList.remove("now");
    number.removeAttribute("aria-current");
  }
  marked = [];
  for (let i = line; i <= last; i++) marked.push(...[document.getElementById(`L${i}`)].filter(Boolean));
  for (const number of marked) number.classList.add("now");
  marked[0]?.setAttribute("aria-current", "step");
};

const show = (step, name) => {
  now = Math.min(Math.max(step, 0), data.steps.length - 1);
  const { line, values, before = {} } = data.steps[now];
  const part = (selector) => dock.querySelector(selector);
  mark(data.steps[now]);
  part("input").value = now;
  part("output").value = `${now + 1} of ${data.steps.length}`;
  part("input").setAttribute("aria-valuetext", `step ${part("output").value}`);
  part(".where").textContent = whereText(data.steps[now]);
  part(".line").replaceChildren(el("span", {}, `${line}`), codeOf(line));
  const stop = data.stops.findIndex((one) => one.step === now);
  part(".note").innerHTML = data.stops[stop]?.note ?? (now ? "" : data.text);
  part(".stops").querySelectorAll("button").forEach((one, i) => one.setAttribute("aria-current", i === stop ? "step" : "false"));

  const place = part(".tensors");
  readInks(place);
  const room = { width: place.clientWidth - 72, height: values.length > 1 ? 132 : 198 };
  const blocks = values.map(([name, index]) => tensorBlock(name, data.tensors[index], data.tensors[before[name]], data.texts, room));
  place.replaceChildren(...(blocks.length ? blocks : [el("p", {}, "This line makes no tensor.")]));
  place.scrollTop = 0;
  const wanted = name && blocks.find((block) => block.dataset.name === name);
  wanted?.scrollIntoView({ block: "nearest" });
  reveal();
  return wanted ?? blocks[0];
};

const pause = () => {
  clearTimeout(playing);
  playing = undefined;
  dock.querySelector(".play").setAttribute("aria-pressed", "false");
};
const go = (step) => { pause(); show(step) };
// It plays to the next stop, which wants to be read, or to the end.
const play = () => {
  if (playing) return pause();
  if (now === data.steps.length - 1) show(0);
  const turn = () => {
    show(now + 1);
    if (now === data.steps.length - 1 || data.stops.some(({ step }) => step === now)) return pause();
    playing = setTimeout(turn, PACES[dock.querySelector(".pace").value]);
  };
  playing = setTimeout(turn, 200);
  dock.querySelector(".play").setAttribute("aria-pressed", "true");
};

const shrink = () => {
  const small = dock.classList.toggle("small");
  dock.querySelector(".shrink").setAttribute("aria-expanded", `${!small}`);
};
const close = () => {
  pause();
  dock.hidden = true;
  root.classList.remove("replaying");
  mark({ line: 0 });
  (opener?.isConnected ? opener : document.querySelector(".replay-start")).focus();
};

const build = () => {
  const slider = el("input", { type: "range", min: 0, max: data.steps.length - 1, "aria-label": "Step", oninput: () => go(slider.valueAsNumber) });
  const stops = data.stops.map(({ step }, i) => el("li", {}, button(`${i + 1}`, () => go(step), { "aria-label": `Stop ${i + 1}, step ${step + 1}` })));
  dock = el("section", { id: "replay", "aria-labelledby": "replay-title", hidden: true },
    el("header", {},
      el("h2", { id: "replay-title" }, data.title),
      el("div", { className: "transport" },
        tool("Previous step", "M10 3 5 8l5 5", () => go(now - 1), { "aria-keyshortcuts": "ArrowLeft" }),
        tool("Play to the next stop", "M5 3.5v9l7-4.5z", play, { className: "play", "aria-pressed": "false" }),
        tool("Next step", "m6 3 5 5-5 5", () => go(now + 1), { className: "next", "aria-keyshortcuts": "ArrowRight" }),
        slider,
        el("output", {}, ""),
        el("select", { className: "pace", "aria-label": "Speed" }, ...Object.keys(PACES).map((pace) => el("option", { selected: pace === "normal" }, pace)))),
      el("div", { className: "window" },
        tool("Small panel", "M3 6l5 5 5-5", shrink, { className: "shrink", "aria-expanded": "true" }),
        tool("Close the replay", "m4 4 8 8M12 4l-8 8", close))),
    el("div", { className: "content" },
      el("div", { className: "says" },
        el("div", { className: "at", "aria-live": "polite" },
          el("p", { className: "where" }),
          button("", reveal, { className: "line", title: "Show the line" })),
        el("ol", { className: "stops", "aria-label": "Stops" }, ...stops),
        el("div", { className: "note", "aria-live": "polite" })),
      el("div", { className: "tensors" })));
  dock.querySelector(".tensors").addEventListener("focusin", pause);
  dock.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.target.closest("input, select, .maps, .numbers") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(now + by);
  });
  document.body.append(dock);
  new ResizeObserver(() => {
    root.style.setProperty("--dock", `${dock.offsetHeight}px`);
    reveal();
  }).observe(dock);
  const redraw = () => { if (!dock.hidden) show(now) };
  addEventListener("resize", redraw);
  new MutationObserver(redraw).observe(root, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
};

// Chips of lines that ran become buttons.
const chips = new Map();
const nameChips = () => {
  for (const chip of document.querySelectorAll(".c samp")) {
    let number = chip;
    while (!number.matches?.(".n")) number = number.previousSibling;
    const at = +number.id.slice(1);
    const steps = [...data.steps.entries()].filter(([, { line, last = line, values }]) => line <= at && at <= last && values.length);
    if (!steps.length) continue;
    const name = chip.querySelector("b")?.textContent;
    const [index] = steps.find(([, { values }]) => values.some(([one]) => one === name)) ?? steps[0];
    chips.set(chip, [index, name]);
    const key = chip.querySelector("i");
    Object.assign(key, { role: "button", tabIndex: 0 });
    key.setAttribute("aria-label", `Show ${chip.textContent}`);
    key.onkeydown = (event) => {
      if (!["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      key.click();
    };
  }
};

window.pylitReplay = (recorded) => { data = recorded };
window.pylit.replay = async (from) => {
  if (!dock) {
    const sheet = el("link", { rel: "stylesheet", href: new URL("assets/replay.css", window.pylit.site) });
    const styled = new Promise((onload, onerror) => Object.assign(sheet, { onload, onerror }));
    document.head.append(sheet);
    await window.pylit.load(new URL(document.querySelector(".replay-start").dataset.replay, document.baseURI).href);
    await styled;
    build();
    nameChips();
  }
  const chip = from.closest("samp");
  const [step, name] = chips.get(chip) ?? [0];
  if (chip && !chips.has(chip) && !dock.hidden) return;
  opener = chip?.querySelector("[role=button]") ?? document.querySelector(".replay-start");
  dock.hidden = false;
  root.classList.add("replaying");
  const block = show(step, name);
  const focused = chip && block?.querySelector(".maps, .numbers");
  (focused ?? dock.querySelector(".next")).focus({ preventScroll: true });
};
