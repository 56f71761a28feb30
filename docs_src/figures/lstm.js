// A line through one cell, in five steps: the reader chooses it, and turns its three valves.
stages.brackets = (data, { line, write, keep, show }, parts, step) => {
  const { lines, kinds, sums, moments, left, step: wide, pale, strong, most } = data;
  const whole = (number) => `${Math.round(number * 100) / 100 + 0}`.replace("-", "\u2212");
  const signed = (number) => whole(number).replace(/^(?!\u2212)/, "+");
  // The disc in the ring of a gate: its area is how far the gate is open.
  const open = (name, i, x, y, r, gate) => {
    const wide = (r * Math.sqrt(gate)).toFixed(1), across = (2 * wide).toFixed(1);
    parts(name)[i].setAttribute("d", `M${(x - wide).toFixed(1)} ${y}a${wide} ${wide} 0 1 0 ${across} 0a${wide} ${wide} 0 1 0 -${across} 0`);
    parts(`${name}-number`)[i].textContent = whole(gate);
  };
  const put = (name, i, value) => {
    parts(name)[i].textContent = whole(value);
    parts(`${name}-ground`)[i].setAttribute("fill-opacity", pale + strong * Math.min(Math.abs(value), most));
  };
  const sigmoid = (sum) => 1 / (1 + Math.exp(-sum));

  const tokens = [...lines[line]];
  let c = 0;
  const run = tokens.map((token) => {
    const [i, f, g, o] = sums.map((row) => row[kinds[token] ?? 0]);
    const one = { old: c, i: sigmoid(i) * write, f: sigmoid(f) * keep, g: Math.tanh(g), o: sigmoid(o) * show };
    c = one.f * c + one.i * one.g;
    return { ...one, c, h: one.o * Math.tanh(c) };
  });

  run.forEach(({ i, f, o, g, c, h }, t) => {
    const x = left + t * wide;
    [i, f, o].forEach((gate, row) => open(`gates-${"ifo"[row]}`, t, x, data.rows[row], data.small, gate));
    parts("made-all")[t].textContent = whole(g);
    put("all-c", t, c);
    put("all-h", t, h);
    parts("tokens")[t].textContent = tokens[t];
  });

  const at = moments[Math.round(step)];
  const one = run[at];
  parts("at")[0].setAttribute("x", left + at * wide - wide / 2);
  for (const [name, [x, y]] of [["f", data.forget], ["i", data.input], ["o", data.output]]) open(`gate-${name}`, 0, x, y, data.r, one[name]);
  put("old", 0, one.old);
  put("new", 0, one.c);
  put("made", 0, one.g);
  put("shown", 0, one.h);
  parts("kept")[0].textContent = whole(one.f * one.old);
  parts("added")[0].textContent = signed(one.i * one.g);
  parts("token")[0].textContent = tokens[at];
  const said = [tokens.slice(0, at + 1).join(""), whole(one.old), whole(one.c), whole(one.h)];
  return _("Read: {0}. The cell state was {1} and is {2} now. It shows {3}.", ...said);
};
