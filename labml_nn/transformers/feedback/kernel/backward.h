// The way back
// ============
//
// Each thread takes its texts through a piece. First attention weights are had again, for all steps
// at once. Then it walks from the last step to the first, and writes down what products need. At
// last the rows of memory that are older than the piece hear of all its steps.

#pragma once
#include "piece.h"

struct Backward {
    const Task &task;
    Piece piece;
    Texts texts;
    float *y, *moved, *found;  // [m, C'] three times

    Backward(const Piece &piece, Texts texts) : task(piece.task), piece(piece), texts(texts) {
        y = task.scratch + texts.first * task.scratch_size;
        moved = y + texts.count * task.wide;
        found = moved + texts.count * task.wide;
    }

    void run() {
        for (Size h = 0; h < task.heads; h++) look_again(h);
        for (Size t = piece.stop - 1; t >= piece.start; t--) {
            remember(t);
            for (Size l = task.layers - 1; l >= 0; l--) {
                conclude(l, t);
                attend(l, t);
                hear(l, t);
            }
            Size number = texts.count * task.wide;
            std::memcpy(task.of_text + (t * task.batch + texts.first) * task.wide, y, number * 4);
            for_pairs([&](Size h, Size b) { to_newer(h, b, t); });
        }
        for_pairs([&](Size h, Size b) {
            to_older(h, b);
            find_again(h, b);
        });
    }

    template <class Work>
    void for_pairs(Work work) {
        for (Size h = 0; h < task.heads; h++)
            for (Size i = 0; i < texts.count; i++) work(h, texts.first + i);
    }

    // Attention again
    // ---------------
    //
    // Queries and keys are known, so the scores of all layers and steps of a head of a text are one
    // product. What it says of rows that a step does not see is wiped out.
    void look_again(Size h) {
        Size apart = piece.pair(h, 1) - piece.pair(h, 0), rows = task.layers * piece.steps();
        for (Size i = 0; i < texts.count; i++) ask_again(h, texts.first + i);
        for (Size l = 0; l < task.layers; l++)
            for (Size t = piece.start; t < piece.stop; t++) {
                Size place = piece.row(h, texts.first, l, t);
                Window window(task, t);
                score_distances(task, l, h, window,
                                {task.asked + place * task.head_wide, apart * task.head_wide, 1},
                                texts.count, task.attn + place * task.row_room + seen_from(window),
                                apart * task.row_room);
            }
        for (Size i = 0; i < texts.count; i++) {
            Size b = texts.first + i, place = piece.pair(h, b), row_room = task.row_room;
            float *scores = task.attn + place * row_room;
            product({task.asked + place * task.head_wide, task.head_wide, 1},
                    packed(task.keys + task.panel(h, b, task.low), task.head), rows, task.head,
                    (piece.rows() + PANEL - 1) / PANEL * PANEL,
                    [=](Size i, Size j, Vec c) { add_to(scores + i * row_room + j, c); });
            for (Size l = 0; l < task.layers; l++)
                for (Size t = piece.start; t < piece.stop; t++, scores += row_room) {
                    Window window(task, t);
                    float *seen = scores + seen_from(window) + window.lead;
                    if (task.blank) hide_blank(task, window, b, seen);
                    softmax(seen, window.count);
                    wipe(scores, window);
                }
        }
    }

    // Where the window's first panel begins in a row of weights.
    Size seen_from(Window window) const { return window.base() - task.low; }

    void wipe(float *row, Window window) {
        Size before = window.first - task.low, end = before + window.count;
        std::memset(row, 0, before * 4);
        std::memset(row + end, 0, (task.row_room - end) * 4);
    }

    // Queries of a head of a text, side by side. Behind each are numbers that nobody will use.
    void ask_again(Size h, Size b) {
        float *to = task.asked + piece.pair(h, b) * task.head_wide;
        for (Size l = 0; l < task.layers; l++)
            for (Size t = piece.start; t < piece.stop; t++, to += task.head_wide)
                std::memcpy(to, task.queries + task.kept(l, t, b) * task.wide + h * task.head,
                            task.head_wide * 4);
    }

    // $o$, of all layers and steps of a head of a text. By now weights that were dropped are zero.
    void find_again(Size h, Size b) {
        Size steps = piece.steps();
        product({task.attn + piece.pair(h, b) * task.row_room, task.row_room, 1},
                {task.values_rows + task.row(h, b, task.low), task.head_wide, 1},
                task.layers * steps, piece.rows(), task.head_wide, [&](Size i, Size k, Vec c) {
                    Size place = piece.here(i / steps, piece.start + i % steps, b);
                    store_first(task.found + place * task.wide + h * task.head + k, c,
                                task.head - k);
                });
    }

    // A step
    // ------

    // $y \leftarrow y + w_l \, \delta_m$: what memory says of the output of layer $l$.
    void hear(Size l, Size t) {
        const float *vector = task.of_vectors + piece.step(t, texts.first) * task.wide;
        for (Size i = 0; i < texts.count * task.wide; i += LANES)
            add_to(y + i, all(task.shares[l]) * load(vector + i));
    }

