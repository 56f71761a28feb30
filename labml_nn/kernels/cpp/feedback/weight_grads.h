// Weight gradients
// ================
//
// One product over all steps and sequences of the chunk for each weight. They are divided into strips of
// rows, and each thread takes the next strip that is free.

#pragma once
#include <atomic>

#include "chunk.h"

struct WeightGrads {
    const Args &args;
    Chunk chunk;
    static constexpr Size STRIP = 4 * TALL;

    explicit WeightGrads(const Chunk &chunk) : args(chunk.args), chunk(chunk) {}

    void run(std::atomic<Size> &next) {
        Size width = strips(args.width), hidden = strips(args.hidden);
        Size each = 3 * width + hidden + args.heads, of_layers = each * args.layers;
        Size all = of_layers + strips(2 * args.width) + args.layers + 1;
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
        Size wide = args.wide, hidden_wide = args.hidden_wide;
        Size here = chunk.here(l, chunk.start, 0), kept = args.kept(l, chunk.start, 0);
        Size square = l * args.width * wide;
        if (job < width) {
            weight(job, args.width, args.grad_query + here * wide, wide, args.x_norm + here * wide,
                   wide, args.sum_query + square, args.sum_query_bias + l * wide);
        } else if ((job -= width) < width) {
            weight(job, args.width, args.grad_attended + here * wide, wide, args.heads_out + here * wide,
                   wide, args.sum_output + square, args.sum_output_bias + l * wide);
        } else if ((job -= width) < width) {
            weight(job, args.width, args.grad_projected + here * wide, wide,
                   args.features + kept * hidden_wide, hidden_wide,
                   args.sum_down + l * args.width * hidden_wide, args.sum_down_bias + l * wide);
        } else if ((job -= width) < hidden) {
            weight(job, args.hidden, args.grad_up + here * hidden_wide, hidden_wide,
                   args.z_norm + here * wide, wide, args.sum_up + l * args.hidden * wide,
                   args.sum_up_bias + l * hidden_wide);
        } else {
            of_distances(l, job - hidden);
        }
    }

    // Adds $\sum_{t,b} y_i x_j$ to the sum, for the rows $i$ of a strip.
    void weight(Size job, Size rows, const float *y, Size apart, const float *x, Size columns,
                float *sums, float *sum_bias) {
        Size first = job * STRIP;
        add_product({y + first, 1, apart}, {x, columns, 1}, rows_of(job, rows),
                    chunk.steps() * args.batch, columns, {sums + first * columns, columns});
        if (job == 0) bias(y, apart, sum_bias);
    }

    static Size rows_of(Size job, Size rows) {
        Size left = rows - job * STRIP;
        return left < STRIP ? left : STRIP;
    }

    void bias(const float *y, Size columns, float *to) {
        for (Size j = 0; j < columns; j += PANEL) {
            Vec sums[2] = {};
            for (Size i = 0; i < chunk.steps() * args.batch; i++)
                for (Size v = 0; v < 2; v++) sums[v] += load(y + i * columns + j + v * LANES);
            for (Size v = 0; v < 2; v++) add_to(to + j + v * LANES, sums[v]);
        }
    }

    // At each step another slot is at distance d: in the table of scores, slot j of step t and slot j + 1 of
    // step t + 1. So with rows that are read one number longer than they are, columns are distances.
    void of_distances(Size l, Size h) {
        Size rows = chunk.rows(), count = rows < args.longest ? rows : args.longest;
        Size skip = args.longest - count, number = l * args.heads + h, width = args.head_wide;
        Size place = chunk.row(h, 0, l, chunk.start), next = chunk.pair(h, 1) - chunk.pair(h, 0);
        const float *scores = args.grad_scores + place * args.row_capacity + chunk.old() - count;
        float *to = args.sum_table + (number * args.longest + skip) * width;
        add_product({scores, 1, args.row_capacity + 1}, {args.head_query + place * width, width, 1}, count,
                    chunk.steps(), width, {to, width},
                    {args.batch, next * args.row_capacity, next * width});

        float *to_bias = args.sum_table_bias + number * args.table_capacity + skip;
        for (Size b = 0; b < args.batch; b++)
            for (Size i = 0; i < chunk.steps(); i++) {
                const float *row = scores + b * next * args.row_capacity + i * (args.row_capacity + 1);
                for (Size j = 0; j < count; j++) to_bias[j] += row[j];
            }
    }

    void of_memory(Size job) {
        Size rows = strips(2 * args.width);
        if (job < rows) {
            weight(job, 2 * args.width, args.grad_slots, args.memory_wide, args.vectors, args.wide,
                   args.sum_memory, args.sum_memory_bias);
        } else {
            of_share(job - rows);
        }
    }

    void of_share(Size l) {
        Vec sums = {};
        const float *vector = args.grad_vectors;
        for (Size t = chunk.start; t < chunk.stop; t++) {
            const float *x = args.x(t, l, 0);
            for (Size i = 0; i < args.batch * args.wide; i += LANES, vector += LANES)
                sums += load(x + i) * load(vector);
        }
        args.sum_shares[l] += sum(sums);
    }
};
