// The panel: a step, the line that ran, where it was called from, and its tensors. A page may have several
// runs, the first of which is shown first. A reader goes from stop to stop, or through every line.
const PACES = { slow: [_("slow"), 2400], normal: [_("normal"), 1200], fast: [_("fast"), 500] };
const root = document.documentElement;
const starter = document.querySelector(".replay-start");
const runs = [];
let data;
let dock;
let now = 0;
let every = false;
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
// A line of the page, with its colours and without its links.
const codeOf = (line) => {
  const parts = [];
  for (let part = numberAt(line)?.nextSibling; part && !part.matches?.(".n, samp"); part = part.nextSibling)
    parts.push(part.tagName ? el("span", { className: part.className.replace(/\bx e?/, "") }, part.textContent) : part.data);
  if (typeof parts[0] === "string") parts[0] = parts[0].trimStart();
  if (typeof parts.at(-1) === "string") parts.push(parts.pop().trimEnd());
  return parts;
};
// The lines that called the function of a step, from outside in: each ends after what it called.
const callsOf = (step) => {
  const depth = data.steps[step].stack.length;
  const call = data.steps.findIndex(({ stack, event }, i) => i > step && stack.length < depth && event !== "call");
  return call < 0 ? [] : [...callsOf(call), call];
};

// The marked lines stand in the middle third between the bar and the panel, until the reader scrolls.
// Lines that are more than a screen away stay there: the panel shows them, below the line that called
// them, and a click on one leads to it. From then on the page also goes to where most stops are. Code
// that sticks moves while the page does, so we look again.
let follows = true;
let hasJoined = false;
const isMain = () => {
  const name = data.steps[now].stack.at(-1);
  const own = data.stops.map(({ step }) => data.steps[step]).filter(({ stack }) => stack.at(-1) === name);
  return new Set(own.map(({ line }) => line)).size > 1;
};
const reveal = (isAsked = false) => {
  const first = marked[0];
  if (!first || dock.hidden || !follows) return;
  const folded = first.closest("details");
  if (folded && isAsked) folded.open = true;
  for (let times = 0; times < 4; times++) {
    const { top, height } = first.getBoundingClientRect();
    const { bottom } = marked.at(-1).getBoundingClientRect();
    const high = document.querySelector(".bar").getBoundingClientRect().bottom + 8;
    const low = dock.getBoundingClientRect().top - 8;
    const isFar = !height || bottom < high - innerHeight || top > low + innerHeight;
    if (isFar && !isAsked && !(hasJoined && isMain())) return;
    hasJoined = true;
    const room = Math.max(low - high - (bottom - top), 0);
    if (top >= high + room / 3 - 1 && (top <= high + (2 * room) / 3 + 1 || !room)) return;
    scrollBy({ top: top - high - room / 2, behavior: "instant" });
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
  const height = values.length > 1 ? 132 : Math.min(innerWidth < 960 ? 156 : 198, Math.max(dock.clientHeight - 150, 72));
  const room = { width: place.clientWidth - 2 * padding - 4, height };
  const ran = list(last - line + 1, (i) => line + i);
  mark(ran);
  const counted = [now + 1, data.steps.length];
  part("input").value = now;
  part("input").setAttribute("aria-valuetext", _("step {0} of {1}", ...counted));
  part("header output").value = _("{0} of {1}", ...counted);
  part(".where").replaceChildren(...whereOf(data.steps[now]));
  const shown = [...callsOf(now).map((call) => [data.steps[call].line]), ran.slice(0, 3)];
  const held = part(".code").contains(document.activeElement);
  part(".code").replaceChildren(...shown.slice(-3).flatMap((lines, depth, all) => lines.map((number) =>
    button(el("span", {}, `${number}`), () => { follows = true; mark(ran.includes(number) ? ran : [number]); reveal(true) }, {
      className: `line${depth === all.length - 1 ? " ran" : ""}`, title: _("Show the line"), style: `--depth: ${depth}`,
    }))));
  for (const row of part(".code").children) row.append(...codeOf(row.textContent));
  if (held) part(".line.ran").focus({ preventScroll: true });
  const stop = data.stops.findIndex((one) => one.step === now);
  part(".note").innerHTML = data.stops[stop]?.note ?? "";
  part(".about").innerHTML = stop === 0 || !now ? data.text : "";
  part(".stops").querySelectorAll("button").forEach((one, i) => { one.ariaCurrent = i === stop ? "step" : null });
  // `scrollIntoView` would move the page as well.
  const [row, at] = [part(".stops"), part(".stops [aria-current]")].map((one) => one?.getBoundingClientRect());
  if (at && (at.left < row.left || at.right > row.right)) part(".stops").scrollLeft += at.left - row.left - row.width / 3;

  const { tensors, texts } = data;
  const blocks = values.map(([name, i]) => tensorBlock(name, tensors[i] ?? i, tensors[before[name]], texts, room));
  // First comes the tensor that was asked for, or that the stop is about.
  const told = [name, ...[...part(".note").querySelectorAll("code")].map((code) => code.textContent)];
  const wanted = blocks.find((block) => told.includes(block.dataset.name)) ?? blocks[0];
  const others = blocks.filter((block) => block !== wanted);
  place.replaceChildren(wanted ?? el("p", {}, _("This line makes no tensor.")), ...others);
  place.scrollTop = part(".content").scrollTop = 0;
  reveal();
  return wanted;
};
// To the next stop or line, or to the one before.
const turn = (by) => {
  pause();
  const steps = every ? data.steps.map((_, i) => i) : data.stops.map(({ step }) => step);
  const next = by > 0 ? steps.find((step) => step > now) : steps.findLast((step) => step < now);
  follows = true;
  if (next !== undefined) show(next);
};

const pause = () => {
  clearTimeout(playing);
  playing = undefined;
  dock.querySelector(".play").ariaPressed = "false";
};
const go = (step) => {
  pause();
  follows = true;
  show(step);
};
// Plays to the next stop, which wants to be read, or to the end.
const play = () => {
  if (playing) return pause();
  const end = data.steps.length - 1;
  if (now === end) show(0);
  follows = true;
  const next = () => {
    show(now + 1);
    if (now === end || data.stops.some(({ step }) => step === now)) return pause();
    // There is less to look at where a line made nothing.
    playing = setTimeout(next, PACES[dock.querySelector(".pace").value][1] / (data.steps[now].values.length ? 1 : 3));
  };
  playing = setTimeout(next, PACES.fast[1]);
  dock.querySelector(".play").ariaPressed = "true";
};
const shrink = () => {
  dock.querySelector(".shrink").ariaPressed = `${dock.classList.toggle("small")}`;
  show(now);
};
const close = () => {
  pause();
  hasJoined = false;
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
// A run of the page: its stops by name, its steps on the slider.
const choose = (run) => {
  pause();
  data = runs[run];
  every = every || !data.stops.length;
  const part = (selector) => dock.querySelector(selector);
  part(".track").replaceChildren(part(".track input"),
    ...data.stops.map(({ step }) => el("i", { style: `--at: ${step / Math.max(data.steps.length - 1, 1)}` })));
  part(".track input").max = data.steps.length - 1;
  part(".stops").replaceChildren(...data.stops.map(({ step, name }, i) => el("li", {}, button(name ?? `${i + 1}`, () => go(step)))));
  part(".every").hidden = !data.stops.length;
  dock.querySelectorAll(".runs button").forEach((one, i) => { one.ariaPressed = i === run });
  part("#replay-title").textContent = data.title;
  turnEvery(every);
};
const turnEvery = (on) => {
  every = on;
  dock.classList.toggle("lines", on);
  dock.querySelector(".every").ariaPressed = `${on}`;
};
const first = () => (every ? 0 : data.stops[0].step);

const OWN = "input, select, textarea, [contenteditable], .maps, .numbers, dialog, [popover]";
const keys = (event) => {
  if (dock.hidden || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && dock.contains(event.target)) return close();
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.target.closest?.(OWN)) return;
  event.preventDefault();
  turn(by);
};
const build = () => {
  const slider = el("input", { type: "range", min: 0, "aria-label": _("Step") });
  slider.oninput = () => go(slider.valueAsNumber);
  const paces = Object.entries(PACES).map(([value, [name]]) => el("option", { value, selected: value === "normal" }, name));
  const tabs = runs.length > 1 ? runs.map(({ title }, i) => button(title, () => { choose(i); show(first()) }, { title })) : [];
  dock = el("section", { id: "replay", "aria-labelledby": "replay-title", hidden: true },
    el("header", {},
      el("h2", { id: "replay-title", className: tabs.length ? "hidden" : "" }),
      el("div", { className: "runs", role: "group", "aria-label": _("Runs") }, ...tabs),
      el("div", { className: "transport" },
        tool(_("Previous step"), "M10 3 5 8l5 5", () => turn(-1), { "aria-keyshortcuts": "ArrowLeft" }),
        tool(_("Play to the next stop"), "M5 3.5v9l7-4.5z", play, { className: "play", "aria-pressed": "false" }),
        tool(_("Next step"), "m6 3 5 5-5 5", () => turn(1), { className: "next", "aria-keyshortcuts": "ArrowRight" }),
        el("ol", { className: "stops", "aria-label": _("Stops") }),
        el("div", { className: "track" }, slider),
        el("output"),
        el("select", { className: "pace", "aria-label": _("Speed") }, ...paces)),
      button(_("Every line"), () => { turnEvery(!every); show(now) }, { className: "every" }),
      tool(_("Small panel"), "m3 6 5 5 5-5", shrink, { className: "shrink", "aria-pressed": "false" }),
      tool(_("Close the replay"), "m4 4 8 8M12 4l-8 8", close)),
    el("div", { className: "content" },
      el("div", { className: "says" },
        el("div", { className: "note", "aria-live": "polite" }),
        el("div", { className: "place", "aria-live": "polite" }, el("p", { className: "where" })),
        el("div", { className: "code" }),
        el("div", { className: "about" })),
      el("div", { className: "tensors" })));
  dock.querySelector(".tensors").addEventListener("focusin", pause);
  addEventListener("keydown", keys);
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

// The chips of lines that ran become buttons, each for the first step that made its tensor, in the run
// that is shown or in the first that has one.
const chips = new Map();
const stepOf = (chip) => {
  let number = chip;
  while (!number.matches?.(".n")) number = number.previousSibling;
  const at = +number.id.slice(1);
  const name = chip.querySelector("b")?.textContent;
  const ran = ({ line, last = line, values }) => line <= at && at <= last && values.length;
  for (const run of [data, ...runs]) {
    const steps = run.steps.filter(ran);
    const found = steps.find(({ values }) => values.some(([one]) => one === name)) ?? steps[0];
    if (found) return { run: runs.indexOf(run), step: run.steps.indexOf(found), name };
  }
  return undefined;
};
const makeChips = () => {
  for (const chip of document.querySelectorAll(".c samp")) {
    if (!stepOf(chip)) continue;
    const face = chip.querySelector("i");
    Object.assign(face, { role: "button", tabIndex: 0, ariaLabel: _("Show {0}", chip.textContent) });
    chips.set(chip, face);
    face.onkeydown = (event) => {
      if (!["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      face.click();
    };
  }
};

const prepare = async () => {
  window.pylitReplay = (recorded) => { runs.push(recorded) };
  const sheet = el("link", { rel: "stylesheet", href: new URL("assets/replay.css", site) });
  const styled = new Promise((onload, onerror) => Object.assign(sheet, { onload, onerror }));
  document.head.append(sheet);
  await Promise.all([styled, load(new URL(starter.dataset.replay, document.baseURI).href)]);
  build();
  choose(0);
  makeChips();
};
let ready;

// The page's script calls this when the button or a chip is clicked.
window.pylit.replay = async (from) => {
  await (ready ??= prepare());
  const face = chips.get(from);
  if (!face && from !== starter && !dock.hidden) return;
  opener = face ?? starter;
  dock.hidden = false;
  root.classList.add("replaying");
  readInks(dock);
  follows = true;
  const found = face && stepOf(from);
  if (found && runs[found.run] !== data) choose(found.run);
  const block = show(found?.step ?? first(), found?.name);
  const focused = found && block?.querySelector(".maps, .numbers");
  (focused ?? dock.querySelector(".next")).focus({ preventScroll: true });
};
