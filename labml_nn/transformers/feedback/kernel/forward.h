// The way there
// =============
//
// Each thread takes its texts from the first step to the last. The equations are those of the
// [loop by hand](../by_hand/forward.py), and so are the names.

#pragma once
#include "layer.h"

struct Forward {
    const Task &task;
    Texts texts;
    float *norm, *rows, *weights;  // [m, C'], [m, memory_wide], [m, weights_room]

    Forward(const Task &task, Texts texts) : task(task), texts(texts) {
        norm = task.scratch + texts.first * task.scratch_size;
        rows = norm + texts.count * task.wide;
        weights = rows + texts.count * task.memory_wide;
    }

    void run() {
        for (Size t = task.start; t < task.stop; t++) {
            begin(t);
            for (Size l = 0; l < task.layers; l++) {
                attend(l, t);
                conclude(l, t);
            }
            remember(t);
        }
    }

    // What is to be read, in padded rows.
    void begin(Size t) {
        for (Size i = 0; i < texts.count; i++) {
            Size b = texts.first + i, width = task.width;
            float *x = task.x(t, 0, b);
            std::memcpy(x, task.text + (t * task.batch + b) * width, width * 4);
            std::memset(x + width, 0, (task.wide - width) * 4);
        }
    }

    // $z = x + W_O \, o + b_O$
    void attend(Size l, Size t) {
        Size wide = task.wide, place = task.kept(l, t, texts.first) * wide;
        const float *x = task.x(t, l, texts.first);
        for (Size i = 0; i < texts.count; i++) normalise(x + i * wide, norm + i * wide, task);

        float *query = task.queries + place, *z = task.between + place;
        const float *bias = task.query_bias + l * wide;
        weigh_with({norm, wide, 1}, task.query + l * task.width * wide, texts.count, task.width,
                   wide, [=](Size i, Size j, Vec c) {
                       store(query + i * wide + j, c + load(bias + j));
                   });
        // The first token of a text sees nothing, and attention has nothing to add.
        if (Window(task, t).count == 0) {
            std::memcpy(z, x, texts.count * wide * 4);
            return;
        }
        float *found = norm;
        look(l, t, query, found);

        const float *drop = task.drop_attended;
        if (drop) drop += task.dropped(l, t, texts.first) * wide;
        bias = task.output_bias + l * wide;
        weigh_with({found, wide, 1}, task.output + l * task.width * wide, texts.count, task.width,
                   wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(z + i * wide + j, load(x + i * wide + j) + c);
                   });
    }

    // $o$: what the heads find.
    void look(Size l, Size t, const float *query, float *found) {
        Window window(task, t);
        Size apart = task.weights_room;
        for (Size h = 0; h < task.heads; h++) {
            const float *asked = query + h * task.head;
            score_distances(task, l, h, window, {asked, task.wide, 1}, texts.count, weights, apart);
            for (Size i = 0; i < texts.count; i++) {
                Size b = texts.first + i;
                float *scores = weights + i * apart;
                row_times_packed(asked + i * task.wide, task.keys + task.panel(h, b, window.base()),
                                 task.head, window.lead + window.count,
                                 [=](Size j, Vec c) { add_to(scores + j, c); });
                scores += window.lead;
                if (task.blank) hide_blank(task, window, b, scores);
                softmax(scores, window.count);
                multiply(scores, dropped_weights(task, l, t, h, b), window.count);
            }
            for (Size i = 0; i < texts.count; i++) {
                float *to = found + i * task.wide + h * task.head;
                row_times(weights + i * apart + window.lead,
                          task.values_rows + task.row(h, texts.first + i, window.first),
                          window.count, task.head_wide,
                          [=](Size k, Vec c) { store_first(to + k, c, task.head - k); });
            }
        }
    }

    // $x' = z + W_2 \operatorname{relu}(W_1 \hat{z} + b_1) + b_2$
    void conclude(Size l, Size t) {
        Size wide = task.wide, hidden_wide = task.hidden_wide, place = task.kept(l, t, texts.first);
        const float *z = task.between + place * wide;
        for (Size i = 0; i < texts.count; i++) normalise(z + i * wide, norm + i * wide, task);

        float *hidden = task.features + place * hidden_wide;
        const float *bias = task.up_bias + l * hidden_wide;
        const float *drop = task.drop_hidden;
        if (drop) drop += task.dropped(l, t, texts.first) * hidden_wide;
        weigh_with({norm, wide, 1}, task.up + l * task.width * hidden_wide, texts.count, task.width,
                   hidden_wide, [=](Size i, Size j, Vec c) {
                       c = larger(Vec{}, c + load(bias + j));
                       if (drop) c *= load(drop + i * hidden_wide + j);
                       store(hidden + i * hidden_wide + j, c);
                   });

        float *x = task.x(t, l + 1, texts.first);
        bias = task.down_bias + l * wide;
        drop = task.drop_concluded;
        if (drop) drop += task.dropped(l, t, texts.first) * wide;
        weigh_with({hidden, hidden_wide, 1}, task.down + l * task.hidden * wide, texts.count,
                   task.hidden, wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(x + i * wide + j, load(z + i * wide + j) + c);
                   });
    }

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
        for (Size i = 0; i < texts.count; i++) write(t, texts.first + i, rows + i * memory_wide);
    }

    // A new row of memory, and what others see of the step. The key goes into its column of a panel.
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
