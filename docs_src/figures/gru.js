// Quotation marks through one cell, in five steps: the reader chooses the line, and turns its two gates.
stages.quotations = (data, { line, keep, reset }, parts, step) => {
  const { lines, kinds, sums, turn, moments, left, step: wide, pale, strong, most } = data;
  const whole = (number, most = 100) => `${Math.round(number * most) / most + 0}`.replace("-", "\u2212");
  const signed = (number) => whole(number).replace(/^(?!\u2212)/, "+");
  const wing = ([x, y], r, value, upright) => {
    const turned = ((1 - value) * Math.PI) / 2 + (upright ? Math.PI / 2 : 0);
    const [dx, dy] = [r * Math.cos(turned), r * Math.sin(turned)];
    return `M${(x - dx).toFixed(1)} ${(y - dy).toFixed(1)}L${(x + dx).toFixed(1)} ${(y + dy).toFixed(1)}`;
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
    parts("wing-zs")[t].setAttribute("d", wing([x, 34], data.small, z));
    parts("wing-rs")[t].setAttribute("d", wing([x, 66], data.small, r));
    parts("made-all")[t].textContent = whole(g, 10);
    put("all-h", t, h, 10);
    parts("tokens")[t].textContent = tokens[t];
  });

  const at = moments[Math.round(step)];
  const one = run[at];
  parts("at")[0].setAttribute("x", left + at * wide - wide / 2);
  for (const [name, place, value, upright] of [
    ["z", data.keep, one.z],
    ["r", data.reset, one.r],
    ["write", data.write, 1 - one.z, true],
  ]) {
    parts(`wing-${name}`)[0].setAttribute("d", wing(place, data.r - 3, value, upright));
    parts(`gate-${name}`)[0].textContent = whole(value);
  }
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
