// Heat maps. Around zero two colours diverge; weights have one colour, and so has `True`. What is not
// finite is hatched.
const el = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};
const list = (length, make) => Array.from({ length }, (_, i) => make(i));

// The colours of the theme, as numbers.
const INKS = { ground: "page", positive: "link", negative: "bad", weight: "shape", line: "line", edge: "text" };
let inks;
const readInks = (element) => {
  const resolve = (name) => {
    element.style.color = `var(--${name})`;
    return getComputedStyle(element).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  };
  inks = Object.fromEntries(Object.entries(INKS).map(([ink, name]) => [ink, resolve(name)]));
  element.style.color = "";
};
const css = (rgb) => `rgb(${rgb.map(Math.round)})`;
const mix = (ink, share) => inks.ground.map((part, i) => part + (ink[i] - part) * share);
// Small values are seen, too: a quarter of the largest has half of its colour.
const colorOf = ({ kind }, value, most) => {
  if (!Number.isFinite(value)) return inks.ground;
  if (kind === "bool") return value ? mix(inks.weight, 0.85) : mix(inks.line, 0.15);
  const ink = kind === "weights" ? inks.weight : value < 0 ? inks.negative : inks.positive;
  return mix(ink, Math.sqrt(Math.min(Math.abs(value) / (most || 1), 1)));
};

// Stripes rise for −∞ and fall for ∞; NaN has both.
const stripes = (value) => {
  const size = 6 * devicePixelRatio;
  const tile = new OffscreenCanvas(size, size).getContext("2d");
  tile.strokeStyle = css(Number.isNaN(value) ? inks.negative : inks.line);
  tile.lineWidth = devicePixelRatio;
  for (const shift of [-size, 0, size]) {
    if (value !== Infinity) { tile.moveTo(shift, size); tile.lineTo(shift + size, 0) }
    if (value !== -Infinity) { tile.moveTo(shift, 0); tile.lineTo(shift + size, size) }
  }
  tile.stroke();
  return tile.createPattern(tile.canvas, "repeat");
};

// Each cell is a pixel of a small picture, which is enlarged. Lines go around cells that changed.
const paint = (view, m, { wide, high, most, isChanged = () => false }) => {
  const [rows, columns] = [view.rows.size, view.columns.size];
  const [width, height] = [wide, high].map((length) => Math.round(length * devicePixelRatio));
  const canvas = el("canvas", { width: columns * width, height: rows * height });
  Object.assign(canvas.style, { width: `${columns * wide}px`, height: `${rows * high}px` });
  const context = canvas.getContext("2d");
  const small = new OffscreenCanvas(columns, rows).getContext("2d");
  const pixels = small.createImageData(columns, rows);
  const each = (act) => {
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) act(view.at(m, r, c), r, c);
  };
  each((value, r, c) => pixels.data.set([...colorOf(view.tensor, value, most), 255], 4 * (r * columns + c)));
  small.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small.canvas, 0, 0, canvas.width, canvas.height);

  // Joints, between cells that are large enough to have some.
  context.fillStyle = css(inks.ground);
  for (let c = 1; wide >= 9 && c < columns; c++) context.fillRect(c * width, 0, 1, canvas.height);
  for (let r = 1; high >= 9 && r < rows; r++) context.fillRect(0, r * height, canvas.width, 1);
  const patterns = new Map();
  const changed = (r, c) => r >= 0 && c >= 0 && r < rows && c < columns && isChanged(view.indexOf(m, r, c));
  each((value, r, c) => {
    const [x, y] = [c * width, r * height];
    if (!Number.isFinite(value)) {
      if (!patterns.has(value)) patterns.set(value, stripes(value));
      context.fillStyle = patterns.get(value);
      context.fillRect(x, y, width, height);
    }
    if (!changed(r, c)) return;
    context.fillStyle = css(inks.edge);
    const line = Math.ceil(1.5 * devicePixelRatio);
    if (!changed(r - 1, c)) context.fillRect(x, y, width, line);
    if (!changed(r + 1, c)) context.fillRect(x, y + height - line, width, line);
    if (!changed(r, c - 1)) context.fillRect(x, y, line, height);
    if (!changed(r, c + 1)) context.fillRect(x + width - line, y, line, height);
  });
  return canvas;
};

// What stands along an axis: all of it where there is room, else every second, third, … of it.
const labels = (axis, needed, room) => list(axis.size, (i) => {
  const isShown = axis.size > 1 && i % Math.ceil(needed / room) === 0;
  return el("span", { className: axis.tokens ? "token" : "" }, isShown ? labelOf(axis, i) : "");
});

// A map with its labels, and the sums of its rows or columns.
const drawMap = (view, m, look, summed) => {
  const { rows, columns } = view;
  const longest = Math.max(...list(columns.size, (i) => labelOf(columns, i).length));
  const letters = [rows, columns].filter(({ size }) => size > 1).map(({ letter }) => letter);
  const map = el("div", { className: "map" },
    el("span", { className: "corner" }, letters.filter(Boolean).join("\\")),
    el("div", { className: "columns" }, ...labels(columns, 6.5 * longest + 3, look.wide)),
    el("div", { className: "rows" }, ...labels(rows, 10, look.high)),
    el("div", { className: "cells" }, paint(view, m, look), el("i")));
  map.style.setProperty("--wide", `${look.wide}px`);
  map.style.setProperty("--high", `${look.high}px`);
  const sums = (axis) => list(axis.size, (i) => el("span", {}, sumText(view, sumOver(summed, view, m, i, i), summed.size)));
  if (summed === columns && look.high >= 10) map.append(el("div", { className: "sums" }, ...sums(rows)));
  if (summed === rows && look.wide >= 10) map.append(el("div", { className: "sums below" }, ...sums(columns)));
  return el("figure", {}, el("figcaption", {}, view.title(m)), map);
};

// The size of cells: as many maps side by side as stay readable, and rows that use the height.
const sizeOf = ({ rows, columns }, count, room, beside) => {
  let high = Math.min(Math.max(Math.floor(room.height / rows.size), 4), 18);
  const least = columns.tokens ? Math.min(high, 10) : 4;
  const fits = (maps) => Math.floor((room.width / maps - beside) / columns.size);
  const maps = list(count, (i) => count - i).find((maps) => fits(maps) >= least) ?? 1;
  const wide = Math.min(Math.max(fits(maps), 3), rows.size === 1 ? 26 : high);
  if (wide >= 9 && rows.size > 1) high = Math.min(high, Math.max(wide, 10));
  return { wide, high };
};
