// A line through one cell, in five steps: the reader chooses it, and turns its three valves.
stages.brackets = (data, { line, write, keep, show }, parts, step) => {
  const { lines, kinds, sums, moments, left, step: wide, pale, strong, most } = data;
  const whole = (number) => `${Math.round(number * 100) / 100 + 0}`.replace("-", "\u2212");
  const signed = (number) => whole(number).replace(/^(?!\u2212)/, "+");
  const wing = (x, y, r, value, upright) => {
    const turned = ((1 - value) * Math.PI) / 2 + (upright ? Math.PI / 2 : 0);
    const [dx, dy] = [r * Math.cos(turned), r * Math.sin(turned)];
    return `M${(x - dx).toFixed(1)} ${(y - dy).toFixed(1)}L${(x + dx).toFixed(1)} ${(y + dy).toFixed(1)}`;
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

  run.forEach(({ i, f, g, c, h }, t) => {
    const x = left + t * wide;
    parts("wing-is")[t].setAttribute("d", wing(x, 34, data.small, i, true));
    parts("wing-fs")[t].setAttribute("d", wing(x, 66, data.small, f));
    parts("made-all")[t].textContent = whole(g);
    put("all-c", t, c);
    put("all-h", t, h);
    parts("tokens")[t].textContent = tokens[t];
  });

  const at = moments[Math.round(step)];
  const one = run[at];
  parts("at")[0].setAttribute("x", left + at * wide - wide / 2);
  for (const [name, [x, y], upright] of [["f", data.forget], ["i", data.input, true], ["o", data.output, true]]) {
    parts(`wing-${name}`)[0].setAttribute("d", wing(x, y, data.r - 3, one[name], upright));
    parts(`gate-${name}`)[0].textContent = whole(one[name]);
  }
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
