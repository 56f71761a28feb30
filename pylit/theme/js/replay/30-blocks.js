// The block of a tensor: its name, its range, what changed, and its maps or its numbers. What the
// reader chose for one tensor holds for the next.
const chosen = { numbers: false, sum: undefined };
const MOST_CELLS = 2000;
// How far a key goes: maps, rows, columns.
const MOVES = {
  ArrowUp: [0, -1, 0],
  ArrowDown: [0, 1, 0],
  ArrowLeft: [0, 0, -1],
  ArrowRight: [0, 0, 1],
  PageUp: [-1, 0, 0],
  PageDown: [1, 0, 0],
};
// In place of a tensor.
const REASONS = {
  "-1": _("It has more than 60,000 elements, too many to show."),
  "-2": _("Its elements are not real numbers, or not all of them are stored, so it is not shown."),
};
const HATCHES = ["rising", "falling", "crossed"];

const button = (content, onclick, properties = {}) => el("button", { type: "button", onclick, ...properties }, content);
const within = (i, size) => Math.min(Math.max(i, 0), size - 1);
const drawAll = () => document.querySelectorAll("#replay .tensor").forEach((block) => block.draw?.());

const legend = (tensor, most) => {
  const { kind, low, high } = tensor;
  const swatch = (background, text) => el("span", {}, el("i", { style: `background: ${background}` }), text);
  if (kind === "int") return [];
  if (kind === "bool") return [1, 0].map((value) => swatch(css(colorOf(tensor, value)), valueText(tensor, value)));
  const values = valuesOf(tensor);
  const found = INFINITE.filter((value) => values.some((other) => Object.is(other, value)));
  const infinite = found.map((value) => swatch(`var(--${HATCHES[INFINITE.indexOf(value)]})`, numberText(value)));
  if (low === undefined) return infinite;
  if (low === high) return [el("span", {}, _("all {0}", valueText(tensor, low))), ...infinite];
  const colors = list(25, (i) => css(colorOf(tensor, low + ((high - low) * i) / 24, most)));
  const bar = el("i", { style: `background: linear-gradient(to right, ${colors})` });
  return [el("span", { className: "range" }, valueText(tensor, low), bar, valueText(tensor, high)), ...infinite];
};

// A map as a table. Of a large one there are the rows around the chosen cell.
const numberTable = (view, name, { m, r }, summed) => {
  const { rows, columns, tensor } = view;
  const most = Math.max(1, Math.floor(MOST_CELLS / columns.size));
  const start = Math.floor(r / most) * most;
  const end = Math.min(start + most, rows.size);
  const head = (scope, text) => el("th", { scope }, text);
  const value = (row, c) => el("td", {}, valueText(tensor, view.at(m, row, c)));
  const sum = (row, c) => el("td", {}, sumText(view, sumOver(summed, view, m, row, c), summed));
  const heads = list(columns.size, (c) => head("col", labelOf(columns, c)));
  const lines = list(end - start, (i) =>
    el("tr", {}, head("row", labelOf(rows, start + i)), ...list(columns.size, (c) => value(start + i, c))));
  if (summed === columns) {
    heads.push(head("col", _("sum")));
    lines.forEach((line, i) => line.append(sum(start + i, 0)));
  }
  if (summed === rows) lines.push(el("tr", {}, head("row", _("sum")), ...list(columns.size, (c) => sum(0, c))));
  const part = end - start < rows.size ? _("rows {0} to {1} of {2}", start, end - 1, rows.size) : "";
  const caption = el("caption", {}, joined([name, view.title(m), part]));
  const table = el("table", {}, caption, el("thead", {}, el("tr", {}, el("td"), ...heads)), el("tbody", {}, ...lines));
  return el("div", { className: "numbers", tabIndex: 0, role: "group", "aria-label": _("Numbers of {0}", name) }, table);
};

