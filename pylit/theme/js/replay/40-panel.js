// The panel: a step, the line that ran, where it was called from, and its tensors.
const HINT = _("Each step is a line of code that ran, and what it made. Go on with the arrow keys, or to a stop with a note.");
const PACES = { slow: [_("slow"), 2400], normal: [_("normal"), 1200], fast: [_("fast"), 500] };
const root = document.documentElement;
const starter = document.querySelector(".replay-start");
let data;
let dock;
let now = 0;
let marked = [];
let opener = starter;
let playing;

// “attend, called by forward”: with their classes where those differ. Then the loops, “t: iteration 3 of 8”.
const whereOf = ({ event, stack, loop }) => {
  const paths = stack.toReversed().map((name) => name.split("."));
  const isOne = new Set(paths.map(([owner]) => owner)).size === 1;
  const [inner, outer, ...others] = paths.map((path) => path.slice(isOne ? -1 : -2).join("."));
  const first = {
    call: outer ? _("{0} calls {1}", outer, inner) : _("{0} is called", inner),
    line: outer ? _("{0}, called by {1}", inner, outer) : inner,
    return: outer ? _("{0} returns to {1}", inner, outer) : _("{0} returns", inner),
    yield: _("{0} yields", inner),
  }[event];
  const iteration = ([target, turn, turns]) =>
    turns ? _("{0}: iteration {1} of {2}", target, turn, turns) : _("{0}: iteration {1}", target, turn);
  const turns = loop.map((one) => el("b", {}, iteration(one)));
  return [joined([first, ...others.map((name) => _("called by {0}", name))]), ...turns];
};

const numberAt = (line) => document.getElementById(`L${line}`);
const codeOf = (line) => {
  let text = "";
  for (let part = numberAt(line)?.nextSibling; part && !part.matches?.(".n, samp"); part = part.nextSibling)
    text += part.textContent;
  return text.trim();
};

// The marked lines stand between the bar and the panel, until the reader scrolls. Code that sticks
// moves while the page does, so we look again.
let follows = true;
const reveal = () => {
  const first = marked[0];
  if (!first || dock.hidden || !follows) return;
  const folded = first.closest("details");
  if (folded) folded.open = true;
  for (let times = 0; times < 4; times++) {
    const { top } = first.getBoundingClientRect();
    const { bottom } = marked.at(-1).getBoundingClientRect();
    const high = document.querySelector(".bar").getBoundingClientRect().bottom + 8;
    const low = dock.getBoundingClientRect().top - 8;
    if (top >= high && (bottom <= low || top < high + 8)) return;
    const room = Math.max(low - high - (bottom - top), 0);
    scrollBy({ top: top - high - room * 0.4, behavior: "instant" });
  }
};
const mark = (lines) => {
  for (const number of marked) {
    number.classList.remove("now");
    number.removeAttribute("aria-current");
  }
  marked = lines.map(numberAt).filter(Boolean);
  for (const number of marked) number.classList.add("now");
  marked[0]?.setAttribute("aria-current", "step");
};

// Returns the block of the tensor with a name, or the first.
const show = (step, name) => {
  now = within(step, data.steps.length);
  const { line, last = line, values, before = {} } = data.steps[now];
  const part = (selector) => dock.querySelector(selector);
  const place = part(".tensors");
  // Measured before anything changes, so that the page is laid out once.
  const padding = parseFloat(getComputedStyle(place).paddingLeft);
  const height = values.length > 1 ? 132 : innerWidth < 960 ? 156 : 198;
  const room = { width: place.clientWidth - 2 * padding - 4, height };
  mark(list(last - line + 1, (i) => line + i));
  const counted = [now + 1, data.steps.length];
  part("input").value = now;
  part("input").setAttribute("aria-valuetext", _("step {0} of {1}", ...counted));
  part("header output").value = _("{0} of {1}", ...counted);
  part(".where").replaceChildren(...whereOf(data.steps[now]));
  part(".line").replaceChildren(el("span", {}, `${line}`), codeOf(line));
  const stop = data.stops.findIndex((one) => one.step === now);
  part(".note").innerHTML = data.stops[stop]?.note ?? (now ? "" : data.text);
  part(".hint").hidden = now > 0;
  part(".stops").querySelectorAll("button").forEach((one, i) => { one.ariaCurrent = i === stop ? "step" : null });

  const { tensors, texts } = data;
  const blocks = values.map(([name, i]) => tensorBlock(name, tensors[i] ?? i, tensors[before[name]], texts, room));
  // First comes the tensor that was asked for, or that the stop is about.
  const told = [name, ...[...part(".note").querySelectorAll("code")].map((code) => code.textContent)];
  const wanted = blocks.find((block) => told.includes(block.dataset.name)) ?? blocks[0];
  const others = blocks.filter((block) => block !== wanted);
  place.replaceChildren(wanted ?? el("p", {}, _("This line makes no tensor.")), ...others);
  place.scrollTop = part(".content").scrollTop = 0;
  follows = true;
  reveal();
  return wanted;
};

const pause = () => {
  clearTimeout(playing);
  playing = undefined;
  dock.querySelector(".play").ariaPressed = "false";
};
const go = (step) => {
  pause();
  show(step);
};
// Plays to the next stop, which wants to be read, or to the end.
const play = () => {
  if (playing) return pause();
  const end = data.steps.length - 1;
  if (now === end) show(0);
  const turn = () => {
    show(now + 1);
    if (now === end || data.stops.some(({ step }) => step === now)) return pause();
    // There is less to look at where a line made nothing.
    playing = setTimeout(turn, PACES[dock.querySelector(".pace").value][1] / (data.steps[now].values.length ? 1 : 3));
  };
  playing = setTimeout(turn, PACES.fast[1]);
  dock.querySelector(".play").ariaPressed = "true";
};
const shrink = () => {
  dock.querySelector(".shrink").ariaPressed = `${dock.classList.toggle("small")}`;
  show(now);
};
const close = () => {
  pause();
  dock.hidden = true;
  root.classList.remove("replaying");
  mark([]);
  (opener.checkVisibility() ? opener : starter).focus();
};

