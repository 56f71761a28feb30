// The way back
// ============
//
// $$\delta_t = f'(z_t) \odot (g_t + U^\top \delta_{t+1})$$
//
// First each thread walks with its texts from the last step to the first and writes down the
// $\delta$. Then all threads share [what is made of them](gather.h) in large products.

#pragma once
#include "bends.h"
#include "rows.h"
#include "task.h"

template <class Bend>
struct Backward {
    const Task &task;
    Part texts;
    float *waiting;  // [m, N]: what padding passes on

    Backward(const Task &task, Size thread)
        : task(task), texts(part_of(task.batch, task.threads, thread)) {
        waiting = task.scratch + thread * task.scratch_size;
    }

    void run() {
        for (Size i = 0; i < texts.count; i++)
            for (Size j = 0; j < task.units; j += LANES)
                settle(task.steps - 1, i, j, task.units - j, Vec{});
        for (Size t = task.steps - 1; t >= 0; t--) step(t);
    }

    // $\delta_t$, where `blame` is what later steps send back. Where there is padding the state
    // waited, and so does its gradient.
    void settle(Size t, Size i, Size j, Size count, Vec blame) const {
        Size place = task.at(t, texts.first + i) + j;
        ask_for(place - task.at(1, 0));
        Vec total = load_first(task.of_states + place, count) + blame;
        Vec delta = total * Bend::slope(load_first(task.states + place, count));
        if (task.waits(t, texts.first + i)) {
            store_first(waiting + i * task.units + j, total, count);
            delta = Vec{};
        }
        store_first(task.deltas + place, delta, count);
    }

    // What the step before needs at the same place is on its way meanwhile.
    void ask_for(Size place) const {
        if (place < 0) return;
        __builtin_prefetch(task.of_states + place);
        __builtin_prefetch(task.states + place);
        __builtin_prefetch(task.deltas + place, 1);
    }

    // $U^\top \delta_t$, on to the step before, or to $h_0$.
    void step(Size t) {
        multiply({task.deltas + task.at(t, texts.first), task.units, 1}, task.recurrent,
                 texts.count, task.units, task.units, [=](Size i, Size j, Size count, Vec blame) {
                     if (task.waits(t, texts.first + i))
                         blame += load_first(waiting + i * task.units + j, count);
                     if (t) return settle(t - 1, i, j, count, blame);
                     store_first(task.of_first + (texts.first + i) * task.units + j, blame, count);
                 });
    }
};
