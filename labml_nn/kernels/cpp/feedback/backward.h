// Backward pass
// =============
//
// Each thread takes its sequences through a chunk of steps. First the attention weights are recomputed, for
// all steps in parallel. Then the loop runs from the last step to the first and writes the gradients that
// the [products of weight gradients](weight_grads.h) need. Finally the slots that are older than the chunk
// get their gradients from all of its steps.

#pragma once
#include "chunk.h"

struct Backward {
    const Args &args;
    Chunk chunk;
    Sequences sequences;
    float *y, *through, *heads_out;  // [m, C'] three times

    Backward(const Chunk &chunk, Sequences sequences) : args(chunk.args), chunk(chunk), sequences(sequences) {
        y = args.scratch + sequences.first * args.scratch_size;
        through = y + sequences.count * args.wide;
        heads_out = through + sequences.count * args.wide;
    }

    void run() {
        for (Size h = 0; h < args.heads; h++) recompute_attention(h);
        for (Size t = chunk.stop - 1; t >= chunk.start; t--) {
            slot_backward(t);
            for (Size l = args.layers - 1; l >= 0; l--) {
                feed_forward_backward(l, t);
                attend_backward(l, t);
                add_slot_gradient(l, t);
            }
            Size number = sequences.count * args.wide;
            std::memcpy(args.grad_x_seq + (t * args.batch + sequences.first) * args.wide, y, number * 4);
            for_each_pair([&](Size h, Size b) { grads_to_newer(h, b, t); });
        }
        for_each_pair([&](Size h, Size b) {
            grads_to_older(h, b);
            recompute_heads_out(h, b);
        });
    }

    template <class Work>
    void for_each_pair(Work work) {
        for (Size h = 0; h < args.heads; h++)
            for (Size i = 0; i < sequences.count; i++) work(h, sequences.first + i);
    }

    // Recomputed attention
    // --------------------
    //
    // Queries and keys are known, so the scores of all layers and steps of one head of one sequence are a
    // single product. Scores of slots outside a step's window are cleared afterwards.
    void recompute_attention(Size h) {
        Size apart = chunk.pair(h, 1) - chunk.pair(h, 0), rows = args.layers * chunk.steps();
        for (Size i = 0; i < sequences.count; i++) gather_queries(h, sequences.first + i);
        for (Size l = 0; l < args.layers; l++)
            for (Size t = chunk.start; t < chunk.stop; t++) {
                Size place = chunk.row(h, sequences.first, l, t);
                Window window(args, t);
                score_distances(args, l, h, window,
                                {args.head_query + place * args.head_wide, apart * args.head_wide, 1},
                                sequences.count, args.attn + place * args.row_capacity + window_offset(window),
                                apart * args.row_capacity);
            }
        for (Size i = 0; i < sequences.count; i++) {
            Size b = sequences.first + i, place = chunk.pair(h, b), row_capacity = args.row_capacity;
            float *scores = args.attn + place * row_capacity;
            product({args.head_query + place * args.head_wide, args.head_wide, 1},
                    packed(args.keys + args.panel(h, b, args.low), args.head), rows, args.head,
                    (chunk.rows() + PANEL - 1) / PANEL * PANEL,
                    [=](Size i, Size j, Vec c) { add_to(scores + i * row_capacity + j, c); });
            for (Size l = 0; l < args.layers; l++)
                for (Size t = chunk.start; t < chunk.stop; t++, scores += row_capacity) {
                    Window window(args, t);
                    float *seen = scores + window_offset(window) + window.lead;
                    softmax(seen, window.count);
                    clear_outside(scores, window);
                }
        }
    }

    // Where the first panel of the window begins in a row of weights.
    Size window_offset(Window window) const { return window.base() - args.low; }

    void clear_outside(float *row, Window window) {
        Size before = window.first - args.low, end = before + window.count;
        std::memset(row, 0, before * 4);
        std::memset(row + end, 0, (args.row_capacity - end) * 4);
    }

    // The queries of one head of one sequence, side by side. Padding behind them is never used.
    void gather_queries(Size h, Size b) {
        float *to = args.head_query + chunk.pair(h, b) * args.head_wide;
        for (Size l = 0; l < args.layers; l++)
            for (Size t = chunk.start; t < chunk.stop; t++, to += args.head_wide)
                std::memcpy(to, args.queries + args.kept(l, t, b) * args.wide + h * args.head,
                            args.head_wide * 4);
    }

    // $o$ of all layers and steps of one head of one sequence. Dropped weights are zero by now.
    void recompute_heads_out(Size h, Size b) {
        Size steps = chunk.steps();
        product({args.attn + chunk.pair(h, b) * args.row_capacity, args.row_capacity, 1},
                {args.values_rows + args.row(h, b, args.low), args.head_wide, 1},
                args.layers * steps, chunk.rows(), args.head_wide, [&](Size i, Size k, Vec c) {
                    Size place = chunk.here(i / steps, chunk.start + i % steps, b);
                    store_first(args.heads_out + place * args.wide + h * args.head + k, c,
                                args.head - k);
                });
    }

