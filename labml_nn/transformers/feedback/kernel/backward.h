// The way back
// ============
//
// First each thread walks with its texts from the last step of the span to its first, and writes
// down what the products at the end need. Then all threads share those products.

#pragma once
#include <atomic>

#include "layer.h"

static inline void add_to(float *to, Vec v) { store(to, load(to) + v); }

struct Backward {
    const Task &task;
    Texts texts;
    float *y, *moved, *attn, *scores;  // [m, C'] twice, [H, m, weights_room] twice

    Backward(const Task &task, Size thread) : task(task), texts(share(task, thread)) {
        y = task.scratch + thread * task.scratch_size;
        moved = y + texts.count * task.wide;
        attn = moved + texts.count * task.wide;
        scores = attn + task.heads * texts.count * task.weights_room;
    }

    void run() {
        for (Size t = task.stop - 1; t >= task.start; t--) {
            remember(t);
            for (Size l = task.layers - 1; l >= 0; l--) {
                conclude(l, t);
                attend(l, t);
                hear(l, t);
            }
            Size number = texts.count * task.wide;
            std::memcpy(task.of_text + (t * task.batch + texts.first) * task.wide, y, number * 4);
            to_newer(t);
        }
        to_older();
    }

    // y += w_l dm: what memory says of the output of layer l.
    void hear(Size l, Size t) {
        const float *vector = of_vector(t);
        for (Size i = 0; i < texts.count * task.wide; i += LANES)
            add_to(y + i, all(task.shares[l]) * load(vector + i));
    }

    float *of_vector(Size t) {
        return task.of_vectors + ((t - task.start) * task.batch + texts.first) * task.wide;
    }

    // What later steps say of the row that this one has written, and what follows for m.
    void remember(Size t) {
        Size wide = task.wide, place = (t - task.start) * task.batch + texts.first;
        float *row = task.of_rows + place * task.memory_wide, *to = of_vector(t);
        for (Size i = 0; i < texts.count; i++, row += task.memory_wide)
            for (Size h = 0; h < task.heads; h++) {
                Size at = (task.pair(h, texts.first + i) * task.room + task.before + t);
                const float *key = task.of_keys + at * task.head_wide;
                const float *value = task.of_values + at * task.head_wide;
                for (Size k = 0; k < task.head; k++) {
                    row[h * task.head + k] = key[k];
                    row[task.width + h * task.head + k] = value[k];
                }
            }
        row = task.of_rows + place * task.memory_wide;
        weigh_with({row, task.memory_wide, 1}, task.memory, texts.count, 2 * task.width, wide,
                   [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });

        for (Size i = 0; i < texts.count; i++) {
            float *vector = task.vectors + (place + i) * wide, *gradient = to + i * wide;
            memory_vector(task, t, texts.first + i, vector);
            if (task.norm_memory) {
                float rstd = normalise(vector, vector, task);
                std::memcpy(moved, gradient, wide * 4);
                std::memset(gradient, 0, wide * 4);
                add_normalise_backward(moved, vector, rstd, gradient, task);
            }
        }
        std::memcpy(y, task.of_top + (t * task.batch + texts.first) * wide,
                    texts.count * wide * 4);
        hear(task.layers, t);
    }

    // Keep the gradient of what a branch adds; it is zero where the branch was dropped.
    void keep(float *to, const float *drop) {
        for (Size i = 0; i < texts.count * task.wide; i += LANES) {
            Vec gradient = load(y + i);
            store(to + i, drop ? gradient * load(drop + i) : gradient);
        }
    }

