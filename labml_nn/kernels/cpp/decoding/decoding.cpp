// One decoding step in C++
// ========================
//
// From one token per sequence to the logits of the next: embedding, all layers, output, in one
// function. It computes what `AutoregressiveTransformer.forward` and the decoder of
// `EncoderDecoderLanguageModel` define for a single new position in evaluation mode, and each
// function below corresponds to a module of theirs.

#include <cmath>

#include "matrix_vector.h"
#include "products.h"

// Layer norm or RMS norm of `count` features, from x to y, which may be the same. The sums are
// computed in double precision, which costs nothing noticeable for a single position.
static void normalise(const Norm &norm, const float *x, float *y, Size count) {
    double mean = 0, square = 0;
    if (norm.kind == 1) {
        for (Size i = 0; i < count; i++) mean += x[i];
        mean /= count;
    }
    for (Size i = 0; i < count; i++) square += (x[i] - mean) * (x[i] - mean);
    const float centre = norm.kind ? (float)mean : 0.f;
    const float factor = norm.kind ? (float)(1 / std::sqrt(square / count + norm.eps)) : 1.f;
    for (Size i = 0; i < count; i++) {
        y[i] = (x[i] - centre) * factor;
        if (norm.weight) y[i] *= norm.weight[i];
        if (norm.bias) y[i] += norm.bias[i];
    }
}

// Scaled dot-product attention for one sequence and one query position: for each head
// softmax(q K) V over the first `count` positions of the cache. The result is [H * D]; a vector
// may write past its end.
static void attend(const Attention &a, Size sequence, const float *query, Size count, float *scores,
                   float *result) {
    for (Size head = 0; head < a.heads; head++, query += a.d_k, result += a.d_v) {
        const float *keys = a.keys + (sequence * a.heads + head) * a.d_k * a.capacity;
        const float *values = a.values + (sequence * a.heads + head) * a.capacity * a.d_v;

        // LANES scores at once: keys are stored transposed, so that a vector holds one feature of
        // LANES adjacent keys. Two running sums hide the latency of the additions. Positions from
        // `count` on are set to -inf and get weight 0.
        Vec top = all(-INFINITY);
        for (Size s = 0; s < count; s += LANES) {
            Vec even = {}, odd = {};
            Size k = 0;
            for (; k + 2 <= a.d_k; k += 2) {
                even += all(query[k]) * load(keys + k * a.capacity + s);
                odd += all(query[k + 1]) * load(keys + (k + 1) * a.capacity + s);
            }
            if (k < a.d_k) even += all(query[k]) * load(keys + k * a.capacity + s);
            Vec score = (even + odd) * (float)a.scale;
            store(scores + s, score);
            if (s + LANES > count)
                for (Size i = count; i < s + LANES; i++) scores[i] = -INFINITY;
            top = larger(top, load(scores + s));
        }

        // Softmax. The largest score is subtracted first, so that the exponential cannot overflow;
        // the division by the sum is left to the end. Without any key (an empty source) the
        // result is 0, as it is for a fully masked query.
        const Vec highest = largest(top);
        Vec total = {};
        for (Size s = 0; s < count; s += LANES) {
            Vec weight = exponential(load(scores + s) - highest);
            store(scores + s, weight);
            total += weight;
        }
        const float inverse = count ? 1 / sum(total) : 0.f;

        // The weighted average of the values, whose features are adjacent in memory.
        for (Size d = 0; d < a.d_v; d += LANES) {
            Vec average[1];
            combine<1>(scores, values + d, a.d_v, LANES, count, average);
            store(result + d, average[0] * inverse);
        }
    }
}

// The step
// --------
struct Step {
    const Args &args;
    const Size batch = args.batch, width = args.width;

    // QK-norm and rotary positions of one position's queries or keys, `[H, D]`, in place. Feature
    // $i$ and feature $i + D / 2$ are a pair that is rotated by the angle of the position.
    void normalise_and_rotate(const Attention &a, const Norm &norm, float *heads) const {
        for (Size head = 0; head < a.heads; head++, heads += a.d_k) {
            if (norm.kind) normalise(norm, heads, heads, a.d_k);
            if (!a.cos) continue;
            const Size half = a.d_k / 2;
            const float *cos = a.cos + args.position * half, *sin = a.sin + args.position * half;
            for (Size i = 0; i < half; i++) {
                const float x = heads[i], y = heads[i + half];
                heads[i] = x * cos[i] - y * sin[i];
                heads[i + half] = x * sin[i] + y * cos[i];
            }
        }
    }