    // One step
    // --------

    // $y \leftarrow y + s_l \, \delta_m$: the gradient of $x^l$ from the memory vector, with its share.
    void add_slot_gradient(Size l, Size t) {
        const float *vector = args.grad_vectors + chunk.step(t, sequences.first) * args.wide;
        for (Size i = 0; i < sequences.count * args.wide; i += LANES)
            add_to(y + i, all(args.shares[l]) * load(vector + i));
    }

    // The gradient of the slot that this step wrote is complete: all later steps have added to it.
    void slot_backward(Size t) {
        Size wide = args.wide, width = args.width, place = chunk.step(t, sequences.first);
        float *rows = args.grad_slots + place * args.memory_wide, *to = args.grad_vectors + place * wide;
        for_each_pair([&](Size h, Size b) {
            Size at = args.row(h, b, args.before + t);
            float *row = rows + (b - sequences.first) * args.memory_wide + h * args.head;
            std::memcpy(row, args.grad_keys + at, args.head * 4);
            std::memcpy(row + width, args.grad_values + at, args.head * 4);
        });
        weigh_with({rows, args.memory_wide, 1}, args.memory, sequences.count, 2 * width, wide,
                   [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });

        for (Size i = 0; i < sequences.count; i++) {
            float *vector = args.vectors + (place + i) * wide, *gradient = to + i * wide;
            memory_vector(args, t, sequences.first + i, vector);
            if (args.norm_memory) {
                float rstd = normalise(vector, vector, args);
                std::memcpy(through, gradient, wide * 4);
                std::memset(gradient, 0, wide * 4);
                add_normalise_backward(through, vector, rstd, gradient, args);
            }
            std::memset(y + i * wide, 0, wide * 4);
            std::memcpy(y + i * wide, args.grad_top + (t * args.batch + sequences.first + i) * width,
                        width * 4);
        }
        add_slot_gradient(args.layers, t);
    }

    // Stores the gradient of what a sub-layer adds; it is zero for dropped features.
    void store_gradient(float *to, const float *drop) {
        for (Size i = 0; i < sequences.count * args.wide; i += LANES) {
            Vec gradient = load(y + i);
            store(to + i, drop ? gradient * load(drop + i) : gradient);
        }
    }