    void conclude(Size l, Size t) {
        Size wide = task.wide, hidden_wide = task.hidden_wide;
        Size here = task.here(l, t, texts.first), kept = task.kept(l, t, texts.first);
        float *concluded = task.of_concluded + here * wide;
        keep(concluded, task.drop_concluded ? task.drop_concluded + here * wide : nullptr);

        // The slope of the ReLU is 1 where something came out.
        const float *hidden = task.features + kept * hidden_wide;
        const float *drop = task.drop_hidden;
        if (drop) drop += here * hidden_wide;
        float *up = task.of_up + here * hidden_wide, *to = moved;
        weigh_with({concluded, wide, 1}, task.down + l * task.width * hidden_wide, texts.count,
                   task.width, hidden_wide, [=](Size i, Size j, Vec c) {
                       Size place = i * hidden_wide + j;
                       if (drop) c *= load(drop + place);
                       store(up + place, load(hidden + place) > Vec{} ? c : Vec{});
                   });
        weigh_with({up, hidden_wide, 1}, task.up + l * task.hidden * wide, texts.count, task.hidden,
                   wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });
        through_norm(task.between + kept * wide, wide, task.between_norm + here * wide);
    }

    // y += the gradient that is in `moved`, taken through the norm of x.
    void through_norm(const float *x, Size apart, float *norm) {
        for (Size i = 0; i < texts.count; i++) {
            float *own = norm + i * task.wide;
            float rstd = normalise(x + i * apart, own, task);
            add_normalise_backward(moved + i * task.wide, own, rstd, y + i * task.wide, task);
        }
    }

    void attend(Size l, Size t) {
        Size wide = task.wide, here = task.here(l, t, texts.first);
        float *attended = task.of_attended + here * wide, *found = task.of_found + here * wide;
        keep(attended, task.drop_attended ? task.drop_attended + here * wide : nullptr);
        weigh_with({attended, wide, 1}, task.output + l * task.width * wide, texts.count,
                   task.width, wide,
                   [=](Size i, Size j, Vec c) { store(found + i * wide + j, c); });
        look(l, t);

        float *to = moved;
        weigh_with({task.of_query + here * wide, wide, 1}, task.query + l * task.width * wide,
                   texts.count, task.width, wide,
                   [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });
        through_norm(task.x(t, l, texts.first), wide, task.text_norm + here * wide);
    }

    // Weights are had again, from query and keys. Then their gradients, those of scores, and those
    // of queries, which come from rows and from distances.
    void look(Size l, Size t) {
        Window window(task, t);
        Size apart = task.weights_room, here = task.here(l, t, texts.first);
        weigh(task, l, t, texts,
              [&](Size h, Size i) { return attn + (h * texts.count + i) * apart; }, apart);
        for (Size h = 0; h < task.heads; h++) {
            for (Size i = 0; i < texts.count; i++) judge(l, t, h, i, window);
            Size near = (l * task.heads + h) * task.longest + task.longest - window.count;
            float *query = task.of_query + here * task.wide + h * task.head;
            product({scores + h * texts.count * apart, apart, 1},
                    {task.table_rows + near * task.head_wide, task.head_wide, 1}, texts.count,
                    window.count, task.head_wide, [=](Size i, Size k, Vec c) {
                        float *to = query + i * task.wide + k;
                        store_first(to, load(to) + c, task.head - k);
                    });
        }
    }

    void judge(Size l, Size t, Size h, Size i, Window window) {
        Size b = texts.first + i, pair = task.pair(h, b), apart = task.weights_room;
        float *weights = attn + (h * texts.count + i) * apart;
        float *gradient = scores + (h * texts.count + i) * apart;
        const float *drop = dropped_weights(task, l, t, h, b);
        const float *values = task.values + pair * task.head * task.room + window.first;
        const float *found = task.of_found + task.here(l, t, b) * task.wide + h * task.head;
        std::memset(gradient, 0, apart * 4);
        add_combination(found, values, task.room, task.head, gradient, window.count);
        multiply(gradient, drop, window.count);
        for (Size j = window.count; j % LANES; j++) gradient[j] = 0;

        Vec total = {};
        for (Size j = 0; j < window.count; j += LANES)
            total += load(weights + j) * load(gradient + j);
        Vec mean = all(sum(total));
        for (Size j = 0; j < window.count; j += LANES)
            store(gradient + j, load(weights + j) * (load(gradient + j) - mean));

        Size row = (pair * task.room + window.first) * task.head_wide;
        float *query = task.of_query + task.here(l, t, b) * task.wide + h * task.head;
        for (Size k = 0; k < task.head; k += LANES) {
            Vec mixed = mixture(gradient, task.keys_rows + row + k, task.head_wide, window.count);
            store_first(query + k, mixed, task.head - k);
        }
        multiply(weights, drop, window.count);
        Size place = task.weights(h, b, l, t);
        keep_row(task.attn + place, weights, window);
        keep_row(task.of_scores + place, gradient, window);
    }

    // Into the table of the span, with zeros where the step sees nothing.
    void keep_row(float *to, const float *numbers, Window window) {
        Size before = window.first - task.low, after = task.row_room - before - window.count;
        std::memset(to, 0, before * 4);
        std::memcpy(to + before, numbers, window.count * 4);
        std::memset(to + before + window.count, 0, after * 4);
    }

    // To rows of memory
    // -----------------
    //
    // dk_j += sum of ds_j q,  dv_j += sum of a_j do. The rows that this span has written are due
    // soon, so they hear of each step at once, of all its layers in one product. Older rows can
    // wait for the whole span.
    void to_newer(Size t) {
        Size batch = task.batch, written = t - task.start, n = task.steps();
        spread(0, t, task.before + task.start, written, n * task.row_room,
               task.stored * batch * task.wide, n * batch * task.wide, task.layers);
    }

    void to_older() {
        Size old = task.before + task.start - task.low, apart = task.batch * task.wide;
        for (Size l = 0; l < task.layers; l++)
            spread(l, task.start, task.low, old, task.row_room, apart, apart, task.steps());
    }

    // To `rows` rows from row `first` on. The sum begins with layer l and step t, and has `count`
    // terms, whose weights, queries, and gradients of what was found, are so far apart.
    void spread(Size l, Size t, Size first, Size rows, Size weights_apart, Size queries_apart,
                Size found_apart, Size count) {
        for (Size h = 0; h < task.heads; h++)
            for (Size i = 0; i < texts.count; i++) {
                Size b = texts.first + i, place = task.weights(h, b, l, t) + first - task.low;
                Size row = (task.pair(h, b) * task.room + first) * task.head_wide;
                const float *query = task.queries + task.kept(l, t, b) * task.wide;
                const float *found = task.of_found + task.here(l, t, b) * task.wide;
                add_rows(task.of_keys + row, {task.of_scores + place, 1, weights_apart},
                         {query + h * task.head, queries_apart, 1}, rows, count);
                add_rows(task.of_values + row, {task.attn + place, 1, weights_apart},
                         {found + h * task.head, found_apart, 1}, rows, count);
            }
    }

    void add_rows(float *to, Left shares, Right what, Size rows, Size count) {
        Size head_wide = task.head_wide;
        product(shares, what, rows, count, head_wide,
                [=](Size j, Size k, Vec c) { add_to(to + j * head_wide + k, c); });
    }
};

