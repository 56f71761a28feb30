// Decoding step of a feedback language model
// ==========================================
//
// One function, from tokens to logits. All memory belongs to tensors that
// [Python](../../feedback_decoding.py) has allocated.

#include <cmath>

#include "products.h"

// A prime in the shapes below means that rows are padded with zeros; matrices are packed.
struct Args {
    Size batch, layers, width, wide, hidden, hidden_wide, memory_wide, vocab, vocab_wide;
    Size heads, head;
    Size capacity;        // slots that fit into keys and values
    Size first, end;      // the first slot that the step attends to, and the one that it writes
    Size distances;       // distances in the tables, and the length of their rows
    Size distance_capacity;
    Size norm_memory;
    double eps, scale;
    const float *embed;                             // [V, C]
    const float *query, *query_bias;                // [L, C, C'], [L, C']
    const float *output, *output_bias;              // [L, C, C'], [L, C']
    const float *up, *up_bias;                      // [L, C, F'], [L, F']
    const float *down, *down_bias;                  // [L, F, C'], [L, C']
    const float *memory, *memory_bias;              // [C, M'], [M'], with M = 2 C
    const float *vocab_map, *vocab_bias;            // [C, V'], [V']
    const float *shares;                            // [L + 1]
    const float *table, *table_bias;                // [L, H, D, P'], [L, H, P']
    float *keys, *values;                           // [B, H, D, capacity], [B, H, capacity, D]
    const Size *own_slots;                          // [B], slots of each sequence; null: all
    const Size *tokens;                             // [B]
    float *logits;                                  // [B, V]
    float *x, *norm, *heads_out, *features, *vector;  // scratch, [B, C'], ..., [B, F'], [B, C']
    float *scores;
};

// Mean 0, variance 1, of `width` numbers; padding behind them stays zero.
static void normalise(const float *x, float *y, Size width, double eps) {
    Vec total = {}, squares = {};
    for (Size i = 0; i < width; i += LANES) total += load(x + i) * first_lanes(width - i);
    const Vec mean = all(sum(total) / width);
    for (Size i = 0; i < width; i += LANES) {
        Vec away = (load(x + i) - mean) * first_lanes(width - i);
        store(y + i, away);
        squares += away * away;
    }
    const Vec factor = all((float)(1 / std::sqrt((double)sum(squares) / width + eps)));
    for (Size i = 0; i < width; i += LANES) store(y + i, load(y + i) * factor);
}

struct Step {
    const Args &args;
    const Size batch = args.batch, width = args.width, wide = args.wide;

    // [B, steps] times a packed matrix; `finish` takes each vector of results from its register.
    template <class Finish>
    void weigh(const float *from, Size from_wide, const float *weights, Size steps, Size columns,
               Finish finish) const {
        weigh_with({from, from_wide, 1}, weights, batch, steps, columns, finish);
    }

    // One head of one sequence. Its query is in `heads_out`, and is overwritten by its output.
    void attend(Size layer, Size head, Size sequence) const {
        const Size first = args.own_slots ? args.end - args.own_slots[sequence] : args.first;
        const Size seen = args.end - first, pair = sequence * args.heads + head;
        const Size line = layer * args.heads + head;
        float *query = args.heads_out + sequence * wide + head * args.head, *scores = args.scores;
        const float *keys = args.keys + pair * args.head * args.capacity + first;
        const float *values = args.values + (pair * args.capacity + first) * args.head;
        const float *table = args.table + line * args.head * args.distance_capacity;
        const float *bias = args.table_bias + line * args.distance_capacity;
        table += args.distances - seen;
        bias += args.distances - seen;

        // The query is multiplied with the sum of key and distance. A vector holds one feature of LANES slots,
        // and four vectors of scores are in registers.
        for (Size j = 0; j < seen; j += 4 * LANES) {
            Vec score[4];
            for (int v = 0; v < 4; v++) score[v] = load(bias + j + v * LANES);
            for (Size k = 0; k < args.head; k++) {
                const float *key = keys + k * args.capacity + j;
                const float *distance = table + k * args.distance_capacity + j;
                for (int v = 0; v < 4; v++)
                    score[v] += all(query[k]) * (load(key + v * LANES) + load(distance + v * LANES));
            }
            for (int v = 0; v < 4; v++) store(scores + j + v * LANES, score[v]);
        }
        for (Size j = seen; j % LANES; j++) scores[j] = -INFINITY;

        Vec top = all(-INFINITY), total = {};
        for (Size j = 0; j < seen; j += LANES) top = larger(top, load(scores + j));
        const Vec highest = largest(top);
        for (Size j = 0; j < seen; j += LANES) {
            Vec weight = exponential(load(scores + j) - highest);
            store(scores + j, weight);
            total += weight;
        }
        const Vec share = all(1 / sum(total));
        for (Size k = 0; k < args.head; k += LANES) {
            Vec heads_out[1];
            combine<1>(scores, values + k, args.head, LANES, seen, heads_out);
            store_first(query + k, heads_out[0] * share, args.head - k);
        }
    }