    // Self-attention, from z [B, C] to y [B, C]. Keys and values of the new token are written into
    // the cache at `position`; then the query attends to positions 0 to `position`, which needs no
    // mask. `wide` holds queries, keys, values and the heads' results of the whole batch.
    void self_attention(const Attention &a, const float *z, float *y) const {
        const Size keys = a.heads * a.d_k, values = a.heads * a.d_v;
        float *q = args.wide, *k = q + batch * keys, *v = k + batch * keys, *result = v + batch * values;
        apply(a.query, batch, z, width, q, keys);
        apply(a.key, batch, z, width, k, keys);
        apply(a.value, batch, z, width, v, values);
        for (Size b = 0; b < batch; b++) {
            normalise_and_rotate(a, a.query_norm, q + b * keys);
            normalise_and_rotate(a, a.key_norm, k + b * keys);
            for (Size i = 0; i < keys; i++)
                a.keys[(b * keys + i) * a.capacity + args.position] = k[b * keys + i];
            for (Size head = 0; head < a.heads; head++)
                for (Size d = 0; d < a.d_v; d++)
                    a.values[((b * a.heads + head) * a.capacity + args.position) * a.d_v + d] =
                        v[b * values + head * a.d_v + d];
            attend(a, b, q + b * keys, args.position + 1, args.scores, result + b * values);
        }
        apply(a.output, batch, result, values, y, width);
    }

    // Cross-attention. Keys and values of the source were computed before the first step.
    void cross_attention(const Attention &a, const float *z, float *y) const {
        const Size keys = a.heads * a.d_k, values = a.heads * a.d_v;
        float *q = args.wide, *result = q + batch * keys;
        apply(a.query, batch, z, width, q, keys);
        for (Size b = 0; b < batch; b++)
            attend(a, b, q + b * keys, args.source_lengths[b], args.scores, result + b * values);
        apply(a.output, batch, result, values, y, width);
    }

    // The feed-forward network.
    void feed_forward(const Layer &layer, const float *z, float *y) const {
        const Size hidden = layer.up.rows;
        float *h = args.wide;
        apply(layer.up, batch, z, width, h, hidden);
        for (Size i = 0; i < batch * hidden; i += LANES) {
            Vec x = load(h + i), positive = larger(Vec{}, x);
            if (layer.activation == 0) store(h + i, positive);
            if (layer.activation == 3) store(h + i, positive * positive);
            if (layer.activation == 2) {
                // The logistic function from the exponential of $-|x|$, which cannot overflow.
                Vec e = exponential(-larger(x, -x)), one = all(1.f);
                store(h + i, x * ((x > Vec{} ? one : e) / (one + e)));
            }
            if (layer.activation == 1)
                for (int l = 0; l < LANES; l++)
                    h[i + l] *= 0.5f * (1 + std::erf(h[i + l] * 0.70710678f));
        }
        apply(layer.down, batch, h, hidden, y, width);
    }

    // A residual connection with its normalisation: x + f(norm(x)) in a pre-norm layer,
    // norm(x + f(x)) in a post-norm layer.
    template <class Sublayer>
    void residual(const Norm &norm, Sublayer sublayer) const {
        float *x = args.x, *z = args.z;
        const Size count = batch * width;
        if (args.norm_first) {
            for (Size b = 0; b < count; b += width) normalise(norm, x + b, z + b, width);
            sublayer(z, z);
        } else {
            sublayer(x, z);
        }
        for (Size i = 0; i < count; i++) x[i] += z[i];
        if (!args.norm_first)
            for (Size b = 0; b < count; b += width) normalise(norm, x + b, x + b, width);
    }

