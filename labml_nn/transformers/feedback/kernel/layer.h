// Pieces of a layer
// =================
//
// What both ways need. The equations are those of the [loop by hand](../by_hand/forward.py).

#pragma once
#include <cmath>

#include "products.h"
#include "task.h"

// Mean 0, variance 1. Returns $1 / \sigma$.
static inline float normalise(const float *x, float *to, const Task &task) {
    Vec sums = {}, squares = {};
    for (Size i = 0; i < task.wide; i += LANES) sums += load(x + i);
    Vec mean = total(sums) / float(task.width);
    for (Size i = 0; i < task.wide; i += LANES) {
        Vec centred = (load(x + i) - mean) * first_lanes(task.width - i);
        squares += centred * centred;
        store(to + i, centred);
    }
    float rstd = 1.f / std::sqrt(sum(squares) / task.width + float(task.eps));
    for (Size i = 0; i < task.wide; i += LANES) store(to + i, load(to + i) * rstd);
    return rstd;
}

// Adds to `to` the gradient of $x$, given that of $\hat{x}$.
static inline void add_normalise_backward(const float *gradient, const float *norm, float rstd,
                                          float *to, const Task &task) {
    Vec sums = {}, along = {};
    for (Size i = 0; i < task.wide; i += LANES) {
        sums += load(gradient + i);
        along += load(gradient + i) * load(norm + i);
    }
    Vec mean = total(sums) / float(task.width), share = total(along) / float(task.width);
    for (Size i = 0; i < task.wide; i += LANES) {
        Vec moved = load(gradient + i) - mean - load(norm + i) * share;
        add_to(to + i, moved * rstd * first_lanes(task.width - i));
    }
}

// Of scores[0 ... count) make weights. Zeros behind them up to a whole vector.
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
// Scores of row `window.first` and those behind it begin at scores + window.lead, because keys are
// packed: PANEL rows of memory share a panel, and the window may begin inside one.

// Here `scores` begin with that of row `window.first`.
static inline void hide_blank(const Task &task, Window window, Size b, float *scores) {
    for (Size j = window.first; j < task.before; j++)
        if (task.blank[j * task.batch + b]) scores[j - window.first] = -INFINITY;
}

// Scores of distances are the same product for all texts. `to` has rows that are `apart`.
static inline void score_distances(const Task &task, Size l, Size h, Window window, Left query,
                                   Size texts, float *to, Size apart) {
    Size number = l * task.heads + h, near = task.longest - window.count;
    const float *table = task.table + number * task.head * task.table_room + near;
    const float *bias = task.table_bias + number * task.table_room + near;
    to += window.lead;
    product(query, {table, task.table_room, 1}, texts, task.head,
            (window.count + LANES - 1) / LANES * LANES,
            [=](Size i, Size j, Vec c) { store(to + i * apart + j, c + load(bias + j)); });
}

// Factors of dropout for the weights of a head of a text, from the window's first row on, or
// nothing.
static inline const float *dropped_weights(const Task &task, Size l, Size t, Size h, Size b) {
    if (!task.drop_weights) return nullptr;
    Size row = (task.pair(h, b) * task.steps() + t - task.start) * task.layers + l;
    return task.drop_weights + row * task.drop_rows + Window(task, t).first - task.drop_low;
}

static inline void multiply(float *numbers, const float *factors, Size count) {
    if (factors)
        for (Size j = 0; j < count; j++) numbers[j] *= factors[j];
}

// What a step leaves behind: shares of all layers.
static inline void memory_vector(const Task &task, Size t, Size b, float *to) {
    for (Size i = 0; i < task.wide; i += LANES) {
        Vec total = {};
        for (Size l = 0; l <= task.layers; l++)
            total += all(task.shares[l]) * load(task.x(t, l, b) + i);
        store(to + i, total);
    }
}
