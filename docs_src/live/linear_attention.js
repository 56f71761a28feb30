// Linear attention: `labml_nn/recurrent/linear_attention.py`.
"use strict";
{
  const { linear, relu, add, row, rms_norm, submodule } = live;

  const feature_map = (x) => x.map((value) => (value > 0 ? value + 1 : Math.exp(value)));

  // One step of a head. The last column of its memory is the sum of all keys.
  const head = (q, k, v, memory) => {
    const width = v.length + 1, written = memory.slice(), found = new Float64Array(width);
    k.forEach((share, d) => {
      for (let e = 0; e < width; e++) written[d * width + e] += share * (e < v.length ? v[e] : 1);
    });
    q.forEach((share, d) => {
      for (let e = 0; e < width; e++) found[e] += share * written[d * width + e];
    });
    const weights = found[v.length] + 1e-6;
    return { q, k, memory: written, y: Float32Array.from(v, (_, e) => found[e] / weights) };
  };

  // Short convolution, heads, output. The state has the last inputs of the convolution, and the
  // memory of each head.
  const mixer = (x, w, heads, { recent, memories }) => {
    const C = x.length, D = C / heads, qkv = new Float32Array(3 * C);
    ["query", "key", "value"].forEach((name, i) => qkv.set(linear(x, w[`${name}.weight`]), i * C));
    const window = [...recent, qkv], kernel = w["conv.weight"], W = window.length;
    const mixed = qkv.map((_, f) => window.reduce((sum, one, j) => sum + kernel[f * W + j] * one[f], 0));
    const part = (i, h) => mixed.subarray(i * C + h * D, i * C + (h + 1) * D);
    const steps = memories.map((memory, h) => head(feature_map(part(0, h)), feature_map(part(1, h)), part(2, h), memory));
    const y = new Float32Array(C);
    steps.forEach((one, h) => y.set(one.y, h * D));
    return [linear(y, w["output.weight"]), { recent: window.slice(1), memories: steps.map(({ memory }) => memory), steps }];
  };

  // The state is that of the mixer of each layer. Returns logits, and the next state.
  const step = (model, token, state) => {
    const { d_model, heads, n_layers, conv } = model.config, { w } = model, D = d_model / heads;
    model.layers ??= Array.from({ length: n_layers }, (_, l) => {
      const of = submodule(w, `layers.${l}.`);
      return { of, mixing: submodule(of, "mixer.") };
    });
    state ??= model.layers.map(() => ({
      recent: Array.from({ length: conv - 1 }, () => new Float32Array(3 * d_model)),
      memories: Array.from({ length: heads }, () => new Float64Array(D * (D + 1))),
    }));
    let x = row(w["embedding.weight"], token);
    const after = model.layers.map(({ of, mixing }, l) => {
      const [found, next] = mixer(rms_norm(x, of["norm_mixer.weight"]), mixing, heads, state[l]);
      x = add(x, found);
      const hidden = relu(linear(rms_norm(x, of["norm_ff.weight"]), of["feed_forward.layer1.weight"], of["feed_forward.layer1.bias"]));
      x = add(x, linear(hidden, of["feed_forward.layer2.weight"], of["feed_forward.layer2.bias"]));
      return next;
    });
    return { logits: linear(rms_norm(x, w["norm.weight"]), w["output.weight"]), state: after };
  };

  live.linear_attention = { step };
}
