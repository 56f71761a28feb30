// The Feedback Transformer with shared keys and values: `labml_nn/transformers/feedback`.
"use strict";
{
  const { linear, row, add, relu, softmax, layer_norm, submodule } = live;
  const norm = (x, w, name) => layer_norm(x, w[`${name}.weight`], w[`${name}.bias`]);

  // e_j = q·k_j + q·E_d + u·k_j + b_d for head h, where slot j is d = S - j steps back. The row of
  // distance d in the tables is P - d.
  const get_scores = (query, keys, w, h, heads) => {
    const D = query.length / heads, P = w.key_pos_embeddings.shape[0], S = keys.length;
    return Float32Array.from(keys, (key, j) => {
      const distance = Math.max(0, P - (S - j));
      let score = w.key_pos_bias[distance * heads + h];
      for (let d = 0; d < D; d++) {
        const i = h * D + d;
        score += (query[i] + w.query_pos_bias[i]) * key[i];
        score += query[i] * w.key_pos_embeddings[distance * query.length + i];
      }
      return score;
    });
  };

  const attention = (x, memory, w, heads, attn) => {
    const query = linear(x, w["query.linear.weight"]), D = query.length / heads;
    const output = new Float32Array(query.length);
    for (let h = 0; h < heads; h++) {
      const scores = get_scores(query, memory.keys, w, h, heads);
      const weights = softmax(scores.map((score) => score / Math.sqrt(D)));
      attn.push(weights);
      memory.values.forEach((value, j) => {
        for (let d = h * D; d < (h + 1) * D; d++) output[d] += weights[j] * value[d];
      });
    }
    return linear(output, w["output.weight"], w["output.bias"]);
  };

  const feed_forward = (x, w) =>
    linear(relu(linear(x, w["layer1.weight"], w["layer1.bias"])), w["layer2.weight"], w["layer2.bias"]);

  const feedback_layer = (x, memory, w, heads, attn) => {
    if (memory.keys.length)
      x = add(x, attention(norm(x, w, "norm_self_attn"), memory, w.attn, heads, attn));
    return add(x, feed_forward(norm(x, w, "norm_ff"), w.feed_forward));
  };

  const layers_of = (model) => (model.layers ??= Array.from({ length: model.config.n_layers }, (_, l) => {
    const all = submodule(model.w, `transformer.layers.${l}.`);
    return { ...all, attn: submodule(all, "attn."), feed_forward: submodule(all, "feed_forward.") };
  }));

  // A slot is a key and a value of the memory vector.
  const to_memory = (vector, { w }) =>
    [linear(vector, w["transformer.key.linear.weight"]), linear(vector, w["transformer.value.linear.weight"])];

  // The state is the memory, at most `horizon` slots. Returns the logits of the next token, the new
  // memory, and attention weights by layer and head; the first token has none.
  const step = (model, token, state, { horizon = model.config.max_len } = {}) => {
    const { w, config } = model, { d_model, heads } = config;
    const memory = state ?? { keys: [], values: [] };
    const shares = softmax(w["transformer.weights"]);
    const weights = [];
    const levels = [row(w["embed.weight"], token).map((value) => value * Math.sqrt(d_model))];
    for (const layer of layers_of(model)) {
      const attn = [];
      levels.push(feedback_layer(levels.at(-1), memory, layer, heads, attn));
      weights.push(attn);
    }
    // The memory vector is the weighted sum of the outputs of all layers and the embedding.
    const sum = levels[0].map((_, c) => levels.reduce((all, level, l) => all + shares[l] * level[c], 0));
    const [key, value] = to_memory(norm(sum, w, "transformer.norm_memory"), model);
    const next = { keys: [...memory.keys, key].slice(-horizon), values: [...memory.values, value].slice(-horizon) };
    const logits = linear(norm(levels.at(-1), w, "transformer.norm"), w["embed.weight"]);
    return { logits, attention: weights, shares, state: next };
  };

  live.feedback = { get_scores, attention, feed_forward, feedback_layer, to_memory, step };
}
