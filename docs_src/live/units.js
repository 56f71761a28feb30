// Hidden units of a trained Elman network along a text, the gradient, and a perturbation.
"use strict";
live.panel = { title: _("An Elman network of two layers with 256 units"), needs: ["elman", "weights/elman"] };
live.panel.fill = (panel) => {
  const { el, slices, percent, quoted, slider, select, group } = live;
  const model = live.models.elman, { step, gradient_norms } = live.elman;
  const { n_layers, d_hidden, n_vocab } = model.config;
  let tokens = [], states = [], logits, layer = 1, unit = 29, at = 0, run = 0;

  const work = (ids) => live.reading(ids, (token, state) => step(model, token, state));
  const compute = async () => {
    const own = ++run, stale = () => own !== run, ids = tokens;
    writer.stop();
    const read = await slices(work(ids), stale);
    if (stale()) return;
    states = read.map(({ state }) => state);
    logits = read.at(-1).logits;
    at = Math.min(at, ids.length - 1);
    place.input.max = ids.length;
    show();
    await perturb(stale);
    if (!stale()) panel.dataset.ready = own;
  };

  const map = live.heat_map(_("Hidden units: a row for each unit, a column for each character"), (row, column) => {
    unit = row;
    say(column);
    show();
  });
  map.className = "units";
  const strip = live.letters(_("The text, shaded by the chosen unit"), model, (i) => say(i));
  const sentence = el("output", {});
  const say = (t) => {
    if (!states[t]) return;
    sentence.value = _("Layer {0}, unit {1} is {2} after {3} at {4}.", layer + 1, unit + 1, states[t][layer][unit].toFixed(2), quoted(tokens[t], model), t + 1);
  };
  const layers = select(_("Layer"), Array.from({ length: n_layers }, (_, l) => `${l + 1}`), (l) => { layer = l; show() });
  const units = slider(_("Unit"), { min: 1, max: d_hidden, value: unit + 1 }, (u) => { unit = u - 1; show() });
  const next = live.likeliest(model);

  const reach = live.letters(_("The text, shaded by the gradient"), model, () => {});
  const reached = el("output", {});
  const show = () => {
    if (!states.length) return;
    layers.input.selectedIndex = layer;
    units.set(unit + 1);
    map.set(d_hidden, states.length, (i, j) => states[j][layer][i], unit);
    strip.set(tokens.slice(0, states.length), states.map((state) => state[layer][unit]));
    say(states.length - 1);
    const shares = live.softmax(logits);
    next.set(shares);
    const norms = gradient_norms(model, states, logits, shares.indexOf(Math.max(...shares)));
    const last = norms.at(-1);
    reach.set(tokens.slice(0, states.length), norms.map((norm) => Math.max(0, 1 + Math.log10(norm / last) / 4)));
    const back = Math.min(10, norms.length - 1);
    reached.value = _("{0} steps back the gradient has {1} % of its norm at the last step.", back, (100 * norms.at(-1 - back) / last).toPrecision(2));
  };

  const remains = live.letters(_("The text, shaded by what remains of the change"), model, () => {});
  const remained = el("output", {});
  const place = slider(_("Change at"), { min: 1, max: 1, value: 1 }, (position) => {
    at = position - 1;
    const own = run;
    perturb(() => own !== run);
  });
  let change = 0;
  const perturb = async (stale) => {
    const own = ++change, outdated = () => stale() || own !== change;
    const place_of_change = at, ids = tokens, original = states;
    const z = model.characters.indexOf("Z"), other = ids[at] === z ? z - 1 : z;
    const read = await slices(work(ids.map((token, t) => (t === place_of_change ? other : token))), outdated);
    if (outdated()) return;
    const shares = original.map((state, t) => {
      const flat = state.flatMap((one) => [...one]), changed = read[t].state.flatMap((one) => [...one]);
      return Math.hypot(...flat.map((value, i) => value - changed[i])) / Math.hypot(...flat);
    });
    place.set(place_of_change + 1);
    remains.set(ids, shares, place_of_change);
    const seven = shares[place_of_change + 7];
    const told = [quoted(ids[place_of_change], model), place_of_change + 1, quoted(other, model), percent(shares[place_of_change])];
    remained.value = seven === undefined
      ? _("{0} at {1} becomes {2}: the state changes by {3} of its norm at once.", ...told)
      : _("{0} at {1} becomes {2}: the state changes by {3} of its norm at once, and by {4} seven steps later.", ...told, percent(seven));
  };

  const [example] = live.examples;
  const field = live.text_field(model, { most: 100, value: example, examples: live.examples },
    (ids) => { tokens = ids; compute(); });
  const writer = live.writer(model, { read: () => tokens, step: (token, state) => step(model, token, state) });
  const demonstrate = (l, u, position = at) => () => { [layer, unit, at] = [l, u, position]; field.set(example) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("Layer 2, unit 30 marks the names of speakers: −0.83 on average within the two names, 0.88 elsewhere."), demonstrate(1, 29)],
      [_("Layer 1, unit 60 answers to vowels: 0.71 on average at vowels, −0.84 elsewhere."), demonstrate(0, 59)],
      [_("The network forgets a changed character: replace the 18th, “W”, by “Z”, and seven steps later the state differs by less than 5 %."), demonstrate(1, 29, 17)],
    ]),
    controls: [
      group(_("Hidden units"), layers, units, sentence, el("p", { className: "small" }, _("Blue is positive, red negative. Point at the map, or choose with the controls."))),
      group(_("What remains of a change"), place, remained),
    ],
    view: [
      strip, map,
      group(_("What remains of a change"), remains),
      group(_("The gradient that reaches back"), el("p", { className: "small" }, _("How much the prediction after the last character would change with the hidden states of each step. The stronger the colour, the longer the gradient; the shades span four powers of ten.")), reach, reached),
    ],
    outcome: group(_("Next character"), next),
    after: group(_("Write on"), writer),
    foot: live.about(model),
  });
};