    // All of it: embedding, layers, final normalisation, logits.
    void run() const {
        for (Size b = 0; b < batch; b++) {
            float *x = args.x + b * width;
            const float *token = args.token_table + args.tokens[b] * width;
            for (Size c = 0; c < width; c++) x[c] = token[c] * (float)args.scale;
            if (args.position_table)
                for (Size c = 0; c < width; c++)
                    x[c] += args.position_table[args.position * width + c];
            if (args.embedding_norm.kind) normalise(args.embedding_norm, x, x, width);
        }
        for (const Layer *layer = args.layer; layer < args.layer + args.layers; layer++) {
            const Attention &self = layer->self_attention, &cross = layer->cross_attention;
            residual(self.norm, [&](const float *z, float *y) { self_attention(self, z, y); });
            if (args.source_lengths)
                residual(cross.norm, [&](const float *z, float *y) { cross_attention(cross, z, y); });
            residual(layer->norm, [&](const float *z, float *y) { feed_forward(*layer, z, y); });
        }
        if (args.final_norm.kind)
            for (Size b = 0; b < batch * width; b += width)
                normalise(args.final_norm, args.x + b, args.x + b, width);
        apply(args.output, batch, args.x, width, args.logits, args.output.rows);
    }
};

// Sizes
// -----
//
// Every index above is below one of these sizes. They are compared before the first number is read: a
// few dozen comparisons, where a step takes many thousand multiplications.
static bool fits(const Linear &map, Size rows, Size columns) {
    return map.weight && map.rows == rows && map.columns == columns;
}

static bool fits(const Norm &norm, Size size) {
    return !norm.kind || ((norm.weight || norm.bias) ? norm.size == size : true);
}

static const char *fault(const Args &args, const Attention &a, Size length) {
    const Size keys = a.heads * a.d_k, values = a.heads * a.d_v;
    if (a.heads < 1 || a.d_k < 1 || a.d_v < 1) return "an attention has no heads";
    if (!fits(a.query, keys, args.width) || !fits(a.output, args.width, values))
        return "the projections of an attention have other sizes than its heads";
    if (!fits(a.norm, args.width) || !fits(a.query_norm, a.d_k) || !fits(a.key_norm, a.d_k))
        return "a normalisation has another size than its inputs";
    if (a.cos && a.d_k % 2) return "rotary positions need an even number of features";
    if (length > a.capacity - LANES || a.capacity > args.scores_size)
        return "the KV cache is shorter than the context";
    if (2 * (keys + values) > args.wide_size) return "the scratch memory is too small";
    return nullptr;
}

static const char *fault(const Args &args) {
    if (args.batch < 1 || args.width < 1 || args.position < 0) return "the batch is empty";
    if (args.position >= args.positions) return "the position is beyond the table of positions";
    for (Size b = 0; b < args.batch; b++)
        if (args.tokens[b] < 0 || args.tokens[b] >= args.vocabulary)
            return "a token is not in the vocabulary";
    if (!fits(args.output, args.output.rows, args.width)) return "the output has another width";
    if (!fits(args.embedding_norm, args.width) || !fits(args.final_norm, args.width))
        return "a normalisation has another size than its inputs";
    for (const Layer *layer = args.layer; layer < args.layer + args.layers; layer++) {
        const Attention &own = layer->self_attention, &cross = layer->cross_attention;
        const Size hidden = layer->up.rows, keys = own.heads * own.d_k;
        if (const char *message = fault(args, own, args.position + 1)) return message;
        if (!fits(own.key, keys, args.width) || !fits(own.value, own.heads * own.d_v, args.width))
            return "the projections of an attention have other sizes than its heads";
        if (args.source_lengths)
            for (Size b = 0; b < args.batch; b++) {
                if (args.source_lengths[b] < 0) return "a source has a negative length";
                if (const char *message = fault(args, cross, args.source_lengths[b])) return message;
            }
        if (!fits(layer->up, hidden, args.width) || !fits(layer->down, args.width, hidden))
            return "the feed-forward network has other sizes than its inputs";
        if (hidden > args.wide_size) return "the scratch memory is too small";
        if (!fits(layer->norm, args.width)) return "a normalisation has another size than its inputs";
    }
    return nullptr;
}

extern "C" const char *decoding_step(const Args *args) {
    if (const char *message = fault(*args)) return message;
    Step{*args}.run();
    return nullptr;
}

// Python compares these with its own structures before the first call.
extern "C" Size lanes() { return LANES; }
extern "C" Size args_size() { return sizeof(Args); }