    void run_layer(Size layer) const {
        float *x = args.x, *norm = args.norm, *heads_out = args.heads_out, *h = args.features;
        const float *query_bias = args.query_bias + layer * wide;
        const float *output_bias = args.output_bias + layer * wide;
        const float *up_bias = args.up_bias + layer * args.hidden_wide;
        const float *down_bias = args.down_bias + layer * wide;

        for (Size b = 0; b < batch; b++) normalise(x + b * wide, norm + b * wide, width, args.eps);
        weigh(norm, wide, args.query + layer * width * wide, width, wide,
              [&](Size b, Size c, Vec v) { store(heads_out + b * wide + c, v + load(query_bias + c)); });
        for (Size head = 0; head < args.heads; head++)
            for (Size b = 0; b < batch; b++) attend(layer, head, b);
        weigh(heads_out, wide, args.output + layer * width * wide, width, wide,
              [&](Size b, Size c, Vec v) {
                  float *to = x + b * wide + c;
                  store(to, load(to) + v + load(output_bias + c));
              });

        for (Size b = 0; b < batch; b++) normalise(x + b * wide, norm + b * wide, width, args.eps);
        weigh(norm, wide, args.up + layer * width * args.hidden_wide, width, args.hidden_wide,
              [&](Size b, Size c, Vec v) {
                  store(h + b * args.hidden_wide + c, larger(v + load(up_bias + c), Vec{}));
              });
        weigh(h, args.hidden_wide, args.down + layer * args.hidden * wide, args.hidden, wide,
              [&](Size b, Size c, Vec v) {
                  float *to = x + b * wide + c;
                  store(to, load(to) + v + load(down_bias + c));
              });
    }

    // Adds a layer's share to the memory vector.
    void memory_vector(Size layer) const {
        const Vec share = all(args.shares[layer]);
        for (Size i = 0; i < batch * wide; i += LANES) {
            Vec before = layer ? load(args.vector + i) : Vec{};
            store(args.vector + i, before + load(args.x + i) * share);
        }
    }

    void write_slot() const {
        float *row = args.features;
        if (args.norm_memory)
            for (Size b = 0; b < batch; b++)
                normalise(args.vector + b * wide, args.vector + b * wide, width, args.eps);
        weigh(args.vector, wide, args.memory, width, args.memory_wide, [&](Size b, Size c, Vec v) {
            store(row + b * args.memory_wide + c, v + load(args.memory_bias + c));
        });
        for (Size head = 0; head < args.heads; head++)
            for (Size b = 0; b < batch; b++) {
                const float *key = row + b * args.memory_wide + head * args.head;
                const float *value = key + width;
                const Size pair = b * args.heads + head;
                float *keys = args.keys + pair * args.head * args.capacity + args.end;
                float *values = args.values + (pair * args.capacity + args.end) * args.head;
                for (Size k = 0; k < args.head; k++) {
                    keys[k * args.capacity] = key[k];
                    values[k] = value[k];
                }
            }
    }

    void run() const {
        for (Size b = 0; b < batch; b++) {
            const float *token = args.embed + args.tokens[b] * width;
            float *x = args.x + b * wide;
            for (Size c = 0; c < wide; c++) x[c] = c < width ? token[c] * (float)args.scale : 0;
        }
        memory_vector(0);
        for (Size layer = 0; layer < args.layers; layer++) {
            run_layer(layer);
            memory_vector(layer + 1);
        }
        write_slot();
        for (Size b = 0; b < batch; b++)
            normalise(args.x + b * wide, args.norm + b * wide, width, args.eps);
        weigh(args.norm, wide, args.vocab_map, width, args.vocab_wide, [&](Size b, Size c, Vec v) {
            store_first(args.logits + b * args.vocab + c, v + load(args.vocab_bias + c),
                        args.vocab - c);
        });
    }
};

// Every index above is below one of these sizes.
static const char *fault(const Args &args) {
    if (args.batch < 1 || args.layers < 1 || args.heads * args.head != args.width)
        return "the heads do not fill the features";
    if (args.wide < args.width || args.hidden_wide < args.hidden || args.vocab_wide < args.vocab ||
        args.memory_wide < 2 * args.width)
        return "padded rows are shorter than rows";
    if (args.first < 0 || args.first >= args.end || args.end + LANES > args.capacity)
        return "the memory is full";
    if (args.end - args.first > args.distances || args.distances + 4 * LANES > args.distance_capacity)
        return "a slot is farther away than the table of distances is long";
    for (Size b = 0; b < args.batch; b++) {
        if (args.tokens[b] < 0 || args.tokens[b] >= args.vocab) return "a token is not in the vocabulary";
        if (!args.own_slots) continue;
        if (args.own_slots[b] < 1 || args.own_slots[b] > args.end - args.first)
            return "a sequence has other slots than the memory";
    }
    return nullptr;
}

extern "C" const char *feedback_decode_run(const Args *args) {
    if (const char *message = fault(*args)) return message;
    Step{*args}.run();
    return nullptr;
}

extern "C" Size lanes() { return LANES; }
extern "C" Size args_size() { return sizeof(Args); }
