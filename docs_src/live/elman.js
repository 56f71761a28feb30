// The Elman network: `labml_nn/recurrent/elman/__init__.py`.
"use strict";
{
  const { linear, linear_backward, row, add } = live;

  // One step of a layer, h_t = tanh(W x_t + U h_{t-1} + b).
  const cell = (x, h, model, l) => {
    const of = (name) => model.w[`elman.layers.${l}.cell.${name}`];
    const z = add(linear(x, of("input.weight"), of("input.bias")), linear(h, of("recurrent.weight")));
    return z.map(Math.tanh);
  };

  // The state is the hidden state of each layer. Returns logits, and the next state.
  const step = (model, token, state) => {
    const { d_model, d_hidden, n_layers } = model.config, { w } = model;
    const initial = Array.from({ length: n_layers }, () => new Float32Array(d_hidden));
    const e = row(w["embedding.weight"], token).map((value) => value * Math.sqrt(d_model));
    let x = linear(e, w["input_projection.weight"], w["input_projection.bias"]);
    const hidden = (state ?? initial).map((h, l) => (x = cell(x, h, model, l)));
    const z = linear(x, w["output_projection.weight"], w["output_projection.bias"]);
    return { logits: linear(z, w["embedding.weight"], w.output_bias), state: hidden };
  };

  // Backpropagation through time: how much the log-probability of `target` after the last token
  // depends on the hidden states of each step. `states` are those that `step` returned. Returns the
  // norm of the gradient of all layers' states together, for each step.
  const gradient_norms = (model, states, logits, target) => {
    const { w } = model, last = states.length - 1, L = model.config.n_layers;
    const of = (l, name) => w[`elman.layers.${l}.cell.${name}.weight`];
    const delta = live.softmax(logits).map((share, token) => (token === target) - share);
    const z = linear_backward(delta, w["embedding.weight"]);
    const zero = () => new Float32Array(model.config.d_hidden);
    let from_later = Array.from({ length: L }, zero);
    const norms = [];
    for (let t = last; t >= 0; t--) {
      const gradients = [], before = [];
      let above = t === last ? linear_backward(z, w["output_projection.weight"]) : zero();
      for (let l = L - 1; l >= 0; l--) {
        gradients[l] = add(above, from_later[l]);
        const inner = gradients[l].map((value, i) => value * (1 - states[t][l][i] ** 2));
        above = linear_backward(inner, of(l, "input"));
        before[l] = linear_backward(inner, of(l, "recurrent"));
      }
      norms[t] = Math.hypot(...gradients.flatMap((one) => [...one]));
      from_later = before;
    }
    return norms;
  };

  live.elman = { cell, step, gradient_norms };
}
