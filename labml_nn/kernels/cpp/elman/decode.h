// Decoding step
// =============
//
// One token of each sequence through all layers in one call: a row of a table, one product per
// layer, and one for the logits. [The kernel's page](../../elman.py#ElmanStep) has the equations.

#pragma once
#include "activations.h"
#include "rows.h"

struct Decoding {
    // `padding` is the padding token, or -1.
    Size batch, layers, units, vocabulary, activation, padding;
    const Size *tokens;                // [B]
    const float *table;                // [V, N]
    const float *weights;              // packed: U of the first layer, then W and U of each other
    const float *bias;                 // [L - 1, N]
    const float *output, *output_bias; // packed, [V]
    float *state, *new_states;         // [B, L N], [B, N]
    float *logits;                     // [B, V]
};

template <class Activation>
struct Decode {
    const Decoding &task;
    const Size units = task.units, row_size = task.layers * units;

    void run() {
        const float *weights = task.weights;
        for (Size l = 0; l < task.layers; l++) {
            layer(l, weights);
            weights += terms(l) * ((units + PANEL - 1) / PANEL * PANEL);
        }
        const Decoding &task = this->task;
        multiply({task.state + row_size - units, row_size, 1}, task.output, task.batch, units,
                 task.vocabulary, [=](Size i, Size j, Size count, Vec c) {
                     c += load_first(task.output_bias + j, count);
                     store_first(task.logits + i * task.vocabulary + j, c, count);
                 });
    }

    Size terms(Size l) const { return l ? 2 * units : units; }

    // A new state may replace the old one only when all its units are computed: each depends on
    // all old ones.
    void layer(Size l, const float *weights) {
        const Decoding &task = this->task;
        float *own = task.state + l * units;
        const float *before = l ? own - units : own;
        multiply({before, row_size, 1}, weights, task.batch, terms(l), units,
                 [=](Size i, Size j, Size count, Vec c) {
                     const float *inputs = l ? task.bias + (l - 1) * units
                                              : task.table + task.tokens[i] * units;
                     Vec h = Activation::f(c + load_first(inputs + j, count));
                     store_first(task.new_states + i * units + j, h, count);
                 });
        for (Size i = 0; i < task.batch; i++)
            if (task.tokens[i] != task.padding)
                std::memcpy(own + i * row_size, task.new_states + i * units, units * 4);
    }
};
