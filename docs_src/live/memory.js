// The memory of a trained Feedback Transformer: attention over its slots, layer weights, horizon.
"use strict";
live.panel = { title: _("A Feedback Transformer of two layers"), needs: ["feedback", "weights/feedback"] };
live.panel.fill = (panel) => {
  const { el, slices, percent, joined, quoted, slider, select, group, pair } = live;
  const model = live.models.feedback, { step } = live.feedback;
  const { heads, max_len } = model.config;
  let tokens = [], read = [], chosen = [1, 3], at = 0, horizon = max_len, run = 0;

  const compute = async () => {
    const own = ++run, stale = () => own !== run, ids = tokens;
    writer.stop();
    const results = await slices(live.reading(ids, (token, state) => step(model, token, state, { horizon })), stale);
    if (stale()) return;
    read = results;
    at = ids.length - 1;
    steps.input.max = ids.length - 1;
    show();
    panel.dataset.ready = own;
  };

  // The weight of slot j at step t: memory holds the slots before t, at most `horizon` of them.
  const weight = (t, j) => read[t].attention[chosen[0]][chosen[1]]?.[j - Math.max(0, t - horizon)] ?? 0;
  const map = live.heat_map(_("Attention to memory: a row for each step, a column for each slot"), (row) => { at = row; show() });
  map.className = "square";
  const strip = live.letters(_("The slots, shaded by the attention of the step"), model, (i) => { at = i; show() });
  const sentence = el("output", {});
  const steps = slider(_("Step"), { min: 0, max: 0, value: 0 }, (t) => { at = t; show() });
  const names = live.head_names(model);
  const head = select(_("Head"), names, (i) => { chosen = [Math.floor(i / heads), i % heads]; show() });
  const far = slider(_("Horizon"), { min: 1, max: max_len, value: max_len }, (slots) => { horizon = slots; compute() });
  const distances = live.bars(), layers = live.bars(), next = live.likeliest(model);
  const loss = el("p", {});

  const show = () => {
    if (!read.length) return;
    const n = read.length, slots = Math.min(at, horizon);
    head.input.selectedIndex = chosen[0] * heads + chosen[1];
    steps.set(at);
    far.set(horizon);
    map.set(n, n, (t, j) => (j < t ? Math.sqrt(weight(t, j)) : 0), at);
    strip.set(tokens.slice(0, n), Array.from({ length: n }, (_, j) => (j < at ? weight(at, j) : 0)), at);
    const top = [...Array(at).keys()].sort((a, b) => weight(at, b) - weight(at, a)).slice(0, 3).filter((j) => weight(at, j) > 0.005);
    const most = joined(top.map((j) => _("{0} in slot {1} ({2})", quoted(tokens[j], model), j, percent(weight(at, j)))));
    const here = [at, quoted(tokens[at], model)];
    sentence.value = !slots ? _("At step {0}, {1}, memory has no slots, so attention is skipped.", ...here)
      : slots === 1 ? _("At step {0}, {1}, memory has 1 slot; most attention goes to {2}.", ...here, most)
        : _("At step {0}, {1}, memory has {2} slots; most attention goes to {3}.", ...here, slots, most);
    const mean = (d) => {
      let sum = 0;
      for (let t = 1; t < n; t++) sum += t - d >= 0 ? weight(t, t - d) : 0;
      return sum / Math.max(1, n - 1);
    };
    distances.set([1, 2, 3, 4, 6, 8, 12].map((d) => [_("{0} back", d), mean(d)]));
    layers.set([...read[0].shares].map((share, l) => [l ? _("layer {0}", l) : _("embedding"), share]));
    next.set(live.softmax(read[at].logits));
    loss.textContent = _("With a horizon of {0} the loss of this text is {1} nats per character.", horizon, live.loss_of(tokens.slice(0, n), read).toFixed(2));
  };

  const example = "KING RICHARD II:\nWhat must the king do now?";
  const field = live.text_field(model, { most: 100, value: example, examples: [example, "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?"] },
    (ids) => { tokens = ids; compute(); });
  const writer = live.writer(model, { read: () => tokens, step: (token, state) => step(model, token, state, { horizon }) });
  const demonstrate = (one, slots = max_len) => () => { [chosen, horizon] = [one, slots]; field.set(example) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("Layer 2, head 4 keeps the line break after the name in view: 26 % of its weight on average, at most 3 % in the other heads."), demonstrate([1, 3])],
      [_("Layer 2, head 1 attends to the step before: 74 % of its weight on average."), demonstrate([1, 0])],
      [_("With a horizon of one slot the loss of this text is 1.29 nats per character, with all slots 0.92: information also travels from slot to slot."), demonstrate([1, 3], 1)],
    ]),
    controls: [
      group(_("Attention to the memory"), head, steps, far, loss),
      group(_("Shares of the layers in a memory vector"), layers),
    ],
    view: [
      pair(map, el("div", {}, strip, sentence,
        el("p", { className: "small" }, _("Each row is a step, and memory grows by one slot a step. A stronger colour is a larger weight (drawn as its square root).")))),
      group(_("Attention by distance, on average"), distances),
    ],
    outcome: group(_("Next character"), next),
    after: group(_("Write on"), writer),
    foot: live.about(model),
  });
};
