// Bends
// =====
//
// What makes a state of a sum, and its slope, which can be read off the state. A class for each, so
// that the loops are compiled once for each and know which they have.

#pragma once
#include "vectors.h"

// tanh
// ----
//
// $\tanh$ is odd, so it is $x$ times a function of $x^2$: a quotient of two polynomials of degree 4
// in $x^2$. Lambert found such quotients in 1768, best near zero; here the coefficients are fitted,
// so that the relative error is small everywhere up to 8: $1.3 \cdot 10^{-8}$ at most, which in
// float32 becomes $4 \cdot 10^{-7}$. Beyond 8 the tanh is 1 to within $3 \cdot 10^{-7}$, and so is
// this.
struct Tanh {
    static Vec bend(Vec x) {
        x = larger(all(-8.f), x);
        x = smaller(all(8.f), x);
        Vec square = x * x;
        Vec above = square * 1.52303751e-08f + 2.18946314e-05f;
        above = above * square + 3.57159617e-03f;
        above = above * square + 1.34444964e-01f;
        above = above * square + 1.f;
        Vec below = square * 8.52242924e-07f + 3.41128898e-04f;
        below = below * square + 2.61644359e-02f;
        below = below * square + 4.67778237e-01f;
        below = below * square + 1.f;
        return x * (above / below);
    }
    static Vec slope(Vec h) { return 1.f - h * h; }
    static Vec smaller(Vec a, Vec b) { return a < b ? a : b; }  // NaN stays, as with `larger`
};

// $1 / (1 + e^{-x})$, by the power $e^{-|x|}$, which is below 1 on either side: nothing overflows,
// and small results keep all their digits.
struct Sigmoid {
    static Vec bend(Vec x) {
        Vec power = exponential(-larger(-x, x));
        Vec above = x < Vec{} ? power : all(1.f);
        return above / (1.f + power);
    }
    static Vec slope(Vec h) { return h * (1.f - h); }
};

struct Relu {
    static Vec bend(Vec x) { return larger(Vec{}, x); }
    static Vec slope(Vec h) { return h > Vec{} ? all(1.f) : Vec{}; }
};

// Calls `work` with the class that the number means.
template <class Work>
static void with_bend(Size number, Work work) {
    if (number == 0) return work(Tanh());
    if (number == 1) return work(Sigmoid());
    work(Relu());
}
