// Forward pass
// ============
//
// $$z_t = W x_t + b, \qquad h_t = f(z_t + U h_{t-1})$$
//
// Each thread processes its sequences from the first step to the last. The input products $W x_t + b$
// are computed for a block of steps at a time, and read while they are in a near cache.

#pragma once
#include "activations.h"
#include "rows.h"
#include "args.h"

template <class Activation>
struct Forward {
    const Args &args;
    Part sequences;
    float *inputs, *gathered;  // [block, m, N], [block, m, C]

    Forward(const Args &args, Size thread)
        : args(args), sequences(part_of(args.batch, args.threads, thread)) {
        inputs = args.scratch + thread * args.scratch_size;
        gathered = inputs + args.block * sequences.count * args.units;
    }

    void run() {
        for (Size t = 0; t < args.steps; t += args.block) {
            Size count = args.steps - t < args.block ? args.steps - t : args.block;
            compute_inputs(t, count);
            for (Size i = 0; i < count; i++) step(t + i, inputs + i * sequences.count * args.units);
        }
    }

    // $W x + b$ of this thread's sequences at `count` steps. A product needs rows at equal distances;
    // if a thread has only some sequences of the batch, their rows are copied together.
    void compute_inputs(Size t, Size count) {
        const Args &args = this->args;
        const float *rows = args.x + (t * args.batch + sequences.first) * args.width;
        if (sequences.count < args.batch) {
            Size row = sequences.count * args.width;
            for (Size i = 0; i < count; i++)
                std::memcpy(gathered + i * row, rows + i * args.batch * args.width, row * 4);
            rows = gathered;
        }
        float *to = inputs;
        multiply({rows, args.width, 1}, args.input, count * sequences.count, args.width, args.units,
                 [=](Size i, Size j, Size count, Vec c) {
                     if (args.bias) c += load_first(args.bias + j, count);
                     store_first(to + i * args.units + j, c, count);
                 });
    }

    // $h_t = f(z_t + U h_{t-1})$, with $f$ applied while the sums are in registers. At padding the
    // previous state is copied.
    void step(Size t, const float *z) {
        const Args &args = this->args;
        Size first = sequences.first;
        const float *before = args.before(t, first);
        float *now = args.states + args.at(t, first);
        multiply({before, args.units, 1}, args.recurrent, sequences.count, args.units, args.units,
                 [=](Size i, Size j, Size count, Vec c) {
                     Size place = i * args.units + j;
                     Vec h = Activation::f(load_first(z + place, count) + c);
                     if (args.is_padding(t, first + i)) h = load_first(before + place, count);
                     store_first(now + place, h, count);
                 });
    }
};
