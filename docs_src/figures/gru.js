// Quotation marks through one cell, in five steps: the reader chooses the line, and turns its two gates.
stages.quotations = (data, { line, keep, reset }, parts, step) => {
  const { lines, kinds, sums, turn, moments, left, step: wide, pale, strong, most } = data;
  const whole = (number, most = 100) => `${Math.round(number * most) / most + 0}`.replace("-", "\u2212");
  const signed = (number) => whole(number).replace(/^(?!\u2212)/, "+");
  // The disc in the ring of a gate: its area is how far the gate is open.
  const open = (name, i, [x, y], r, gate) => {
    const wide = (r * Math.sqrt(gate)).toFixed(1), across = (2 * wide).toFixed(1);
    parts(name)[i].setAttribute("d", `M${(x - wide).toFixed(1)} ${y}a${wide} ${wide} 0 1 0 ${across} 0a${wide} ${wide} 0 1 0 -${across} 0`);
    parts(`${name}-number`)[i].textContent = whole(gate);
  };
  const put = (name, i, value, digits) => {
    parts(name)[i].textContent = whole(value, digits);
    parts(`${name}-ground`)[i].setAttribute("fill-opacity", pale + strong * Math.min(Math.abs(value), most));
  };
  const sigmoid = (sum) => 1 / (1 + Math.exp(-sum));

  const tokens = [...lines[line]];
  let h = 0;
  const run = tokens.map((token) => {
    const [update, opens, own] = sums.map((row) => row[kinds[token] ?? 0]);
    const [z, r, old] = [sigmoid(update) * keep, sigmoid(opens) * reset, h];
    const g = Math.tanh(own + r * turn * old);
    h = z * old + (1 - z) * g;
    return { z, r, own, old, g, h };
  });

  run.forEach(({ z, r, g, h }, t) => {
    const x = left + t * wide;
    [z, r].forEach((gate, row) => open(`gates-${"zr"[row]}`, t, [x, data.rows[row]], data.small, gate));
    parts("made-all")[t].textContent = whole(g, 10);
    put("all-h", t, h, 10);
    parts("tokens")[t].textContent = tokens[t];
  });

  const at = moments[Math.round(step)];
  const one = run[at];
  parts("at")[0].setAttribute("x", left + at * wide - wide / 2);
  for (const [name, place, gate] of [["z", data.keep, one.z], ["r", data.reset, one.r], ["write", data.write, 1 - one.z]])
    open(`gate-${name}`, 0, place, data.r, gate);
  put("old", 0, one.old);
  put("new", 0, one.h);
  put("made", 0, one.g);
  put("own", 0, one.own);
  parts("kept")[0].textContent = whole(one.z * one.old);
  parts("added")[0].textContent = signed((1 - one.z) * one.g);
  parts("token")[0].textContent = tokens[at];
  const said = [tokens.slice(0, at + 1).join(""), whole(one.old), whole(one.g), whole(one.h)];
  return _("Read: {0}. The state was {1}, the candidate is {2}, and the new state is {3}.", ...said);
};
