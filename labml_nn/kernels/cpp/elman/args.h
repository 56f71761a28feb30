// Arguments of the kernel
// =======================
//
// All memory is allocated in Python, and pointers are passed. The order of the fields is that of
// `Args` in the [kernel's Python module](../../elman.py); each is 8 bytes wide.
//
// $T$ steps, $B$ sequences, $C$ input features, $N$ units. Rows are contiguous; where $C$ or $N$ is not
// a multiple of a vector, the last vector of a row is loaded and stored in part.

#pragma once
#include "threads.h"

struct Args {
    // `threads` share the sequences, `workers` the rows and columns of large products. `width` is
    // $C$, `units` is $N$, `block` the number of steps for which $W x + b$ is computed at once.
    Size threads, workers, steps, batch, width, units, activation, block, scratch_size;

    // Packed weights: $W$ and $U$ in the forward pass, their transposes in the backward pass.
    const float *input, *bias, *recurrent;
    const float *x, *h_0;       // [T, B, C], [B, N]
    const uint8_t *mask;        // [T, B], 0 for padding; or null
    float *states;              // [T, B, N]

    // Backward pass: gradients of the states (the input), of $z_t$, of $h_0$ and of the inputs; and
    // of $U$, $W$ and $b$, with rows padded to whole vectors. Without a bias, `grad_bias` is null.
    const float *grad_states;   // [T, B, N]
    float *deltas;              // [T, B, N]
    float *grad_h_0, *grad_x;   // [B, N], [T, B, C]
    float *grad_recurrent, *grad_input, *grad_bias;

    float *scratch;             // [threads, scratch_size]

    // The index of sequence `b` at step `t`.
    Size at(Size t, Size b) const { return (t * batch + b) * units; }
    // $h_{t-1}$.
    const float *before(Size t, Size b) const {
        return t ? states + at(t - 1, b) : h_0 + b * units;
    }
    bool is_padding(Size t, Size b) const { return mask && !mask[t * batch + b]; }
};

// The first `count` lanes from memory, zeros in the others.
static inline Vec load_first(const float *from, Size count) {
    if (count >= LANES) return load(from);
    float lanes[LANES] = {};
    for (Size i = 0; i < count; i++) lanes[i] = from[i];
    return load(lanes);
}

static inline Size vectors(Size columns) { return (columns + LANES - 1) / LANES * LANES; }
