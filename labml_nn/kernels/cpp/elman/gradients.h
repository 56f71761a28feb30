// Gradients of the weights
// ========================
//
// $$\frac{\partial \mathcal{L}}{\partial U} = \sum_t \delta_t h_{t-1}^\top, \qquad
//   \frac{\partial \mathcal{L}}{\partial W} = \sum_t \delta_t x_t^\top$$
//
// and for $b$ the sum of the $\delta_t$, all summed over the sequences as well. Rows are processed in
// runs of 256, which stay in the first-level cache while they meet all columns.

#pragma once
#include "rows.h"
#include "args.h"

constexpr Size RUN = 256, CHUNK = 64;

struct Gradients {
    const Args &args;
    Size thread;

    void run() {
        add(args.deltas, args.h_0, args.batch, args.units, args.grad_recurrent);
        add(args.deltas + args.at(1, 0), args.states, (args.steps - 1) * args.batch, args.units,
            args.grad_recurrent);
        add(args.deltas, args.x, args.steps * args.batch, args.width, args.grad_input);
        if (args.grad_bias) biases();
    }

    // The gradient of the inputs, $W^\top \delta$, for this thread's rows. It may overwrite the
    // $\delta$, which are no longer needed then, so the rows that are read are copied first.
    void inputs() {
        float *copy = args.scratch + thread * args.scratch_size;
        Part rows = part_of(args.steps * args.batch, args.workers, thread);
        for (Size row = 0; row < rows.count; row += CHUNK) {
            Size count = rows.count - row < CHUNK ? rows.count - row : CHUNK;
            const float *deltas = args.deltas + (rows.first + row) * args.units;
            if (args.grad_x == args.deltas) {
                std::memcpy(copy, deltas, count * args.units * 4);
                deltas = copy;
            }
            float *to = args.grad_x + (rows.first + row) * args.width;
            multiply({deltas, args.units, 1}, args.input, count, args.units, args.width,
                     [=](Size i, Size j, Size count, Vec c) {
                         store_first(to + i * args.width + j, c, count);
                     });
        }
    }

    // Adds $\sum \delta x^\top$ to some columns of `to`, `[N, width]`.
    void add(const float *deltas, const float *x, Size rows, Size width, float *to) {
        Size row_size = vectors(width);
        Part panels = part_of((width + PANEL - 1) / PANEL, args.workers, thread);
        alignas(64) float packed_x[RUN * PANEL];
        for (Size row = 0; row < rows; row += RUN) {
            Size count = rows - row < RUN ? rows - row : RUN;
            for (Size panel = panels.first; panel < panels.first + panels.count; panel++) {
                Size column = panel * PANEL, own = width - column < PANEL ? width - column : PANEL;
                for (Size k = 0; k < count; k++)
                    for (Size v = 0; v < PANEL; v += LANES)
                        store(packed_x + k * PANEL + v,
                              load_first(x + (row + k) * width + column + v, own - v));
                product(Left{deltas + row * args.units, 1, args.units}, packed(packed_x, count),
                        args.units, count, vectors(own), [=](Size i, Size j, Vec c) {
                            float *place = to + i * row_size + column + j;
                            store(place, load(place) + c);
                        });
            }
        }
    }

    void biases() {
        Part part = part_of(vectors(args.units) / LANES, args.workers, thread);
        for (Size row = 0; row < args.steps * args.batch; row++)
            for (Size v = part.first; v < part.first + part.count; v++) {
                Size j = v * LANES;
                const float *deltas = args.deltas + row * args.units + j;
                float *to = args.grad_bias + j;
                store(to, load(to) + load_first(deltas, args.units - j));
            }
    }
};
