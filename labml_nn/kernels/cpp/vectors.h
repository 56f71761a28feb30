// Vectors
// =======
//
// A CPU core adds and multiplies several floats per instruction: 16 with AVX-512, 8 with AVX2, 4
// elsewhere. GCC and Clang have vector types, for which `a + b * c` is one instruction. Only the
// number of lanes below depends on the instruction set.

#pragma once
#include <cstdint>
#include <cstring>

typedef int64_t Size;

#if defined(__AVX512F__)
constexpr int LANES = 16;
constexpr int ROWS = 8, TALL = 6;  // rows of blocks of products, see products.h
#elif defined(__AVX__)
constexpr int LANES = 8;
constexpr int ROWS = 4, TALL = 3;
#else
constexpr int LANES = 4;
constexpr int ROWS = 4, TALL = 3;
#endif

// Rows of features are padded with zeros to a multiple of two vectors, so no loop over features has
// a remainder.
constexpr int PANEL = 2 * LANES;

typedef float Vec __attribute__((vector_size(LANES * 4)));
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));
// A vector in memory, at any address.
typedef float Lying __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

static inline Vec load(const float *from) { return *(const Lying *)from; }
static inline void store(float *to, Vec v) { *(Lying *)to = v; }

// The same number in all lanes. (Subtracting 0 changes no float, so the compiler leaves it out;
// adding 0 would make 0 of -0.)
static inline Vec all(float x) { return x - Vec{}; }

// If `b` is NaN, so is the result.
static inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }

// A reduction over the lanes of a vector: lanes are combined with those `half` away, for halving
// distances, and in the end all of them hold the result.
template <int half>
static inline Vec swapped(Vec v) {
#ifdef __clang__
    Vec result;
    for (int i = 0; i < LANES; i++) result[i] = v[i ^ half];
    return result;
#else
    Ints places;
    for (int i = 0; i < LANES; i++) places[i] = i ^ half;
    return __builtin_shuffle(v, places);
#endif
}

template <int half = LANES / 2, class Fold>
static inline Vec across(Vec v, Fold fold) {
    v = fold(v, swapped<half>(v));
    if constexpr (half > 1) v = across<half / 2>(v, fold);
    return v;
}

static inline Vec total(Vec v) {
    return across(v, [](Vec a, Vec b) { return a + b; });
}

static inline float sum(Vec v) { return total(v)[0]; }

static inline Vec largest(Vec v) { return across(v, larger); }

// Ones, and zeros in all lanes from `count` on.
static inline Vec first_lanes(Size count) {
    static const struct Edge {
        float numbers[2 * LANES];
        Edge() {
            for (int i = 0; i < 2 * LANES; i++) numbers[i] = i < LANES ? 1.f : 0.f;
        }
    } edge;
    if (count >= LANES) return all(1.f);
    return count <= 0 ? Vec{} : load(edge.numbers + LANES - count);
}

// Stores the first `count` lanes only, and leaves the memory behind them unchanged.
static inline void store_first(float *to, Vec v, Size count) {
    if (count >= LANES) return store(to, v);
    float lanes[LANES];
    store(lanes, v);
    for (Size i = 0; i < count; i++) to[i] = lanes[i];
}

// The exponential function
// ------------------------
//
// $e^x = 2^n e^r$ with $n$ the integer nearest to $x / \ln 2$ and $|r| \le \frac{1}{2} \ln 2$. Of
// $e^r$ a polynomial of degree 6 gives all digits that a float has (coefficients: Cephes, `expf`).
// $2^n$ costs next to nothing: $n$ is added to the exponent of the float.
//
// To round, add $1.5 \cdot 2^{23}$: a float of that size has no digits behind the point, and its
// last bits are $n$. $\ln 2$ is subtracted in two parts, or $r$ would lose its last digits.
//
// Softmax asks only for $x \le 0$. What is below -87, with -inf, is 0: such a weight would vanish in
// any sum with the largest, which is 1.
static inline Vec exponential(Vec x) {
    const float shift = 12582912.f;
    Vec safe = larger(all(-87.f), x);
    Vec shifted = safe * 1.44269504088896341f + shift;
    Vec n = shifted - shift;
    Vec r = safe - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    Vec power = r * 1.9875691500e-4f + 1.3981999507e-3f;
    power = power * r + 8.3334519073e-3f;
    power = power * r + 4.1665795894e-2f;
    power = power * r + 1.6666665459e-1f;
    power = power * r + 5.0000001201e-1f;
    power = power * (r * r) + (r + 1.f);
    Vec scaled = (Vec)((Ints)power + ((Ints)shifted << 23));
    return x >= all(-87.f) ? scaled : x < all(-87.f) ? Vec{} : x;  // at last NaN, which stays
}
