// Operations of a layer
// =====================
//
// Shared by both passes. The equations are those of the [kernel by hand](../../feedback_by_hand.py).

#pragma once
#include <cmath>

#include "products.h"
#include "args.h"

// Mean 0, variance 1. Returns $1 / \sigma$.
static inline float normalise(const float *x, float *to, const Args &args) {
    Vec sums = {}, squares = {};
    for (Size i = 0; i < args.wide; i += LANES) sums += load(x + i);
    Vec mean = total(sums) / float(args.width);
    for (Size i = 0; i < args.wide; i += LANES) {
        Vec centred = (load(x + i) - mean) * first_lanes(args.width - i);
        squares += centred * centred;
        store(to + i, centred);
    }
    float rstd = 1.f / std::sqrt(sum(squares) / args.width + float(args.eps));
    for (Size i = 0; i < args.wide; i += LANES) store(to + i, load(to + i) * rstd);
    return rstd;
}

// Adds the gradient of $x$ to `to`, given that of $\hat{x}$.
static inline void add_normalise_backward(const float *gradient, const float *norm, float rstd,
                                          float *to, const Args &args) {
    Vec sums = {}, along = {};
    for (Size i = 0; i < args.wide; i += LANES) {
        sums += load(gradient + i);
        along += load(gradient + i) * load(norm + i);
    }
    Vec mean = total(sums) / float(args.width), share = total(along) / float(args.width);
    for (Size i = 0; i < args.wide; i += LANES) {
        Vec through = load(gradient + i) - mean - load(norm + i) * share;
        add_to(to + i, through * rstd * first_lanes(args.width - i));
    }
}

// Softmax of scores[0 ... count), in place, with zeros behind it up to a whole vector.
static inline void softmax(float *scores, Size count) {
    for (Size j = count; j % LANES; j++) scores[j] = -INFINITY;
    Vec most = load(scores), sums = {};
    for (Size j = LANES; j < count; j += LANES) most = larger(most, load(scores + j));
    Vec top = largest(most);
    for (Size j = 0; j < count; j += LANES) {
        Vec e = exponential(load(scores + j) - top);
        store(scores + j, e);
        sums += e;
    }
    Vec scale = 1.f / total(sums);
    for (Size j = 0; j < count; j += LANES) store(scores + j, load(scores + j) * scale);
}

// Attention
// ---------
//
// The score of slot `window.first` is at scores + window.lead: keys are packed, PANEL slots to a panel, and
// the window may begin inside one.

// Scores of distances are one product for all sequences. Rows of `to` are `apart` numbers apart.
static inline void score_distances(const Args &args, Size l, Size h, Window window, Left query,
                                   Size sequences, float *to, Size apart) {
    Size number = l * args.heads + h, near = args.longest - window.count;
    const float *table = args.table + number * args.head * args.table_capacity + near;
    const float *bias = args.table_bias + number * args.table_capacity + near;
    to += window.lead;
    product(query, {table, args.table_capacity, 1}, sequences, args.head,
            (window.count + LANES - 1) / LANES * LANES,
            [=](Size i, Size j, Vec c) { store(to + i * apart + j, c + load(bias + j)); });
}

// Dropout factors of the weights of one head of one sequence, from the window's first slot on, or null.
static inline const float *weights_dropout(const Args &args, Size l, Size t, Size h, Size b) {
    if (!args.drop_weights) return nullptr;
    Size row = (args.pair(h, b) * args.steps() + t - args.start) * args.layers + l;
    return args.drop_weights + row * args.drop_rows + Window(args, t).first - args.drop_low;
}

static inline void multiply(float *numbers, const float *factors, Size count) {
    if (factors)
        for (Size j = 0; j < count; j++) numbers[j] *= factors[j];
}

// $m_t$: the weighted sum of the outputs of all layers.
static inline void memory_vector(const Args &args, Size t, Size b, float *to) {
    for (Size i = 0; i < args.wide; i += LANES) {
        Vec total = {};
        for (Size l = 0; l <= args.layers; l++)
            total += all(args.shares[l]) * load(args.x(t, l, b) + i);
        store(to + i, total);
    }
}
