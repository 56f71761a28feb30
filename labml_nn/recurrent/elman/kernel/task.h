// What is to be done
// ==================
//
// Python sets aside all memory and passes pointers. Nothing is allocated here, so nothing can fail.
// The order of the fields is that of `Task` in `run.py`; all are 8 bytes wide.
//
// Letters of shapes: $T$ steps, $B$ texts, $C$ features of an input, $N$ units. Rows lie without
// gaps, and where $C$ or $N$ is no multiple of a vector, the last vector of a row is loaded and
// stored in part.

#pragma once
#include "threads.h"

struct Task {
    // `width` is $C$, or 0 if `x` is what the inputs bring, $W x + b$. `block` is for how many
    // steps that is worked out together, `bend` the number of $f$.
    Size threads, workers, steps, batch, width, units, bend, block, scratch_size;

    // Packed for the way that is gone: $W$ and $U$ forwards, their transposes backwards.
    const float *input, *bias, *recurrent;
    const float *x, *first;     // [T, B, C], [B, N]
    const uint8_t *mask;        // [T, B], 0 for padding, or nothing
    float *states;              // [T, B, N]

    // Backwards. Gradients: of the states, from outside; of what enters $f$; of $h_0$ and the
    // inputs; sums for $U$, $W$ and $b$, with rows that are a multiple of a vector, or nothing.
    const float *of_states;     // [T, B, N]
    float *deltas;              // [T, B, N]
    float *of_first, *of_x;     // [B, N], [T, B, C]
    float *of_recurrent, *of_input, *of_bias;

    float *scratch;             // [threads, scratch_size]

    // Where text `b` stands at step `t`.
    Size at(Size t, Size b) const { return (t * batch + b) * units; }
    // The state before a step.
    const float *before(Size t, Size b) const {
        return t ? states + at(t - 1, b) : first + b * units;
    }
    bool waits(Size t, Size b) const { return mask && !mask[t * batch + b]; }
};

// A vector of which only the first `count` lanes are ours.
static inline Vec load_first(const float *from, Size count) {
    if (count >= LANES) return load(from);
    float lanes[LANES] = {};
    for (Size i = 0; i < count; i++) lanes[i] = from[i];
    return load(lanes);
}

static inline Size vectors(Size columns) { return (columns + LANES - 1) / LANES * LANES; }
