// Arguments
// =========
//
// Python allocates all memory and passes pointers. Nothing is allocated here, so nothing can fail. The order
// of the fields is that of `Args` in [Python](../../feedback_cpp.py); each is 8 bytes wide.
//
// Letters of shapes: T steps, L layers, B sequences, C features, F hidden features, H heads, D features of a
// head, S slots, n steps of a chunk. A prime means padded: C', F' and S' to a multiple of PANEL, D' of
// LANES.

#pragma once
#include "threads.h"

struct Args {
    // Sizes. `threads` share the sequences, `workers` the products at the end of a chunk.
    Size threads, workers, layers, batch, width, wide, hidden, hidden_wide, heads, head, head_wide;
    // Slots, S'; the longest window, the length of a row of its weights, and of a row of its distances.
    Size capacity, longest, weights_capacity, table_capacity;
    // Slots before step 0; steps whose activations are stored, T or 1; `horizon`, 0 for none; the length of a
    // row of keys and values, 2 C padded.
    Size before, stored, horizon, norm_memory, memory_wide;
    // The span: its first step and the one after its last; the first slot that it attends to, and the first of
    // the same panel; the most steps of a chunk, and the distance between rows of its weights; scratch memory
    // per sequence; the length of a row of dropout factors of weights.
    Size start, stop, drop_low, low, chunk, row_capacity, scratch_size, drop_rows;
    double eps;

    // Parameters, packed for the direction of the pass: forward from C to C, backward transposed.
    const float *query, *query_bias, *output, *output_bias, *up, *up_bias, *down, *down_bias;
    const float *memory, *memory_bias, *shares;
    const float *table;       // distances, [L, H, D, table_capacity]: time along a row
    const float *table_rows;  // the same, [L, H, longest, D']: features along a row
    const float *table_bias;  // [L, H, table_capacity]

    // Activations that the forward pass stores and the backward pass reads.
    float *outputs;                       // [stored, L + 1, B, C']
    float *queries, *z, *features;        // [L, stored, B, C'] twice, and F'
    float *keys, *values;                 // packed, [H, B, S' / PANEL, D, PANEL]
    float *keys_rows, *values_rows;       // [H, B, S', D']
    // Inputs and results of the forward pass: [T, B, C] four times.
    const float *x_seq;
    float *top, *new_keys, *new_values;

    // Dropout factors, or null: [L, span, B, C'] twice, [L, span, B, F'], [H, B, span, L, slots].
    const float *drop_attended, *drop_projected, *drop_hidden, *drop_weights;

    // Gradients of the results, [T, B, C], of the inputs, [T, B, C'], and of all slots, [H, B, S', D'] twice.
    const float *grad_top;
    float *grad_x_seq, *grad_keys, *grad_values;
    // Buffers of a chunk: [L, n, B, C'] and, the last, F'.
    float *x_norm, *z_norm, *grad_attended, *grad_projected, *grad_query, *heads_out, *grad_up;
    // Buffers of a chunk for each head of each sequence: weights and gradients of scores,
    // [H, B, L, n, row_capacity]; queries and gradients of the heads' outputs, [H, B, L, n, D'].
    float *attn, *grad_scores, *head_query, *grad_heads_out;
    // Memory vectors and their gradients, [n, B, C'], and gradients of slots, [n, B, memory_wide].
    float *vectors, *grad_vectors, *grad_slots;
    // Sums of weight gradients, as in Python but for padded rows.
    float *sum_query, *sum_query_bias, *sum_output, *sum_output_bias, *sum_up, *sum_up_bias;
    float *sum_down, *sum_down_bias, *sum_memory, *sum_memory_bias, *sum_shares;
    float *sum_table, *sum_table_bias;

    float *scratch;  // [B, scratch_size]

    Size steps() const { return stop - start; }

    // Sequence `b` at step `t`: $x_t^l$.
    float *x(Size t, Size l, Size b) const {
        return outputs + ((t % stored * (layers + 1) + l) * batch + b) * wide;
    }
    // Index of what is stored of a layer and a step; rows of `features` have another width.
    Size kept(Size l, Size t, Size b) const { return (l * stored + t % stored) * batch + b; }
    // Index into dropout factors.
    Size dropped(Size l, Size t, Size b) const {
        return (l * steps() + t - start) * batch + b;
    }
    // Index of one head of one sequence.
    Size pair(Size h, Size b) const { return h * batch + b; }
    // Its memory: a panel that begins with slot `j`, and any row.
    Size panel(Size h, Size b, Size j) const { return (pair(h, b) * capacity + j) * head; }
    Size row(Size h, Size b, Size j) const { return (pair(h, b) * capacity + j) * head_wide; }
};

// The slots that a step attends to, and how many slots before them lie in the same panel.
struct Window {
    Size first, count, lead;
    Window(const Args &args, Size t) {
        Size end = args.before + t;
        first = args.horizon && end > args.horizon ? end - args.horizon : 0;
        count = end - first;
        lead = first % PANEL;
    }
    Size base() const { return first - lead; }
};

// Some sequences of a batch. Sequences are independent, so each thread takes its own from the first step to
// the last without synchronization.
typedef Part Sequences;
