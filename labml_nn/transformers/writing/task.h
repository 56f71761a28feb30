// What a step is told
// ===================
//
// The same structures stand in `compiled.py`. Each field is 8 bytes wide. All memory belongs to
// tensors that Python has made; matrices are the parameters of the model themselves, in rows as
// PyTorch keeps them, so that nothing is copied to get ready.

#pragma once
#include "vectors.h"

// $x W^\top + b$, with $W$ in rows, `[rows, columns]`. No bias: null.
struct Map {
    Size rows, columns;
    const float *weight, *bias;
};

// No gain and no shift: null.
struct Norm {
    Size kind;  // 0: nothing, 1: layer norm, 2: RMS norm
    double eps;
    const float *gain, *shift;
};

// Keys are [B, H, K, places] and values [B, H, places, D]. There are more places than are ever
// taken, so that a vector may begin in the last of them and end behind it.
struct Attention {
    Size heads, d_k, d_v, places;
    double scale;
    Norm norm, query_norm, key_norm;
    Map query, key, value, output;
    float *keys, *values;
};

struct Layer {
    Size activation;  // 0: ReLU, 1: GELU, 2: SiLU, 3: squared ReLU
    Norm norm;
    Map up, down;
    Attention look_back, ask_source;
};

struct Task {
    Size batch, width, layers, at, norm_first;  // `at` is the place of the token in the window
    double scale;
    Norm norm_in, norm_out;
    Map output;
    const float *table, *places;  // [V, C], [max_len, C]
    const float *cos, *sin;       // [max_len, K / 2]
    const Size *lengths;          // of what was said, [B]; null: nothing is asked
    const Layer *layer;
    const Size *tokens;  // [B]
    float *logits;       // [B, V]

    // Scratch. Rows of features [B, C] twice and [B, widest]; scores, one vector longer than the
    // longest memory.
    float *row, *part, *wide, *scores;
};
