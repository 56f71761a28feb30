// Products of rows with packed weights
// ====================================
//
// $y = x W^\top$ for many rows, or for one to three. Results are vectors; the last one of a row may
// extend beyond its end.

#pragma once
#include "products.h"
#include "args.h"

// With one to three rows every addition would have to wait for the previous one. So each sum is split
// into independent partial sums, which are added at the end.
template <int R, int STRANDS, class Finish>
static inline void few_rows(Left a, const float *weights, Size steps, Size columns, Finish &finish) {
    for (Size column = 0; column < columns; column += PANEL) {
        const float *right = weights + column * steps;
        Vec c[STRANDS][R][2] = {};
        Size k = 0;
        for (; k + STRANDS <= steps; k += STRANDS, right += STRANDS * PANEL)
            for (int s = 0; s < STRANDS; s++)
                for (int r = 0; r < R; r++)
                    for (int v = 0; v < 2; v++)
                        c[s][r][v] += all(a.at[r * a.row + k + s]) *
                                      load(right + s * PANEL + v * LANES);
        for (; k < steps; k++, right += PANEL)
            for (int r = 0; r < R; r++)
                for (int v = 0; v < 2; v++)
                    c[0][r][v] += all(a.at[r * a.row + k]) * load(right + v * LANES);
        for (int r = 0; r < R; r++)
            for (int v = 0; v < 2; v++) {
                Vec sum = c[0][r][v];
                for (int s = 1; s < STRANDS; s++) sum += c[s][r][v];
                finish(r, column + v * LANES, sum);
            }
    }
}

// `finish(row, column, count, vector)` takes the results. The first `count` numbers of the vector
// belong to the row.
template <class Finish>
static inline void multiply(Left a, const float *weights, Size rows, Size steps, Size columns,
                            Finish finish) {
    auto whole = [=](Size i, Size j, Vec c) {
        if (j < columns) finish(i, j, columns - j, c);
    };
    if (rows == 1) return few_rows<1, 4>(a, weights, steps, columns, whole);
    if (rows == 2) return few_rows<2, 4>(a, weights, steps, columns, whole);
    if (rows == 3) return few_rows<3, 2>(a, weights, steps, columns, whole);
    product(a, packed(weights, steps), rows, steps, vectors(columns), whole);
}
