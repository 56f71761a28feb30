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
    const Decoding &args;
    const Size units = args.units, row_size = args.layers * units;

    void run() {
        const float *weights = args.weights;
        for (Size l = 0; l < args.layers; l++) {
            layer(l, weights);
            weights += terms(l) * ((units + PANEL - 1) / PANEL * PANEL);
        }
        const Decoding &args = this->args;
        multiply({args.state + row_size - units, row_size, 1}, args.output, args.batch, units,
                 args.vocabulary, [=](Size i, Size j, Size count, Vec c) {
                     c += load_first(args.output_bias + j, count);
                     store_first(args.logits + i * args.vocabulary + j, c, count);
                 });
    }

    Size terms(Size l) const { return l ? 2 * units : units; }

    // A new state may replace the old one only when all its units are computed: each depends on
    // all old ones.
    void layer(Size l, const float *weights) {
        const Decoding &args = this->args;
        float *own = args.state + l * units;
        const float *before = l ? own - units : own;
        multiply({before, row_size, 1}, weights, args.batch, terms(l), units,
                 [=](Size i, Size j, Size count, Vec c) {
                     const float *inputs = l ? args.bias + (l - 1) * units
                                              : args.table + args.tokens[i] * units;
                     Vec h = Activation::f(c + load_first(inputs + j, count));
                     store_first(args.new_states + i * units + j, h, count);
                 });
        for (Size i = 0; i < args.batch; i++)
            if (args.tokens[i] != args.padding)
                std::memcpy(own + i * row_size, args.new_states + i * units, units * 4);
    }
};
