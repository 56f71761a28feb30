// A step of a decoder, compiled
// =============================
//
// Tokens in, logits out, one function of C in between. It follows `step.py` line by line, and has
// the same names.

#include <cmath>

#include "products.h"
#include "rows.h"

// Normalise `count` numbers, from x to y. Means are taken in double precision: a row is short.
static void normalise(const Norm &norm, const float *x, float *y, Size count) {
    double mean = 0, square = 0;
    if (norm.kind == 1) {
        for (Size i = 0; i < count; i++) mean += x[i];
        mean /= count;
    }
    for (Size i = 0; i < count; i++) square += (x[i] - mean) * (x[i] - mean);
    const float middle = norm.kind ? (float)mean : 0.f;
    const float factor = norm.kind ? (float)(1 / std::sqrt(square / count + norm.eps)) : 1.f;
    for (Size i = 0; i < count; i++) {
        y[i] = (x[i] - middle) * factor;
        if (norm.gain) y[i] *= norm.gain[i];
        if (norm.shift) y[i] += norm.shift[i];
    }
}

// One text: softmax(q K) V for each head, with `count` places of memory. `found` is [H * D], and
// a vector may be written behind its end.
static void attend(const Attention &a, Size text, const float *query, Size count, float *scores,
                   float *found) {
    for (Size head = 0; head < a.heads; head++, query += a.d_k, found += a.d_v) {
        const float *keys = a.keys + (text * a.heads + head) * a.d_k * a.places;
        const float *values = a.values + (text * a.heads + head) * a.places * a.d_v;

        // Sixteen scores at once: a vector holds one feature of as many keys. Two sums, so that
        // one may go on while the other is waited for.
        Vec top = all(-INFINITY);
        for (Size s = 0; s < count; s += LANES) {
            Vec even = {}, odd = {};
            Size k = 0;
            for (; k + 2 <= a.d_k; k += 2) {
                even += all(query[k]) * load(keys + k * a.places + s);
                odd += all(query[k + 1]) * load(keys + (k + 1) * a.places + s);
            }
            if (k < a.d_k) even += all(query[k]) * load(keys + k * a.places + s);
            Vec score = (even + odd) * (float)a.scale;
            store(scores + s, score);
            if (s + LANES > count)
                for (Size i = count; i < s + LANES; i++) scores[i] = -INFINITY;
            top = larger(top, load(scores + s));
        }
        const Vec highest = largest(top);
        Vec total = {};
        for (Size s = 0; s < count; s += LANES) {
            Vec weight = exponential(load(scores + s) - highest);
            store(scores + s, weight);
            total += weight;
        }
        const float share = count ? 1 / sum(total) : 0.f;
        for (Size d = 0; d < a.d_v; d += LANES) {
            Vec mean[1];
            combine<1>(scores, values + d, a.d_v, LANES, count, mean);
            store(found + d, mean[0] * share);
        }
    }
}

struct Step {
    const Task &task;
    const Size batch = task.batch, width = task.width;

    // Queries or keys: normalised, if so, and turned to where they stand.
    void place(const Attention &a, const Norm &norm, float *heads) const {
        for (Size head = 0; head < a.heads; head++, heads += a.d_k) {
            if (norm.kind) normalise(norm, heads, heads, a.d_k);
            if (!task.cos) continue;
            const Size half = a.d_k / 2;
            const float *cos = task.cos + task.at * half, *sin = task.sin + task.at * half;
            for (Size i = 0; i < half; i++) {
                const float x = heads[i], y = heads[i + half];
                heads[i] = x * cos[i] - y * sin[i];
                heads[i + half] = x * sin[i] + y * cos[i];
            }
        }
    }

