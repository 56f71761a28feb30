// The encoder–decoder transformer: `labml_nn/transformers/{models,encoder_decoder}.py`.
// Attention and the feed-forward network are those of `autoregressive.js`.
"use strict";
{
  const { linear, row, add, layer_norm, submodule } = live;
  const norm = (x, w, name) => layer_norm(x, w[`${name}.weight`], w[`${name}.bias`]);
  const project = (x, w, name) => linear(x, w[`${name}.linear.weight`], w[`${name}.linear.bias`]);
  const output = (x, w) => linear(x, w["output.weight"], w["output.bias"]);

  const positional_encoding = (position, d_model) =>
    Float32Array.from({ length: d_model }, (_, i) => {
      const angle = position * Math.exp((-(i - (i % 2)) * Math.log(10000)) / d_model);
      return i % 2 ? Math.cos(angle) : Math.sin(angle);
    });

  // √C E_w + PE_t
  const embed = (model, token, position) => {
    const { d_model } = model.config;
    const e = row(model.w["transformer.src_embed.tokens.weight"], token);
    return add(e.map((value) => value * Math.sqrt(d_model)), positional_encoding(position, d_model));
  };

  const layers_of = (model, stack) => ((model.stacks ??= {})[stack] ??= Array.from(
    { length: model.config[`n_${stack}_layers`] ?? model.config.n_layers },
    (_, l) => {
      const w = submodule(model.w, `transformer.${stack}.layers.${l}.`);
      const parts = ["self_attn", "src_attn", "feed_forward"].map((name) => [name, submodule(w, `${name}.`)]);
      return { ...w, ...Object.fromEntries(parts) };
    },
  ));

  // Every position of the source attends to all others. Returns the memory.
  const encode = (model, source) => {
    const { heads } = model.config, { attend, feed_forward } = live.autoregressive;
    let xs = source.map((token, position) => embed(model, token, position));
    for (const w of layers_of(model, "encoder")) {
      const z = xs.map((x) => norm(x, w, "norm_self_attn"));
      const keys = z.map((x) => project(x, w.self_attn, "key"));
      const values = z.map((x) => project(x, w.self_attn, "value"));
      xs = xs.map((x, t) => {
        const attended = attend(project(z[t], w.self_attn, "query"), keys, values, heads, []);
        x = add(x, output(attended, w.self_attn));
        return add(x, feed_forward(norm(x, w, "norm_ff"), w.feed_forward));
      });
    }
    const memory = xs.map((x) => norm(x, model.w, "transformer.encoder.norm"));
    // Keys and values of the source, for each layer of the decoder.
    const sources = layers_of(model, "decoder").map(({ src_attn }) => ({
      keys: memory.map((m) => project(m, src_attn, "key")),
      values: memory.map((m) => project(m, src_attn, "value")),
    }));
    return { sources, tokens: [], caches: sources.map(() => ({ keys: [], values: [] })) };
  };

  const run_layers = (model, token, position, { sources, caches }, attention) => {
    const { heads } = model.config, { attend, feed_forward } = live.autoregressive;
    let x = embed(model, token, position);
    layers_of(model, "decoder").forEach((w, l) => {
      let z = norm(x, w, "norm_self_attn");
      caches[l].keys.push(project(z, w.self_attn, "key"));
      caches[l].values.push(project(z, w.self_attn, "value"));
      const { keys, values } = caches[l];
      x = add(x, output(attend(project(z, w.self_attn, "query"), keys, values, heads, []), w.self_attn));
      z = norm(x, w, "norm_src_attn");
      // Cross-attention: the query comes from the target, keys and values from the source.
      const cross = [], source = sources[l];
      const attended = attend(project(z, w.src_attn, "query"), source.keys, source.values, heads, cross);
      x = add(x, output(attended, w.src_attn));
      attention.push(cross);
      x = add(x, feed_forward(norm(x, w, "norm_ff"), w.feed_forward));
    });
    x = norm(x, model.w, "transformer.decoder.norm");
    return linear(x, model.w["transformer.src_embed.tokens.weight"], model.w["transformer.generator.projection.bias"]);
  };

  // One token of the target. `state` comes from `encode` or from the step before. Returns logits,
  // the next state, and the weights of cross-attention by layer and head.
  const step = (model, token, state) => {
    const { max_len } = model.config;
    let { tokens, caches } = state;
    if (tokens.length === max_len) {
      tokens = tokens.slice(max_len >> 1);
      caches = caches.map(() => ({ keys: [], values: [] }));
      tokens.forEach((old, position) => run_layers(model, old, position, { ...state, caches }, []));
    }
    const attention = [];
    const logits = run_layers(model, token, tokens.length, { ...state, caches }, attention);
    return { logits, attention, state: { ...state, tokens: [...tokens, token], caches } };
  };

  live.encoder_decoder = { positional_encoding, embed, encode, run_layers, step };
}
