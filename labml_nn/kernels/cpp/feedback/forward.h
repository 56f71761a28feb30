// Forward pass
// ============
//
// Each thread takes its sequences from the first step to the last. Equations and names are those of the
// [kernel by hand](../../feedback_by_hand.py).

#pragma once
#include "layer.h"

struct Forward {
    const Args &args;
    Sequences sequences;
    float *norm, *rows, *weights;  // [m, C'], [m, memory_wide], [m, weights_capacity]

    Forward(const Args &args, Sequences sequences) : args(args), sequences(sequences) {
        norm = args.scratch + sequences.first * args.scratch_size;
        rows = norm + sequences.count * args.wide;
        weights = rows + sequences.count * args.memory_wide;
    }

    void run() {
        for (Size t = args.start; t < args.stop; t++) {
            load_step(t);
            for (Size l = 0; l < args.layers; l++) {
                attend(l, t);
                feed_forward(l, t);
            }
            write_slot(t);
        }
    }

    // Copies the embeddings of a step into padded rows.
    void load_step(Size t) {
        for (Size i = 0; i < sequences.count; i++) {
            Size b = sequences.first + i, width = args.width;
            float *x = args.x(t, 0, b);
            std::memcpy(x, args.x_seq + (t * args.batch + b) * width, width * 4);
            std::memset(x + width, 0, (args.wide - width) * 4);
        }
    }

    // $z = x + W_O \, o + b_O$
    void attend(Size l, Size t) {
        Size wide = args.wide, place = args.kept(l, t, sequences.first) * wide;
        const float *x = args.x(t, l, sequences.first);
        for (Size i = 0; i < sequences.count; i++) normalise(x + i * wide, norm + i * wide, args);

        float *query = args.queries + place, *z = args.z + place;
        const float *bias = args.query_bias + l * wide;
        weigh_with({norm, wide, 1}, args.query + l * args.width * wide, sequences.count, args.width,
                   wide, [=](Size i, Size j, Vec c) {
                       store(query + i * wide + j, c + load(bias + j));
                   });
        // The first token of a sequence attends to nothing, and attention adds nothing.
        if (Window(args, t).count == 0) {
            std::memcpy(z, x, sequences.count * wide * 4);
            return;
        }
        float *heads_out = norm;
        attend_heads(l, t, query, heads_out);

        const float *drop = args.drop_attended;
        if (drop) drop += args.dropped(l, t, sequences.first) * wide;
        bias = args.output_bias + l * wide;
        weigh_with({heads_out, wide, 1}, args.output + l * args.width * wide, sequences.count, args.width,
                   wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(z + i * wide + j, load(x + i * wide + j) + c);
                   });
    }

    // $o$: the outputs of the heads.
    void attend_heads(Size l, Size t, const float *query, float *heads_out) {
        Window window(args, t);
        Size apart = args.weights_capacity;
        for (Size h = 0; h < args.heads; h++) {
            const float *head_query = query + h * args.head;
            score_distances(args, l, h, window, {head_query, args.wide, 1}, sequences.count, weights, apart);
            for (Size i = 0; i < sequences.count; i++) {
                Size b = sequences.first + i;
                float *scores = weights + i * apart;
                row_times_packed(head_query + i * args.wide, args.keys + args.panel(h, b, window.base()),
                                 args.head, window.lead + window.count,
                                 [=](Size j, Vec c) { add_to(scores + j, c); });
                scores += window.lead;
                softmax(scores, window.count);
                multiply(scores, weights_dropout(args, l, t, h, b), window.count);
            }
            for (Size i = 0; i < sequences.count; i++) {
                float *to = heads_out + i * args.wide + h * args.head;
                row_times(weights + i * apart + window.lead,
                          args.values_rows + args.row(h, sequences.first + i, window.first),
                          window.count, args.head_wide,
                          [=](Size k, Vec c) { store_first(to + k, c, args.head - k); });
            }
        }
    }

    // $x' = z + W_2 \operatorname{relu}(W_1 \hat{z} + b_1) + b_2$
    void feed_forward(Size l, Size t) {
        Size wide = args.wide, hidden_wide = args.hidden_wide, place = args.kept(l, t, sequences.first);
        const float *z = args.z + place * wide;
        for (Size i = 0; i < sequences.count; i++) normalise(z + i * wide, norm + i * wide, args);

        float *hidden = args.features + place * hidden_wide;
        const float *bias = args.up_bias + l * hidden_wide;
        const float *drop = args.drop_hidden;
        if (drop) drop += args.dropped(l, t, sequences.first) * hidden_wide;
        weigh_with({norm, wide, 1}, args.up + l * args.width * hidden_wide, sequences.count, args.width,
                   hidden_wide, [=](Size i, Size j, Vec c) {
                       c = larger(Vec{}, c + load(bias + j));
                       if (drop) c *= load(drop + i * hidden_wide + j);
                       store(hidden + i * hidden_wide + j, c);
                   });

        float *x = args.x(t, l + 1, sequences.first);
        bias = args.down_bias + l * wide;
        drop = args.drop_projected;
        if (drop) drop += args.dropped(l, t, sequences.first) * wide;
        weigh_with({hidden, hidden_wide, 1}, args.down + l * args.hidden * wide, sequences.count,
                   args.hidden, wide, [=](Size i, Size j, Vec c) {
                       c += load(bias + j);
                       if (drop) c *= load(drop + i * wide + j);
                       store(x + i * wide + j, load(z + i * wide + j) + c);
                   });
    }

    void write_slot(Size t) {
        Size wide = args.wide, memory_wide = args.memory_wide;
        for (Size i = 0; i < sequences.count; i++) {
            float *vector = norm + i * wide;
            memory_vector(args, t, sequences.first + i, vector);
            if (args.norm_memory) normalise(vector, vector, args);
        }
        float *to = rows;
        weigh_with({norm, wide, 1}, args.memory, sequences.count, args.width, memory_wide,
                   [=](Size i, Size j, Vec c) {
                       store(to + i * memory_wide + j, c + load(args.memory_bias + j));
                   });
        for (Size i = 0; i < sequences.count; i++) write(t, sequences.first + i, rows + i * memory_wide);
    }

    // Writes a slot and the results of the step. The key is a column of a panel.
    void write(Size t, Size b, const float *row) {
        Size end = args.before + t, place = (t * args.batch + b) * args.width;
        std::memcpy(args.top + place, args.x(t, args.layers, b), args.width * 4);
        std::memcpy(args.new_keys + place, row, args.width * 4);
        std::memcpy(args.new_values + place, row + args.width, args.width * 4);
        for (Size h = 0; h < args.heads; h++, row += args.head) {
            float *key = args.keys + args.panel(h, b, end - end % PANEL) + end % PANEL;
            for (Size k = 0; k < args.head; k++) key[k * PANEL] = row[k];
            std::memcpy(args.values_rows + args.row(h, b, end), row + args.width, args.head * 4);
        }
    }
};
