// Pieces of a layer
// =================
//
// What both ways need. The equations are those of the page on the loop by hand.

#pragma once
#include <cmath>

#include "products.h"
#include "task.h"

// Mean 0, variance 1. Returns 1 / sigma.
static inline float normalise(const float *x, float *to, const Task &task) {
    Vec total = {}, squares = {};
    for (Size i = 0; i < task.wide; i += LANES) total += load(x + i);
    Vec mean = all(sum(total) / task.width);
    for (Size i = 0; i < task.wide; i += LANES) {
        Vec centred = (load(x + i) - mean) * first_lanes(task.width - i);
        squares += centred * centred;
        store(to + i, centred);
    }
    float rstd = 1.f / std::sqrt(sum(squares) / task.width + float(task.eps));
    for (Size i = 0; i < task.wide; i += LANES) store(to + i, load(to + i) * rstd);
    return rstd;
}

// Adds to `to` the gradient of x, given that of x normalised.
static inline void add_normalise_backward(const float *gradient, const float *norm, float rstd,
                                          float *to, const Task &task) {
    Vec total = {}, along = {};
    for (Size i = 0; i < task.wide; i += LANES) {
        total += load(gradient + i);
        along += load(gradient + i) * load(norm + i);
    }
    Vec mean = all(sum(total) / task.width), share = all(sum(along) / task.width);
    for (Size i = 0; i < task.wide; i += LANES) {
        Vec moved = load(gradient + i) - mean - load(norm + i) * share;
        store(to + i, load(to + i) + moved * rstd * first_lanes(task.width - i));
    }
}

// Of scores[0 ... count) make weights. Zeros behind them up to a whole vector.
static inline void softmax(float *scores, Size count) {
    for (Size j = count; j % LANES; j++) scores[j] = -INFINITY;
    Vec most = load(scores), total = {};
    for (Size j = LANES; j < count; j += LANES) most = larger(most, load(scores + j));
    Vec top = all(largest(most));
    for (Size j = 0; j < count; j += LANES) {
        Vec e = exponential(load(scores + j) - top);
        store(scores + j, e);
        total += e;
    }
    Vec scale = all(1.f / sum(total));
    for (Size j = 0; j < count; j += LANES) store(scores + j, load(scores + j) * scale);
}

static inline void hide_blank(const Task &task, Window window, Size b, float *scores) {
    for (Size j = window.first; j < task.before; j++)
        if (task.blank[j * task.batch + b]) scores[j - window.first] = -INFINITY;
}

// Attention weights
// -----------------
//
// Of one layer, one step and some texts. For each head: scores of distances, which are the same
// for all texts, as one product; then scores of rows, each text its own; then softmax. Time is the
// axis along vectors, so a score is a lane, and no sum goes across lanes but the one of softmax.
//
// `weights(h, i)` is where those of head h and the i-th text go; there must be room for
// 4 * LANES more. `apart` is how far apart texts are there.
template <class Place>
static inline void weigh(const Task &task, Size l, Size t, Texts texts, Place weights, Size apart) {
    Window window(task, t);
    Size near = task.longest - window.count;
    const float *query = task.queries + task.kept(l, t, texts.first) * task.wide;
    for (Size h = 0; h < task.heads; h++) {
        Size number = l * task.heads + h;
        const float *table = task.table + number * task.head * task.table_room + near;
        const float *bias = task.table_bias + number * task.table_room + near;
        const float *asked = query + h * task.head;
        float *to = weights(h, 0);
        product({asked, task.wide, 1}, {table, task.table_room, 1}, texts.count, task.head,
                (window.count + PANEL - 1) / PANEL * PANEL,
                [=](Size i, Size j, Vec c) { store(to + i * apart + j, c + load(bias + j)); });
        for (Size i = 0; i < texts.count; i++) {
            Size b = texts.first + i;
            const float *keys = task.keys + task.pair(h, b) * task.head * task.room;
            float *scores = to + i * apart;
            add_combination(asked + i * task.wide, keys + window.first, task.room, task.head,
                            scores, window.count);
            if (task.blank) hide_blank(task, window, b, scores);
            softmax(scores, window.count);
        }
    }
}

// Factors of dropout for the weights of a head of a text, or nothing.
static inline const float *dropped_weights(const Task &task, Size l, Size t, Size h, Size b) {
    if (!task.drop_weights) return nullptr;
    Size row = (task.pair(h, b) * task.steps() + t - task.start) * task.layers + l;
    return task.drop_weights + row * task.drop_rows + Window(task, t).first - task.low;
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
