// Cross-attention of a trained encoder–decoder: a source, the reply, and what its tokens attend to.
"use strict";
live.panel = {
  title: _("An encoder–decoder that replies"),
  needs: ["autoregressive", "encoder_decoder", "weights/encoder_decoder"],
};
live.panel.fill = (panel) => {
  const { el, slices, percent, joined, quoted, slider, select, group } = live;
  const model = live.models.encoder_decoder, { encode, step } = live.encoder_decoder;
  const { heads, start_token, end_token, padding_token } = model.config;
  let source = [], reply = [], results = [], chosen = [1, 1], at = 0, run = 0;

  // `results[t]` has the logits of reply token t, and the cross-attention that led to them.
  const begin = () => step(model, start_token, encode(model, source));
  const greedy = function* () {
    results = [begin()];
    reply = [];
    yield;
    while (reply.length < 60) {
      const { logits, state } = results.at(-1);
      const token = live.sample(logits.map((logit, i) => (i === padding_token || i === start_token ? -Infinity : logit)), { temperature: 0 }, () => 0);
      if (token === end_token) break;
      reply.push(token);
      results.push(step(model, token, state));
      yield;
    }
    return true;
  };
  const compute = async () => {
    const own = ++run;
    writer.stop();
    await slices(greedy(), () => own !== run);
    if (own !== run) return;
    at = 0;
    show();
    panel.dataset.ready = own;
  };

  const weights = (t) => results[t].attention[chosen[0]][chosen[1]];
  const names = live.head_names(model);
  const head = select(_("Head"), names, (i) => { chosen = [Math.floor(i / heads), i % heads]; show() });
  const choose = (t) => { at = t; show() };
  const place = slider(_("Reply token"), { min: 1, max: 1, value: 1 }, (t) => choose(t - 1));
  const map = live.heat_map(_("Cross-attention: a row for each reply token, a column for each source token"), choose);
  map.className = "square";
  const from = live.letters(_("The source, shaded by the attention of the reply token"), model, () => {});
  const to = live.letters(_("The reply"), model, choose);
  const sentence = el("output", {}), next = live.likeliest(model);
  const show = () => {
    if (!results.length) return;
    const rows = Math.max(1, Math.min(results.length, reply.length));
    at = Math.min(at, rows - 1);
    head.input.selectedIndex = chosen[0] * heads + chosen[1];
    place.input.max = rows;
    place.set(at + 1);
    map.set(rows, source.length, (t, s) => Math.sqrt(weights(t)[s]), at);
    from.set(source, weights(at));
    to.set(reply, [], at);
    const row = weights(at), top = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 3);
    const token = reply.length ? quoted(reply[at], model) : _("the end");
    const most = joined(top.map((s) => _("{0} at {1} ({2})", quoted(source[s], model), s + 1, percent(row[s]))));
    sentence.value = _("To predict reply token {0}, {1}, {2} attends to {3} of the source.", at + 1, token, names[head.input.selectedIndex], most);
    next.set(live.softmax(results[at].logits));
  };

  const [cousin, morrow, citizen] = ["BENVOLIO:\nGood-morrow, cousin.", "GLOUCESTER:\nGood morrow.", "First Citizen:\nGood morrow."];
  const field = live.text_field(model, { label: _("Source, up to 64 characters: a speech with its speaker"), most: 64, value: cousin, examples: [cousin, morrow, citizen] },
    (ids) => { source = ids; compute(); });
  const writer = live.writer(model, {
    begin: () => {
      run++;
      results = [begin()];
      reply = [];
      return results[0];
    },
    step: (token, state) => step(model, token, state),
    wrote: (tokens, result) => {
      reply = [...tokens];
      results.push(result);
      at = reply.length - 1;
      show();
    },
    end: end_token,
    banned: [padding_token, start_token],
    n: 60,
  });
  const demonstrate = (text, one = chosen) => () => { chosen = one; field.set(text) };
  live.lay_out(panel, {
    input: field,
    seen: live.observations([
      [_("Before the first letter of the reply, layer 2, head 2 gives over 99 % of its weight to one letter of the speaker's name, the “I” of BENVOLIO."), demonstrate(cousin, [1, 1])],
      [_("Who speaks decides who replies: after GLOUCESTER the likeliest first letter is “K” (24 %)."), demonstrate(morrow)],
      [_("The same words from First Citizen, and the likeliest first letter is “C” (22 %)."), demonstrate(citizen)],
    ]),
    controls: group(_("Cross-attention"), head, place, sentence,
      el("p", { className: "small" }, _("The reply is greedy at first. Each row is a token of the reply, each column one of the source; a stronger colour is a larger weight (drawn as its square root)."))),
    view: [group(_("The source"), from), group(_("The reply"), to), map],
    outcome: group(_("This reply token"), next),
    after: group(_("Write another reply"), writer),
    foot: live.about(model),
  });
};
