// The memory of linear attention along a text: a matrix, and the weights that it stands for.
"use strict";
live.panel = { title: _("Linear attention in two layers of four heads"), needs: ["linear_attention", "weights/linear_attention"] };
live.panel.fill = (panel) => {
  const { el, slices, percent, quoted, slider, select, group, pair } = live;
  const model = live.models.linear_attention, { step } = live.linear_attention;
  const { heads, d_model } = model.config, D = d_model / heads;
  let tokens = [], read = [], chosen = [0, 0], at = 0, run = 0, wanted;

  const compute = async (place) => {
    const own = ++run, stale = () => own !== run, ids = tokens;
    writer.stop();
    const results = await slices(live.reading(ids, (token, state) => step(model, token, state)), stale);
    if (stale()) return;
    read = results;
    at = Math.min(place ?? Infinity, ids.length - 1);
    steps.input.max = ids.length;
    show();
    panel.dataset.ready = own;
  };

  const mixing = (t) => read[t].state[chosen[0]];
  const memory = (t) => mixing(t).memories[chosen[1]];
  // The weights of step t: nobody stores them, so they are computed from the query and all keys.
  const weights = (t) => {
    const { q } = mixing(t).steps[chosen[1]];
    const products = Array.from({ length: t + 1 }, (_, s) => mixing(s).steps[chosen[1]].k.reduce((sum, value, d) => sum + value * q[d], 0));
    const total = products.reduce((a, b) => a + b, 0);
    return products.map((product) => product / total);
  };

  const map = live.heat_map(_("The memory: a row for each number of a key, a column for each number of a value"));
  map.className = "square memory";
  const added = live.heat_map(_("What this character has added to the memory"));
  added.className = "square memory";
  const strip = live.letters(_("The text, shaded by the weights of the chosen step"), model, (t) => { at = t; show() });
  const sizes = live.letters(_("The text, shaded by the size of the keys"), model, (t) => { at = t; show() });
  sizes.classList.add("keys");
  const sentence = el("output", {});
  const names = live.head_names(model);
  const head = select(_("Head"), names, (i) => { chosen = [Math.floor(i / heads), i % heads]; show() });
  const steps = slider(_("Character"), { min: 1, max: 1, value: 1 }, (n) => { at = n - 1; show() });
  const next = live.likeliest(model);

  const show = () => {
    if (!read.length) return;
    head.input.selectedIndex = chosen[0] * heads + chosen[1];
    steps.set(at + 1);
    // The last column, the sum of the keys, is much larger, and is left out of the maps.
    const now = memory(at), before = at ? memory(at - 1) : now.map(() => 0);
    const value = (numbers) => (i, j) => numbers[i * (D + 1) + j];
    const most = (numbers) => Math.max(1e-9, ...numbers.filter((_, i) => i % (D + 1) < D).map(Math.abs));
    const new_part = now.map((number, i) => number - before[i]);
    const [largest, new_largest] = [most(now), most(new_part)];
    map.set(D, D, (i, j) => value(now)(i, j) / largest);
    added.set(D, D, (i, j) => value(new_part)(i, j) / new_largest);
    const shares = weights(at), first = shares.indexOf(Math.max(...shares));
    strip.set(tokens.slice(0, read.length), shares.map((share) => share / shares[first]), at);
    const keys = read.map((_, t) => mixing(t).steps[chosen[1]].k.reduce((a, b) => a + b, 0));
    const longest = Math.max(...keys);
    sizes.set(tokens.slice(0, read.length), keys.map((size) => size / longest), at);
    sentence.value = _("At {0}, character {1}, the largest weight is {2}, for {3} at {4}. The largest number of the memory is {5}, and that of what was added {6}.",
      quoted(tokens[at], model), at + 1, percent(shares[first]), quoted(tokens[first], model), first + 1, largest.toFixed(1), new_largest.toFixed(1));
    next.set(live.softmax(read[at].logits));
  };

  const [example] = live.examples;
  const field = live.text_field(model, { most: 150, value: example, examples: live.examples },
    (ids) => { tokens = ids; compute(wanted); wanted = undefined });
  const writer = live.writer(model, { read: () => tokens, step: (token, state) => step(model, token, state) });
  const demonstrate = (one, place) => () => { [chosen, wanted] = [one, place]; field.set(example) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("No head looks at one character alone. The character just before the current one gets 4.8 % of the weight on average in layer 2, head 1, and less in the other heads. If all weights were equal, it would get 3.3 %."), demonstrate([1, 0])],
      [_("Layer 2, head 2 writes capital letters and line breaks with large keys: 1.4 times the mean on average, and other characters 0.85 times."), demonstrate([1, 1], 43)],
      [_("Nothing is forgotten. Replace the 18th character, “W”, by “Z”. The memories of layer 1 are now others. The convolution reaches three characters further, and from then on the difference stays the same to the end of the text."), demonstrate([0, 0], 17)],
    ]),
    controls: [
      group(_("The memory of a head"), head, steps, sentence),
      group(_("The weights that the memory stands for"), el("p", { className: "small" }, _("How much each character counts in what is found. The model never computes these weights; the page does, from the query and all keys.")), strip),
    ],
    view: [
      pair(
        el("div", {}, el("p", {}, _("The memory after this character:")), map),
        el("div", {}, el("p", {}, _("What this character has added:")), added)),
      el("p", { className: "small" }, _("In the colour of the memory: positive numbers; in grey: negative ones. Move the slider to follow the memory from character to character. Whatever was written stays.")),
      group(_("The size of the keys"), el("p", { className: "small" }, _("A pair with a large key counts more for all that read later. The size of a key is the sum of its numbers.")), sizes),
    ],
    outcome: group(_("Next character"), next),
    after: group(_("Write on"), writer),
    foot: live.about(model),
  });
};
