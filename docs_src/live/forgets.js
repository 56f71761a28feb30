// What the heads of a trained Gated DeltaNet still have of each character, at a later one.
"use strict";
live.panel = { title: _("What a Gated DeltaNet forgets"), needs: ["delta_net", "weights/delta_net"] };
live.panel.fill = (panel) => {
  const { el, slices, percent, quoted, slider, select, group, loss_of } = live;
  const model = live.models.delta_net, { step } = live.delta_net;
  const { heads, n_layers } = model.config;
  let tokens = [], read = [], layer = 0, head = 0, at = 0, pace = 1, run = 0;

  const compute = async () => {
    const own = ++run, stale = () => own !== run, options = { forget: pace };
    const results = await slices(live.reading(tokens, (token, state) => step(model, token, state, options)), stale);
    if (stale()) return;
    read = results;
    at = Math.min(at, tokens.length - 1);
    place.input.max = tokens.length;
    show();
    panel.dataset.ready = own;
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
  const [example] = live.examples;
  const field = live.text_field(model, { most: 100, value: example, examples: live.examples },
    (ids) => { tokens = ids; compute() });
  const demonstrate = (l, h, position, rate) => () => { [layer, head, at, pace] = [l, h, position, rate]; field.set(example) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("Layer 1, head 1 forgets everything at the end of a word: it keeps 0.1 % of its memory at spaces and line breaks, and 86 % elsewhere, on average."), demonstrate(0, 0, 20, 1)],
      [_("Layer 2, head 2 forgets at the same places, but less: it keeps 3 % there, and 81 % elsewhere."), demonstrate(1, 1, 20, 1)],
      [_("If nothing is forgotten, the loss of this text is 2.02 nats per character in place of 1.29. The model was trained with forgetting, and relies on it."), demonstrate(0, 0, 20, 0)],
    ]),
    controls: group(_("Forget"), layers, which, place, speed, el("p", {}, sentence, " ", loss)),
    view: el("div", {},
      el("p", {}, _("What is left of each character at the one with a frame (dark: all of it):")), remains,
      el("p", {}, _("How much of the memory each character keeps, α:")), kept),
    outcome: group(_("Next character after the frame"), next),
    foot: live.about(model),
  });
};
