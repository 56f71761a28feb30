// Products of small matrices
// ==========================
//
// Nearly all time is spent in $C = A B$ where $A$ has few rows, the sequences of a batch. For such
// small products the overhead of a BLAS library is larger than the arithmetic.
//
// A block of $R$ rows and $V$ vectors of $C$ stays in registers during the whole sum. Each number of
// $A$ is multiplied by $V$ vectors of $B$, each vector of $B$ by $R$ numbers of $A$. So with $n$
// floats in a vector, $2 R V n$ operations need $R + V$ loads. With $R = 8$ and $V = 2$ the loads
// hide behind the arithmetic.

#pragma once
#include "vectors.h"

// $A$: the element of row $i$ and step $k$ is `at[i * row + k * step]`. With `row = 1` it is read
// transposed.
struct Left {
    const float *at;
    Size row, step;
};

// $B$: the element of step $k$ and column $j$ is `at[j * column + k * step]`, where $j$ begins a
// block. In [packed](../call.py#Call.pack) weights, PANEL columns of one step lie side by side, then
// those of the next step, and a panel follows when the sum is over: the very order in which they
// are read. Otherwise `column = 1`, and `step` is the length of a row.
struct Right {
    const float *at;
    Size step, column;
};

static inline Right packed(const float *weights, Size steps) { return {weights, PANEL, steps}; }

// A sum over several matrices: `count` times as many terms, with A and B moved on each time.
struct Turns {
    Size count = 1, left = 0, right = 0;
};

// How far ahead, in floats, packed weights are prefetched. They do not fit into the first-level
// cache, and a load from farther away takes many cycles.
constexpr Size AHEAD = 2048;

// What to prefetch: B where it is one long stream, A where it is read with large strides.
enum class Prefetch { NOTHING, A, B };

