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
#include "args.h"

template <class Activation>
struct Backward {
    const Args &args;
    Part sequences;
    float *carried;  // [m, N]: gradients that skip a step of padding

    Backward(const Args &args, Size thread)
        : args(args), sequences(part_of(args.batch, args.threads, thread)) {
        carried = args.scratch + thread * args.scratch_size;
    }

    void run() {
        for (Size i = 0; i < sequences.count; i++)
            for (Size j = 0; j < args.units; j += LANES)
                store_delta(args.steps - 1, i, j, args.units - j, Vec{});
        for (Size t = args.steps - 1; t >= 0; t--) step(t);
    }

    // $\delta_t$, where `later` is $U^\top \delta_{t+1}$. At padding the state was copied, so its
    // gradient is passed on unchanged.
    void store_delta(Size t, Size i, Size j, Size count, Vec later) const {
        Size place = args.at(t, sequences.first + i) + j;
        prefetch(place - args.at(1, 0));
        Vec total = load_first(args.grad_states + place, count) + later;
        Vec delta = total * Activation::slope(load_first(args.states + place, count));
        if (args.is_padding(t, sequences.first + i)) {
            store_first(carried + i * args.units + j, total, count);
            delta = Vec{};
        }
        store_first(args.deltas + place, delta, count);
    }

    // What step $t - 1$ reads at the same index is fetched in the meantime.
    void prefetch(Size place) const {
        if (place < 0) return;
        __builtin_prefetch(args.grad_states + place);
        __builtin_prefetch(args.states + place);
        __builtin_prefetch(args.deltas + place, 1);
    }

    // $U^\top \delta_t$ goes to step $t - 1$, or to $h_0$.
    void step(Size t) {
        multiply({args.deltas + args.at(t, sequences.first), args.units, 1}, args.recurrent,
                 sequences.count, args.units, args.units, [=](Size i, Size j, Size count, Vec later) {
                     if (args.is_padding(t, sequences.first + i))
                         later += load_first(carried + i * args.units + j, count);
                     if (t) return store_delta(t - 1, i, j, count, later);
                     store_first(args.grad_h_0 + (sequences.first + i) * args.units + j, later, count);
                 });
    }
};
