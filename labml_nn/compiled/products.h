// Products of small matrices
// ==========================
//
// Everything that takes time here is  C = A B  with few rows in A: the texts of a batch. A large
// library spends such a product on finding out what to do, so we bring our own.
//
// A block of R rows and V vectors of C stays in registers while it goes along the sum. Each number
// of A meets V vectors of B, each vector of B meets R numbers of A, so that 2 * R * V * LANES
// operations cost R + V loads. With R = 8 and V = 2 the loads hide behind the arithmetic.

#pragma once
#include "vectors.h"

// A: element (row i, step k) is at[i * row + k * step]. With row = 1 it is read transposed.
struct Left {
    const float *at;
    Size row, step;
};

// B: element (step k, column j) is at[j * column + k * step + ...]: see `pack` on the page. In
// packed weights, PANEL columns of one step lie side by side, then those of the next step, and a
// panel follows when the sum is over. So the weights are read in the very order in which they lie.
// Otherwise column = 1 and step is the length of a row.
struct Right {
    const float *at;
    Size step, column;
};

static inline Right packed(const float *weights, Size steps) { return {weights, PANEL, steps}; }

// How far ahead, in floats, packed weights are asked for. They do not fit into the nearest cache,
// and whoever waits for the next line when he needs it waits long.
constexpr Size AHEAD = 2048;

template <int R, int V, bool STREAM, class Finish>
static inline void block(Left a, Right b, Size steps, Size row, Size column, Finish &finish) {
    Vec c[R][V] = {};
    const float *left = a.at + row * a.row;
    const float *right = b.at + column * b.column;
    for (Size k = 0; k < steps; k++, left += a.step, right += b.step) {
        if (STREAM)
            for (int v = 0; v < V * LANES; v += 16) __builtin_prefetch(right + AHEAD + v);
        Vec numbers[V];
        for (int v = 0; v < V; v++) numbers[v] = load(right + v * LANES);
        for (int r = 0; r < R; r++) {
            Vec number = all(left[r * a.row]);
            for (int v = 0; v < V; v++) c[r][v] += number * numbers[v];
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) finish(row + r, column + v * LANES, c[r][v]);
}

// All rows of one strip of columns. The strip of B is read from memory once, and found in the
// cache from then on.
template <int V, bool STREAM, class Finish>
static inline void strip(Left a, Right b, Size rows, Size steps, Size column, Finish &finish) {
    Size row = 0;
    for (; row + ROWS <= rows; row += ROWS)
        block<ROWS, V, STREAM>(a, b, steps, row, column, finish);
    if (ROWS > 4 && row + 4 <= rows) {
        block<4, V, STREAM>(a, b, steps, row, column, finish);
        row += 4;
    }
    for (; row < rows; row++) block<1, V, STREAM>(a, b, steps, row, column, finish);
}

// The product. `finish(row, column, vector)` is told what came out, while it is still in a
// register: a bias, a ReLU, what is added to it cost no way to memory and back.
template <bool STREAM = false, class Finish>
static inline void product(Left a, Right b, Size rows, Size steps, Size columns, Finish finish) {
    Size column = 0;
    for (; column + PANEL <= columns; column += PANEL)
        strip<2, STREAM>(a, b, rows, steps, column, finish);
    if (column < columns) strip<1, STREAM>(a, b, rows, steps, column, finish);
}

template <class Finish>
static inline void weigh_with(Left a, const float *weights, Size rows, Size steps, Size columns,
                              Finish finish) {
    product<true>(a, packed(weights, steps), rows, steps, columns, finish);
}

// One row
// -------
//
// A single row has no other to share its vectors with. What it needs is that no addition waits
// for the one before: several sums at once.

// to[j] += sum over k of left[k] * right[k * step + j]; writes up to 4 * LANES - 1 too many.
static inline void add_combination(const float *left, const float *right, Size step, Size steps,
                                   float *to, Size columns) {
    for (Size j = 0; j < columns; j += 4 * LANES) {
        Vec c[4];
        for (int v = 0; v < 4; v++) c[v] = load(to + j + v * LANES);
        for (Size k = 0; k < steps; k++)
            for (int v = 0; v < 4; v++)
                c[v] += all(left[k]) * load(right + k * step + j + v * LANES);
        for (int v = 0; v < 4; v++) store(to + j + v * LANES, c[v]);
    }
}

// sum over k of left[k] * right[k * step], one vector wide, in four strands.
static inline Vec mixture(const float *left, const float *right, Size step, Size steps) {
    Vec c[4] = {};
    Size k = 0;
    for (; k + 4 <= steps; k += 4)
        for (int i = 0; i < 4; i++) c[i] += all(left[k + i]) * load(right + (k + i) * step);
    for (; k < steps; k++) c[0] += all(left[k]) * load(right + k * step);
    return (c[0] + c[1]) + (c[2] + c[3]);
}