template <int R, int V, Prefetch FETCH, class Finish>
static inline void block(Left a, Right b, Size steps, Size row, Size column, Finish &finish,
                         Turns turns = {}) {
    Vec c[R][V] = {};
    for (Size turn = 0; turn < turns.count; turn++) {
        const float *left = a.at + row * a.row + turn * turns.left;
        const float *right = b.at + column * b.column + turn * turns.right;
        for (Size k = 0; k < steps; k++, left += a.step, right += b.step) {
            if (FETCH == Prefetch::A) __builtin_prefetch(left + 16 * a.step);
            if (FETCH == Prefetch::B)
                for (int v = 0; v < V * LANES; v += 16) __builtin_prefetch(right + AHEAD + v);
            Vec numbers[V];
            for (int v = 0; v < V; v++) numbers[v] = load(right + v * LANES);
            for (int r = 0; r < R; r++) {
                Vec number = all(left[r * a.row]);
                for (int v = 0; v < V; v++) c[r][v] += number * numbers[v];
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) finish(row + r, column + v * LANES, c[r][v]);
}

// All rows of one strip of columns. The strip of B is read from memory once, and from the cache
// afterwards.
template <int V, bool STREAM, class Finish>
static inline void strip(Left a, Right b, Size rows, Size steps, Size column, Finish &finish) {
    constexpr Prefetch FETCH = STREAM ? Prefetch::B : Prefetch::NOTHING;
    Size row = 0;
    if (STREAM && row + ROWS <= rows) {
        block<ROWS, V, FETCH>(a, b, steps, row, column, finish);
        row += ROWS;
    }
    for (; row + ROWS <= rows; row += ROWS)
        block<ROWS, V, Prefetch::NOTHING>(a, b, steps, row, column, finish);
    if (ROWS > 4 && row + 4 <= rows) {
        block<4, V, FETCH>(a, b, steps, row, column, finish);
        row += 4;
    }
    for (; row < rows; row++) block<1, V, FETCH>(a, b, steps, row, column, finish);
}

// The product. `finish(row, column, vector)` takes each result while it is in a register, so a bias,
// a ReLU or a residual needs no extra pass through memory. `columns` is a multiple of LANES.
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

static inline void add_to(float *to, Vec v) { store(to, load(to) + v); }

// Sums that grow
// --------------
//
// C += A B where C lies in memory: gradients, of weights and of rows. Here A has many rows, so the
// block can be larger, and wider than a panel; B is not packed. It is one function, not a template,
// and compiled once.
struct AddTo {
    float *to;
    Size apart;
    void operator()(Size i, Size j, Vec c) const { add_to(to + i * apart + j, c); }
};

template <int V>
static void add_strip(Left a, Right b, Size rows, Size steps, Size column, AddTo &add, Turns turns) {
    constexpr int MANY = V == 4 ? TALL : 2 * TALL, FEW = TALL > 4 ? 4 : 2;
    Size row = 0;
    for (; row + MANY <= rows; row += MANY)
        block<MANY, V, Prefetch::A>(a, b, steps, row, column, add, turns);
    for (; row + FEW <= rows; row += FEW)
        block<FEW, V, Prefetch::A>(a, b, steps, row, column, add, turns);
    for (; row < rows; row++) block<1, V, Prefetch::A>(a, b, steps, row, column, add, turns);
}

static void add_product(Left a, Right b, Size rows, Size steps, Size columns, AddTo add,
                        Turns turns = {}) {
    Size column = 0;
    for (; column + 4 * LANES <= columns; column += 4 * LANES)
        add_strip<4>(a, b, rows, steps, column, add, turns);
    for (; column + 2 * LANES <= columns; column += 2 * LANES)
        add_strip<2>(a, b, rows, steps, column, add, turns);
    if (column < columns) add_strip<1>(a, b, rows, steps, column, add, turns);
}

// One row
// -------
//
// A single row has no other to share its vectors with. What it needs is that no addition waits
// for the one before: several sums at once, eight in all.

// $V$ vectors, of which number $v$ is $\sum_k$ `left[k] * right[k * step + v * apart]`.
template <int V>
static inline void combine(const float *left, const float *right, Size step, Size apart, Size steps,
                           Vec *to) {
    constexpr int STRANDS = 8 / V;
    Vec c[STRANDS][V] = {};
    Size k = 0;
    for (; k + STRANDS <= steps; k += STRANDS)
        for (int s = 0; s < STRANDS; s++)
            for (int v = 0; v < V; v++)
                c[s][v] += all(left[k + s]) * load(right + (k + s) * step + v * apart);
    for (; k < steps; k++)
        for (int v = 0; v < V; v++) c[0][v] += all(left[k]) * load(right + k * step + v * apart);
    for (int v = 0; v < V; v++) {
        to[v] = c[0][v];
        for (int s = 1; s < STRANDS; s++) to[v] += c[s][v];
    }
}

// One row times a packed matrix: finish(column, vector) for the first `columns`, and up to PANEL - 1
// more.
template <class Finish>
static inline void row_times_packed(const float *row, const float *matrix, Size steps, Size columns,
                                    Finish finish) {
    for (Size j = 0; j < columns; j += PANEL, matrix += PANEL * steps) {
        Vec c[2];
        combine<2>(row, matrix, PANEL, LANES, steps, c);
        for (int v = 0; v < 2; v++) finish(j + v * LANES, c[v]);
    }
}

// One row times a matrix with rows of `columns` features, a multiple of LANES.
template <class Finish>
static inline void row_times(const float *row, const float *matrix, Size steps, Size columns,
                             Finish finish) {
    Size j = 0;
    for (; j + 4 * LANES <= columns; j += 4 * LANES) {
        Vec c[4];
        combine<4>(row, matrix + j, columns, LANES, steps, c);
        for (int v = 0; v < 4; v++) finish(j + v * LANES, c[v]);
    }
    for (; j + 2 * LANES <= columns; j += 2 * LANES) {
        Vec c[2];
        combine<2>(row, matrix + j, columns, LANES, steps, c);
        for (int v = 0; v < 2; v++) finish(j + v * LANES, c[v]);
    }
    if (j < columns) {
        Vec c[1];
        combine<1>(row, matrix + j, columns, LANES, steps, c);
        finish(j, c[0]);
    }
}
