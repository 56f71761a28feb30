// What a trained Mamba-2 keeps and forgets along a text, and the matrix that it remembers with.
"use strict";
live.panel = { title: _("A Mamba-2 of two layers with four heads each"), needs: ["mamba2", "weights/mamba2"] };
live.panel.fill = (panel) => {
  const { el, slices, percent, quoted, slider, select, group } = live;
  const model = live.models.mamba2, { step } = live.mamba2;
  const { heads } = model.config;
  const names = live.head_names(model);
  let tokens = [], read = [], chosen = 0, at = 0, run = 0;

  const compute = async () => {
    const own = ++run, stale = () => own !== run, ids = tokens;
    writer.stop();
    const results = await slices(live.reading(ids, (token, state) => step(model, token, state)), stale);
    if (stale()) return;
    read = results;
    at = ids.length - 1;
    steps.input.max = ids.length;
    show();
    panel.dataset.ready = own;
  };

  // What head i keeps at step t, and what is left at step t of what was written at step s.
  const kept = (i, t) => read[t].state[Math.floor(i / heads)].kept[i % heads];
  const left = (t, s) => {
    let share = 1;
    for (let r = s + 1; r <= t; r++) share *= kept(chosen, r);
    return s <= t ? share : 0;
  };

  const map = live.heat_map(_("What is kept: a row for each head, a column for each character"), (row, column) => { [chosen, at] = [row, column]; show() });
  map.style.height = `${1.25 * names.length}rem`;
  const rows = el("div", { className: "rows" }, ...names.map((name) => el("span", {}, name)));
  const keeps = live.letters(_("The text, shaded by what the chosen head keeps"), model, (t) => { at = t; show() });
  const strip = live.letters(_("The text, shaded by what is left of each character"), model, (t) => { at = t; show() });
  const sentence = el("output", {});
  const head = select(_("Head"), names, (i) => { chosen = i; show() });
  const steps = slider(_("Step"), { min: 1, max: 1, value: 1 }, (t) => { at = t - 1; show() });
  const matrix = live.heat_map(_("The matrix of the head: a row for each number of a key, a column for each of a value"));
  matrix.className = "square";
  const next = live.likeliest(model);

  const show = () => {
    const n = read.length;
    if (!n) return;
    head.input.selectedIndex = chosen;
    steps.set(at + 1);
    map.set(names.length, n, (i, t) => kept(i, t), chosen);
    keeps.set(tokens.slice(0, n), Array.from({ length: n }, (_, t) => kept(chosen, t)), at);
    strip.set(tokens.slice(0, n), Array.from({ length: n }, (_, s) => left(at, s)), at);
    let half = 0;
    while (at - half - 1 >= 0 && left(at, at - half - 1) >= 0.5) half++;
    const said = [quoted(tokens[at], model), at + 1, percent(kept(chosen, at))];
    sentence.value = half === at
      ? _("At {0} ({1}) the head keeps {2}. More than half is left of all characters before.", ...said)
      : _("At {0} ({1}) the head keeps {2}. More than half is left of the last {3} before it.", ...said, half);
    const { h } = read[at].state[Math.floor(chosen / heads)], size = h.length / heads;
    const own = h.subarray((chosen % heads) * size, ((chosen % heads) + 1) * size), side = Math.sqrt(size);
    const most = own.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
    matrix.set(side, side, (i, j) => own[i * side + j] / most);
    next.set(live.softmax(read[at].logits));
  };

  const [example] = live.examples;
  const field = live.text_field(model, { most: 100, value: example, examples: live.examples },
    (ids) => { tokens = ids; compute(); });
  const writer = live.writer(model, { read: () => tokens, step: (token, state) => step(model, token, state) });
  const demonstrate = (i) => () => { chosen = i; field.set(example) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("Layer 2, head 1 forgets at punctuation: it keeps 28 % there on average, and 68 % elsewhere."), demonstrate(heads)],
      [_("Layer 2, head 3 forgets at line breaks: it keeps 60 % there, and 89 % elsewhere."), demonstrate(heads + 2)],
      [_("Heads of one layer forget at different rates: in layer 1, head 1 keeps 40 % on average, and head 3 keeps 92 %."), demonstrate(2)],
    ]),
    controls: [
      group(_("What is kept"), head, steps, sentence),
      group(_("The matrix"), matrix, el("p", { className: "small" }, _("Rows are numbers of a key, columns those of a value. Blue is positive, red negative."))),
    ],
    view: [
      el("p", {}, _("What the chosen head keeps at each character (dark: all of it):")), keeps,
      el("p", {}, _("What is left of each character at the one with a frame (dark: all of it):")), strip,
      el("p", {}, _("What all heads keep: a column for each character of the text, from left to right. Point at it to choose.")),
      el("div", { className: "mapped" }, rows, map),
    ],
    outcome: group(_("Next character"), next),
    after: group(_("Write on"), writer),
    foot: live.about(model),
  });
};