    // What does the text so far know? From z [B, C] to y [B, C]. In `wide` lie the queries of all
    // texts, then keys, values, and what is found.
    void look_back(const Attention &a, const float *z, float *y) const {
        const Size keys = a.heads * a.d_k, values = a.heads * a.d_v;
        float *q = task.wide, *k = q + batch * keys, *v = k + batch * keys, *found = v + batch * values;
        apply(a.query, batch, z, width, q, keys);
        apply(a.key, batch, z, width, k, keys);
        apply(a.value, batch, z, width, v, values);
        for (Size b = 0; b < batch; b++) {
            place(a, a.query_norm, q + b * keys);
            place(a, a.key_norm, k + b * keys);
            for (Size i = 0; i < keys; i++)
                a.keys[(b * keys + i) * a.places + task.at] = k[b * keys + i];
            for (Size head = 0; head < a.heads; head++)
                for (Size d = 0; d < a.d_v; d++)
                    a.values[((b * a.heads + head) * a.places + task.at) * a.d_v + d] =
                        v[b * values + head * a.d_v + d];
            attend(a, b, q + b * keys, task.at + 1, task.scores, found + b * values);
        }
        apply(a.output, batch, found, values, y, width);
    }

    // What does the source say?
    void ask_source(const Attention &a, const float *z, float *y) const {
        const Size keys = a.heads * a.d_k, values = a.heads * a.d_v;
        float *q = task.wide, *found = q + batch * keys;
        apply(a.query, batch, z, width, q, keys);
        for (Size b = 0; b < batch; b++)
            attend(a, b, q + b * keys, task.lengths[b], task.scores, found + b * values);
        apply(a.output, batch, found, values, y, width);
    }

    // What follows from it?
    void think(const Layer &layer, const float *z, float *y) const {
        const Size hidden = layer.up.rows;
        float *h = task.wide;
        apply(layer.up, batch, z, width, h, hidden);
        for (Size i = 0; i < batch * hidden; i += LANES) {
            Vec x = load(h + i), positive = larger(x, Vec{});
            if (layer.activation == 0) store(h + i, positive);
            if (layer.activation == 3) store(h + i, positive * positive);
            if (layer.activation == 2) {
                // Of a negative x the exponential, which is below 1.
                Vec e = exponential(-larger(x, -x)), one = all(1.f);
                store(h + i, x * ((x > Vec{} ? one : e) / (one + e)));
            }
            if (layer.activation == 1)
                for (int l = 0; l < LANES; l++)
                    h[i + l] *= 0.5f * (1 + std::erf(h[i + l] * 0.70710678f));
        }
        apply(layer.down, batch, h, hidden, y, width);
    }

    // x + part(norm(x)), or norm(x + part(x)).
    template <class Part>
    void add(const Norm &norm, Part part) const {
        float *x = task.row, *y = task.part;
        const Size count = batch * width;
        if (task.norm_first) {
            for (Size b = 0; b < count; b += width) normalise(norm, x + b, y + b, width);
            part(y, y);
        } else {
            part(x, y);
        }
        for (Size i = 0; i < count; i++) x[i] += y[i];
        if (!task.norm_first)
            for (Size b = 0; b < count; b += width) normalise(norm, x + b, x + b, width);
    }

    void run() const {
        for (Size b = 0; b < batch; b++) {
            float *x = task.row + b * width;
            const float *token = task.table + task.tokens[b] * width;
            for (Size c = 0; c < width; c++) x[c] = token[c] * (float)task.scale;
            if (task.places)
                for (Size c = 0; c < width; c++) x[c] += task.places[task.at * width + c];
            if (task.norm_in.kind) normalise(task.norm_in, x, x, width);
        }
        for (const Layer *layer = task.layer; layer < task.layer + task.layers; layer++) {
            const Attention &back = layer->look_back, &asks = layer->ask_source;
            add(back.norm, [&](const float *z, float *y) { look_back(back, z, y); });
            if (task.lengths)
                add(asks.norm, [&](const float *z, float *y) { ask_source(asks, z, y); });
            add(layer->norm, [&](const float *z, float *y) { think(*layer, z, y); });
        }
        if (task.norm_out.kind)
            for (Size b = 0; b < batch * width; b += width)
                normalise(task.norm_out, task.row + b, task.row + b, width);
        apply(task.output, batch, task.row, width, task.logits, task.output.rows);
    }
};

extern "C" void writing_step(const Task *task) { Step{*task}.run(); }

extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
