// Parameters of a decoding step
// =============================
//
// The same structures are declared in `decoding.py`, with every field 8 bytes wide. All memory
// belongs to tensors that Python has allocated. The matrices are the model's own parameters in
// PyTorch's layout, so that nothing is copied or packed before the first step.

#pragma once
#include "vectors.h"

// A linear map $x W^\top + b$ with $W$ of shape `[rows, columns]`; `bias` may be null.
struct Linear {
    Size rows, columns;
    const float *weight, *bias;
};

// A normalisation of `size` features; `weight` and `bias` may be null, and the size 0 then.
struct Norm {
    Size kind;  // 0: identity, 1: layer norm, 2: RMS norm
    Size size;
    double eps;
    const float *weight, *bias;
};

// One attention with its KV cache. Keys are stored transposed, `[B, H, D, capacity]`, values as
// `[B, H, capacity, D]`. The capacity exceeds the longest context by a vector, so that a vector
// that begins at the last position ends inside the allocation. `cos` and `sin` are the tables of
// rotary positions, `[max_len, D/2]`, or null.
struct Attention {
    Size heads, d_k, d_v, capacity;
    double scale;
    Norm norm, query_norm, key_norm;
    Linear query, key, value, output;
    const float *cos, *sin;
    float *keys, *values;
};

// One layer. `cross_attention` is used by encoder-decoder models only.
struct Layer {
    Size activation;  // 0: ReLU, 1: GELU, 2: SiLU, 3: squared ReLU
    Norm norm;
    Linear up, down;
    Attention self_attention, cross_attention;
};

// The whole step. `position` is the number of tokens in the KV cache; `source_lengths` holds the
// number of source positions of each sequence, or is null in a decoder-only model.
struct Args {
    Size batch, width, layers, position, norm_first;
    double scale;
    // Rows of the two tables; floats of `wide` for each sequence, and of `scores`.
    Size vocabulary, positions, wide_size, scores_size;
    Norm embedding_norm, final_norm;
    Linear output;
    const float *token_table, *position_table;  // [V, C]; [max_len, C] or null
    const Size *source_lengths;                 // [B]
    const Layer *layer;
    const Size *tokens;  // [B]
    float *logits;       // [B, V]

    // Scratch memory: the residual stream and the output of a sub-layer, [B, C] each; `wide` for
    // queries, keys, values and hidden features; `scores` for one head, rounded up to a vector.
    float *x, *z, *wide, *scores;
};
