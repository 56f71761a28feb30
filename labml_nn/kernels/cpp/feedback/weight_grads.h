// Weight gradients
// ================
//
// One product over all steps and sequences of the chunk for each weight. They are divided into strips of
// rows, and each thread takes the next strip that is free.

#pragma once
#include <atomic>

#include "chunk.h"

struct WeightGrads {
    const Task &task;
    Chunk chunk;
    static constexpr Size STRIP = 4 * TALL;

    explicit WeightGrads(const Chunk &chunk) : task(chunk.task), chunk(chunk) {}

    void run(std::atomic<Size> &next) {
        Size width = strips(task.width), hidden = strips(task.hidden);
        Size each = 3 * width + hidden + task.heads, of_layers = each * task.layers;
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
        Size wide = task.wide, hidden_wide = task.hidden_wide;
        Size here = chunk.here(l, chunk.start, 0), kept = task.kept(l, chunk.start, 0);
        Size square = l * task.width * wide;
        if (job < width) {
            weight(job, task.width, task.grad_query + here * wide, wide, task.x_norm + here * wide,
                   wide, task.sum_query + square, task.sum_query_bias + l * wide);
        } else if ((job -= width) < width) {
            weight(job, task.width, task.grad_attended + here * wide, wide, task.heads_out + here * wide,
                   wide, task.sum_output + square, task.sum_output_bias + l * wide);
        } else if ((job -= width) < width) {
            weight(job, task.width, task.grad_projected + here * wide, wide,
                   task.features + kept * hidden_wide, hidden_wide,
                   task.sum_down + l * task.width * hidden_wide, task.sum_down_bias + l * wide);
        } else if ((job -= width) < hidden) {
            weight(job, task.hidden, task.grad_up + here * hidden_wide, hidden_wide,
                   task.z_norm + here * wide, wide, task.sum_up + l * task.hidden * wide,
                   task.sum_up_bias + l * hidden_wide);
        } else {
            of_distances(l, job - hidden);
        }
    }

    // Adds $\sum_{t,b} y_i x_j$ to the sum, for the rows $i$ of a strip.
    void weight(Size job, Size rows, const float *y, Size apart, const float *x, Size columns,
                float *sums, float *sum_bias) {
        Size first = job * STRIP;
        add_product({y + first, 1, apart}, {x, columns, 1}, rows_of(job, rows),
                    chunk.steps() * task.batch, columns, {sums + first * columns, columns});
        if (job == 0) bias(y, apart, sum_bias);
    }

    static Size rows_of(Size job, Size rows) {
        Size left = rows - job * STRIP;
        return left < STRIP ? left : STRIP;
    }

    void bias(const float *y, Size columns, float *to) {
        for (Size j = 0; j < columns; j += PANEL) {
            Vec sums[2] = {};
            for (Size i = 0; i < chunk.steps() * task.batch; i++)
                for (Size v = 0; v < 2; v++) sums[v] += load(y + i * columns + j + v * LANES);
            for (Size v = 0; v < 2; v++) add_to(to + j + v * LANES, sums[v]);
        }
    }

    // At each step another slot is at distance d: in the table of scores, slot j of step t and slot j + 1 of
    // step t + 1. So with rows that are read one number longer than they are, columns are distances.
    void of_distances(Size l, Size h) {
        Size rows = chunk.rows(), count = rows < task.longest ? rows : task.longest;
        Size skip = task.longest - count, number = l * task.heads + h, width = task.head_wide;
        Size place = chunk.row(h, 0, l, chunk.start), next = chunk.pair(h, 1) - chunk.pair(h, 0);
        const float *scores = task.grad_scores + place * task.row_capacity + chunk.old() - count;
        float *to = task.sum_table + (number * task.longest + skip) * width;
        add_product({scores, 1, task.row_capacity + 1}, {task.head_query + place * width, width, 1}, count,
                    chunk.steps(), width, {to, width},
                    {task.batch, next * task.row_capacity, next * width});

        float *to_bias = task.sum_table_bias + number * task.table_capacity + skip;
        for (Size b = 0; b < task.batch; b++)
            for (Size i = 0; i < chunk.steps(); i++) {
                const float *row = scores + b * next * task.row_capacity + i * (task.row_capacity + 1);
                for (Size j = 0; j < count; j++) to_bias[j] += row[j];
            }
    }

    void of_memory(Size job) {
        Size rows = strips(2 * task.width);
        if (job < rows) {
            weight(job, 2 * task.width, task.grad_slots, task.memory_wide, task.vectors, task.wide,
                   task.sum_memory, task.sum_memory_bias);
        } else {
            of_share(job - rows);
        }
    }

    void of_share(Size l) {
        Vec sums = {};
        const float *vector = task.grad_vectors;
        for (Size t = chunk.start; t < chunk.stop; t++) {
            const float *x = task.x(t, l, 0);
            for (Size i = 0; i < task.batch * task.wide; i += LANES, vector += LANES)
                sums += load(x + i) * load(vector);
        }
        task.sum_shares[l] += sum(sums);
    }
};
