// The GRU: `labml_nn/lstm/gru.py`.
"use strict";
{
  const { linear, sigmoid } = live;

  // One step of a layer. `change(l, name, values)` may change the values of a gate in place. The
  // result has the gates beside the state.
  const cell = (x, { h }, model, l, change) => {
    const of = (name) => model.w[`gru.cells.${l}.${name}`];
    const inputs = linear(x, of("input_lin.weight"), of("input_lin.bias"));
    const states = linear(h, of("hidden_lin.weight"), of("hidden_lin.bias"));
    const N = h.length, gate = (k) => h.map((_, n) => sigmoid(inputs[k * N + n] + states[k * N + n]));
    const r = gate(0), z = gate(1);
    Object.entries({ r, z }).forEach(([name, values]) => change(l, name, values));
    const g = h.map((_, n) => Math.tanh(inputs[2 * N + n] + r[n] * states[2 * N + n]));
    return { h: h.map((old, n) => z[n] * old + (1 - z[n]) * g[n]), r, z };
  };

  live.gru = { step: live.recurrent(cell, ["h"]) };
}
