// Matrices times a few vectors
// ============================
//
// $y = x W^\top + b$, for one $x$ or a few. Every weight is used once for each $x$ and then never
// again until the next token, so the time goes into fetching weights, and the best that can be
// done is to fetch each of them once, in the order in which they lie. That is by rows of $W$, and
// row $n$ is what makes $y_n$: a sum of products along the row.
//
// Sixteen sums are under way at once: of 16 rows and one $x$, or of 4 rows and four. A sum whose
// every addition waits for the one before would be slower than the fetching.

#pragma once
#include <utility>

#include "task.h"

constexpr int SUMS = 16;  // a multiple of LANES, on any processor

// Adding up across
// ----------------
//
// What is left of a sum at the end is a vector, whose lanes are to be added up. One by one that
// would take as long as the product. But of two vectors a and b, the sums of neighbours
//
//     a0+a1  a2+a3  ...  b0+b1  b2+b3  ...
//
// fill one vector. So sixteen become eight, four, two and at last one, and in its lanes stand the
// sixteen sums, in order.
template <int... I>
static inline Vec neighbours(Vec a, Vec b, std::integer_sequence<int, I...>) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, (2 * I)...) + __builtin_shufflevector(a, b, (2 * I + 1)...);
#else
    return __builtin_shuffle(a, b, Ints{(2 * I)...}) + __builtin_shuffle(a, b, Ints{(2 * I + 1)...});
#endif
}

// The sums of LANES vectors, which are lost.
static inline Vec sums_of(Vec *vectors) {
    for (int left = LANES; left > 1; left /= 2)
        for (int i = 0; i < left / 2; i++)
            vectors[i] = neighbours(vectors[2 * i], vectors[2 * i + 1],
                                    std::make_integer_sequence<int, LANES>());
    return vectors[0];
}

// The product
// -----------
//
// SUMS / G rows, from row n on, with G vectors x.
template <int G>
static inline void some_rows(const Map &map, const float *x, Size x_step, float *y, Size y_step,
                             Size n) {
    constexpr int R = SUMS / G;
    const Size columns = map.columns, whole = columns - columns % LANES;
    const float *weight = map.weight + n * columns;
    Vec sums[G][R] = {};
    for (Size k = 0; k < whole; k += LANES) {
        Vec numbers[G];
        for (int g = 0; g < G; g++) numbers[g] = load(x + g * x_step + k);
        for (int r = 0; r < R; r++) {
            Vec row = load(weight + r * columns + k);
            for (int g = 0; g < G; g++) sums[g][r] += row * numbers[g];
        }
    }
    float totals[G][R];
    for (int i = 0; i < SUMS; i += LANES) store(&totals[0][0] + i, sums_of(&sums[0][0] + i));
    for (int g = 0; g < G; g++)
        for (int r = 0; r < R; r++) {
            float total = totals[g][r];
            for (Size k = whole; k < columns; k++)
                total += weight[r * columns + k] * x[g * x_step + k];
            y[g * y_step + n + r] = total + (map.bias ? map.bias[n + r] : 0.f);
        }
}

// Rows that are too few for a block.
static void one_row(const Map &map, const float *x, float *y, Size n) {
    const float *weight = map.weight + n * map.columns;
    Vec lanes = {};
    Size k = 0;
    for (; k + LANES <= map.columns; k += LANES) lanes += load(weight + k) * load(x + k);
    float total = sum(lanes);
    for (; k < map.columns; k++) total += weight[k] * x[k];
    y[n] = total + (map.bias ? map.bias[n] : 0.f);
}

template <int G>
static void all_rows(const Map &map, const float *x, Size x_step, float *y, Size y_step) {
    constexpr int R = SUMS / G;
    Size n = 0;
    for (; n + R <= map.rows; n += R) some_rows<G>(map, x, x_step, y, y_step, n);
    for (; n < map.rows; n++)
        for (int g = 0; g < G; g++) one_row(map, x + g * x_step, y + g * y_step, n);
}

// All texts of the batch, four at a time as long as there are so many.
static void apply(const Map &map, Size batch, const float *x, Size x_step, float *y, Size y_step) {
    Size b = 0;
    for (; b + 4 <= batch; b += 4) all_rows<4>(map, x + b * x_step, x_step, y + b * y_step, y_step);
    for (; b + 2 <= batch; b += 2) all_rows<2>(map, x + b * x_step, x_step, y + b * y_step, y_step);
    if (b < batch) all_rows<1>(map, x + b * x_step, x_step, y + b * y_step, y_step);
}
