// Backward pass
// =============
//
// $$\delta_t = f'(z_t) \odot (g_t + U^\top \delta_{t+1})$$
//
// Each thread computes the $\delta_t$ of its sequences, from the last step to the first. The
// [gradients of the weights](gradients.h) are sums over all steps, and are computed afterwards in
// large products that all threads share.

#pragma once
#include "activations.h"
#include "rows.h"
#include "task.h"

template <class Activation>
struct Backward {
    const Task &task;
    Part sequences;
    float *carried;  // [m, N]: gradients that skip a step of padding

    Backward(const Task &task, Size thread)
        : task(task), sequences(part_of(task.batch, task.threads, thread)) {
        carried = task.scratch + thread * task.scratch_size;
    }

    void run() {
        for (Size i = 0; i < sequences.count; i++)
            for (Size j = 0; j < task.units; j += LANES)
                store_delta(task.steps - 1, i, j, task.units - j, Vec{});
        for (Size t = task.steps - 1; t >= 0; t--) step(t);
    }

    // $\delta_t$, where `later` is $U^\top \delta_{t+1}$. At padding the state was copied, so its
    // gradient is passed on unchanged.
    void store_delta(Size t, Size i, Size j, Size count, Vec later) const {
        Size place = task.at(t, sequences.first + i) + j;
        prefetch(place - task.at(1, 0));
        Vec total = load_first(task.grad_states + place, count) + later;
        Vec delta = total * Activation::slope(load_first(task.states + place, count));
        if (task.is_padding(t, sequences.first + i)) {
            store_first(carried + i * task.units + j, total, count);
            delta = Vec{};
        }
        store_first(task.deltas + place, delta, count);
    }

    // What step $t - 1$ reads at the same index is fetched in the meantime.
    void prefetch(Size place) const {
        if (place < 0) return;
        __builtin_prefetch(task.grad_states + place);
        __builtin_prefetch(task.states + place);
        __builtin_prefetch(task.deltas + place, 1);
    }

    // $U^\top \delta_t$ goes to step $t - 1$, or to $h_0$.
    void step(Size t) {
        multiply({task.deltas + task.at(t, sequences.first), task.units, 1}, task.recurrent,
                 sequences.count, task.units, task.units, [=](Size i, Size j, Size count, Vec later) {
                     if (task.is_padding(t, sequences.first + i))
                         later += load_first(carried + i * task.units + j, count);
                     if (t) return store_delta(t - 1, i, j, count, later);
                     store_first(task.grad_h_0 + (sequences.first + i) * task.units + j, later, count);
                 });
    }
};
