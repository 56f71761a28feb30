// The way there
// =============

#pragma once
#include "layer.h"

struct Forward {
    const Task &task;
    Texts texts;
    float *norm, *rows, *weights;  // [m, C'], [m, memory_wide], [H, m, weights_room]

    Forward(const Task &task, Size thread) : task(task), texts(share(task, thread)) {
        norm = task.scratch + thread * task.scratch_size;
        rows = norm + texts.count * task.wide;
        weights = rows + texts.count * task.memory_wide;
    }

    void run() {
        for (Size t = task.start; t < task.stop; t++) {
            for (Size l = 0; l < task.layers; l++) {
                attend(l, t);
                conclude(l, t);
            }
            remember(t);
        }
    }

    // z = x + W_O o + b_O
    void attend(Size l, Size t) {
        Size wide = task.wide, place = task.kept(l, t, texts.first) * wide;
        const float *x = task.x(t, l, texts.first);
        for (Size i = 0; i < texts.count; i++) normalise(x + i * wide, norm + i * wide, task);

        float *query = task.queries + place;
        const float *bias = task.query_bias + l * wide;
        weigh_with({norm, wide, 1}, task.query + l * task.width * wide, texts.count, task.width,
                   wide, [=](Size i, Size j, Vec c) {
                       store(query + i * wide + j, c + load(bias + j));
                   });
        look(l, t);

        float *z = task.between + place;
        const float *drop = task.drop_attended;
        if (drop) drop += task.here(l, t, texts.first) * wide;
        bias = task.output_bias + l * wide;
        weigh_with({task.found + place, wide, 1}, task.output + l * task.width * wide, texts.count,
                   task.width, wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(z + i * wide + j, load(x + i * wide + j) + c);
                   });
    }

    // o: what the heads find
    void look(Size l, Size t) {
        Window window(task, t);
        Size apart = task.weights_room;
        auto row = [&](Size h, Size i) { return weights + (h * texts.count + i) * apart; };
        weigh(task, l, t, texts, row, apart);
        for (Size h = 0; h < task.heads; h++)
            for (Size i = 0; i < texts.count; i++) {
                Size b = texts.first + i, pair = task.pair(h, b);
                float *attn = row(h, i);
                multiply(attn, dropped_weights(task, l, t, h, b), window.count);
                const float *values = task.values_rows + pair * task.room * task.head_wide +
                                      window.first * task.head_wide;
                float *found = task.found + task.kept(l, t, b) * task.wide + h * task.head;
                for (Size k = 0; k < task.head; k += LANES) {
                    Vec mixed = mixture(attn, values + k, task.head_wide, window.count);
                    store_first(found + k, mixed, task.head - k);
                }
            }
    }

    // x' = z + W_2 relu(W_1 z + b_1) + b_2
    void conclude(Size l, Size t) {
        Size wide = task.wide, hidden_wide = task.hidden_wide, place = task.kept(l, t, texts.first);
        const float *z = task.between + place * wide;
        for (Size i = 0; i < texts.count; i++) normalise(z + i * wide, norm + i * wide, task);

        float *hidden = task.features + place * hidden_wide;
        const float *bias = task.up_bias + l * hidden_wide;
        const float *drop = task.drop_hidden;
        if (drop) drop += task.here(l, t, texts.first) * hidden_wide;
        weigh_with({norm, wide, 1}, task.up + l * task.width * hidden_wide, texts.count, task.width,
                   hidden_wide, [=](Size i, Size j, Vec c) {
                       c = larger(Vec{}, c + load(bias + j));
                       if (drop) c *= load(drop + i * hidden_wide + j);
                       store(hidden + i * hidden_wide + j, c);
                   });

        float *x = task.x(t, l + 1, texts.first);
        bias = task.down_bias + l * wide;
        drop = task.drop_concluded;
        if (drop) drop += task.here(l, t, texts.first) * wide;
        weigh_with({hidden, hidden_wide, 1}, task.down + l * task.hidden * wide, texts.count,
                   task.hidden, wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(x + i * wide + j, load(z + i * wide + j) + c);
                   });
    }

    // The key goes into a column, the value into a row.
    void remember(Size t) {
        Size wide = task.wide, memory_wide = task.memory_wide;
        for (Size i = 0; i < texts.count; i++) {
            float *vector = norm + i * wide;
            memory_vector(task, t, texts.first + i, vector);
            if (task.norm_memory) normalise(vector, vector, task);
        }
        float *to = rows;
        weigh_with({norm, wide, 1}, task.memory, texts.count, task.width, memory_wide,
                   [=](Size i, Size j, Vec c) {
                       store(to + i * memory_wide + j, c + load(task.memory_bias + j));
                   });
        for (Size i = 0; i < texts.count; i++)
            for (Size h = 0; h < task.heads; h++) {
                Size pair = task.pair(h, texts.first + i), end = task.before + t;
                const float *row = rows + i * memory_wide + h * task.head;
                float *key = task.keys + pair * task.head * task.room + end;
                float *value = task.values_rows + (pair * task.room + end) * task.head_wide;
                for (Size k = 0; k < task.head; k++) {
                    key[k * task.room] = row[k];
                    value[k] = row[task.width + k];
                }
            }
    }
};
