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
const INKS = { ground: "page", positive: "link", negative: "bad", weight: "link", line: "line", edge: "text" };
let inks;
const readInks = (element) => {
  // In forced colours all of them would be one. Pictures keep theirs, as they do elsewhere.
  element.style.forcedColorAdjust = "none";
  const resolve = (name) => {
    element.style.color = `var(--${name})`;
    return getComputedStyle(element).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  };
  inks = Object.fromEntries(Object.entries(INKS).map(([ink, name]) => [ink, resolve(name)]));
  element.style.color = element.style.forcedColorAdjust = "";
};
const css = (rgb) => `rgb(${rgb.map(Math.round)})`;
const mix = (ink, share) => inks.ground.map((part, i) => part + (ink[i] - part) * share);
// What is written on a colour: the ground's or the text's, whichever stands out more.
const lightOf = ([red, green, blue]) =>
  [0.21 * red ** 2.2, 0.72 * green ** 2.2, 0.07 * blue ** 2.2].reduce((sum, part) => sum + part / 255 ** 2.2, 0.05);
const contrast = (one, other) => Math.max(lightOf(one) / lightOf(other), lightOf(other) / lightOf(one));
const inkOn = (rgb) => (contrast(rgb, inks.ground) > contrast(rgb, inks.edge) ? inks.ground : inks.edge);
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
const paint = (view, m, { wide, high, most, hasValues, isChanged = () => false }) => {
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
  const colors = new Map();
  each((value, r, c) => {
    if (!colors.has(value)) colors.set(value, [...colorOf(view.tensor, value, most), 255]);
    pixels.data.set(colors.get(value), 4 * (r * columns + c));
  });
  small.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small.canvas, 0, 0, canvas.width, canvas.height);

  // Joints, between cells that are large enough to have some.
  context.fillStyle = css(inks.ground);
  for (let c = 1; wide >= 9 && c < columns; c++) context.fillRect(c * width, 0, 1, canvas.height);
  for (let r = 1; high >= 9 && r < rows; r++) context.fillRect(0, r * height, canvas.width, 1);
  context.font = `${(high < 32 ? 11 : 14) * devicePixelRatio}px "JetBrains Mono", monospace`;
  Object.assign(context, { textAlign: "center", textBaseline: "middle" });
  const patterns = new Map();
  const changed = (r, c) => r >= 0 && c >= 0 && r < rows && c < columns && isChanged(view.indexOf(m, r, c));
  each((value, r, c) => {
    const [x, y] = [c * width, r * height];
    if (!Number.isFinite(value)) {
      if (!patterns.has(value)) patterns.set(value, stripes(value));
      context.fillStyle = patterns.get(value);
      context.fillRect(x, y, width, height);
    }
    if (hasValues && Number.isFinite(value)) {
      context.fillStyle = css(inkOn(colors.get(value)));
      context.fillText(valueText(view.tensor, value), x + width / 2, y + height / 2);
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

// What stands along an axis: all of it where there is room, else every second, fifth, … index, and
// the tokens that do not run into one another.
const ROUND = [1, 2, 5, 10, 20, 50, 100];
const labels = (axis, room, isAcross) => {
  const widthOf = (i) => (isAcross ? 6 * labelOf(axis, i).length + 2 : 10);
  const every = axis.tokens ? 1 : ROUND.find((count) => count * room > widthOf(axis.size - 1)) ?? 1000;
  let end = -Infinity;
  return list(axis.size, (i) => {
    const start = (i + 0.5) * room - widthOf(i) / 2;
    const isShown = axis.size > 1 && i % every === 0 && start >= end;
    if (isShown) end = start + widthOf(i);
    return el("span", { className: axis.tokens ? "token" : "" }, isShown ? labelOf(axis, i) : "");
  });
};

// A map with its labels, and the sums of its rows or columns.
const drawMap = (view, m, look, summed) => {
  const { rows, columns } = view;
  const letters = [rows, columns].filter(({ size }) => size > 1).map(({ letter }) => letter);
  const map = el("div", { className: "map" },
    el("span", { className: "corner" }, letters.filter(Boolean).join("\\")),
    el("div", { className: "columns" }, ...labels(columns, look.wide, true)),
    el("div", { className: "rows" }, ...labels(rows, look.high, false)),
    el("div", { className: "cells" }, paint(view, m, look), el("i")));
  map.style.setProperty("--wide", `${look.wide}px`);
  map.style.setProperty("--high", `${look.high}px`);
  const sum = (i) => sumText(view, sumOver(summed, view, m, i, i), summed);
  const sums = (className, { size }) =>
    map.append(el("div", { className: `sums ${className}` }, ...list(size, (i) => el("span", {}, sum(i)))));
  if (summed === columns && look.high >= 10) sums("beside", rows);
  if (summed === rows && look.wide >= 10) sums(look.wide < 28 ? "below upright" : "below", columns);
  return el("figure", {}, el("figcaption", {}, view.title(m)), map);
};

// The size of cells: as many maps side by side as stay readable, and rows that use the height. The
// values of a few fit into their cells.
const FEW = 48;
const sizeOf = ({ rows, columns }, count, room, beside) => {
  const fits = (maps) => Math.floor((room.width / maps - beside) / columns.size);
  if (rows.size * columns.size * count <= FEW && fits(1) >= 52) {
    const high = Math.min(Math.max(Math.floor((0.45 * room.height) / rows.size), 24), 36);
    return { wide: Math.min(fits(count), 2 * high) >= 52 ? Math.min(fits(count), 2 * high) : 52, high, hasValues: true };
  }
  // Every token of a text of a line or two can be read.
  const low = rows.tokens && rows.size <= 24 ? 10 : 4;
  let high = Math.min(Math.max(Math.floor(room.height / rows.size), low), 18);
  const least = columns.tokens ? Math.min(high, 8) : 4;
  const maps = list(count, (i) => count - i).find((maps) => fits(maps) >= least) ?? 1;
  const wide = Math.min(Math.max(fits(maps), 3), rows.size === 1 ? 26 : high);
  if (rows.size === 1) high = 28;
  if (wide >= 9 && rows.size > 1) high = Math.min(high, Math.max(wide, 10));
  return { wide, high };
};
