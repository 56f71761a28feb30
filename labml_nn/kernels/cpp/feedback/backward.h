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
    const Task &task;
    Chunk chunk;
    Sequences sequences;
    float *y, *through, *heads_out;  // [m, C'] three times

    Backward(const Chunk &chunk, Sequences sequences) : task(chunk.task), chunk(chunk), sequences(sequences) {
        y = task.scratch + sequences.first * task.scratch_size;
        through = y + sequences.count * task.wide;
        heads_out = through + sequences.count * task.wide;
    }

    void run() {
        for (Size h = 0; h < task.heads; h++) recompute_attention(h);
        for (Size t = chunk.stop - 1; t >= chunk.start; t--) {
            slot_backward(t);
            for (Size l = task.layers - 1; l >= 0; l--) {
                feed_forward_backward(l, t);
                attend_backward(l, t);
                add_slot_gradient(l, t);
            }
            Size number = sequences.count * task.wide;
            std::memcpy(task.grad_x_seq + (t * task.batch + sequences.first) * task.wide, y, number * 4);
            for_each_pair([&](Size h, Size b) { grads_to_newer(h, b, t); });
        }
        for_each_pair([&](Size h, Size b) {
            grads_to_older(h, b);
            recompute_heads_out(h, b);
        });
    }

    template <class Work>
    void for_each_pair(Work work) {
        for (Size h = 0; h < task.heads; h++)
            for (Size i = 0; i < sequences.count; i++) work(h, sequences.first + i);
    }

    // Recomputed attention
    // --------------------
    //
    // Queries and keys are known, so the scores of all layers and steps of one head of one sequence are a
    // single product. Scores of slots outside a step's window are cleared afterwards.
    void recompute_attention(Size h) {
        Size apart = chunk.pair(h, 1) - chunk.pair(h, 0), rows = task.layers * chunk.steps();
        for (Size i = 0; i < sequences.count; i++) gather_queries(h, sequences.first + i);
        for (Size l = 0; l < task.layers; l++)
            for (Size t = chunk.start; t < chunk.stop; t++) {
                Size place = chunk.row(h, sequences.first, l, t);
                Window window(task, t);
                score_distances(task, l, h, window,
                                {task.head_query + place * task.head_wide, apart * task.head_wide, 1},
                                sequences.count, task.attn + place * task.row_capacity + window_offset(window),
                                apart * task.row_capacity);
            }
        for (Size i = 0; i < sequences.count; i++) {
            Size b = sequences.first + i, place = chunk.pair(h, b), row_capacity = task.row_capacity;
            float *scores = task.attn + place * row_capacity;
            product({task.head_query + place * task.head_wide, task.head_wide, 1},
                    packed(task.keys + task.panel(h, b, task.low), task.head), rows, task.head,
                    (chunk.rows() + PANEL - 1) / PANEL * PANEL,
                    [=](Size i, Size j, Vec c) { add_to(scores + i * row_capacity + j, c); });
            for (Size l = 0; l < task.layers; l++)
                for (Size t = chunk.start; t < chunk.stop; t++, scores += row_capacity) {
                    Window window(task, t);
                    float *seen = scores + window_offset(window) + window.lead;
                    softmax(seen, window.count);
                    clear_outside(scores, window);
                }
        }
    }

    // Where the first panel of the window begins in a row of weights.
    Size window_offset(Window window) const { return window.base() - task.low; }

    void clear_outside(float *row, Window window) {
        Size before = window.first - task.low, end = before + window.count;
        std::memset(row, 0, before * 4);
        std::memset(row + end, 0, (task.row_capacity - end) * 4);
    }

    // The queries of one head of one sequence, side by side. Padding behind them is never used.
    void gather_queries(Size h, Size b) {
        float *to = task.head_query + chunk.pair(h, b) * task.head_wide;
        for (Size l = 0; l < task.layers; l++)
            for (Size t = chunk.start; t < chunk.stop; t++, to += task.head_wide)
                std::memcpy(to, task.queries + task.kept(l, t, b) * task.wide + h * task.head,
                            task.head_wide * 4);
    }

    // $o$ of all layers and steps of one head of one sequence. Dropped weights are zero by now.
    void recompute_heads_out(Size h, Size b) {
        Size steps = chunk.steps();
        product({task.attn + chunk.pair(h, b) * task.row_capacity, task.row_capacity, 1},
                {task.values_rows + task.row(h, b, task.low), task.head_wide, 1},
                task.layers * steps, chunk.rows(), task.head_wide, [&](Size i, Size k, Vec c) {
                    Size place = chunk.here(i / steps, chunk.start + i % steps, b);
                    store_first(task.heads_out + place * task.wide + h * task.head + k, c,
                                task.head - k);
                });
    }

    // One step
    // --------

    // $y \leftarrow y + s_l \, \delta_m$: the gradient of $x^l$ from the memory vector, with its share.
    void add_slot_gradient(Size l, Size t) {
        const float *vector = task.grad_vectors + chunk.step(t, sequences.first) * task.wide;
        for (Size i = 0; i < sequences.count * task.wide; i += LANES)
            add_to(y + i, all(task.shares[l]) * load(vector + i));
    }

    // The gradient of the slot that this step wrote is complete: all later steps have added to it.
    void slot_backward(Size t) {
        Size wide = task.wide, width = task.width, place = chunk.step(t, sequences.first);
        float *rows = task.grad_slots + place * task.memory_wide, *to = task.grad_vectors + place * wide;
        for_each_pair([&](Size h, Size b) {
            Size at = task.row(h, b, task.before + t);
            float *row = rows + (b - sequences.first) * task.memory_wide + h * task.head;
            std::memcpy(row, task.grad_keys + at, task.head * 4);
            std::memcpy(row + width, task.grad_values + at, task.head * 4);
        });
        weigh_with({rows, task.memory_wide, 1}, task.memory, sequences.count, 2 * width, wide,
                   [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });

        for (Size i = 0; i < sequences.count; i++) {
            float *vector = task.vectors + (place + i) * wide, *gradient = to + i * wide;
            memory_vector(task, t, sequences.first + i, vector);
            if (task.norm_memory) {
                float rstd = normalise(vector, vector, task);
                std::memcpy(through, gradient, wide * 4);
                std::memset(gradient, 0, wide * 4);
                add_normalise_backward(through, vector, rstd, gradient, task);
            }
            std::memset(y + i * wide, 0, wide * 4);
            std::memcpy(y + i * wide, task.grad_top + (t * task.batch + sequences.first + i) * width,
                        width * 4);
        }
        add_slot_gradient(task.layers, t);
    }

    // Stores the gradient of what a sub-layer adds; it is zero for dropped features.
    void store_gradient(float *to, const float *drop) {
        for (Size i = 0; i < sequences.count * task.wide; i += LANES) {
            Vec gradient = load(y + i);
            store(to + i, drop ? gradient * load(drop + i) : gradient);
        }
    }

    void feed_forward_backward(Size l, Size t) {
        Size wide = task.wide, hidden_wide = task.hidden_wide;
        Size here = chunk.here(l, t, sequences.first), dropped = task.dropped(l, t, sequences.first);
        Size kept = task.kept(l, t, sequences.first);
        float *projected = task.grad_projected + here * wide;
        store_gradient(projected, task.drop_projected ? task.drop_projected + dropped * wide : nullptr);

        // The slope of the ReLU is 1 where its output is positive.
        const float *hidden = task.features + kept * hidden_wide;
        const float *drop = task.drop_hidden;
        if (drop) drop += dropped * hidden_wide;
        float *up = task.grad_up + here * hidden_wide, *to = through;
        weigh_with({projected, wide, 1}, task.down + l * task.width * hidden_wide, sequences.count,
                   task.width, hidden_wide, [=](Size i, Size j, Vec c) {
                       Size place = i * hidden_wide + j;
                       if (drop) c *= load(drop + place);
                       store(up + place, load(hidden + place) > Vec{} ? c : Vec{});
                   });
        weigh_with({up, hidden_wide, 1}, task.up + l * task.hidden * wide, sequences.count, task.hidden,
                   wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });
        norm_backward(task.z + kept * wide, wide, task.z_norm + here * wide);
    }

    // Adds the gradient in `through` to y, after the norm of x has been applied to it.
    void norm_backward(const float *x, Size apart, float *norm) {
        for (Size i = 0; i < sequences.count; i++) {
            float *own = norm + i * task.wide;
            float rstd = normalise(x + i * apart, own, task);
            add_normalise_backward(through + i * task.wide, own, rstd, y + i * task.wide, task);
        }
    }

    void attend_backward(Size l, Size t) {
        Size wide = task.wide, here = chunk.here(l, t, sequences.first);
        Size dropped = task.dropped(l, t, sequences.first);
        float *attended = task.grad_attended + here * wide, *to = heads_out;
        store_gradient(attended, task.drop_attended ? task.drop_attended + dropped * wide : nullptr);
        // The first token has not attended to anything, so all that follows is zero.
        if (Window(task, t).count == 0) std::memset(attended, 0, sequences.count * wide * 4);
        weigh_with({attended, wide, 1}, task.output + l * task.width * wide, sequences.count,
                   task.width, wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });

        float *query = task.grad_query + here * wide;
        for (Size h = 0; h < task.heads; h++) {
            for (Size i = 0; i < sequences.count; i++) {
                Size part = i * wide + h * task.head;
                head_backward(l, t, h, sequences.first + i, heads_out + part, query + part);
                prefetch_features(l, t, h * sequences.count + i);
            }
            distance_backward(l, t, h, query + h * task.head);
        }

        to = through;
        weigh_with({query, wide, 1}, task.query + l * task.width * wide, sequences.count, task.width,
                   wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });
        norm_backward(task.x(t, l, sequences.first), wide, task.x_norm + here * wide);
    }

    // The hidden features of the next layer were written long ago and have left the caches. Each head of each
    // sequence prefetches a share of them while the loop is busy with attention.
    void prefetch_features(Size l, Size t, Size pair) {
        if (l == 0 && t-- == 0) return;
        Size next = l ? l - 1 : task.layers - 1, share = task.hidden_wide / task.heads;
        const float *from = task.features + task.kept(next, t, sequences.first) * task.hidden_wide;
        for (Size k = 0; k < share; k += 16) __builtin_prefetch(from + pair * share + k, 0, 2);
    }

    // From the gradient of a head's output to those of weights, scores and query.
    void head_backward(Size l, Size t, Size h, Size b, const float *heads_out, float *query) {
        Window window(task, t);
        Size place = chunk.row(h, b, l, t), seen = window_offset(window);
        float *gradient = task.grad_scores + place * task.row_capacity;
        std::memcpy(task.grad_heads_out + place * task.head_wide, heads_out, task.head_wide * 4);
        row_times_packed(heads_out, task.values + task.panel(h, b, window.base()), task.head,
                         window.lead + window.count,
                         [=](Size j, Vec c) { store(gradient + seen + j, c); });
        clear_outside(gradient, window);

        float *own = gradient + seen + window.lead;
        float *weights = task.attn + place * task.row_capacity + seen + window.lead;
        const float *drop = weights_dropout(task, l, t, h, b);
        multiply(own, drop, window.count);
        Vec sums = {};
        for (Size j = 0; j < window.count; j += LANES) sums += load(weights + j) * load(own + j);
        Vec mean = total(sums);
        for (Size j = 0; j < window.count; j += LANES)
            store(own + j, load(weights + j) * (load(own + j) - mean));
        row_times(own, task.keys_rows + task.row(h, b, window.first), window.count, task.head_wide,
                  [=](Size k, Vec c) { store_first(query + k, c, task.head - k); });
        multiply(weights, drop, window.count);
    }

    // The part of the query's gradient from distances, which are the same for all sequences.
    void distance_backward(Size l, Size t, Size h, float *query) {
        Window window(task, t);
        Size near = (l * task.heads + h + 1) * task.longest - window.count;
        Size place = chunk.row(h, sequences.first, l, t) * task.row_capacity;
        Size apart = (chunk.pair(h, 1) - chunk.pair(h, 0)) * task.row_capacity;
        product({task.grad_scores + place + window_offset(window) + window.lead, apart, 1},
                {task.table_rows + near * task.head_wide, task.head_wide, 1}, sequences.count,
                window.count, task.head_wide, [=](Size i, Size k, Vec c) {
                    float *to = query + i * task.wide + k;
                    store_first(to, load(to) + c, task.head - k);
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
        add_rows(h, b, task.before + chunk.start, t - chunk.start, row, steps, task.layers);
    }

    void grads_to_older(Size h, Size b) {
        add_rows(h, b, task.low, chunk.old(), chunk.pair(h, b), 1, task.layers * chunk.steps());
    }

    // Adds to `rows` slots from slot `first` on. The sum has `count` terms, from `place` on, `apart` rows apart.
    void add_rows(Size h, Size b, Size first, Size rows, Size place, Size apart, Size count) {
        Size head_wide = task.head_wide, to = task.row(h, b, first);
        Size weights = place * task.row_capacity + first - task.low;
        auto add = [&](float *to, const float *shares, const float *what) {
            add_product({shares + weights, 1, apart * task.row_capacity},
                        {what + place * head_wide, apart * head_wide, 1}, rows, count, head_wide,
                        {to, head_wide});
        };
        add(task.grad_keys + to, task.grad_scores, task.head_query);
        add(task.grad_values + to, task.attn, task.grad_heads_out);
    }
};
