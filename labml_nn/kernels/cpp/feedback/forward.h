// Forward pass
// ============
//
// Each thread takes its sequences from the first step to the last. Equations and names are those of the
// [kernel by hand](../../feedback_by_hand.py).

#pragma once
#include "layer.h"

struct Forward {
    const Task &task;
    Sequences sequences;
    float *norm, *rows, *weights;  // [m, C'], [m, memory_wide], [m, weights_capacity]

    Forward(const Task &task, Sequences sequences) : task(task), sequences(sequences) {
        norm = task.scratch + sequences.first * task.scratch_size;
        rows = norm + sequences.count * task.wide;
        weights = rows + sequences.count * task.memory_wide;
    }

    void run() {
        for (Size t = task.start; t < task.stop; t++) {
            load_step(t);
            for (Size l = 0; l < task.layers; l++) {
                attend(l, t);
                feed_forward(l, t);
            }
            write_slot(t);
        }
    }

    // Copies the embeddings of a step into padded rows.
    void load_step(Size t) {
        for (Size i = 0; i < sequences.count; i++) {
            Size b = sequences.first + i, width = task.width;
            float *x = task.x(t, 0, b);
            std::memcpy(x, task.x_seq + (t * task.batch + b) * width, width * 4);
            std::memset(x + width, 0, (task.wide - width) * 4);
        }
    }

    // $z = x + W_O \, o + b_O$
    void attend(Size l, Size t) {
        Size wide = task.wide, place = task.kept(l, t, sequences.first) * wide;
        const float *x = task.x(t, l, sequences.first);
        for (Size i = 0; i < sequences.count; i++) normalise(x + i * wide, norm + i * wide, task);

        float *query = task.queries + place, *z = task.z + place;
        const float *bias = task.query_bias + l * wide;
        weigh_with({norm, wide, 1}, task.query + l * task.width * wide, sequences.count, task.width,
                   wide, [=](Size i, Size j, Vec c) {
                       store(query + i * wide + j, c + load(bias + j));
                   });
        // The first token of a sequence attends to nothing, and attention adds nothing.
        if (Window(task, t).count == 0) {
            std::memcpy(z, x, sequences.count * wide * 4);
            return;
        }
        float *heads_out = norm;
        attend_heads(l, t, query, heads_out);

        const float *drop = task.drop_attended;
        if (drop) drop += task.dropped(l, t, sequences.first) * wide;
        bias = task.output_bias + l * wide;
        weigh_with({heads_out, wide, 1}, task.output + l * task.width * wide, sequences.count, task.width,
                   wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(z + i * wide + j, load(x + i * wide + j) + c);
                   });
    }

    // $o$: the outputs of the heads.
    void attend_heads(Size l, Size t, const float *query, float *heads_out) {
        Window window(task, t);
        Size apart = task.weights_capacity;
        for (Size h = 0; h < task.heads; h++) {
            const float *head_query = query + h * task.head;
            score_distances(task, l, h, window, {head_query, task.wide, 1}, sequences.count, weights, apart);
            for (Size i = 0; i < sequences.count; i++) {
                Size b = sequences.first + i;
                float *scores = weights + i * apart;
                row_times_packed(head_query + i * task.wide, task.keys + task.panel(h, b, window.base()),
                                 task.head, window.lead + window.count,
                                 [=](Size j, Vec c) { add_to(scores + j, c); });
                scores += window.lead;
                softmax(scores, window.count);
                multiply(scores, weights_dropout(task, l, t, h, b), window.count);
            }
            for (Size i = 0; i < sequences.count; i++) {
                float *to = heads_out + i * task.wide + h * task.head;
                row_times(weights + i * apart + window.lead,
                          task.values_rows + task.row(h, sequences.first + i, window.first),
                          window.count, task.head_wide,
                          [=](Size k, Vec c) { store_first(to + k, c, task.head - k); });
            }
        }
    }

    // $x' = z + W_2 \operatorname{relu}(W_1 \hat{z} + b_1) + b_2$
    void feed_forward(Size l, Size t) {
        Size wide = task.wide, hidden_wide = task.hidden_wide, place = task.kept(l, t, sequences.first);
        const float *z = task.z + place * wide;
        for (Size i = 0; i < sequences.count; i++) normalise(z + i * wide, norm + i * wide, task);

        float *hidden = task.features + place * hidden_wide;
        const float *bias = task.up_bias + l * hidden_wide;
        const float *drop = task.drop_hidden;
        if (drop) drop += task.dropped(l, t, sequences.first) * hidden_wide;
        weigh_with({norm, wide, 1}, task.up + l * task.width * hidden_wide, sequences.count, task.width,
                   hidden_wide, [=](Size i, Size j, Vec c) {
                       c = larger(Vec{}, c + load(bias + j));
                       if (drop) c *= load(drop + i * hidden_wide + j);
                       store(hidden + i * hidden_wide + j, c);
                   });

        float *x = task.x(t, l + 1, sequences.first);
        bias = task.down_bias + l * wide;
        drop = task.drop_projected;
        if (drop) drop += task.dropped(l, t, sequences.first) * wide;
        weigh_with({hidden, hidden_wide, 1}, task.down + l * task.hidden * wide, sequences.count,
                   task.hidden, wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(x + i * wide + j, load(z + i * wide + j) + c);
                   });
    }

    void write_slot(Size t) {
        Size wide = task.wide, memory_wide = task.memory_wide;
        for (Size i = 0; i < sequences.count; i++) {
            float *vector = norm + i * wide;
            memory_vector(task, t, sequences.first + i, vector);
            if (task.norm_memory) normalise(vector, vector, task);
        }
        float *to = rows;
        weigh_with({norm, wide, 1}, task.memory, sequences.count, task.width, memory_wide,
                   [=](Size i, Size j, Vec c) {
                       store(to + i * memory_wide + j, c + load(task.memory_bias + j));
                   });
        for (Size i = 0; i < sequences.count; i++) write(t, sequences.first + i, rows + i * memory_wide);
    }

    // Writes a slot and the results of the step. The key is a column of a panel.
    void write(Size t, Size b, const float *row) {
        Size end = task.before + t, place = (t * task.batch + b) * task.width;
        std::memcpy(task.top + place, task.x(t, task.layers, b), task.width * 4);
        std::memcpy(task.new_keys + place, row, task.width * 4);
        std::memcpy(task.new_values + place, row + task.width, task.width * 4);
        for (Size h = 0; h < task.heads; h++, row += task.head) {
            float *key = task.keys + task.panel(h, b, end - end % PANEL) + end % PANEL;
            for (Size k = 0; k < task.head; k++) key[k * PANEL] = row[k];
            std::memcpy(task.values_rows + task.row(h, b, end), row + task.width, task.head * 4);
        }
    }
};