// Weights
// -------
//
// Their gradients need no step: one product over all steps and texts of the span for each weight.
// They are cut into strips of rows, and each thread takes the next strip that nobody has taken.
struct Gather {
    const Task &task;
    std::atomic<Size> next{0};
    static constexpr Size STRIP = 4 * ROWS;

    explicit Gather(const Task &task) : task(task) {}

    void run() {
        Size width = strips(task.width), hidden = strips(task.hidden);
        Size each = 2 * width + 2 * hidden + task.heads, of_layers = each * task.layers;
        Size all = of_layers + strips(2 * task.width) + task.layers + 1;
        for (Size job; (job = next++) < all;) {
            if (job < of_layers) {
                of_layer(job / each, job % each, width, hidden);
            } else {
                of_memory(job - of_layers);
            }
        }
    }

    static Size strips(Size rows) { return (rows + STRIP - 1) / STRIP; }

    void of_layer(Size l, Size job, Size width, Size hidden) {
        Size wide = task.wide, hidden_wide = task.hidden_wide, here = task.here(l, task.start, 0);
        Size kept = task.kept(l, task.start, 0), square = l * task.width * wide;
        const float *norm = task.between_norm + here * wide;
        const float *concluded = task.of_concluded + here * wide;
        if (job < width) {
            weight(job, task.width, task.of_query + here * wide, wide, task.text_norm + here * wide,
                   wide, task.sum_query + square, task.sum_query_bias + l * wide);
        } else if ((job -= width) < width) {
            weight(job, task.width, task.of_attended + here * wide, wide, task.found + kept * wide,
                   wide, task.sum_output + square, task.sum_output_bias + l * wide);
        } else if ((job -= width) < hidden) {
            weight(job, task.hidden, task.of_up + here * hidden_wide, hidden_wide, norm, wide,
                   task.sum_up + l * task.hidden * wide, task.sum_up_bias + l * hidden_wide);
        } else if ((job -= hidden) < hidden) {
            if (job == 0) bias(concluded, wide, 0, wide, task.sum_down_bias + l * wide);
            weight(job, task.hidden, task.features + kept * hidden_wide, hidden_wide, concluded,
                   wide, task.sum_down + l * task.hidden * wide, nullptr);
        } else {
            of_distances(l, job - hidden);
        }
    }

