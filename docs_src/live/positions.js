// Sinusoidal encodings of any length and width, and a trained transformer without its positions.
"use strict";
live.panel = {
  title: _("Positions, with and without"),
  needs: ["autoregressive", "encoder_decoder", "weights/autoregressive"],
};
live.panel.fill = (panel) => {
  const { el, slices, slider, group } = live;
  const model = live.models.autoregressive, { step } = live.autoregressive;
  const { positional_encoding } = live.encoder_decoder, { max_len } = model.config;

  // ## The matrix, dot products and rotations
  let length = 64, width = 32, distance = 4, index = 2;
  const matrix = live.heat_map(_("The matrix of encodings: a row for each position, a column for each feature"));
  const products = live.heat_map(_("Dot products of all pairs of positions"));
  products.className = matrix.className = "square";
  const product = el("output", {}), rotation = el("output", {});
  const encodings = () => {
    const rows = Array.from({ length }, (_, p) => positional_encoding(p, width));
    const dot = (p, q) => rows[p].reduce((sum, value, i) => sum + value * rows[q][i], 0);
    matrix.set(length, width, (p, i) => rows[p][i]);
    products.set(length, length, (p, q) => dot(p, q) / (width / 2));
    const near = Math.min(distance, length - 1), pairs = width / 2;
    product.value = _("Two positions {0} apart have the dot product {1} at the beginning and {2} at the end: it depends on the distance alone, and is {3} at distance 0.",
      near, dot(0, near).toFixed(2), dot(length - 1 - near, length - 1).toFixed(2), pairs.toFixed(0));
    const i = Math.min(index, pairs - 1), angle = near * Math.exp((-2 * i * Math.log(10000)) / width);
    const [sine, cosine] = rows[0].subarray(2 * i, 2 * i + 2), [to_sine, to_cosine] = rows[near].subarray(2 * i, 2 * i + 2);
    const turned = [sine * Math.cos(angle) + cosine * Math.sin(angle), cosine * Math.cos(angle) - sine * Math.sin(angle)];
    const point = (numbers) => `(${numbers.map((number) => number.toFixed(2)).join(", ")})`;
    rotation.value = _("Hand {0}, turned by {1} radians: {2} at position 0 becomes {3}, and the encoding of position {4} is {5}.",
      i, angle.toFixed(2), point([sine, cosine]), point(turned), near, point([to_sine, to_cosine]));
  };
  const lengths = slider(_("Length T"), { min: 8, max: 128, value: length }, (t) => { length = t; encodings() });
  const widths = slider(_("Width C"), { min: 4, max: 128, step: 2, value: width }, (c) => { width = c; encodings() });
  const shift = slider(_("Distance k"), { min: 0, max: 32, value: distance }, (k) => { distance = k; encodings() });
  const hand = slider(_("Hand"), { min: 0, max: 15, value: index }, (i) => { index = i; encodings() });

  // ## The trained model, with its rotations and without
  let tokens = [], run = 0;
  const on = el("input", { type: "checkbox", checked: true, onchange: () => compute() });
  const strip = live.letters(_("The text, shaded by the loss of each character"), model, () => {});
  const said = el("output", {}), next = live.likeliest(model);
  const compute = async () => {
    const own = ++run, stale = () => own !== run, ids = tokens;
    const read = (positions) => slices(live.reading(ids, (token, state) => step(model, token, state, { positions })), stale);
    const encoded = await read(true);
    const results = on.checked ? encoded : await read(false);
    if (stale()) return;
    const losses = ids.map((token, t) => (t ? -Math.log(live.softmax(results[t - 1].logits)[token]) : 0));
    strip.set(ids, losses.map((loss) => loss / 8));
    const costs = [results, encoded].map((found) => live.loss_of(ids, found).toFixed(2));
    said.value = on.checked
      ? _("Positions are on: the loss of this text is {0} nats per character, with positions {1}.", ...costs)
      : _("Positions are off: the loss of this text is {0} nats per character, with positions {1}.", ...costs);
    const shares = live.softmax(results.at(-1).logits);
    next.set(shares, on.checked ? shares : live.softmax(encoded.at(-1).logits));
    panel.dataset.ready = own;
  };
  const [king, name, sorted] = ["KING RICHARD II:\nWhat must the king do now? must he submit?", "ROMEO:\nWhat is thy na", [..."ROMEO:\nWhat is thy n"].sort().join("") + "a"];
  const field = live.text_field(model, { most: max_len, value: king, examples: [king, name, sorted] },
    (ids) => { tokens = ids; compute(); });
  const demonstrate = (text, positions) => () => { on.checked = positions; field.set(text) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("Without positions the loss of this text rises from 1.17 to 3.66 nats per character."), demonstrate(king, false)],
      [_("With positions the order counts: after “What is thy na” the model expects “m” (58 %)."), demonstrate(name, true)],
      [_("With the characters before the last one sorted, it expects “l” (77 %): the same set in another order is another text."), demonstrate(sorted, true)],
    ]),
    controls: group(_("A trained transformer"), el("label", { className: "knob" }, el("span", {}, _("Positions on")), on),
      el("p", { className: "small" }, _("It rotates queries and keys by their positions. Without rotations, attention compares contents alone; only the causal mask still tells what came earlier."))),
    view: group(_("Loss of each character"), strip, el("p", { className: "small" }, _("A stronger colour is a larger loss.")), said),
    outcome: group(_("Next character"), next),
    foot: live.about(model),
  });
  panel.append(
    group(_("The matrix"), el("div", { className: "matrix" },
      el("div", {}, lengths, widths, shift, hand), matrix, products,
      el("div", {}, el("p", { className: "small" }, _("Dot products of all pairs of positions, divided by C/2; blue is positive, red negative:")), product, el("p", {}), rotation))));
  encodings();
};
