// What the heads of a trained Gated DeltaNet still have of each character, at a later one.
"use strict";
live.panel = { title: _("What a Gated DeltaNet forgets"), needs: ["delta_net"], weights: ["weights/delta_net"], poems: "tang_delta_net" };
live.panel.of_shakespeare = () => ({
  ...live.shakespeare, name: "delta_net",
  // A sentence, a layer, a head, a position, and how fast it forgets.
  observations: [
    [_("Layer 1, head 1 forgets everything at the end of a word: it keeps 0.1 % of its memory at spaces and line breaks, and 86 % elsewhere, on average."), 0, 0, 20, 1],
    [_("Layer 2, head 2 forgets at the same places, but less: it keeps 3 % there, and 81 % elsewhere."), 1, 1, 20, 1],
    [_("If nothing is forgotten, the loss of this text is 2.02 nats per character in place of 1.29. The model was trained with forgetting, and relies on it."), 0, 0, 20, 0],
  ],
});
live.panel.fill = (panel, own = live.panel.of_shakespeare()) => {
  const { el, slices, percent, quoted, slider, select, group, loss_of } = live;
  const model = live.models[own.name], { step, answer_weights } = live.delta_net;
  const { heads, n_layers } = model.config;
  let tokens = [], read = [], layer = 0, head = 0, at = 0, pace = 1, run = 0;

  const step_with = (token, state) => step(model, token, state, { forget: pace });
  const compute = async () => {
    const turn = ++run, stale = () => turn !== run;
    writing.stop();
    const results = await slices(live.reading(tokens, step_with), stale);
    if (stale()) return;
    read = results;
    at = Math.min(at, tokens.length - 1);
    place.input.max = tokens.length;
    show();
    panel.dataset.ready = turn;
  };

  // What is left at `at` of what was written at t: all that was kept in between, multiplied.
  const of = (t) => read[t].state[layer].steps[head];
  const left = () => {
    const shares = read.map(() => 0);
    let share = 1;
    for (let t = at; t >= 0; t--) {
      shares[t] = share;
      share *= of(t).alpha;
    }
    return shares;
  };
  const choose = (t) => { at = t; show() };
  const remains = live.letters(_("The text, shaded by what is left of it"), model, choose);
  const kept = live.letters(_("The text, shaded by α"), model, choose);
  const answer = live.letters(_("The text, shaded by its weights in what the memory answers"), model, choose);
  const sentence = el("output", {}), loss = el("output", {});
  const next = live.likeliest(model);

  const show = () => {
    if (!read.length) return;
    layers.input.selectedIndex = layer;
    which.input.selectedIndex = head;
    place.set(at + 1);
    speed.set(pace);
    const some = tokens.slice(0, read.length), shares = left();
    remains.set(some, shares, at);
    kept.set(some, read.map((_, t) => of(t).alpha), at);
    const weights = answer_weights(read.slice(0, at + 1).map((_, t) => of(t))), most = Math.max(...weights.map(Math.abs));
    answer.set(some, weights.map((weight) => weight / most), at);
    const half = shares.slice(0, at + 1).filter((share) => share >= 0.5).length;
    sentence.value = _("Layer {0}, head {1}, at {2}: of what was written at the last {3} characters at least half is left. This one keeps {4} of what was there before.",
      layer + 1, head + 1, quoted(tokens[at], model), half, percent(of(at).alpha));
    loss.value = _("The loss of this text is {0} nats per character.", loss_of(some, read).toFixed(2));
    next.set(live.softmax(read[at].logits));
  };

  const layers = select(_("Layer"), Array.from({ length: n_layers }, (_, l) => `${l + 1}`), (l) => { layer = l; show() });
  const which = select(_("Head"), Array.from({ length: heads }, (_, h) => `${h + 1}`), (h) => { head = h; show() });
  const place = slider(_("Position"), { min: 1, max: 1, value: 1 }, (position) => choose(position - 1));
  const speed = slider(_("Power a, times"), { min: 0, max: 2, step: 0.25, value: 1 }, (value) => { pace = value; compute() });
  const field = live.text_field(model, { most: 100, ...own.text }, (ids) => { tokens = ids; compute() });
  const writing = own.writer(model, field, step_with, () => tokens);
  const demonstrate = (l, h, position, rate) => () => { [layer, head, at, pace] = [l, h, position, rate]; field.set(own.text.examples[0]) };
  live.lay_out(panel, {
    input: field, under: own.under,
    seen: live.observations(own.observations.map(([said, ...shown]) => [said, demonstrate(...shown)])),
    controls: group(_("Forget"), layers, which, place, speed, el("p", {}, sentence, " ", loss)),
    view: el("div", {},
      el("p", {}, _("What is left of each character at the one with a frame (dark: all of it):")), remains,
      el("p", {}, _("How much of the memory each character keeps, α:")), kept,
      el("p", {}, _("Of whose values the answer to the query at the frame is made (red: subtracted):")), answer),
    outcome: group(_("Next character after the frame"), next),
    after: group(own.written, writing),
    foot: own.about(model),
  });
};
