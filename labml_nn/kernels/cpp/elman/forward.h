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
#include "task.h"

template <class Activation>
struct Forward {
    const Task &task;
    Part sequences;
    float *inputs, *gathered;  // [block, m, N], [block, m, C]

    Forward(const Task &task, Size thread)
        : task(task), sequences(part_of(task.batch, task.threads, thread)) {
        inputs = task.scratch + thread * task.scratch_size;
        gathered = inputs + task.block * sequences.count * task.units;
    }

    void run() {
        for (Size t = 0; t < task.steps; t += task.block) {
            Size count = task.steps - t < task.block ? task.steps - t : task.block;
            compute_inputs(t, count);
            for (Size i = 0; i < count; i++) step(t + i, inputs + i * sequences.count * task.units);
        }
    }

    // $W x + b$ of this thread's sequences at `count` steps. A product needs rows at equal distances;
    // if a thread has only some sequences of the batch, their rows are copied together.
    void compute_inputs(Size t, Size count) {
        const Task &task = this->task;
        const float *rows = task.x + (t * task.batch + sequences.first) * task.width;
        if (sequences.count < task.batch) {
            Size row = sequences.count * task.width;
            for (Size i = 0; i < count; i++)
                std::memcpy(gathered + i * row, rows + i * task.batch * task.width, row * 4);
            rows = gathered;
        }
        float *to = inputs;
        multiply({rows, task.width, 1}, task.input, count * sequences.count, task.width, task.units,
                 [=](Size i, Size j, Size count, Vec c) {
                     if (task.bias) c += load_first(task.bias + j, count);
                     store_first(to + i * task.units + j, c, count);
                 });
    }

    // $h_t = f(z_t + U h_{t-1})$, with $f$ applied while the sums are in registers. At padding the
    // previous state is copied.
    void step(Size t, const float *z) {
        const Task &task = this->task;
        Size first = sequences.first;
        const float *before = task.before(t, first);
        float *now = task.states + task.at(t, first);
        multiply({before, task.units, 1}, task.recurrent, sequences.count, task.units, task.units,
                 [=](Size i, Size j, Size count, Vec c) {
                     Size place = i * task.units + j;
                     Vec h = Activation::f(load_first(z + place, count) + c);
                     if (task.is_padding(t, first + i)) h = load_first(before + place, count);
                     store_first(now + place, h, count);
                 });
    }
};
