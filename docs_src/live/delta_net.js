// DeltaNet and Gated DeltaNet: `labml_nn/recurrent/delta_net.py` and `gated_delta_net.py`.
"use strict";
{
  const { linear, relu, sigmoid, add, row, rms_norm, submodule } = live;

  const silu = (x) => x.map((value) => value * sigmoid(value));
  const unit = (x) => {
    const length = Math.max(1e-12, Math.hypot(...x));
    return x.map((value) => value / length);
  };
  const softplus = (x) => (x > 20 ? x : Math.log1p(Math.exp(x)));

  // One step of the rule in one head, whose memory has a row for each feature of a key. `subtract`
  // is 0 for linear attention, which writes values.
  const rule = (q, k, v, beta, alpha, memory, subtract) => {
    const width = v.length, read = (key) => {
      const found = new Float32Array(width);
      key.forEach((share, d) => { for (let e = 0; e < width; e++) found[e] += share * faded[d * width + e] });
      return found;
    };
    let faded = memory.map((value) => alpha * value);
    const answer = read(k);
    const error = v.map((value, e) => value - subtract * answer[e]);
    faded = faded.map((value, i) => value + beta * k[Math.floor(i / width)] * error[i % width]);
    return { q, k, v, beta, alpha, answer, error, memory: faded, found: read(q) };
  };

  const mixer = (x, w, { heads, gated }, { recent, memories }, { forget, subtract }) => {
    const parts = ["query", "key", "value"].map((name) => linear(x, w[`${name}.weight`]));
    const [HD, , HE] = parts.map((part) => part.length);
    const projected = new Float32Array(2 * HD + HE);
    parts.forEach((part, i) => projected.set(part, i * HD));

    // The convolution: the weight of the token itself comes last.
    const window = [...recent, projected], kernel = w["conv.weight"], width = window.length;
    const mixed = silu(projected.map((_, f) => window.reduce((sum, vector, j) => sum + kernel[f * width + j] * vector[f], 0)));
    const of = (start, size, h) => mixed.slice(start + h * size / heads, start + (h + 1) * size / heads);

    const rates = linear(x, w["beta.weight"]), durations = gated && linear(x, w["alpha.weight"]);
    const steps = memories.map((memory, h) => {
      const alpha = gated && forget ? Math.exp(-forget * Math.exp(w.A_log[h]) * softplus(durations[h] + w.dt_bias[h])) : 1;
      return rule(unit(of(0, HD, h)), unit(of(HD, HD, h)), of(2 * HD, HE, h), sigmoid(rates[h]), alpha, memory, subtract);
    });
    const gate = gated && silu(linear(x, w["gate.weight"])), y = new Float32Array(HE), size = HE / heads;
    steps.forEach(({ found }, h) => y.set(rms_norm(found, w["norm.weight"], 1e-5), h * size));
    return [linear(gated ? y.map((value, i) => value * gate[i]) : y, w["output.weight"]), { recent: window.slice(1), memories: steps.map(({ memory }) => memory), steps }];
  };

  // The state has for each layer the last inputs of the convolution, and the memories of the heads;
  // `steps` is what the heads read and wrote. `forget` and `subtract` switch off both ideas; `forget`
  // may be another number, for slower or faster forgetting.
  const step = (model, token, state, { forget = true, subtract = 1 } = {}) => {
    const { d_model, heads, n_layers, conv } = model.config, { w } = model, d = d_model / heads;
    state ??= Array.from({ length: n_layers }, () => ({
      recent: Array.from({ length: conv - 1 }, () => new Float32Array(3 * d_model)),
      memories: Array.from({ length: heads }, () => new Float32Array(d * d)),
    }));
    model.layers ??= state.map((_, l) => {
      const of = submodule(w, `layers.${l}.`);
      return { of, mixing: submodule(of, "mixer.") };
    });
    let x = row(w["embedding.weight"], token);
    const after = state.map((before, l) => {
      const { of, mixing } = model.layers[l];
      const [mixed, next] = mixer(rms_norm(x, of["norm_mixer.weight"]), mixing, model.config, before, { forget, subtract });
      x = add(x, mixed);
      const hidden = relu(linear(rms_norm(x, of["norm_ff.weight"]), of["feed_forward.layer1.weight"], of["feed_forward.layer1.bias"]));
      x = add(x, linear(hidden, of["feed_forward.layer2.weight"], of["feed_forward.layer2.bias"]));
      return next;
    });
    return { logits: linear(rms_norm(x, w["norm.weight"]), w["output.weight"]), state: after };
  };

  // What a memory answers to a query is a sum of the values that were written. The model never computes
  // their weights: each is β times the dot product of the key with the query, taken back through all
  // later writes. `steps` are those of a head, up to the query.
  const answer_weights = (steps) => {
    let { q: query } = steps.at(-1);
    return steps.reduceRight((weights, { k, alpha, beta }) => {
      const weight = beta * k.reduce((sum, number, d) => sum + number * query[d], 0);
      query = query.map((number, d) => alpha * (number - weight * k[d]));
      return [weight, ...weights];
    }, []);
  };

  live.delta_net = { step, answer_weights };
}
