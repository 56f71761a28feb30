// The tensors of a replay: their values, what is written at their axes, and how they lie in maps.
const { _, load, site } = window.pylit;
const INFINITE = [-Infinity, Infinity, NaN];
const COUNTED = { H: (n) => _("head {0}", n), L: (n) => _("layer {0}", n) };
const NO_AXIS = { size: 1, stride: 0, letter: "", tokens: [_("value")] };
const joined = (parts) => parts.filter(Boolean).join(_(", "));

// A value is one byte: 253 levels from the lowest finite one to the highest, then what is not finite.
// Integers and a few real numbers come as they are.
const levelOf = ({ low = 0, high = 0 }) => high / 252 - low / 252;
const valuesOf = (tensor) => (tensor.values ??= Array.isArray(tensor.data)
  ? tensor.data
  : Float64Array.from(atob(tensor.data), (letter) => {
    const level = letter.charCodeAt(0);
    if (tensor.kind === "bool") return level;
    return level > 252 ? INFINITE[level - 253] : tensor.low + levelOf(tensor) * level;
  }));

// As many decimals as the levels tell apart.
const decimalsOf = ({ kind, low, high, data }) => {
  if (kind === "bool" || kind === "int" || low === undefined) return 0;
  // Whole numbers that came as they are.
  if (Array.isArray(data) && data.every(Number.isInteger)) return 0;
  const least = levelOf({ low, high }) || Math.abs(low) / 1000 || 1;
  return Math.min(Math.max(Math.ceil(-Math.log10(least)), 0), 9);
};
const numberText = (value, decimals) => {
  if (Number.isNaN(value)) return "NaN";
  const size = Math.abs(value);
  // A cell of a map has no room for more than six decimals.
  const written = () => decimals > 6 && size ? size.toExponential(1).replace("-", "−") : size.toFixed(decimals);
  const text = Number.isFinite(value) ? written() : "∞";
  return (value < 0 && /[1-9∞]/.test(text) ? "−" : "") + text;
};
const valueText = (tensor, value) =>
  tensor.kind === "bool" ? (value ? "True" : "False") : numberText(value, decimalsOf(tensor));
// Each term is rounded to a level, so a sum has fewer decimals: those that the rounding leaves right,
// within two standard deviations. Weights sum to one over one axis, or to zero where all of them are
// masked: the recorder has looked at the exact ones.
const sumText = ({ tensor }, sum, axis) => {
  if (axis.at === tensor.one) return sum > 0 ? "1.00" : "0.00";
  const unsure = Array.isArray(tensor.data) ? 0 : levelOf(tensor) * Math.sqrt(axis.size / 3);
  return numberText(sum, unsure ? Math.max(Math.floor(-Math.log10(2 * unsure)), 0) : decimalsOf(tensor));
};

// A place on an axis: as a label, “O”, which is short, and in words, “T 4 “O””, “head 2”.
const LONGEST = 12;
const visible = (token) => token.replace(/^ +| +$/g, (blanks) => "␣".repeat(blanks.length)).replaceAll("\n", "↵");
const labelOf = ({ letter, tokens }, i) => {
  const token = tokens?.[i] ?? "";
  if (token.length > LONGEST) return `${visible(token.slice(0, LONGEST - 1))}…`;
  if (token) return visible(token);
  return `${COUNTED[letter] ? i + 1 : i}`;
};
const placeText = ({ at, letter, tokens }, i) => {
  if (COUNTED[letter]) return COUNTED[letter](i + 1);
  const place = letter ? `${letter} ${i}` : _("axis {0}: {1}", at, i);
  return tokens?.[i] === undefined ? place : `${place} “${visible(tokens[i])}”`;
};

// Two axes are the rows and columns of a map. There is one map for each place on the others: heads and
// layers first, then the shortest axis that has no tokens. What is long lies down.
const arrange = (tensor, texts) => {
  const { shape, axes, along } = tensor;
  const all = shape.map((size, at) => {
    const stride = shape.slice(at + 1).reduce((product, length) => product * length, 1);
    return { at, size, stride, letter: axes[at], tokens: texts[along[at]] };
  });
  const plane = all.filter(({ size }) => size > 1);
  const over = [];
  const weight = ({ letter, tokens, size }) => (COUNTED[letter] ? 0 : size + (tokens ? 1e6 : 0));
  while (plane.length > 2) {
    const least = plane.reduce((one, other) => (weight(other) < weight(one) ? other : one));
    over.push(...plane.splice(plane.indexOf(least), 1));
  }
  while (plane.length < 2) plane.unshift(NO_AXIS);
  const [first, second] = plane;
  if (first.size > 2.5 * second.size && !(first.tokens && second.tokens)) plane.reverse();
  const [rows, columns] = plane;

  // The place of map `m` on each axis of `over`, the last one fastest.
  const placesOf = (m) => over.reduceRight(({ rest, places }, { size }) =>
    ({ rest: Math.floor(rest / size), places: [rest % size, ...places] }), { rest: m, places: [] }).places;
  const count = over.reduce((product, { size }) => product * size, 1);
  const starts = Array.from({ length: count }, (_, m) =>
    placesOf(m).reduce((start, place, i) => start + place * over[i].stride, 0));
  const values = valuesOf(tensor);
  const indexOf = (m, r, c) => starts[m] + r * rows.stride + c * columns.stride;
  return {
    tensor, all, rows, columns, over, count, indexOf,
    at: (m, r, c) => values[indexOf(m, r, c)],
    title: (m) => joined(placesOf(m).map((place, i) => placeText(over[i], place))),
  };
};

// The sum along one axis: of a row, of a column, or of a cell over all maps.
const sumOver = (axis, { rows, columns, at }, m, r, c) => {
  const term = axis === columns ? (i) => at(m, r, i) : axis === rows ? (i) => at(m, i, c) : (i) => at(i, r, c);
  let sum = 0;
  for (let i = 0; i < axis.size; i++) sum += term(i);
  return sum;
};
// The axes that sums can go over.
const summable = ({ all, over }) => all.filter((axis) => axis.size > 1 && (over.length < 2 || !over.includes(axis)));
// All maps in one. What were weights or truths are counts then, of one colour.
const total = (axis, view) => {
  const at = (m, r, c) => sumOver(axis, view, m, r, c);
  const kind = view.tensor.kind === "real" ? "real" : "weights";
  return { ...view, at, tensor: { ...view.tensor, kind, one: undefined }, title: () => _("sum over axis {0}", axis.at) };
};

// The indices at which two tensors of one shape differ by more than what rounding explains.
const changesOf = (tensor, before) => {
  if (`${tensor.shape}` !== `${before?.shape}`) return undefined;
  const [now, then] = [tensor, before].map(valuesOf);
  const rounding = (levelOf(tensor) + levelOf(before)) * 0.501;
  const differs = (i) => !Object.is(now[i], then[i]) && !(Math.abs(now[i] - then[i]) <= rounding);
  return new Set([...now.keys()].filter(differs));
};
