// Activation functions
// ====================
//
// $f$, and its derivative as a function of the *output* $h = f(z)$, so that only states have to be
// stored for the backward pass. Each is a class, and the loops are compiled once for each of them.

#pragma once
#include "vectors.h"

// Tanh
// ----
//
// $\tanh$ is odd, so it is $x$ times a function of $x^2$, here a quotient of two polynomials of
// degree 4 in $x^2$. (Lambert's continued fraction of 1768 gives such quotients, best near zero.)
// The coefficients are fitted: the relative error is at most $1.3 \cdot 10^{-8}$ for $|x| \le 8$,
// and $4 \cdot 10^{-7}$ with the rounding of float32. Beyond 8, $|\tanh x|$ is 1 to within
// $3 \cdot 10^{-7}$, and so is the value at 8.
struct Tanh {
    static Vec f(Vec x) {
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

// $1 / (1 + e^{-x})$, computed from $e^{-|x|} \le 1$: nothing overflows, and small results keep
// their precision.
struct Sigmoid {
    static Vec f(Vec x) {
        Vec power = exponential(-larger(-x, x));
        Vec above = x < Vec{} ? power : all(1.f);
        return above / (1.f + power);
    }
    static Vec slope(Vec h) { return h * (1.f - h); }
};

struct Relu {
    static Vec f(Vec x) { return larger(Vec{}, x); }
    static Vec slope(Vec h) { return h > Vec{} ? all(1.f) : Vec{}; }
};

static inline bool is_activation(Size number) { return number >= 0 && number < 3; }

// Calls `work` with the class of a number: the order of `ACTIVATIONS` in the lesson.
template <class Work>
static void with_activation(Size number, Work work) {
    if (number == 0) return work(Tanh());
    if (number == 1) return work(Sigmoid());
    work(Relu());
}
