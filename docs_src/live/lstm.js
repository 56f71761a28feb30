// The LSTM: `labml_nn/lstm/__init__.py`.
"use strict";
{
  const { linear, add, sigmoid } = live;

  // One step of a layer. `change(l, name, values)` may change the values of a gate in place. The
  // result has the gates beside the state.
  const cell = (x, { h, c }, model, l, change) => {
    const of = (name) => model.w[`lstm.cells.${l}.${name}`];
    const sums = add(linear(h, of("hidden_lin.weight"), of("hidden_lin.bias")), linear(x, of("input_lin.weight")));
    const part = (k) => sums.slice(k * h.length, (k + 1) * h.length);
    const [i, f, g, o] = [part(0).map(sigmoid), part(1).map(sigmoid), part(2).map(Math.tanh), part(3).map(sigmoid)];
    Object.entries({ i, f, o }).forEach(([name, gate]) => change(l, name, gate));
    const kept = c.map((old, n) => f[n] * old + i[n] * g[n]);
    return { h: kept.map((value, n) => o[n] * Math.tanh(value)), c: kept, i, f, o };
  };

  live.lstm = { step: live.recurrent(cell, ["h", "c"]) };
}
