// Multi-head attention of a trained transformer: its heads as maps and lines, heads switched off,
// the next token, and text that it writes.
"use strict";
live.panel = { title: _("A transformer with 12 heads"), needs: ["autoregressive"], weights: ["weights/autoregressive"], poems: "tang" };
// What is the model's own: its name, texts, observations (a sentence, a text, a head, whether that is off, a query), and how it writes.
live.panel.of_shakespeare = () => {
  const [king, juliet, name] = ["KING RICHARD II:\nWhat must the king do now?", "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?", "ROMEO:\nWhat is thy na"];
  return {
    ...live.shakespeare, name: "autoregressive", first: 2,
    text: { examples: [king, juliet, name] },
    observations: [
      [_("Layer 2, head 1 looks for the line break after the speaker's name: it keeps 47 % of its weight there, on average, while every other head gives it 6 % or less."), king, [1, 0]],
      [_("Layer 3, head 1 attends to the character before: 65 % of its weight, on average."), juliet, [2, 0]],
      [_("After “What is thy na” the model expects “m” with 58 %. Without layer 2, head 3 it is 15 %, and “t” is likelier."), name, [1, 2], true],
    ],
  };
};
live.panel.fill = (panel, own = live.panel.of_shakespeare()) => {
  const { el, slices, visible, percent, joined, quoted, slider, button, group, pair } = live;
  const model = live.models[own.name], { step } = live.autoregressive;
  const { n_layers, heads, max_len } = model.config;
  const off = new Set();
  let tokens = [], read = [], plain = [], chosen = [0, 0], query = 0, run = 0;

  // Reads the text, with the heads that are on and, if some are off, with all of them.
  const work = (ids, options) => live.reading(ids, (token, state) => step(model, token, state, options));
  const compute = async () => {
    const turn = ++run, stale = () => turn !== run, ids = tokens;
    writer.stop();
    const results = await slices(work(ids, { off: new Set(off) }), stale);
    const all = off.size && results ? await slices(work(ids, {}), stale) : results;
    if (stale()) return;
    [read, plain] = [results, all];
    query = Math.min(query, ids.length - 1);
    slide.input.max = ids.length - 1;
    show();
    panel.dataset.ready = turn;
  };

  const weights = (t, [layer, head] = chosen) => read[t].attention[layer][head];
  const map = live.heat_map(_("Attention weights: a row for each query, a column for each key"), (row) => ask(row));
  map.className = "square";
  const lines = live.arcs((i) => ask(i));
  const sentence = el("output", {});
  const next = live.likeliest(model);
  const after = el("p", {});
  const ask = (t) => {
    if (!read.length) return;
    query = Math.min(t, read.length - 1);
    show();
  };
  const slide = slider(_("Query"), { min: 0, max: 0, value: 0, say: (t) => String(t + 1) }, (t) => { query = t; show() });

  const cells = [];
  const grid = el("div", { className: "heads" });
  for (let l = 0; l < n_layers; l++)
    for (let h = 0; h < heads; h++) {
      const small = live.heat_map(_("Map of head"));
      const name = el("span", {}, `${l + 1}.${h + 1}`);
      const pick = el("button", { type: "button", onclick: () => { chosen = [l, h]; show() } }, small, name);
      const on = el("input", { type: "checkbox", checked: true, onchange: () => {
        off[on.checked ? "delete" : "add"](`${l}.${h}`);
        compute();
      } });
      on.setAttribute("aria-label", _("Layer {0}, head {1} is on", l + 1, h + 1));
      cells.push({ l, h, small, pick, on });
      grid.append(el("div", {}, pick, el("label", {}, on, _("on"))));
    }

  const show = () => {
    if (!read.length) return;
    slide.set(query);
    const n = read.length, labels = tokens.slice(0, n).map((token) => visible(model.characters[token]));
    const at = (head) => (i, j) => (j <= i ? Math.sqrt(weights(i, head)[j]) : 0);
    for (const { l, h, small, pick } of cells) {
      pick.setAttribute("aria-pressed", String(l === chosen[0] && h === chosen[1]));
      pick.classList.toggle("off", off.has(`${l}.${h}`));
      small.set(n, n, at([l, h]));
    }
    map.set(n, n, at(chosen), query);
    const row = weights(query);
    lines.set(labels, row, query);
    const top = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 3);
    sentence.value = _("Layer {0}, head {1}: query {2}, {3}, attends to {4}.", chosen[0] + 1, chosen[1] + 1, query + 1, quoted(tokens[query], model),
      joined(top.map((j) => _("{0} at {1} ({2})", quoted(tokens[j], model), j + 1, percent(row[j])))));
    const shares = live.softmax(read[query].logits), before = live.softmax(plain[query].logits);
    next.set(shares, off.size ? before : shares);
    const last = labels.slice(Math.max(0, query - 11), query + 1).join("");
    after.textContent = off.size ? _("After “{0}”, with {1} of {2} heads off:", last, off.size, n_layers * heads) : _("After “{0}”:", last);
  };

  const field = live.text_field(model, { most: max_len, ...own.text }, (ids) => { tokens = ids; query = ids.length - 1; compute(); });
  const writer = own.writer(model, field, (token, state) => step(model, token, state, { off }), () => tokens);

  const all_on = () => { off.clear(); cells.forEach(({ on }) => { on.checked = true }) };
  const demonstrate = (text, head, without, at) => () => {
    all_on();
    if (without) {
      off.add(head.join("."));
      cells.find(({ l, h }) => l === head[0] && h === head[1]).on.checked = false;
    }
    chosen = head;
    field.set(text);
    query = at ?? query;
  };
  live.lay_out(panel, {
    input: field,
    first: own.first,
    seen: live.observations(own.observations.map(([sentence, ...shown]) => [sentence, demonstrate(...shown)])),
    controls: group(_("Heads"), el("p", {}, _("Choose a head to see its map. Switch a head off, and its average becomes zero: the model goes on without it.")), grid,
      button(_("All heads on"), () => { all_on(); compute() })),
    view: group(_("What the query attends to"), slide,
      pair(map, el("div", {}, sentence, el("p", { className: "small" }, _("Each row is a query, each column a key; a stronger colour is a larger weight (drawn as its square root). Point at a row or a character, or move the slider.")))), lines),
    outcome: group(_("Next character"), after, next),
    after: group(own.written, writer),
    foot: own.about(model),
  });
};
