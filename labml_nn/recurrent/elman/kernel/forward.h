// The way there
// =============
//
// $$z_t = W x_t + b, \qquad h_t = f(z_t + U h_{t-1})$$
//
// Each thread goes with its texts from the first step to the last. What the inputs bring, $z$, is
// worked out for a block of steps before that is gone through, and read while it is still near.

#pragma once
#include "bends.h"
#include "rows.h"
#include "task.h"

template <class Bend>
struct Forward {
    const Task &task;
    Part texts;
    float *brought, *gathered;  // [block, m, N], [block, m, C]

    Forward(const Task &task, Size thread)
        : task(task), texts(part_of(task.batch, task.threads, thread)) {
        brought = task.scratch + thread * task.scratch_size;
        gathered = brought + task.block * texts.count * task.units;
    }

    void run() {
        for (Size t = 0; t < task.steps; t += task.block) {
            Size count = task.steps - t < task.block ? task.steps - t : task.block;
            if (task.width) bring(t, count);
            for (Size i = 0; i < count; i++)
                step(t + i, task.width ? brought + i * texts.count * task.units
                                       : task.x + task.at(t + i, texts.first));
        }
    }

    // $W x + b$ of all texts at `count` steps. A product needs rows that lie evenly; those of some
    // texts of a batch do not, and are copied together.
    void bring(Size t, Size count) {
        const Task &task = this->task;
        const float *rows = task.x + (t * task.batch + texts.first) * task.width;
        if (texts.count < task.batch) {
            Size row = texts.count * task.width;
            for (Size i = 0; i < count; i++)
                std::memcpy(gathered + i * row, rows + i * task.batch * task.width, row * 4);
            rows = gathered;
        }
        float *to = brought;
        multiply({rows, task.width, 1}, task.input, count * texts.count, task.width, task.units,
                 [=](Size i, Size j, Size count, Vec c) {
                     if (task.bias) c += load_first(task.bias + j, count);
                     store_first(to + i * task.units + j, c, count);
                 });
    }

    // $h_t = f(z_t + U h_{t-1})$. A vector of sums is bent while it is in a register. Where there
    // is padding, the state waits.
    void step(Size t, const float *z) {
        const Task &task = this->task;
        Size first = texts.first;
        const float *before = task.before(t, first);
        float *now = task.states + task.at(t, first);
        multiply({before, task.units, 1}, task.recurrent, texts.count, task.units, task.units,
                 [=](Size i, Size j, Size count, Vec c) {
                     Size place = i * task.units + j;
                     Vec h = Bend::bend(load_first(z + place, count) + c);
                     if (task.waits(t, first + i)) h = load_first(before + place, count);
                     store_first(now + place, h, count);
                 });
    }
};
