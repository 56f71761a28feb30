// What the heads of a trained Gated DeltaNet read, write and forget along a text.
"use strict";
live.panel = { title: _("A Gated DeltaNet of two layers with four heads"), needs: ["delta_net", "weights/delta_net"] };
live.panel.fill = (panel) => {
  const { el, slices, percent, quoted, slider, select, group, pair, loss_of } = live;
  const model = live.models.delta_net, { step } = live.delta_net;
  const { heads, n_layers, d_model } = model.config, width = d_model / heads;
  const ways = [
    [_("as it was trained"), {}],
    [_("write values, not errors"), { subtract: 0 }],
    [_("never forget"), { forget: false }],
  ];
  let tokens = [], read = [], layer = 0, head = 0, at = 0, way = 0, run = 0;

  const compute = async () => {
    const own = ++run, stale = () => own !== run, ids = tokens, options = ways[way][1];
    writer.stop();
    const results = await slices(live.reading(ids, (token, state) => step(model, token, state, options)), stale);
    if (stale()) return;
    read = results;
    at = Math.min(at, ids.length - 1);
    place.input.max = ids.length;
    show();
    panel.dataset.ready = own;
  };

  const of = (t) => read[t].state[layer].steps[head];
  const largest = (vectors) => Math.max(1e-9, ...vectors.map((vector) => vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));
  const choose = (t) => { at = t; show() };
  const memory = live.heat_map(_("The memory of the head: a row for each feature of a key, a column for each feature of a value"));
  memory.className = "square";
  const three = live.heat_map(_("Three rows: the value, what the memory answered to the key, and the error"));
  three.className = "three";
  const written = live.letters(_("The text, shaded by β"), model, choose);
  const kept = live.letters(_("The text, shaded by α"), model, choose);
  const sentence = el("output", {}), loss = el("output", {});
  const next = live.likeliest(model);

  const show = () => {
    if (!read.length) return;
    layers.input.selectedIndex = layer;
    which.input.selectedIndex = head;
    changes.input.selectedIndex = way;
    place.set(at + 1);
    const now = of(at), most = largest([now.memory]), scale = largest([now.v, now.answer, now.error]);
    memory.set(width, width, (i, j) => now.memory[i * width + j] / most);
    three.set(3, width, (i, j) => [now.v, now.answer, now.error][i][j] / scale);
    const some = tokens.slice(0, read.length);
    written.set(some, read.map((_, t) => of(t).beta), at);
    kept.set(some, read.map((_, t) => of(t).alpha), at);
    const share = Math.hypot(...now.error) / Math.hypot(...now.v);
    sentence.value = _("Layer {0}, head {1}, at {2}: {3} of the memory is kept, the error is {4} as long as the value, and {5} of it is written.",
      layer + 1, head + 1, quoted(tokens[at], model), percent(now.alpha), percent(share), percent(now.beta));
    loss.value = _("The loss of this text is {0} nats per character.", loss_of(some, read).toFixed(2));
    next.set(live.softmax(read.at(-1).logits));
  };

  const layers = select(_("Layer"), Array.from({ length: n_layers }, (_, l) => `${l + 1}`), (l) => { layer = l; show() });
  const which = select(_("Head"), Array.from({ length: heads }, (_, h) => `${h + 1}`), (h) => { head = h; show() });
  const changes = select(_("Memory"), ways.map(([name]) => name), (i) => { way = i; compute() });
  const place = slider(_("Position"), { min: 1, max: 1, value: 1 }, (position) => choose(position - 1));
  const [example] = live.examples;
  const field = live.text_field(model, { most: 100, value: example, examples: live.examples },
    (ids) => { tokens = ids; compute() });
  const writer = live.writer(model, { read: () => tokens, step: (token, state) => step(model, token, state, ways[way][1]) });
  const demonstrate = (l, h, position, change = 0) => () => { [layer, head, at, way] = [l, h, position, change]; field.set(example) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("Layer 1, head 1 forgets everything at the end of a word: it keeps 0.1 % of its memory at spaces and line breaks, and 86 % elsewhere, on average."), demonstrate(0, 0, 21)],
      [_("Layer 1, head 4 hardly writes a space: β is 0.06 there on average, and 0.58 elsewhere."), demonstrate(0, 3, 21)],
      [_("Forgetting matters most here. If nothing is forgotten, the loss of this text is 2.02 nats per character in place of 1.29. If values are written in place of errors, it is 1.34."), demonstrate(0, 0, 21, 2)],
    ]),
    controls: group(_("Read, error, write"), layers, which, place, changes, el("p", {}, sentence, " ", loss)),
    view: pair(el("div", {}, memory, el("p", { className: "small" }, _("The memory after this character. Blue is positive, red negative."))),
      el("div", {},
        el("p", {}, _("From above: the value, what the memory answered to the key before, and the error, which is their difference.")), three,
        el("p", {}, _("How much of the error is written, β:")), written,
        el("p", {}, _("How much of the memory is kept, α:")), kept)),
    outcome: group(_("Next character"), next),
    after: group(_("Write on"), writer),
    foot: live.about(model),
  });
};
