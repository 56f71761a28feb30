// What a token receives from three others, in four steps, for the query that the reader sets.
// Numbers that add up to one, or to another rounded number, are rounded so that they still do.
const adding = (numbers, total, digits) => {
  const unit = 10 ** digits, exact = numbers.map((number) => number * unit), whole = exact.map(Math.floor);
  const rest = (i) => exact[i] - whole[i];
  const order = [...whole.keys()].sort((a, b) => rest(b) - rest(a));
  const missing = Math.round(total * unit) - whole.reduce((a, b) => a + b, 0);
  for (const i of order.slice(0, missing)) whole[i]++;
  return whole.map((number) => number / unit);
};

stages.attention = ({ names, tokens, keys, values, rows, mid, unit, hundred }, knobs, parts) => {
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const show = (number, digits) =>
    (digits ? number.toFixed(digits) : `${Math.round(number * 100) / 100}`).replace("-", "−");
  const list = (numbers, digits) => `(${numbers.map((number) => show(number, digits)).join(", ")})`;
  const write = (name, words) => parts(name).forEach((part, i) => (part.textContent = words(i)));
  const move = (name, places) => {
    parts(name).forEach((part, i) => {
      for (const [key, place] of Object.entries(places(i))) part.setAttribute(key, place);
    });
  };

  const query = names.map((name) => knobs[name]);
  const products = keys.map((key) => sum(key.map((number, j) => number * query[j])));
  const scores = products.map((product) => product / Math.sqrt(query.length));
  const powers = scores.map(Math.exp);
  const weights = powers.map((power) => power / sum(powers));
  const average = [0, 1].map((axis) => sum(weights.map((weight, i) => weight * values[i][axis])));
  const said = adding(weights, 1, 3);
  const shares = [0, 1].map((axis) => adding(weights.map((weight, i) => weight * values[i][axis]), average[axis], 2));

  write("q", (j) => show(query[j]));
  write("factor", (i) => show(query[i % query.length]));
  write("sum", (i) => `= ${show(products[i])}`);

  const at = (number) => short(mid + number * unit);
  move("product", (i) => ({ cx: at(products[i]) }));
  move("score", (i) => ({ cx: at(scores[i]) }));
  move("shift", (i) => ({ d: `M${at(products[i])} ${rows[i]}L${at(scores[i])} ${rows[i]}` }));
  write("half", (i) => `${show(products[i])} / 2 = ${show(scores[i])}`);

  write("e", (i) => show(scores[i]));
  write("exp", (i) => show(powers[i], 3));
  write("total", () => show(sum(powers.map((power) => Math.round(power * 1000) / 1000)), 3));
  move("bar", (i) => ({ width: short(weights[i] * hundred) }));
  write("share", (i) => show(said[i], 3));

  write("times", (i) => show(said[i], 3));
  move("fades", (i) => ({ "fill-opacity": 0.05 + 0.5 * weights[i] }));
  write("part", (i) => list(shares.map((column) => column[i]), 2));
  write("result", () => list(average, 2));
  const [least, most] = [Math.min(...said), Math.max(...said)];
  const result = list(average, 2);
  // Thirds differ in the last digit that is written.
  if (most - least < 0.0015) return _("All weights are equal. The average of the values is {0}.", result);
  return _("The largest weight, {0}, goes to {1}. The average of the values is {2}.", show(most, 3), tokens[said.indexOf(most)], result);
};
