// The block of a tensor: its name, its range, what changed, and its maps or its numbers. What the
// reader chose for one tensor holds for the next.
const chosen = { numbers: false, sum: undefined };
const MOST_CELLS = 2000;
const MOVES = {
  ArrowUp: [0, -1, 0], ArrowDown: [0, 1, 0], ArrowLeft: [0, 0, -1], ArrowRight: [0, 0, 1], PageUp: [-1, 0, 0], PageDown: [1, 0, 0],
};

const button = (content, onclick, properties = {}) => el("button", { type: "button", onclick, ...properties }, content);
const within = (i, size) => Math.min(Math.max(i, 0), size - 1);

// Two axes may have one letter, so they are told apart by their number, as `dim` has it.
const axisName = ({ letter, at }) => `axis ${at}${letter && `: ${letter}`}`;
const drawAll = () => document.querySelectorAll("#replay .tensor").forEach((block) => block.draw?.());

const legend = (tensor, most) => {
  const { kind, low, high } = tensor;
  const swatch = (background, text) => el("span", {}, el("i", { style: `background: ${background}` }), text);
  if (kind === "int") return [];
  if (kind === "bool") return [1, 0].map((value) => swatch(css(colorOf(tensor, value)), valueText(tensor, value)));
  const stops = list(25, (i) => css(colorOf(tensor, low + ((high - low) * i) / 24, most)));
  const range = el("span", { className: "range" }, valueText(tensor, low),
    el("i", { style: `background: linear-gradient(to right, ${stops})` }), valueText(tensor, high));
  const infinite = INFINITE.filter((value) => valuesOf(tensor).some((other) => Object.is(other, value)));
  const names = ["rising", "falling", "crossed"];
  return [...(low === undefined ? [] : [range]),
    ...infinite.map((value) => swatch(`var(--${names[INFINITE.indexOf(value)]})`, numberText(value)))];
};

// One map as a table. Of a large one there are the rows around the chosen cell.
const numberTable = (view, name, { m, r }, summed) => {
  const { rows, columns, tensor } = view;
  const most = Math.max(1, Math.floor(MOST_CELLS / columns.size));
  const start = Math.floor(r / most) * most;
  const end = Math.min(start + most, rows.size);
  const head = (scope, text) => el("th", { scope }, text);
  const sums = (axis, ...place) => (summed === axis ? [el("td", {}, sumText(view, sumOver(axis, view, m, ...place), axis.size))] : []);
  const line = (at) => el("tr", {}, head("row", labelOf(rows, at)),
    ...list(columns.size, (c) => el("td", {}, valueText(tensor, view.at(m, at, c)))), ...sums(columns, at, 0));
  const lines = list(end - start, (i) => line(start + i));
  if (summed === rows) lines.push(el("tr", {}, head("row", "sum"), ...list(columns.size, (c) => sums(rows, 0, c)[0])));
  const heads = list(columns.size, (c) => head("col", labelOf(columns, c)));
  if (summed === columns) heads.push(head("col", "sum"));
  const title = [name, view.title(m)].filter(Boolean).join(", ");
  const part = end - start < rows.size ? `, rows ${start} to ${end - 1} of ${rows.size}` : "";
  return el("div", { className: "numbers", tabIndex: 0, role: "group", "aria-label": `Numbers of ${name}` },
    el("table", {}, el("caption", {}, title + part),
      el("thead", {}, el("tr", {}, el("td"), ...heads)), el("tbody", {}, ...lines)));
};

