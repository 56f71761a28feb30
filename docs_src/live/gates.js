// Gates and states of the cells of an LSTM or a GRU along a text, and what a forced gate changes.
"use strict";
// The first texts of both panels.
live.speeches = { examples: [
  "KING RICHARD II:\nWhat must the king do now? must he submit?\nThe king shall do it: must he be deposed?\n\nROMEO:\nBut, soft! what light through yonder window breaks?",
  "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\nDeny thy father and refuse thy name;",
] };
// `rows` are what is shown of a cell: label, name in a sentence, key in the state of a layer, whether
// it is a gate. The last one is the state, which may have a colour of its own: `ink`.
// `known` are cells with a meaning: name, layer, cell. `held` is the gate that can be forced. The model
// `name` is run by the script `cell`. Texts and what writes them are those of `live.shakespeare` or `live.poems`.
live.gates = (panel, { name, cell = name, rows, known, held, legend, text, written, writer, about, under, observations }) => {
  const { el, slices, visible, joined, quoted, slider, select, group } = live;
  const model = live.models[name], { step } = live[cell], { n_layers, d_hidden } = model.config;
  const state = rows.at(-1), forces = [[_("as computed")], [_("always closed, 0"), 0], [_("always open, 1"), 1]];
  let [, layer, unit] = known[0];
  let tokens = [], seen = [], read = [], plain = [], at = 0, forced = 0, run = 0;

  const change = (l, gate, values) => {
    if (forced && gate === held.key && l === layer) values[unit] = forces[forced][1];
  };
  const step_with = (token, state) => step(model, token, state, change);
  const compute = async () => {
    const own = ++run, stale = () => own !== run, ids = tokens;
    writing.stop();
    const found = await slices(live.reading(ids, step_with), stale);
    if (stale()) return;
    const before = forced ? await slices(live.reading(ids, (token, state) => step(model, token, state)), stale) : found;
    if (stale()) return;
    [seen, read, plain] = [ids, found, before];
    at = Math.min(at, ids.length - 1);
    place.input.max = ids.length;
    show();
    panel.dataset.ready = own;
  };

  // A column for each character: its letter, and a bar for each gate and for the state, in lines that
  // fill the view. A phone has one line, which scrolls sideways.
  // Chinese characters are wider than letters.
  const strips = el("div", { className: "gates", role: "group", tabIndex: 0 }), column = model.characters.length > 100 ? 18 : 12;
  strips.style.setProperty("--column", `${column}px`);
  strips.setAttribute("aria-label", _("Gates and state of the cell at each character; choose one with “Character”, and read its numbers below"));
  const range = el("p", { className: "small" });
  strips.onpointerover = strips.onpointerdown = ({ target }) => {
    const column = target.closest("[data-at]");
    if (column) point(+column.dataset.at);
  };
  const value = (t, key) => read[t].state[layer][key][unit];
  const said = (number, digits = 2) => number.toFixed(digits).replace("-", "−");
  const draw = () => {
    const spans = rows.map(({ key, gate }) => {
      const all = gate ? [0, 1] : read.map((_, t) => value(t, key));
      return [Math.min(0, ...all), Math.max(0, ...all)];
    });
    const bar = (number, [low, high], ink = "--link") => {
      const share = (one) => `${(100 * (one - low)) / (high - low || 1)}%`;
      const element = el("i", { className: number < 0 ? "minus" : "" });
      element.style.setProperty("--ink", `var(${ink})`);
      element.style.setProperty("--from", share(Math.min(0, number)));
      element.style.setProperty("--to", share(Math.max(0, number)));
      return element;
    };
    const lines = [], names = ["", ...rows.map(({ label }) => label)], starts = breaks();
    read.forEach((_, t) => {
      if (starts.has(t))
        lines.push(el("div", {}, el("div", { className: "names" }, ...names.map((label) => el("span", {}, label)))));
      const letter = el("b", {}, visible(model.characters[seen[t]]));
      lines.at(-1).append(el("div", { "data-at": t }, letter, ...rows.map(({ key, ink }, k) => bar(value(t, key), spans[k], ink))));
    });
    strips.replaceChildren(...lines);
    drawn = fits();
    range.textContent = _("The bar of the {0} reaches from {1} to {2}.", state.said, ...spans.at(-1).map((end) => said(end, 1)));
  };
  // Where the lines of the view begin: behind a line break of the text or, where there is none that
  // fits, behind a space.
  const breaks = () => {
    const letters = seen.map((id) => model.characters[id]), most = fits(), starts = new Set([0]);
    for (let from = 0; letters.length - from > most;) {
      const line = letters.slice(from, from + most);
      from += line.lastIndexOf("\n") + 1 || line.lastIndexOf(" ") + 1 || most;
      starts.add(from);
    }
    return starts;
  };
  // Characters beside the names of the rows.
  const fits = () => (innerWidth < 960 ? Infinity : Math.max(8, Math.floor((strips.clientWidth - 60) / column)));
  let drawn = 0;
  new ResizeObserver(() => { if (fits() !== drawn) show() }).observe(strips);

  const sentence = el("output", {});
  const place = slider(_("Character"), { min: 1, max: 1, value: 1 }, (t) => point(t - 1));
  const point = (t) => {
    at = t;
    place.set(t + 1);
    strips.querySelector(".at")?.classList.remove("at");
    const column = strips.querySelector(`[data-at="${t}"]`);
    column.classList.add("at");
    const { left, right } = strips.getBoundingClientRect(), shown = column.getBoundingClientRect();
    if (shown.left < left + 60 || shown.right > right) strips.scrollLeft += shown.left - (left + right) / 2;
    const numbers = rows.filter(({ gate }) => gate).map((gate) => `${gate.said} ${said(value(t, gate.key))}`);
    const before = t ? value(t - 1, state.key) : 0;
    sentence.value = _("{0} at {1}: {2}. The {3} was {4} and is {5}.", quoted(seen[t], model), t + 1, joined(numbers), state.said, said(before), said(value(t, state.key)));
    const shares = live.softmax(read[t].logits);
    after.textContent = _("Next character after {0}", quoted(seen[t], model));
    next.set(shares, forced ? live.softmax(plain[t].logits) : shares);
  };
  const after = el("p", { className: "small" });
  const next = live.likeliest(model);
  const cost = el("output", {});

  const choose = (l, u) => { [layer, unit] = [l, u]; if (forced) compute(); else show() };
  const cells = select(_("Cell"), [...known.map(([said]) => said), _("another one")], (i) => { if (known[i]) choose(known[i][1], known[i][2]) });
  const layers = select(_("Layer"), Array.from({ length: n_layers }, (_, l) => `${l + 1}`), (l) => choose(l, unit));
  const units = slider(_("Number"), { min: 1, max: d_hidden, value: 1 }, (u) => choose(layer, u - 1));
  const force = select(held.label, forces.map(([said]) => said), (i) => { forced = i; compute() });
  const show = () => {
    if (!read.length) return;
    const which = known.findIndex(([, l, u]) => l === layer && u === unit);
    cells.input.selectedIndex = which < 0 ? known.length : which;
    layers.input.selectedIndex = layer;
    units.set(unit + 1);
    force.input.selectedIndex = forced;
    draw();
    point(at);
    // A loss is the mean of minus the logarithm of the probabilities.
    const losses = [read, plain].map((one) => live.loss_of(seen, one));
    const told = [...losses.map((loss) => loss.toFixed(2)), ...losses.map((loss) => (100 * Math.exp(-loss)).toFixed(1))];
    cost.value = forced
      ? _("Loss: {0} nats per character, and {1} with the gate as computed. That is a probability of {2} %, and {3} %, on geometric average.", ...told)
      : _("Loss: {0} nats per character, a probability of {1} % on geometric average.", told[0], told[2]);
  };

  const field = live.text_field(model, { most: 170, ...text },
    (ids) => { tokens = ids; at = ids.length - 1; compute() });
  const writing = writer(model, field, step_with, () => tokens);
  // An observation: a cell, the character to look at, a forced gate, and a text.
  const demonstrate = ([l, u], position, force = 0, example = text.examples[0]) => () => {
    [layer, unit, forced] = [l, u, force];
    field.set(example);
    at = position;
  };
  live.lay_out(panel, {
    input: field, under,
    seen: live.observations(observations.map(([said, ...shown]) => [said, demonstrate(...shown)])),
    controls: group(_("Gates and state of a cell"), cells, layers, units, force, place, sentence, el("p", { className: "small" }, legend)),
    view: [strips, range],
    outcome: group(_("Next character"), after, next, cost),
    after: group(written, el("p", { className: "small" }, _("With the gate as it is set above.")), writing),
    foot: about(model),
  });
};
