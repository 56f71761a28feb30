// What is to be done
// ==================
//
// Python sets aside all memory and passes pointers. Nothing is allocated here, so nothing can fail.
// The order of the fields is that of `Task` in `task.py`; all are 8 bytes wide.
//
// Letters of shapes: T steps, L layers, B texts, C features, F hidden features, H heads, K features
// of a head, S rows of memory. A prime means padded: C' and F' to a multiple of PANEL, K' of LANES.

#pragma once
#include "threads.h"

struct Task {
    // Sizes. `threads` share the texts, `workers` the products at the end.
    Size threads, workers, layers, batch, width, wide, hidden, hidden_wide, heads, head, head_wide;
    // Rows of memory, S', with room for a vector that ends late; the longest window, a row of its
    // weights, and of its table of distances.
    Size room, longest, weights_room, table_room;
    // Rows of before; steps whose queries are kept, T or 1; `horizon`, 0 for none; a row of keys
    // and values, 2 C padded.
    Size before, stored, horizon, norm_memory, memory_wide;
    // The span: its first step and the one behind its last; the first row that it sees; how far
    // apart the rows of its tables of weights are, and of dropout's.
    Size start, stop, low, row_room, scratch_size, drop_rows;
    double eps;

    // Weights, packed for the way that is gone: forwards from C to C, backwards the other way.
    const float *query, *query_bias, *output, *output_bias, *up, *up_bias, *down, *down_bias;
    const float *memory, *memory_bias, *shares;
    const float *table;       // distances, [L, H, K, table_room]: time along a row
    const float *table_rows;  // the same, [L, H, longest, K']: features along a row
    const float *table_bias;  // [L, H, table_room]
    const uint8_t *blank;     // [before, B], or nothing

    // Read.
    float *outputs;                 // [T, L + 1, B, C']
    float *queries, *found, *between, *features;  // [L, stored, B, C'] and, the last, F'
    float *keys, *keys_rows;        // [H, B, K, S'] and [H, B, S, K']
    float *values, *values_rows;    // the same

    // Dropout, or nothing: [L, n, B, C'], the same, [L, n, B, F'], [H, B, n, L, rows].
    const float *drop_attended, *drop_concluded, *drop_hidden, *drop_weights;

    // Backwards. Gradients of everything: [T, B, C'], [H, B, S, K'] twice.
    const float *of_top;
    float *of_text, *of_keys, *of_values;
    // Of a span: [L, n, B, C'] and, the last but one, F'; weights [H, B, L, n, row_room].
    float *text_norm, *between_norm, *of_attended, *of_concluded, *of_query, *of_found, *of_up;
    float *attn, *of_scores;
    // [n, B, C'] twice, [n, B, memory_wide].
    float *vectors, *of_vectors, *of_rows;
    // Of weights, as in Python but for padded rows.
    float *sum_query, *sum_query_bias, *sum_output, *sum_output_bias, *sum_up, *sum_up_bias;
    float *sum_down, *sum_down_bias, *sum_memory, *sum_memory_bias, *sum_shares;
    float *sum_table, *sum_table_bias;

    float *scratch;  // [threads, scratch_size]

    Size steps() const { return stop - start; }
    Size rows() const { return before + stop - 1 - low; }

    // Where text `b` stands at step `t`: x^l.
    float *x(Size t, Size l, Size b) const {
        return outputs + ((t * (layers + 1) + l) * batch + b) * wide;
    }
    // Place of what is kept of a layer and a step; `features` has rows of another width.
    Size kept(Size l, Size t, Size b) const { return (l * stored + t % stored) * batch + b; }
    // Place in the tables of a span.
    Size here(Size l, Size t, Size b) const { return (l * steps() + t - start) * batch + b; }
    // Place of a head of a text.
    Size pair(Size h, Size b) const { return h * batch + b; }
    // Weights of a span.
    Size weights(Size h, Size b, Size l, Size t) const {
        return ((pair(h, b) * layers + l) * steps() + t - start) * row_room;
    }
};

// The rows that a step sees.
struct Window {
    Size first, count;
    Window(const Task &task, Size t) {
        Size end = task.before + t;
        first = task.horizon && end > task.horizon ? end - task.horizon : 0;
        count = end - first;
    }
};

// Some texts of a batch. No text has anything to do with another, so each thread takes its texts
// from the first step to the last, and waits for nobody.
typedef Part Texts;

static inline Texts share(const Task &task, Size thread) {
    return part_of(task.batch, task.threads, thread);
}
