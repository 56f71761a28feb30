// The program of the lesson as cells: which layer of a Transformer knows what, and what a memory holds.
{
  // What the lines set or print, for other numbers in lines 0 and 1.
  const results = (x, y) => {
    const newer = y > 4 ? x + 4 : x;
    const last = newer > 6 ? y + 1 : y;
    return [x, y, newer, last, last];
  };
  const fill = (parts, name, words) => parts(name).forEach((one, i) => (one.textContent = words(i)));

  // What comes later than the step is pale.
  const later = 0.25;

  stages.layers = ({ known, left, wide }, { x, y, layers }, parts, step) => {
    const values = results(x, y);
    fill(parts, "line", (t) => `${"xy"[t]} = ${values[t]}`);
    for (let layer = 0; layer < 4; layer++) {
      fill(parts, `layer${layer}`, (t) => (layer > layers ? "" : known[t] <= layer ? values[t] : "?"));
      const seen = layer > Math.round(step) ? later : 1;
      parts(`layer${layer}`).forEach((one) => one.setAttribute("opacity", seen));
      parts(`to${layer}`).forEach((one) => one.setAttribute("opacity", layer > layers ? 0 : seen));
    }
    parts("at")[0].setAttribute("x", short(left + step * wide));
    const layer = Math.min(Math.round(step), layers);
    const count = known.filter((one) => one <= layer).length;
    return layer < layers || known[4] <= layers
      ? _("Layer {0} knows {1} of 5 results.", layer, count)
      : _("With {0} layers the model knows {1} of 5 results, and cannot print {2}.", layers, count, values[4]);
  };

  stages.memory = ({ sets, top, high }, { x, y }, parts, step) => {
    const values = results(x, y);
    fill(parts, "line", (t) => `${"xy"[t]} = ${values[t]}`);
    fill(parts, "layer", (t) => values[t]);
    fill(parts, "slot", (t) => `${sets[t]} = ${values[t]}`);
    values.forEach((_value, line) => {
      const seen = line > Math.round(step) + 1 ? later : 1;
      const row = [parts("layer")[line], parts("slot")[line], ...parts(`by${line}`)];
      for (const one of row) one.setAttribute("opacity", seen);
    });
    // The first step of the stage is about two lines.
    const rest = Math.min(step, 1);
    parts("at")[0].setAttribute("y", short(top + (step + rest) * high));
    parts("at")[0].setAttribute("height", short((2 - rest) * high));
    const t = Math.round(step) + 1;
    return _("After step {0} memory has {1} slots. The last one says {2}.", t, t + 1, `${sets[t]} = ${values[t]}`);
  };
}
