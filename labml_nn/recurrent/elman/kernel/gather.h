// Gradients of the weights
// ========================
//
// $$\frac{\partial L}{\partial U} = \sum_t \delta_t h_{t-1}^\top, \qquad
//   \frac{\partial L}{\partial W} = \sum_t \delta_t x_t^\top$$
//
// and of $b$ the sum of $\delta_t$ itself, over all texts as well. Rows are taken in runs that stay
// in the cache next to the processor until they have met all columns.

#pragma once
#include "rows.h"
#include "task.h"

constexpr Size RUN = 256, FEW = 64;

struct Gather {
    const Task &task;
    Size thread;

    void run() {
        if (task.of_recurrent) {
            add(task.deltas, task.first, task.batch, task.units, task.of_recurrent);
            add(task.deltas + task.at(1, 0), task.states, (task.steps - 1) * task.batch, task.units,
                task.of_recurrent);
        }
        if (task.of_input)
            add(task.deltas, task.x, task.steps * task.batch, task.width, task.of_input);
        if (task.of_bias) biases();
    }

    // $W^\top \delta$, of some rows. It may take the place of the $\delta$, when all others are
    // through with them, so what is read is copied first.
    void inputs() {
        float *copy = task.scratch + thread * task.scratch_size;
        Part rows = part_of(task.steps * task.batch, task.workers, thread);
        for (Size row = 0; row < rows.count; row += FEW) {
            Size count = rows.count - row < FEW ? rows.count - row : FEW;
            const float *deltas = task.deltas + (rows.first + row) * task.units;
            if (task.of_x == task.deltas) {
                std::memcpy(copy, deltas, count * task.units * 4);
                deltas = copy;
            }
            float *to = task.of_x + (rows.first + row) * task.width;
            multiply({deltas, task.units, 1}, task.input, count, task.units, task.width,
                     [=](Size i, Size j, Size count, Vec c) {
                         store_first(to + i * task.width + j, c, count);
                     });
        }
    }

    // Adds $\sum \delta x^\top$ to some columns of `to`, `[N, width]`.
    void add(const float *deltas, const float *x, Size rows, Size width, float *to) {
        Size wide = vectors(width);
        Part panels = part_of((width + PANEL - 1) / PANEL, task.workers, thread);
        alignas(64) float packed_x[RUN * PANEL];
        for (Size row = 0; row < rows; row += RUN) {
            Size count = rows - row < RUN ? rows - row : RUN;
            for (Size panel = panels.first; panel < panels.first + panels.count; panel++) {
                Size column = panel * PANEL, own = width - column < PANEL ? width - column : PANEL;
                for (Size k = 0; k < count; k++)
                    for (Size v = 0; v < PANEL; v += LANES)
                        store(packed_x + k * PANEL + v,
                              load_first(x + (row + k) * width + column + v, own - v));
                product(Left{deltas + row * task.units, 1, task.units}, packed(packed_x, count),
                        task.units, count, vectors(own), [=](Size i, Size j, Vec c) {
                            float *place = to + i * wide + column + j;
                            store(place, load(place) + c);
                        });
            }
        }
    }

    void biases() {
        Part part = part_of(vectors(task.units) / LANES, task.workers, thread);
        for (Size row = 0; row < task.steps * task.batch; row++)
            for (Size v = part.first; v < part.first + part.count; v++) {
                Size j = v * LANES;
                const float *deltas = task.deltas + row * task.units + j;
                float *to = task.of_bias + j;
                store(to, load(to) + load_first(deltas, task.units - j));
            }
    }
};
