// What is to be done
// ==================
//
// Python sets aside all memory and passes pointers. Nothing is allocated here, so nothing can fail.
// The order of the fields is that of `Task` in `task.py`; all are 8 bytes wide.
//
// Letters of shapes: T steps, L layers, B texts, C features, F hidden features, H heads, K features
// of a head, S rows of memory, n steps of a piece. A prime means padded: C', F' and S' to a multiple
// of PANEL, K' of LANES.

#pragma once
#include "threads.h"

struct Task {
    // Sizes. `threads` share the texts, `workers` the products at the end of a piece.
    Size threads, workers, layers, batch, width, wide, hidden, hidden_wide, heads, head, head_wide;
    // Rows of memory, S'; the longest window, a row of its weights, and of its table of distances.
    Size room, longest, weights_room, table_room;
    // Rows of before; steps whose features are kept, T or 1; `horizon`, 0 for none; a row of keys
    // and values, 2 C padded.
    Size before, stored, horizon, norm_memory, memory_wide;
    // The span: its first step and the one behind its last; the first row that it sees, and the
    // first of the same panel; the most steps of a piece, and how far apart rows of weights of a
    // piece are; a text's share of the scratch paper; a row of dropout of weights.
    Size start, stop, drop_low, low, piece, row_room, scratch_size, drop_rows;
    double eps;

    // Weights, packed for the way that is gone: forwards from C to C, backwards the other way.
    const float *query, *query_bias, *output, *output_bias, *up, *up_bias, *down, *down_bias;
    const float *memory, *memory_bias, *shares;
    const float *table;       // distances, [L, H, K, table_room]: time along a row
    const float *table_rows;  // the same, [L, H, longest, K']: features along a row
    const float *table_bias;  // [L, H, table_room]
    const uint8_t *blank;     // [before, B], or nothing

    // What was read, and is on the way back read again.
    float *outputs;                       // [stored, L + 1, B, C']
    float *queries, *between, *features;  // [L, stored, B, C'] twice, and F'
    float *keys, *values;                 // packed, [H, B, S' / PANEL, K, PANEL]
    float *keys_rows, *values_rows;       // [H, B, S', K']
    // What is to be read, and what others see of it: [T, B, C] four times. Forwards only.
    const float *text;
    float *top, *new_keys, *new_values;

    // Dropout, or nothing: [L, span, B, C'], the same, [L, span, B, F'], [H, B, span, L, rows].
    const float *drop_attended, *drop_concluded, *drop_hidden, *drop_weights;

    // Backwards. Gradients of everything: [T, B, C] in, [T, B, C'] out, [H, B, S', K'] twice.
    const float *of_top;
    float *of_text, *of_keys, *of_values;
    // Of a piece: [L, n, B, C'] and, the last, F'.
    float *text_norm, *between_norm, *of_attended, *of_concluded, *of_query, *found, *of_up;
    // Of a piece, each head of each text by itself: weights, and gradients of scores,
    // [H, B, L, n, row_room]; queries, and gradients of what was found, [H, B, L, n, K'].
    float *attn, *of_scores, *asked, *of_found;
    // Vectors of memory, `[n, B, C']` twice, and rows, `[n, B, memory_wide]`.
    float *vectors, *of_vectors, *of_rows;
    // Of weights, as in Python but for padded rows.
    float *sum_query, *sum_query_bias, *sum_output, *sum_output_bias, *sum_up, *sum_up_bias;
    float *sum_down, *sum_down_bias, *sum_memory, *sum_memory_bias, *sum_shares;
    float *sum_table, *sum_table_bias;

    float *scratch;  // [B, scratch_size]

    Size steps() const { return stop - start; }

    // Where text `b` stands at step `t`: $x_t^l$.
    float *x(Size t, Size l, Size b) const {
        return outputs + ((t % stored * (layers + 1) + l) * batch + b) * wide;
    }
    // Place of what is kept of a layer and a step; `features` has rows of another width.
    Size kept(Size l, Size t, Size b) const { return (l * stored + t % stored) * batch + b; }
    // Place in the masks of dropout.
    Size dropped(Size l, Size t, Size b) const {
        return (l * steps() + t - start) * batch + b;
    }
    // Place of a head of a text.
    Size pair(Size h, Size b) const { return h * batch + b; }
    // Its memory: a panel that begins with row `j`, and any row.
    Size panel(Size h, Size b, Size j) const { return (pair(h, b) * room + j) * head; }
    Size row(Size h, Size b, Size j) const { return (pair(h, b) * room + j) * head_wide; }
};

// The rows that a step sees, and how many rows before them lie in the same panel.
struct Window {
    Size first, count, lead;
    Window(const Task &task, Size t) {
        Size end = task.before + t;
        first = task.horizon && end > task.horizon ? end - task.horizon : 0;
        count = end - first;
        lead = first % PANEL;
    }
    Size base() const { return first - lead; }
};

// Some texts of a batch. No text has anything to do with another, so each thread takes its texts
// from the first step to the last, and waits for nobody.
typedef Part Texts;
