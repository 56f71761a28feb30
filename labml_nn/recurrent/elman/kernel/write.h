// One token more
// ==============
//
// The step of `writing.py`, for all layers and texts in one call: a row of a table, a product for
// each layer, and one for the logits.

#pragma once
#include "bends.h"
#include "rows.h"

struct Writing {
    // `padding` is a token at which the state waits, or -1; `is_known` becomes 0 if there is a
    // token that is not in the vocabulary.
    Size batch, layers, units, vocabulary, bend, padding, is_known;
    const Size *tokens;                // [B]
    const float *table;                // [V, N]
    const float *weights;              // packed: U of the first layer, then W and U of each other
    const float *bias;                 // [L - 1, N]
    const float *output, *output_bias; // packed, [V]
    float *row, *fresh;                // [B, L N], [B, N]
    float *logits;                     // [B, V]
};

template <class Bend>
struct Write {
    const Writing &task;
    const Size units = task.units, wide = task.layers * units;

    void run() {
        const float *weights = task.weights;
        for (Size l = 0; l < task.layers; l++) {
            layer(l, weights);
            weights += terms(l) * ((units + PANEL - 1) / PANEL * PANEL);
        }
        const Writing &task = this->task;
        multiply({task.row + wide - units, wide, 1}, task.output, task.batch, units,
                 task.vocabulary, [=](Size i, Size j, Size count, Vec c) {
                     c += load_first(task.output_bias + j, count);
                     store_first(task.logits + i * task.vocabulary + j, c, count);
                 });
    }

    Size terms(Size l) const { return l ? 2 * units : units; }

    // What is new must not be in the row before all of it is there: it is made of the old.
    void layer(Size l, const float *weights) {
        const Writing &task = this->task;
        float *own = task.row + l * units;
        const float *before = l ? own - units : own;
        multiply({before, wide, 1}, weights, task.batch, terms(l), units,
                 [=](Size i, Size j, Size count, Vec c) {
                     const float *brought = l ? task.bias + (l - 1) * units
                                              : task.table + task.tokens[i] * units;
                     Vec h = Bend::bend(c + load_first(brought + j, count));
                     store_first(task.fresh + i * units + j, h, count);
                 });
        for (Size i = 0; i < task.batch; i++)
            if (task.tokens[i] != task.padding)
                std::memcpy(own + i * wide, task.fresh + i * units, units * 4);
    }
};

static inline bool all_known(const Writing &task) {
    for (Size i = 0; i < task.batch; i++)
        if (task.tokens[i] < 0 || task.tokens[i] >= task.vocabulary) return false;
    return true;
}
