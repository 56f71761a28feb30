// Tensor operations for the models of these pages. A vector is a Float32Array, a matrix has its
// numbers row by row and a `shape`, as PyTorch stores it: `[outputs, inputs]` for a linear map.
"use strict";
const { _ } = window.pylit;
const live = (window.pylit.live ??= {});

// ## Weights
// Each file of weights calls `live.weights`. Matrices come as int8 with a scale for each row,
// vectors as float32, both in base64, because a script is all that a page may load from a disk.
// Matrices of six bits have a character for each number; 92, the backslash, is left out.
live.models = {};
live.weights = (name, { tensors, ...about }) => {
  const weights = {};
  for (const [key, { shape, int8, int6, scale, float32 }] of Object.entries(tensors)) {
    const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
    if (float32) {
      weights[key] = Object.assign(new Float32Array(bytes(float32)), { shape });
      continue;
    }
    const number = (letter) => letter.charCodeAt(0) - 79 - (letter > "\\");
    const integers = int6 ? Int8Array.from(int6, number) : new Int8Array(bytes(int8));
    const scales = new Float32Array(bytes(scale));
    const width = integers.length / shape[0];
    weights[key] = Object.assign(new Float32Array(integers.length), { shape });
    integers.forEach((n, i) => { weights[key][i] = n * scales[Math.floor(i / width)] });
  }
  live.models[name] = { ...about, w: weights };
};

// ## Operations
// W x + b, with `b` optional. Four sums side by side do not wait for each other; the widths of all
// models are divisible by four.
live.linear = (x, weight, bias) => {
  const [rows, columns] = weight.shape;
  const y = new Float32Array(rows);
  for (let i = 0, at = 0; i < rows; i++) {
    let p = bias ? bias[i] : 0, q = 0, r = 0, s = 0;
    for (let j = 0; j < columns; j += 4, at += 4) {
      p += weight[at] * x[j];
      q += weight[at + 1] * x[j + 1];
      r += weight[at + 2] * x[j + 2];
      s += weight[at + 3] * x[j + 3];
    }
    y[i] = p + q + (r + s);
  }
  return y;
};

// The transposed product, Wᵀ x: what the backward pass of `linear` needs.
live.linear_backward = (x, weight) => {
  const [rows, columns] = weight.shape;
  const y = new Float32Array(columns);
  for (let i = 0, at = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) y[j] += weight[at++] * x[i];
  return y;
};

live.row = (matrix, i) => {
  const width = matrix.length / matrix.shape[0];
  return matrix.subarray(i * width, (i + 1) * width);
};
live.add = (x, y) => x.map((value, i) => value + y[i]);
live.relu = (x) => x.map((value) => Math.max(0, value));
live.sigmoid = (value) => 1 / (1 + Math.exp(-value));

live.softmax = (x) => {
  const largest = x.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(x, (value) => Math.exp(value - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return Float32Array.from(powers, (power) => power / sum);
};

live.layer_norm = (x, weight, bias) => {
  let mean = 0, variance = 0;
  for (const value of x) mean += value / x.length;
  for (const value of x) variance += (value - mean) ** 2 / x.length;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  return x.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
};

// Embedding, recurrent layers, linear output. `cell(x, before, model, l, change)` is a step of layer
// l and returns its next state, whose `h` is shown; a state has the vectors `names`. The function
// that is returned reads a token. `change` may change gates, see the cells.
live.recurrent = (cell, names) => (model, token, state, change = () => {}) => {
  const { d_hidden, n_layers } = model.config, { w } = model;
  const begin = () => Object.fromEntries(names.map((name) => [name, new Float32Array(d_hidden)]));
  let x = live.row(w["embedding.weight"], token);
  const after = (state ?? Array.from({ length: n_layers }, begin)).map((before, l) => {
    const layer = cell(x, before, model, l, change);
    x = layer.h;
    return layer;
  });
  return { logits: live.linear(x, w["output.weight"], w["output.bias"]), state: after };
};

live.rms_norm = (x, weight, epsilon = 2 ** -23) => {
  const square = x.reduce((sum, value) => sum + value * value, 0) / x.length;
  return x.map((value, i) => value / Math.sqrt(square + epsilon) * weight[i]);
};

// `submodule(w, "layers.0.")` has the tensors whose names begin like that, under the rest of them.
live.submodule = (w, prefix) => Object.fromEntries(
  Object.entries(w).filter(([name]) => name.startsWith(prefix))
    .map(([name, tensor]) => [name.slice(prefix.length), tensor]),
);

// ## Sampling
// Numbers in [0, 1) from a seed, the same on every machine (mulberry32).
live.random = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
};

// The distribution to sample: temperature, then the `k` likeliest tokens, then the smallest set of
// tokens with probability `p`. Temperature 0 is the likeliest token.
live.distribution = (logits, { temperature = 1, k = Infinity, p = 1 } = {}) => {
  const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b);
  if (temperature === 0) return new Float32Array(logits.length).fill(1, order[0], order[0] + 1);
  const scaled = logits.map((logit) => logit / temperature);
  order.slice(k).forEach((token) => { scaled[token] = -Infinity });
  const before = live.softmax(scaled);
  let sum = 0;
  for (const token of order) {
    if (sum >= p) scaled[token] = -Infinity;
    sum += before[token];
  }
  return live.softmax(scaled);
};

live.sample = (logits, options, random) => {
  const shares = live.distribution(logits, options);
  let left = random();
  for (let token = 0; token < shares.length; token++) {
    left -= shares[token];
    if (left < 0) return token;
  }
  return shares.reduce((best, share, token) => (share > shares[best] ? token : best), 0);
};

// ## Text
// Errors are sentences for the reader.
live.encode = (text, { characters }) => [...text].map((letter) => {
  const token = characters.indexOf(letter);
  if (token >= 0) return token;
  if (characters.length > 100)
    throw new RangeError(_("The character “{0}” is not among the {1} that the model knows; write another one.", letter, characters.length));
  throw new RangeError(
    _("The character “{0}” is not in the model's vocabulary; it knows A–Z, a–z, the digit 3, space, new line and ! $ & ' , - . : ; ?", letter),
  );
});
live.decode = (tokens, { characters }) => tokens.map((token) => characters[token]).join("");