const tool = (name, path, onclick, properties) => {
  const made = button("", onclick, { "aria-label": name, title: name, ...properties });
  made.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${path}"/></svg>`;
  return made;
};
const build = () => {
  const slider = el("input", { type: "range", min: 0, max: data.steps.length - 1, "aria-label": _("Step") });
  slider.oninput = () => go(slider.valueAsNumber);
  const marks = data.stops.map(({ step }) => el("i", { style: `--at: ${step / Math.max(data.steps.length - 1, 1)}` }));
  const paces = Object.entries(PACES).map(([value, [name]]) => el("option", { value, selected: value === "normal" }, name));
  const stops = data.stops.map(({ step }, i) =>
    el("li", {}, button(`${i + 1}`, () => go(step), { "aria-label": _("Stop {0}, step {1}", i + 1, step + 1) })));
  dock = el("section", { id: "replay", "aria-labelledby": "replay-title", hidden: true },
    el("header", {},
      el("h2", { id: "replay-title" }, data.title),
      el("div", { className: "transport" },
        tool(_("Previous step"), "M10 3 5 8l5 5", () => go(now - 1), { "aria-keyshortcuts": "ArrowLeft" }),
        tool(_("Play to the next stop"), "M5 3.5v9l7-4.5z", play, { className: "play", "aria-pressed": "false" }),
        tool(_("Next step"), "m6 3 5 5-5 5", () => go(now + 1), { className: "next", "aria-keyshortcuts": "ArrowRight" }),
        el("div", { className: "track" }, slider, ...marks),
        el("output"),
        el("select", { className: "pace", "aria-label": _("Speed") }, ...paces)),
      tool(_("Small panel"), "m3 6 5 5 5-5", shrink, { className: "shrink", "aria-pressed": "false" }),
      tool(_("Close the replay"), "m4 4 8 8M12 4l-8 8", close)),
    el("div", { className: "content" },
      el("div", { className: "says" },
        el("div", { className: "place", "aria-live": "polite" },
          el("p", { className: "where" }),
          button("", () => show(now), { className: "line", title: _("Show the line") })),
        el("div", { className: "stops" }, _("Stops"), el("ol", { "aria-label": _("Stops") }, ...stops)),
        el("div", { className: "note", "aria-live": "polite" }),
        el("p", { className: "hint" }, HINT)),
      el("div", { className: "tensors" })));
  dock.querySelector(".tensors").addEventListener("focusin", pause);
  dock.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const isOwn = event.target.closest("input, select, .maps, .numbers");
    if (!by || isOwn || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(now + by);
  });
  document.body.append(dock);
  // Sections far away get their heights later, and then the line moves.
  const sizes = new ResizeObserver(() => {
    root.style.setProperty("--dock", `${dock.offsetHeight}px`);
    reveal();
  });
  for (const one of [dock, document.body]) sizes.observe(one);
  for (const sign of ["wheel", "touchmove", "pointerdown", "keydown"])
    addEventListener(sign, ({ target }) => { follows &&= dock.contains(target) }, { passive: true });
  // Drawings have the size of the window and the colours of the theme.
  const redraw = () => {
    if (dock.hidden) return;
    readInks(dock);
    show(now);
  };
  addEventListener("resize", redraw);
  new MutationObserver(redraw).observe(root, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
};

// The chips of lines that ran become buttons, each for the first step that made its tensor.
const chips = new Map();
const makeChips = () => {
  for (const chip of document.querySelectorAll(".c samp")) {
    let number = chip;
    while (!number.matches?.(".n")) number = number.previousSibling;
    const at = +number.id.slice(1);
    const ran = ({ line, last = line, values }) => line <= at && at <= last && values.length;
    const steps = data.steps.filter(ran);
    if (!steps.length) continue;
    const name = chip.querySelector("b")?.textContent;
    const step = steps.find(({ values }) => values.some(([one]) => one === name)) ?? steps[0];
    const face = chip.querySelector("i");
    Object.assign(face, { role: "button", tabIndex: 0, ariaLabel: _("Show {0}", chip.textContent) });
    chips.set(chip, { step: data.steps.indexOf(step), name, face });
    face.onkeydown = (event) => {
      if (!["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      face.click();
    };
  }
};

const prepare = async () => {
  window.pylitReplay = (recorded) => { data = recorded };
  const sheet = el("link", { rel: "stylesheet", href: new URL("assets/replay.css", site) });
  const styled = new Promise((onload, onerror) => Object.assign(sheet, { onload, onerror }));
  document.head.append(sheet);
  await Promise.all([styled, load(new URL(starter.dataset.replay, document.baseURI).href)]);
  build();
  makeChips();
};
let ready;

// The page's script calls this when the button or a chip is clicked.
window.pylit.replay = async (from) => {
  await (ready ??= prepare());
  const chip = chips.get(from);
  if (!chip && from !== starter && !dock.hidden) return;
  opener = chip?.face ?? starter;
  dock.hidden = false;
  root.classList.add("replaying");
  readInks(dock);
  const block = show(chip?.step ?? 0, chip?.name);
  const focused = chip && block?.querySelector(".maps, .numbers");
  (focused ?? dock.querySelector(".next")).focus({ preventScroll: true });
};