    void feed_forward_backward(Size l, Size t) {
        Size wide = args.wide, hidden_wide = args.hidden_wide;
        Size here = chunk.here(l, t, sequences.first), dropped = args.dropped(l, t, sequences.first);
        Size kept = args.kept(l, t, sequences.first);
        float *projected = args.grad_projected + here * wide;
        store_gradient(projected, args.drop_projected ? args.drop_projected + dropped * wide : nullptr);

        // The slope of the ReLU is 1 where its output is positive.
        const float *hidden = args.features + kept * hidden_wide;
        const float *drop = args.drop_hidden;
        if (drop) drop += dropped * hidden_wide;
        float *up = args.grad_up + here * hidden_wide, *to = through;
        weigh_with({projected, wide, 1}, args.down + l * args.width * hidden_wide, sequences.count,
                   args.width, hidden_wide, [=](Size i, Size j, Vec c) {
                       Size place = i * hidden_wide + j;
                       if (drop) c *= load(drop + place);
                       store(up + place, load(hidden + place) > Vec{} ? c : Vec{});
                   });
        weigh_with({up, hidden_wide, 1}, args.up + l * args.hidden * wide, sequences.count, args.hidden,
                   wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });
        norm_backward(args.z + kept * wide, wide, args.z_norm + here * wide);
    }

    // Adds the gradient in `through` to y, after the norm of x has been applied to it.
    void norm_backward(const float *x, Size apart, float *norm) {
        for (Size i = 0; i < sequences.count; i++) {
            float *own = norm + i * args.wide;
            float rstd = normalise(x + i * apart, own, args);
            add_normalise_backward(through + i * args.wide, own, rstd, y + i * args.wide, args);
        }
    }

    void attend_backward(Size l, Size t) {
        Size wide = args.wide, here = chunk.here(l, t, sequences.first);
        Size dropped = args.dropped(l, t, sequences.first);
        float *attended = args.grad_attended + here * wide, *to = heads_out;
        store_gradient(attended, args.drop_attended ? args.drop_attended + dropped * wide : nullptr);
        // The first token has not attended to anything, so all that follows is zero.
        if (Window(args, t).count == 0) std::memset(attended, 0, sequences.count * wide * 4);
        weigh_with({attended, wide, 1}, args.output + l * args.width * wide, sequences.count,
                   args.width, wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });

        float *query = args.grad_query + here * wide;
        for (Size h = 0; h < args.heads; h++) {
            for (Size i = 0; i < sequences.count; i++) {
                Size part = i * wide + h * args.head;
                head_backward(l, t, h, sequences.first + i, heads_out + part, query + part);
                prefetch_features(l, t, h * sequences.count + i);
            }
            distance_backward(l, t, h, query + h * args.head);
        }

        to = through;
        weigh_with({query, wide, 1}, args.query + l * args.width * wide, sequences.count, args.width,
                   wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });
        norm_backward(args.x(t, l, sequences.first), wide, args.x_norm + here * wide);
    }

    // The hidden features of the next layer were written long ago and have left the caches. Each head of each
    // sequence prefetches a share of them while the loop is busy with attention.
    void prefetch_features(Size l, Size t, Size pair) {
        if (l == 0 && t-- == 0) return;
        Size next = l ? l - 1 : args.layers - 1, share = args.hidden_wide / args.heads;
        const float *from = args.features + args.kept(next, t, sequences.first) * args.hidden_wide;
        for (Size k = 0; k < share; k += 16) __builtin_prefetch(from + pair * share + k, 0, 2);
    }

    // From the gradient of a head's output to those of weights, scores and query.
    void head_backward(Size l, Size t, Size h, Size b, const float *heads_out, float *query) {
        Window window(args, t);
        Size place = chunk.row(h, b, l, t), seen = window_offset(window);
        float *gradient = args.grad_scores + place * args.row_capacity;
        std::memcpy(args.grad_heads_out + place * args.head_wide, heads_out, args.head_wide * 4);
        row_times_packed(heads_out, args.values + args.panel(h, b, window.base()), args.head,
                         window.lead + window.count,
                         [=](Size j, Vec c) { store(gradient + seen + j, c); });
        clear_outside(gradient, window);

        float *own = gradient + seen + window.lead;
        float *weights = args.attn + place * args.row_capacity + seen + window.lead;
        const float *drop = weights_dropout(args, l, t, h, b);
        multiply(own, drop, window.count);
        Vec sums = {};
        for (Size j = 0; j < window.count; j += LANES) sums += load(weights + j) * load(own + j);
        Vec mean = total(sums);
        for (Size j = 0; j < window.count; j += LANES)
            store(own + j, load(weights + j) * (load(own + j) - mean));
        row_times(own, args.keys_rows + args.row(h, b, window.first), window.count, args.head_wide,
                  [=](Size k, Vec c) { store_first(query + k, c, args.head - k); });
        multiply(weights, drop, window.count);
    }

    // The part of the query's gradient from distances, which are the same for all sequences.
    void distance_backward(Size l, Size t, Size h, float *query) {
        Window window(args, t);
        Size near = (l * args.heads + h + 1) * args.longest - window.count;
        Size place = chunk.row(h, sequences.first, l, t) * args.row_capacity;
        Size apart = (chunk.pair(h, 1) - chunk.pair(h, 0)) * args.row_capacity;
        product({args.grad_scores + place + window_offset(window) + window.lead, apart, 1},
                {args.table_rows + near * args.head_wide, args.head_wide, 1}, sequences.count,
                window.count, args.head_wide, [=](Size i, Size k, Vec c) {
                    float *to = query + i * args.wide + k;
                    store_first(to, load(to) + c, args.head - k);
                });
    }

    // Gradients of slots
    // ------------------
    //
    // $$\delta_{k_j} = \sum_{t,l} \delta_{e_{tj}} \, q_t, \qquad
    //   \delta_{v_j} = \sum_{t,l} A_{tj} \, \delta_{o_t}$$
    //
    // Slots that were written in this chunk are needed soon, so they get the gradients of each step at once,
    // of all its layers. Older slots can wait for the end of the chunk.
    void grads_to_newer(Size h, Size b, Size t) {
        Size row = chunk.row(h, b, 0, t), steps = chunk.steps();
        add_rows(h, b, args.before + chunk.start, t - chunk.start, row, steps, args.layers);
    }

    void grads_to_older(Size h, Size b) {
        add_rows(h, b, args.low, chunk.old(), chunk.pair(h, b), 1, args.layers * chunk.steps());
    }

    // Adds to `rows` slots from slot `first` on. The sum has `count` terms, from `place` on, `apart` rows apart.
    void add_rows(Size h, Size b, Size first, Size rows, Size place, Size apart, Size count) {
        Size head_wide = args.head_wide, to = args.row(h, b, first);
        Size weights = place * args.row_capacity + first - args.low;
        auto add = [&](float *to, const float *shares, const float *what) {
            add_product({shares + weights, 1, apart * args.row_capacity},
                        {what + place * head_wide, apart * head_wide, 1}, rows, count, head_wide,
                        {to, head_wide});
        };
        add(args.grad_keys + to, args.grad_scores, args.head_query);
        add(args.grad_values + to, args.attn, args.grad_heads_out);
    }
};