    // What later steps say of the row that this one has written, and what follows for m.
    void remember(Size t) {
        Size wide = task.wide, width = task.width, place = piece.step(t, texts.first);
        float *rows = task.of_rows + place * task.memory_wide, *to = task.of_vectors + place * wide;
        for_pairs([&](Size h, Size b) {
            Size at = task.row(h, b, task.before + t);
            float *row = rows + (b - texts.first) * task.memory_wide + h * task.head;
            std::memcpy(row, task.of_keys + at, task.head * 4);
            std::memcpy(row + width, task.of_values + at, task.head * 4);
        });
        weigh_with({rows, task.memory_wide, 1}, task.memory, texts.count, 2 * width, wide,
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
            std::memset(y + i * wide, 0, wide * 4);
            std::memcpy(y + i * wide, task.of_top + (t * task.batch + texts.first + i) * width,
                        width * 4);
        }
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
        Size here = piece.here(l, t, texts.first), dropped = task.dropped(l, t, texts.first);
        Size kept = task.kept(l, t, texts.first);
        float *concluded = task.of_concluded + here * wide;
        keep(concluded, task.drop_concluded ? task.drop_concluded + dropped * wide : nullptr);

        // The slope of the ReLU is 1 where something came out.
        const float *hidden = task.features + kept * hidden_wide;
        const float *drop = task.drop_hidden;
        if (drop) drop += dropped * hidden_wide;
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
        Size wide = task.wide, here = piece.here(l, t, texts.first);
        Size dropped = task.dropped(l, t, texts.first);
        float *attended = task.of_attended + here * wide, *to = found;
        keep(attended, task.drop_attended ? task.drop_attended + dropped * wide : nullptr);
        // A first token has not attended to anything. From here on all is zero by itself.
        if (Window(task, t).count == 0) std::memset(attended, 0, texts.count * wide * 4);
        weigh_with({attended, wide, 1}, task.output + l * task.width * wide, texts.count,
                   task.width, wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });

        float *query = task.of_query + here * wide;
        for (Size h = 0; h < task.heads; h++) {
            for (Size i = 0; i < texts.count; i++) {
                Size part = i * wide + h * task.head;
                judge(l, t, h, texts.first + i, found + part, query + part);
                ask_for_features(l, t, h * texts.count + i);
            }
            blame_distances(l, t, h, query + h * task.head);
        }

        to = moved;
        weigh_with({query, wide, 1}, task.query + l * task.width * wide, texts.count, task.width,
                   wide, [=](Size i, Size j, Vec c) { store(to + i * wide + j, c); });
        through_norm(task.x(t, l, texts.first), wide, task.text_norm + here * wide);
    }

    // The hidden features of the layer that comes next have long been sent to main memory. Each head
    // of each text asks for its share of them, and when they are needed they are there.
    void ask_for_features(Size l, Size t, Size pair) {
        if (l == 0 && t-- == 0) return;
        Size next = l ? l - 1 : task.layers - 1, share = task.hidden_wide / task.heads;
        const float *from = task.features + task.kept(next, t, texts.first) * task.hidden_wide;
        for (Size k = 0; k < share; k += 16) __builtin_prefetch(from + pair * share + k, 0, 2);
    }

    // From what a head has found, to weights, to scores, to the query.
    void judge(Size l, Size t, Size h, Size b, const float *found, float *query) {
        Window window(task, t);
        Size place = piece.row(h, b, l, t), seen = seen_from(window);
        float *gradient = task.of_scores + place * task.row_room;
        std::memcpy(task.of_found + place * task.head_wide, found, task.head_wide * 4);
        row_times_packed(found, task.values + task.panel(h, b, window.base()), task.head,
                         window.lead + window.count,
                         [=](Size j, Vec c) { store(gradient + seen + j, c); });
        wipe(gradient, window);

        float *own = gradient + seen + window.lead;
        float *weights = task.attn + place * task.row_room + seen + window.lead;
        const float *drop = dropped_weights(task, l, t, h, b);
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

    // Distances answer a query too; they are the same for all texts.
    void blame_distances(Size l, Size t, Size h, float *query) {
        Window window(task, t);
        Size near = (l * task.heads + h + 1) * task.longest - window.count;
        Size place = piece.row(h, texts.first, l, t) * task.row_room;
        Size apart = (piece.pair(h, 1) - piece.pair(h, 0)) * task.row_room;
        product({task.of_scores + place + seen_from(window) + window.lead, apart, 1},
                {task.table_rows + near * task.head_wide, task.head_wide, 1}, texts.count,
                window.count, task.head_wide, [=](Size i, Size k, Vec c) {
                    float *to = query + i * task.wide + k;
                    store_first(to, load(to) + c, task.head - k);
                });
    }

    // To rows of memory
    // -----------------
    //
    // $$\delta_{k_j} = \sum_{t,l} \delta_{A_{tj}} \, q_t, \qquad
    //   \delta_{v_j} = \sum_{t,l} a_{tj} \, \delta_{o_t}$$
    //
    // The rows that this piece has written are due soon, so they hear of each step at once, of all
    // its layers. Older rows can wait for the whole piece.
    void to_newer(Size h, Size b, Size t) {
        Size row = piece.row(h, b, 0, t), steps = piece.steps();
        add_rows(h, b, task.before + piece.start, t - piece.start, row, steps, task.layers);
    }

    void to_older(Size h, Size b) {
        add_rows(h, b, task.low, piece.old(), piece.pair(h, b), 1, task.layers * piece.steps());
    }

    // To `rows` rows from row `first` on. The sum has `count` terms, which are so far apart, from
    // `place` on.
    void add_rows(Size h, Size b, Size first, Size rows, Size place, Size apart, Size count) {
        Size head_wide = task.head_wide, to = task.row(h, b, first);
        Size weights = place * task.row_room + first - task.low;
        auto add = [&](float *to, const float *shares, const float *what) {
            add_product({shares + weights, 1, apart * task.row_room},
                        {what + place * head_wide, apart * head_wide, 1}, rows, count, head_wide,
                        {to, head_wide});
        };
        add(task.of_keys + to, task.of_scores, task.asked);
        add(task.of_values + to, task.attn, task.of_found);
    }
};
