// A DeltaNet that learned to recall pairs of a letter and a digit: what its heads read and write, and what it answers.
"use strict";
live.panel = { title: _("A DeltaNet of two layers with two heads"), needs: ["delta_net", "weights/recall_delta_net"] };
live.panel.fill = (panel) => {
  const { el, slices, percent, quoted, slider, select, group, pair, softmax } = live;
  const model = live.models.recall_delta_net, { step } = live.delta_net;
  const { heads, n_layers, d_model } = model.config, width = d_model / heads, digits = 10;
  const ways = [[_("the error"), 1], [_("the value"), 0]];
  let tokens = [], read = [], answers = [], layer = 0, head = 1, at = 0, way = 0, run = 0;

  // The letters of a line, each with the digit that came after it last.
  const known = () => {
    const last = new Map();
    tokens.forEach((token, t) => { if (token < digits && tokens[t - 1] >= digits) last.set(tokens[t - 1], token) });
    return [...last].sort(([a], [b]) => a - b);
  };
  // The line is read once; then each letter is asked from the same state.
  const work = function* (ids, options) {
    const results = yield* live.reading(ids, (token, state) => step(model, token, state, options));
    const found = new Map();
    for (const [letter] of known()) {
      found.set(letter, softmax(step(model, letter, results.at(-1).state, options).logits).subarray(0, digits));
      yield;
    }
    return [results, found];
  };
  const compute = async () => {
    const own = ++run, stale = () => own !== run;
    const done = await slices(work(tokens, { subtract: ways[way][1] }), stale);
    if (stale()) return;
    [read, answers] = done;
    at = Math.min(at, tokens.length - 1);
    place.input.max = tokens.length;
    show();
    panel.dataset.ready = own;
  };

  const of = (t) => read[t].state[layer].steps[head];
  const dot = (a, b) => a.reduce((sum, number, d) => sum + number * b[d], 0);
  const largest = (vectors) => Math.max(1e-9, ...vectors.map((vector) => vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));
  const choose = (t) => { at = t; show() };
  const memory = live.heat_map(_("The memory of the head: a row for each feature of a key, a column for each feature of a value"));
  memory.className = "square";
  const bands = [_("value"), _("answer"), _("error")].map((name) => {
    const band = live.heat_map(_("{0}: a cell for each feature", name));
    band.className = "band";
    return { band, row: el("div", { className: "named" }, el("span", {}, name), band) };
  });
  const similar = live.letters(_("The line, shaded by how similar its keys are to the key at the frame"), model, choose);
  const written = live.letters(_("The line, shaded by β"), model, choose);
  const sentence = el("output", {});
  const given = el("ol", { className: "answers" });

  const show = () => {
    if (!read.length) return;
    layers.input.selectedIndex = layer;
    which.input.selectedIndex = head;
    changes.input.selectedIndex = way;
    place.set(at + 1);
    const now = of(at), most = largest([now.memory]), three = [now.v, now.answer, now.v.map((value, e) => value - now.answer[e])];
    const scale = largest(three);
    memory.set(width, width, (i, j) => now.memory[i * width + j] / most);
    bands.forEach(({ band }, i) => band.set(1, width, (_, j) => three[i][j] / scale));
    const some = tokens.slice(0, read.length);
    similar.set(some, read.map((_, t) => (t <= at ? dot(of(t).k, now.k) : 0)), at);
    written.set(some, read.map((_, t) => of(t).beta), at);
    sentence.value = _("At {0}, character {1}, the answer is {2} as long as the value, and β is {3}.",
      quoted(tokens[at], model), at + 1, percent(Math.hypot(...now.answer) / Math.hypot(...now.v)), percent(now.beta));
    given.replaceChildren(...known().map(([letter, truth]) => {
      const shares = answers.get(letter), digit = shares.indexOf(Math.max(...shares)), right = digit === truth;
      const sign = el("span", { role: "img", ariaLabel: right ? _("right") : _("wrong") }, right ? "✓" : "✗");
      return el("li", { className: right ? "right" : "wrong" }, el("b", {}, `${model.characters[letter]}?`), el("b", {}, model.characters[digit]), sign, el("span", { className: "small" }, percent(shares[digit])));
    }));
  };

  const layers = select(_("Layer"), Array.from({ length: n_layers }, (_, l) => `${l + 1}`), (l) => { layer = l; show() });
  const which = select(_("Head"), Array.from({ length: heads }, (_, h) => `${h + 1}`), (h) => { head = h; show() });
  const changes = select(_("Writes"), ways.map(([name]) => name), (i) => { way = i; compute() });
  const place = slider(_("Position"), { min: 1, max: 1, value: 1 }, (position) => choose(position - 1));
  const examples = ["a3b7a1c5b2a9", "a3b7a1", "o7k3d6e2v4k0o1k9p3d0k5", "o9r2z9x0q8s1g0f0v3p3u9b0h7e5c7w9i3a8t3d4"];
  const field = live.text_field(model, { most: 60, value: examples[0], examples, label: _("Pairs of a letter and a digit, up to {0} characters", 60) },
    (ids) => { tokens = ids; compute() });
  const demonstrate = (text, position, change) => () => { [layer, head, at, way] = [0, 1, position, change]; field.set(text) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("The framed 9 belongs to a. In layer 1, head 2 its key is nearly the same as at the other digits of a: the dot products are 0.98 and 0.96. With those of b and c they are close to 0."), demonstrate(examples[0], 11, 0)],
      [_("The same line, but values are written in place of errors. The old digits stay, and the model mixes them up: asked for a, it answers 3, the first digit, in place of 9."), demonstrate(examples[0], 11, 1)],
      [_("Twenty letters are too many for memories of 16 features: the model knows 18 of them. It gets x and z wrong."), demonstrate(examples[3], 39, 0)],
    ]),
    controls: group(_("Read, error, write"), layers, which, place, changes, el("p", {}, sentence)),
    view: pair(el("div", {}, memory, el("p", { className: "small" }, _("The memory after this character. Rows are features of keys, columns those of values. Blue is positive, red negative."))),
      el("div", {},
        el("p", {}, _("How similar earlier keys are to the key at the frame (their dot products; red: below 0):")), similar,
        el("p", {}, _("The value, what the memory answered to the key, and their difference:")), ...bands.map(({ row }) => row),
        el("p", {}, _("How much of it is written, β:")), written)),
    outcome: group(_("Asked after the line"), given),
    foot: el("p", { className: "small" }, _("{0} parameters, trained on random lines of up to 20 pairs. So whatever it knows of yours stands in its memories.", live.grouped(model.parameters))),
  });
};
