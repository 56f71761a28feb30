// Mamba-2, one token at a time: `labml_nn/recurrent/mamba2.py` and `language_model.py` beside it.
"use strict";
{
  const { linear, row, add, relu, rms_norm, submodule } = live;

  const silu = (x) => x.map((value) => value / (1 + Math.exp(-value)));

  // The sums of the convolution at one token; `recent` has the inputs at the W - 1 tokens before.
  const convolve = (x, weight, bias, recent) => {
    const [features, , width] = weight.shape;
    const inputs = [...(recent ?? Array.from({ length: width - 1 }, () => new Float32Array(features))), x];
    const y = x.map((_, f) => inputs.reduce((sum, input, j) => sum + weight[f * width + j] * input[f], bias ? bias[f] : 0));
    return { y, recent: inputs.slice(1) };
  };

  const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

  // The state has the matrices of all heads, one after the other, what each head has just kept, and
  // the last inputs of the convolution.
  const mixer = (x, w, state, { d_model, heads, groups, d_k, d_v }) => {
    const D = d_k ?? 2 * Math.floor(d_model / heads), V = d_v ?? 2 * Math.floor(d_model / heads);
    const sums = linear(x, w["in_proj.weight"]);
    const gate = silu(sums.subarray(0, heads * V)), steps = sums.subarray(sums.length - heads);
    const { y: vkq, recent } = convolve(sums.slice(heads * V, -heads), w["conv1d.weight"], w["conv1d.bias"], state?.recent);
    const signals = silu(vkq);
    const h = state ? state.h.slice() : new Float32Array(heads * D * V), kept = [];
    const y = new Float32Array(heads * V);
    for (let head = 0, at = 0; head < heads; head++) {
      const group = Math.floor((head * groups) / heads);
      const key = heads * V + group * D, query = key + groups * D;
      const delta = softplus(steps[head] + w.dt_bias[head]);
      kept[head] = Math.exp(-Math.exp(w.A_log[head]) * delta);
      for (let e = 0; e < V; e++) y[head * V + e] = w.D[head] * signals[head * V + e];
      for (let d = 0; d < D; d++)
        for (let e = 0; e < V; e++, at++) {
          h[at] = kept[head] * h[at] + delta * signals[key + d] * signals[head * V + e];
          y[head * V + e] += signals[query + d] * h[at];
        }
    }
    const shown = rms_norm(y.map((value, i) => value * gate[i]), w["norm.weight"], 1e-5);
    return { y: linear(shown, w["out_proj.weight"]), state: { h, kept, recent } };
  };

  // The state of the model is a list of those of its mixers.
  const step = (model, token, state) => {
    const { w, config } = model;
    model.layers ??= Array.from({ length: config.n_layers }, (_, l) => submodule(w, `layers.${l}.`));
    let x = row(w["embedding.weight"], token);
    const after = model.layers.map((of, l) => {
      model.mixers ??= model.layers.map((layer) => submodule(layer, "mixer."));
      const mixed = mixer(rms_norm(x, of["norm_mixer.weight"]), model.mixers[l], state?.[l], config);
      x = add(x, mixed.y);
      const hidden = relu(linear(rms_norm(x, of["norm_ff.weight"]), of["feed_forward.layer1.weight"], of["feed_forward.layer1.bias"]));
      x = add(x, linear(hidden, of["feed_forward.layer2.weight"], of["feed_forward.layer2.bias"]));
      return mixed.state;
    });
    return { logits: linear(rms_norm(x, w["norm.weight"]), w["output.weight"]), state: after };
  };

  live.mamba2 = { step };
}