    // sum[i, j] += sum over steps and texts of y[i] x[j], for the rows i of a strip.
    void weight(Size job, Size rows, const float *y, Size apart, const float *x, Size columns,
                float *sums, float *sum_bias) {
        Size first = job * STRIP, count = rows - first < STRIP ? rows - first : STRIP;
        float *to = sums + first * columns;
        product({y + first, 1, apart}, {x, columns, 1}, count, task.steps() * task.batch, columns,
                [=](Size i, Size j, Vec c) { add_to(to + i * columns + j, c); });
        if (sum_bias) bias(y, apart, first, STRIP, sum_bias);
    }

    void bias(const float *y, Size apart, Size first, Size count, float *to) {
        for (Size j = first; j < first + count && j < apart; j += LANES) {
            Vec total = {};
            for (Size i = 0; i < task.steps() * task.batch; i++) total += load(y + i * apart + j);
            add_to(to + j, total);
        }
    }

    // A distance is met at each step by another row. In the table of scores of the span, row j of
    // step t and row j + 1 of step t + 1 are equally far: one place more than a row apart.
    void of_distances(Size l, Size h) {
        Size old = task.before + task.start - task.low, rows = task.rows();
        Size count = rows < task.longest ? rows : task.longest, skip = task.longest - count;
        Size number = (l * task.heads + h) * task.longest + skip, width = task.head_wide;
        float *to = task.sum_table + number * width;
        float *to_bias = task.sum_table_bias + (l * task.heads + h) * task.table_room + skip;
        for (Size b = 0; b < task.batch; b++) {
            const float *scores = task.of_scores + task.weights(h, b, l, task.start) + old - count;
            const float *query = task.queries + task.kept(l, task.start, b) * task.wide;
            product({scores, 1, task.row_room + 1}, {query + h * task.head, task.batch * task.wide, 1},
                    count, task.steps(), width,
                    [=](Size i, Size k, Vec c) { add_to(to + i * width + k, c); });
            for (Size i = 0; i < task.steps(); i++, scores += task.row_room + 1)
                for (Size j = 0; j < count; j++) to_bias[j] += scores[j];
        }
    }

    void of_memory(Size job) {
        Size rows = strips(2 * task.width);
        if (job < rows) {
            weight(job, 2 * task.width, task.of_rows, task.memory_wide, task.vectors, task.wide,
                   task.sum_memory, task.sum_memory_bias);
        } else {
            of_share(job - rows);
        }
    }

    void of_share(Size l) {
        Vec total = {};
        const float *vector = task.of_vectors;
        for (Size t = task.start; t < task.stop; t++) {
            const float *x = task.x(t, l, 0);
            for (Size i = 0; i < task.batch * task.wide; i += LANES, vector += LANES)
                total += load(x + i) * load(vector);
        }
        task.sum_shares[l] += sum(total);
    }
};
