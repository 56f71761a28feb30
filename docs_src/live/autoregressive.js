// The autoregressive transformer: `labml_nn/transformers/{autoregressive,mha,modern}.py`.
// One sequence at a time, so the batch axis is missing. `model.w` are the weights by their names.
"use strict";
{
  const { linear, row, add, relu, softmax, layer_norm, submodule } = live;

  // Rotary positions: feature i and feature i + D/2 are a point, turned by an angle that grows
  // with the position.
  const rotate = (x, position, heads) => {
    const D = x.length / heads, half = D / 2, y = new Float32Array(x.length);
    for (let h = 0; h < heads; h++)
      for (let i = 0; i < half; i++) {
        const angle = position * Math.exp((-2 * i * Math.log(10000)) / D);
        const cos = Math.cos(angle), sin = Math.sin(angle);
        const first = x[h * D + i], second = x[h * D + half + i];
        y[h * D + i] = first * cos - second * sin;
        y[h * D + half + i] = first * sin + second * cos;
      }
    return y;
  };

  // e_s = q · k_s for head h.
  const get_scores = (query, keys, h, D) => {
    const scores = new Float32Array(keys.length);
    keys.forEach((key, s) => {
      for (let d = h * D; d < (h + 1) * D; d++) scores[s] += query[d] * key[d];
    });
    return scores;
  };

  // A = softmax(e / √d_k), and the average of the values with these weights, for each head.
  // `off(h)` switches head h off: its average becomes zero. The weights of all heads go to `attn`.
  const attend = (query, keys, values, heads, attn, off = () => false) => {
    const D = query.length / heads, output = new Float32Array(query.length);
    for (let h = 0; h < heads; h++) {
      const scores = get_scores(query, keys, h, D);
      const weights = softmax(scores.map((score) => score / Math.sqrt(D)));
      attn.push(weights);
      if (off(h)) continue;
      values.forEach((value, s) => {
        for (let d = h * D; d < (h + 1) * D; d++) output[d] += weights[s] * value[d];
      });
    }
    return output;
  };

  // One query. Its key and value were appended to the cache before, so no mask is needed: the
  // cache ends with the query's own position.
  const self_attention = (x, position, w, cache, { heads, positions = true }, attn, off) => {
    const turn = (vector) => (positions ? rotate(vector, position, heads) : vector);
    const query = turn(linear(x, w["query.linear.weight"], w["query.linear.bias"]));
    cache.keys.push(turn(linear(x, w["key.linear.weight"], w["key.linear.bias"])));
    cache.values.push(linear(x, w["value.linear.weight"], w["value.linear.bias"]));
    const heads_out = attend(query, cache.keys, cache.values, heads, attn, off);
    return linear(heads_out, w["output.weight"], w["output.bias"]);
  };

  const feed_forward = (x, w) =>
    linear(relu(linear(x, w["layer1.weight"], w["layer1.bias"])), w["layer2.weight"], w["layer2.bias"]);

  const norm = (x, w, name) => layer_norm(x, w[`${name}.weight`], w[`${name}.bias`]);

  // Pre-norm: each sub-layer adds to the residual path.
  const transformer_layer = (x, position, w, cache, config, attn, off) => {
    x = add(x, self_attention(norm(x, w.all, "norm_self_attn"), position, w.self_attn, cache, config, attn, off));
    return add(x, feed_forward(norm(x, w.all, "norm_ff"), w.feed_forward));
  };

  const layers_of = (model) => (model.layers ??= Array.from({ length: model.config.n_layers }, (_, l) => {
    const all = submodule(model.w, `stack.layers.${l}.`);
    return { all, self_attn: submodule(all, "self_attn."), feed_forward: submodule(all, "feed_forward.") };
  }));

  // One token at a `position` of the context, through all layers.
  const run_layers = (model, token, position, caches, attention, options) => {
    const config = { ...model.config, positions: options.positions };
    const E = model.w["embedding.tokens.weight"];
    let x = row(E, token).map((value) => value * Math.sqrt(config.d_model));
    layers_of(model).forEach((w, l) => {
      const attn = [];
      x = transformer_layer(x, position, w, caches[l], config, attn, (h) => options.off?.has(`${l}.${h}`));
      attention.push(attn);
    });
    // Tied models have no output matrix: they use the embedding once more.
    return linear(norm(x, model.w, "stack.norm"), model.w["generator.projection.weight"] ?? E, model.w["generator.projection.bias"]);
  };

  // The state is the context: its tokens, and a KV cache for each layer. When it is full, its older
  // half is dropped and the newer half is read again, from position 0 on. `options.off` has the
  // heads that are switched off, as "layer.head"; `options.positions` false leaves rotations out.
  // Returns the logits of the next token, the new state, and attention weights by layer and head.
  const step = (model, token, state, options = {}) => {
    const { n_layers, max_len } = model.config;
    const fresh = () => Array.from({ length: n_layers }, () => ({ keys: [], values: [] }));
    let { tokens, caches } = state ?? { tokens: [], caches: fresh() };
    if (tokens.length === max_len) {
      tokens = tokens.slice(max_len >> 1);
      caches = fresh();
      tokens.forEach((old, position) => run_layers(model, old, position, caches, [], options));
    }
    const attention = [];
    const logits = run_layers(model, token, tokens.length, caches, attention, options);
    return { logits, attention, state: { tokens: [...tokens, token], caches } };
  };

  live.autoregressive = { rotate, get_scores, attend, self_attention, feed_forward, transformer_layer, run_layers, step };
}
