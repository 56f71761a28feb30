// Matrix-vector products
// ======================
//
// $y = x W^\top + b$ for one vector $x$ or a few. In decoding every weight is used once per token
// and sequence, so the time goes into loading the weights from memory. The best order is the one
// in which they are stored, row by row: $y_n$ is the dot product of row $n$ with $x$.
//
// Sixteen dot products are computed at the same time, of 16 rows with one $x$, or of 4 rows with
// four. A single running sum would wait for the latency of each addition; sixteen independent ones
// keep the floating-point units busy.

#pragma once
#include <utility>

#include "args.h"

constexpr int SUMS = 16;  // a multiple of LANES on every CPU

// Horizontal sums
// ---------------
//
// A dot product ends as one vector whose lanes must be added up. One at a time, that would take as
// long as the product itself for a model of this size. But from two vectors a and b, the sums of
// adjacent lanes
//
//     a0+a1  a2+a3  ...  b0+b1  b2+b3  ...
//
// fill one vector. Repeated, sixteen vectors become eight, four, two and finally one, whose lanes
// are the sixteen sums in order.
template <int... I>
static inline Vec add_adjacent(Vec a, Vec b, std::integer_sequence<int, I...>) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, (2 * I)...) + __builtin_shufflevector(a, b, (2 * I + 1)...);
#else
    return __builtin_shuffle(a, b, Ints{(2 * I)...}) + __builtin_shuffle(a, b, Ints{(2 * I + 1)...});
#endif
}

// Returns the sums of LANES vectors; the vectors are overwritten.
static inline Vec horizontal_sums(Vec *vectors) {
    for (int left = LANES; left > 1; left /= 2)
        for (int i = 0; i < left / 2; i++)
            vectors[i] = add_adjacent(vectors[2 * i], vectors[2 * i + 1],
                                      std::make_integer_sequence<int, LANES>());
    return vectors[0];
}

// One block of the product
// ------------------------
//
// SUMS / G rows of W, from row n on, with G vectors x. A weight that has been loaded serves all G
// sequences, which is why a small batch costs little more than one sequence.
template <int G>
static inline void block_of_rows(const Linear &map, const float *x, Size x_step, float *y, Size y_step,
                                 Size n) {
    constexpr int R = SUMS / G;
    const Size columns = map.columns, whole = columns - columns % LANES;
    const float *weight = map.weight + n * columns;
    Vec sums[G][R] = {};
    for (Size k = 0; k < whole; k += LANES) {
        Vec inputs[G];
        for (int g = 0; g < G; g++) inputs[g] = load(x + g * x_step + k);
        for (int r = 0; r < R; r++) {
            Vec row = load(weight + r * columns + k);
            for (int g = 0; g < G; g++) sums[g][r] += row * inputs[g];
        }
    }
    float totals[G][R];
    for (int i = 0; i < SUMS; i += LANES)
        store(&totals[0][0] + i, horizontal_sums(&sums[0][0] + i));
    for (int g = 0; g < G; g++)
        for (int r = 0; r < R; r++) {
            float total = totals[g][r];
            for (Size k = whole; k < columns; k++)
                total += weight[r * columns + k] * x[g * x_step + k];
            y[g * y_step + n + r] = total + (map.bias ? map.bias[n + r] : 0.f);
        }
}

// One row alone, for the remainder of a matrix.
static void single_row(const Linear &map, const float *x, float *y, Size n) {
    const float *weight = map.weight + n * map.columns;
    Vec lanes = {};
    Size k = 0;
    for (; k + LANES <= map.columns; k += LANES) lanes += load(weight + k) * load(x + k);
    float total = sum(lanes);
    for (; k < map.columns; k++) total += weight[k] * x[k];
    y[n] = total + (map.bias ? map.bias[n] : 0.f);
}

template <int G>
static void all_rows(const Linear &map, const float *x, Size x_step, float *y, Size y_step) {
    constexpr int R = SUMS / G;
    Size n = 0;
    for (; n + R <= map.rows; n += R) block_of_rows<G>(map, x, x_step, y, y_step, n);
    for (; n < map.rows; n++)
        for (int g = 0; g < G; g++) single_row(map, x + g * x_step, y + g * y_step, n);
}

// The whole batch: four sequences at a time, then two, then one. Consecutive inputs are `x_step`
// floats apart, consecutive outputs `y_step`.
static void apply(const Linear &map, Size batch, const float *x, Size x_step, float *y, Size y_step) {
    Size b = 0;
    for (; b + 4 <= batch; b += 4) all_rows<4>(map, x + b * x_step, x_step, y + b * y_step, y_step);
    for (; b + 2 <= batch; b += 2) all_rows<2>(map, x + b * x_step, x_step, y + b * y_step, y_step);
    if (b < batch) all_rows<1>(map, x + b * x_step, x_step, y + b * y_step, y_step);
}