const tensorBlock = (name, tensor, before, texts, room) => {
  const title = el("h3", {}, el("b", {}, name));
  const block = el("section", { className: "tensor", "data-name": name }, title);
  const note = (text) => { block.append(el("p", {}, text)); return block };
  if (REASONS[tensor]) return note(REASONS[tensor]);
  const { shape, axes } = tensor;
  title.append(` [${shape.map((size, i) => axes[i] || size).join(", ")}]`, el("small", {}, shape.join(" × ")));
  if (shape.includes(0)) return note(_("It has no elements yet."));

  const scale = el("div", { className: "legend" });
  const tools = el("div", { className: "tools" });
  const readout = el("output");
  const body = el("div", { className: "body" });
  block.append(scale, tools, readout, body);
  const changed = changesOf(tensor, before);
  const most = Math.max(...[tensor, before ?? tensor].flatMap(({ low = 0, high = 0 }) => [-low, high]));
  let view;
  let summed;
  let cell;

  // What is said of the chosen cell.
  const read = () => {
    const { m, r, c } = cell;
    const index = view.indexOf(m, r, c);
    const words = [view.title(m)];
    for (const [axis, i] of [[view.rows, r], [view.columns, c]]) if (axis.size > 1) words.push(placeText(axis, i));
    if (view.tensor === tensor && changed?.has(index)) words.push(_("was {0}", valueText(before, valuesOf(before)[index])));
    if (summed) words.push(_("sum over axis {0}: {1}", summed.at, sumText(view, sumOver(summed, view, m, r, c), summed)));
    const indices = view.all.map(({ size, stride }) => Math.floor(index / stride) % size);
    const value = valueText(view.tensor, view.at(m, r, c));
    const element = el("b", {}, `${name}${indices.length ? `[${indices.join(", ")}]` : ""} = ${value}`);
    readout.replaceChildren(element, ` ${joined(words)}`);
  };
  const select = (m, r, c) => {
    cell = { m, r, c };
    const figure = body.querySelectorAll("figure")[m];
    const part = (selector) => figure.querySelector(selector);
    body.querySelectorAll(".on").forEach((one) => one.classList.remove("on"));
    const parts = [part(".cells"), part(".rows").children[r], part(".columns").children[c]];
    parts.forEach((one) => one.classList.add("on"));
    body.classList.add("chosen");
    body.style.setProperty("--r", r);
    body.style.setProperty("--c", c);
    read();
    return figure;
  };

  const maps = () => {
    const { rows, columns, count, over } = view;
    const hasTotal = over.includes(summed);
    const look = { ...sizeOf(view, count + hasTotal, room, summed === columns ? 88 : 48), most };
    const areFew = view.tensor === tensor && changed?.size <= valuesOf(tensor).length / 2;
    if (areFew) look.isChanged = (index) => changed.has(index);
    const drawn = list(count, (m) => drawMap(view, m, look, summed));
    // A single row leaves room for what it was.
    if (view.tensor === tensor && changed && rows.size === 1 && count === 1)
      drawn.push(drawMap({ ...arrange(before, texts), title: () => _("before") }, 0, { ...look, isChanged: undefined }));
    if (hasTotal) {
      const sums = total(summed, view);
      const sizes = list(rows.size, (r) => list(columns.size, (c) => Math.abs(sums.at(0, r, c)))).flat();
      const largest = Math.max(...sizes.filter(Number.isFinite), 0);
      drawn.push(drawMap(sums, 0, { ...look, isChanged: undefined, most: largest }));
    }
    const strip = el("div", {
      className: "maps",
      tabIndex: 0,
      role: "application",
      "aria-roledescription": _("heat map"),
      "aria-label": count > 1
        ? _("{0}: arrow keys move from value to value, Page Up and Page Down from map to map", name)
        : _("{0}: arrow keys move from value to value", name),
    }, ...drawn);
    strip.onfocus = () => select(cell.m, cell.r, cell.c);
    strip.onkeydown = (event) => {
      const move = MOVES[event.key];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const places = [[cell.m, count], [cell.r, rows.size], [cell.c, columns.size]];
      const figure = select(...places.map(([i, size], axis) => within(i + move[axis], size)));
      figure.querySelector(".cells i").scrollIntoView({ block: "nearest", inline: "nearest" });
    };
    strip.onpointermove = strip.onpointerdown = ({ target, offsetX, offsetY }) => {
      const m = drawn.indexOf(target.closest("figure"));
      if (target.tagName !== "CANVAS" || m >= count) return;
      const [r, c] = [Math.floor(offsetY / look.high), Math.floor(offsetX / look.wide)];
      select(m, within(r, rows.size), within(c, columns.size));
    };
    // A click on the names along an axis sums over it, another one does not any more.
    for (const [part, axis] of [[".columns", columns], [".rows", rows]]) {
      if (!summable(view).includes(axis)) continue;
      for (const names of strip.querySelectorAll(part)) {
        names.title = _("Sum over axis {0}", axis.at);
        names.onclick = () => { chosen.sum = axis === summed ? "" : `${axis.at}`; drawAll() };
      }
    }
    return strip;
  };

  const turn = (one) => {
    view = arrange(one, texts);
    cell = { m: 0, r: 0, c: 0 };
  };
  const makeTools = (isTable) => {
    const redraw = (change) => () => { change(); draw() };
    const sides = [[_("Before"), before], [_("After"), tensor]].map(([text, one]) =>
      button(text, redraw(() => turn(one)), { "aria-pressed": view.tensor === one }));
    const which = el("select", { "aria-label": _("Map"), onchange: redraw(() => { cell.m = which.selectedIndex }) },
      ...list(view.count, (m) => el("option", { selected: m === cell.m }, view.title(m))));
    // Two axes may have one letter, so they have their number, too, as `dim` takes it.
    const sums = el("select", { "aria-label": _("Sum") }, el("option", { value: "" }, _("Sums: none")));
    sums.onchange = () => { chosen.sum = sums.value; drawAll() };
    for (const axis of summable(view)) {
      const text = axis.letter ? _("Sum over axis {0}: {1}", axis.at, axis.letter) : _("Sum over axis {0}", axis.at);
      sums.append(el("option", { value: axis.at, selected: axis === summed }, text));
    }
    const turnNumbers = () => { chosen.numbers = !chosen.numbers; drawAll() };
    return [
      before && el("span", { className: "pair", role: "group", "aria-label": _("Before and after") }, ...sides),
      isTable && view.count > 1 && which,
      sums.length > 1 && sums,
      tensor.kind !== "int" && button(_("Numbers"), turnNumbers, { "aria-pressed": chosen.numbers }),
    ].filter(Boolean);
  };
  const draw = () => {
    const isTable = chosen.numbers || tensor.kind === "int";
    summed = summable(view).find(({ at }) => `${at}` === (chosen.sum ?? `${view.tensor.one}`));
    // What is replaced may have the focus; its successor is as far from the end.
    const controls = () => [...tools.querySelectorAll("button, select")].toReversed();
    const focused = controls().indexOf(document.activeElement);
    tools.replaceChildren(...makeTools(isTable));
    controls()[focused]?.focus();
    scale.replaceChildren(...legend(view.tensor, most));
    body.classList.remove("chosen");
    body.replaceChildren(isTable ? numberTable(view, name, cell, summed) : maps());
    readout.textContent = changed ? _("{0} of {1} values changed.", changed.size, valuesOf(tensor).length)
      : isTable ? "" : _("Point at a value to read it.");
    if (valuesOf(tensor).length === 1) read();
  };
  turn(tensor);
  draw();
  return Object.assign(block, { draw });
};