const tensorBlock = (name, tensor, before, texts, room) => {
  const title = el("h3", {}, el("b", {}, name));
  const block = el("section", { className: "tensor", "data-name": name }, title);
  if (tensor) title.append(` [${tensor.shape.map((size, i) => tensor.axes[i] || size).join(", ")}]`, el("small", {}, tensor.shape.join(" × ")));
  if (!tensor || tensor.shape.includes(0)) {
    block.append(el("p", {}, tensor ? "It has no elements yet." : "With more than 60,000 elements it is too large to show."));
    return block;
  }

  const [scale, tools, readout, body] = ["legend", "tools", "read", "body"].map((className) => el(className === "read" ? "output" : "div", { className }));
  const changed = changesOf(tensor, before);
  const most = Math.max(...[tensor, before ?? tensor].flatMap(({ low = 0, high = 0 }) => [-low, high]));
  let view = arrange(tensor, texts);
  let summed;
  let cell = { m: 0, r: 0, c: 0 };

  const read = () => {
    const { m, r, c } = cell;
    const index = view.indexOf(m, r, c);
    const indices = view.all.map(({ size, stride }) => Math.floor(index / stride) % size);
    const words = [view.title(m), ...[[view.rows, r], [view.columns, c]].map(([axis, i]) => (axis.size > 1 ? placeText(axis, i) : ""))];
    if (changed?.has(index) && view.tensor === tensor) words.push(`was ${valueText(before, valuesOf(before)[index])}`);
    if (summed) words.push(`sum over axis ${summed.at}: ${sumText(view, sumOver(summed, view, m, r, c), summed.size)}`);
    const value = valueText(view.tensor, view.at(m, r, c));
    readout.replaceChildren(el("b", {}, `${name}${indices.length ? `[${indices.join(", ")}]` : ""} = ${value}`), ` ${words.filter(Boolean).join(", ")}`);
  };
  const select = (m, r, c) => {
    cell = { m, r, c };
    const figure = body.querySelectorAll("figure")[m];
    body.querySelectorAll(".on").forEach((one) => one.classList.remove("on"));
    figure.querySelector(".cells").classList.add("on");
    figure.querySelector(".rows").children[r].classList.add("on");
    figure.querySelector(".columns").children[c].classList.add("on");
    body.classList.add("chosen");
    body.style.setProperty("--r", r);
    body.style.setProperty("--c", c);
    read();
    return figure;
  };

  const maps = () => {
    const count = view.count + view.over.includes(summed);
    const look = { ...sizeOf(view, count, room, summed === view.columns ? 72 : 36), most };
    const few = changed && view.tensor === tensor && changed.size <= valuesOf(tensor).length / 2;
    const drawn = list(view.count, (m) => drawMap(view, m, { ...look, isChanged: few && ((index) => changed.has(index)) || undefined }, summed));
    if (view.over.includes(summed)) {
      const all = total(summed, view);
      const sums = list(view.rows.size, (r) => list(view.columns.size, (c) => Math.abs(all.at(0, r, c)))).flat();
      drawn.push(drawMap(all, 0, { ...look, most: Math.max(...sums.filter(Number.isFinite), 0) }));
    }
    const keys = `arrow keys move from value to value${view.count > 1 ? ", Page Up and Page Down from map to map" : ""}`;
    const strip = el("div", { className: "maps", tabIndex: 0, role: "application", "aria-roledescription": "heat map", "aria-label": `${name}: ${keys}` }, ...drawn);
    strip.onfocus = () => select(cell.m, cell.r, cell.c);
    strip.onkeydown = (event) => {
      const move = MOVES[event.key];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const sizes = [view.count, view.rows.size, view.columns.size];
      const [m, r, c] = [cell.m, cell.r, cell.c].map((i, axis) => within(i + move[axis], sizes[axis]));
      select(m, r, c).scrollIntoView({ block: "nearest", inline: "nearest" });
    };
    strip.onpointermove = strip.onpointerdown = ({ target, offsetX, offsetY }) => {
      const m = drawn.indexOf(target.closest("figure"));
      if (target.tagName !== "CANVAS" || m >= view.count) return;
      select(m, within(Math.floor(offsetY / look.high), view.rows.size), within(Math.floor(offsetX / look.wide), view.columns.size));
    };
    return strip;
  };

  const turn = (one) => { view = arrange(one, texts); cell = { m: 0, r: 0, c: 0 }; draw() };
  const draw = () => {
    const isTable = chosen.numbers || tensor.kind === "int";
    const axes = view.all.filter((axis) => axis.size > 1 && (view.over.length < 2 || !view.over.includes(axis)));
    summed = chosen.sum === undefined && tensor.kind === "weights" ? view.columns : axes.find((axis) => axisName(axis) === chosen.sum);
    const sums = el("select", { onchange: () => { chosen.sum = sums.value; drawAll() } },
      el("option", { value: "" }, "no axis"), ...axes.map((axis) => el("option", { selected: axis === summed }, axisName(axis))));
    const which = el("select", { "aria-label": "Map", onchange: () => { cell.m = which.selectedIndex; draw() } },
      ...list(view.count, (m) => el("option", { selected: m === cell.m }, view.title(m))));
    const sides = [["Before", before], ["After", tensor]].map(([text, one]) => button(text, () => turn(one), { "aria-pressed": view.tensor === one }));
    // What is replaced may have the focus; its successor is as far from the end.
    const controls = () => [...tools.querySelectorAll("button, select")];
    const focused = controls().toReversed().indexOf(document.activeElement);
    tools.replaceChildren(
      ...(before ? [el("span", { className: "pair", role: "group", "aria-label": "Compare" }, ...sides)] : []),
      ...(isTable && view.count > 1 ? [which] : []),
      ...(axes.length ? [el("label", {}, "Sum over", sums)] : []),
      ...(tensor.kind === "int" ? [] : [button("Numbers", () => { chosen.numbers = !chosen.numbers; drawAll() }, { "aria-pressed": chosen.numbers })]));
    if (focused >= 0) controls().at(-1 - focused)?.focus();
    scale.replaceChildren(...legend(view.tensor, most));
    readout.textContent = changed ? `${changed.size} of ${valuesOf(tensor).length} values changed.` : isTable ? "" : "Point at a value to read it.";
    body.classList.remove("chosen");
    body.replaceChildren(isTable ? numberTable(view, name, cell, summed) : maps());
    if (view.rows.size * view.columns.size * view.count === 1) read();
  };
  draw();
  block.draw = draw;
  block.append(scale, tools, readout, body);
  return block;
};
