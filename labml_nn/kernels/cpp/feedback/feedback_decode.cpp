// Decoding step of a feedback language model
// ==========================================
//
// One function, from tokens to logits. All memory belongs to tensors that
// [Python](../../feedback_decoding.py) has allocated.

#include <cmath>

#include "products.h"

// A prime in the shapes below means that rows are padded with zeros; matrices are packed.
struct Task {
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
    const Task &task;
    const Size batch = task.batch, width = task.width, wide = task.wide;

    // [B, steps] times a packed matrix; `finish` takes each vector of results from its register.
    template <class Finish>
    void weigh(const float *from, Size from_wide, const float *weights, Size steps, Size columns,
               Finish finish) const {
        weigh_with({from, from_wide, 1}, weights, batch, steps, columns, finish);
    }

    // One head of one sequence. Its query is in `heads_out`, and is overwritten by its output.
    void attend(Size layer, Size head, Size sequence) const {
        const Size first = task.own_slots ? task.end - task.own_slots[sequence] : task.first;
        const Size seen = task.end - first, pair = sequence * task.heads + head;
        const Size line = layer * task.heads + head;
        float *query = task.heads_out + sequence * wide + head * task.head, *scores = task.scores;
        const float *keys = task.keys + pair * task.head * task.capacity + first;
        const float *values = task.values + (pair * task.capacity + first) * task.head;
        const float *table = task.table + line * task.head * task.distance_capacity;
        const float *bias = task.table_bias + line * task.distance_capacity;
        table += task.distances - seen;
        bias += task.distances - seen;

        // The query is multiplied with the sum of key and distance. A vector holds one feature of LANES slots,
        // and four vectors of scores are in registers.
        for (Size j = 0; j < seen; j += 4 * LANES) {
            Vec score[4];
            for (int v = 0; v < 4; v++) score[v] = load(bias + j + v * LANES);
            for (Size k = 0; k < task.head; k++) {
                const float *key = keys + k * task.capacity + j;
                const float *distance = table + k * task.distance_capacity + j;
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
        for (Size k = 0; k < task.head; k += LANES) {
            Vec heads_out[1];
            combine<1>(scores, values + k, task.head, LANES, seen, heads_out);
            store_first(query + k, heads_out[0] * share, task.head - k);
        }
    }

    void run_layer(Size layer) const {
        float *x = task.x, *norm = task.norm, *heads_out = task.heads_out, *h = task.features;
        const float *query_bias = task.query_bias + layer * wide;
        const float *output_bias = task.output_bias + layer * wide;
        const float *up_bias = task.up_bias + layer * task.hidden_wide;
        const float *down_bias = task.down_bias + layer * wide;

        for (Size b = 0; b < batch; b++) normalise(x + b * wide, norm + b * wide, width, task.eps);
        weigh(norm, wide, task.query + layer * width * wide, width, wide,
              [&](Size b, Size c, Vec v) { store(heads_out + b * wide + c, v + load(query_bias + c)); });
        for (Size head = 0; head < task.heads; head++)
            for (Size b = 0; b < batch; b++) attend(layer, head, b);
        weigh(heads_out, wide, task.output + layer * width * wide, width, wide,
              [&](Size b, Size c, Vec v) {
                  float *to = x + b * wide + c;
                  store(to, load(to) + v + load(output_bias + c));
              });

        for (Size b = 0; b < batch; b++) normalise(x + b * wide, norm + b * wide, width, task.eps);
        weigh(norm, wide, task.up + layer * width * task.hidden_wide, width, task.hidden_wide,
              [&](Size b, Size c, Vec v) {
                  store(h + b * task.hidden_wide + c, larger(v + load(up_bias + c), Vec{}));
              });
        weigh(h, task.hidden_wide, task.down + layer * task.hidden * wide, task.hidden, wide,
              [&](Size b, Size c, Vec v) {
                  float *to = x + b * wide + c;
                  store(to, load(to) + v + load(down_bias + c));
              });
    }

    // Adds a layer's share to the memory vector.
    void memory_vector(Size layer) const {
        const Vec share = all(task.shares[layer]);
        for (Size i = 0; i < batch * wide; i += LANES) {
            Vec before = layer ? load(task.vector + i) : Vec{};
            store(task.vector + i, before + load(task.x + i) * share);
        }
    }

    void write_slot() const {
        float *row = task.features;
        if (task.norm_memory)
            for (Size b = 0; b < batch; b++)
                normalise(task.vector + b * wide, task.vector + b * wide, width, task.eps);
        weigh(task.vector, wide, task.memory, width, task.memory_wide, [&](Size b, Size c, Vec v) {
            store(row + b * task.memory_wide + c, v + load(task.memory_bias + c));
        });
        for (Size head = 0; head < task.heads; head++)
            for (Size b = 0; b < batch; b++) {
                const float *key = row + b * task.memory_wide + head * task.head;
                const float *value = key + width;
                const Size pair = b * task.heads + head;
                float *keys = task.keys + pair * task.head * task.capacity + task.end;
                float *values = task.values + (pair * task.capacity + task.end) * task.head;
                for (Size k = 0; k < task.head; k++) {
                    keys[k * task.capacity] = key[k];
                    values[k] = value[k];
                }
            }
    }

    void run() const {
        for (Size b = 0; b < batch; b++) {
            const float *token = task.embed + task.tokens[b] * width;
            float *x = task.x + b * wide;
            for (Size c = 0; c < wide; c++) x[c] = c < width ? token[c] * (float)task.scale : 0;
        }
        memory_vector(0);
        for (Size layer = 0; layer < task.layers; layer++) {
            run_layer(layer);
            memory_vector(layer + 1);
        }
        write_slot();
        for (Size b = 0; b < batch; b++)
            normalise(task.x + b * wide, task.norm + b * wide, width, task.eps);
        weigh(task.norm, wide, task.vocab_map, width, task.vocab_wide, [&](Size b, Size c, Vec v) {
            store_first(task.logits + b * task.vocab + c, v + load(task.vocab_bias + c),
                        task.vocab - c);
        });
    }
};

// Every index above is below one of these sizes.
static const char *fault(const Task &task) {
    if (task.batch < 1 || task.layers < 1 || task.heads * task.head != task.width)
        return "the heads do not fill the features";
    if (task.wide < task.width || task.hidden_wide < task.hidden || task.vocab_wide < task.vocab ||
        task.memory_wide < 2 * task.width)
        return "padded rows are shorter than rows";
    if (task.first < 0 || task.first >= task.end || task.end + LANES > task.capacity)
        return "the memory is full";
    if (task.end - task.first > task.distances || task.distances + 4 * LANES > task.distance_capacity)
        return "a slot is farther away than the table of distances is long";
    for (Size b = 0; b < task.batch; b++) {
        if (task.tokens[b] < 0 || task.tokens[b] >= task.vocab) return "a token is not in the vocabulary";
        if (!task.own_slots) continue;
        if (task.own_slots[b] < 1 || task.own_slots[b] > task.end - task.first)
            return "a sequence has other slots than the memory";
    }
    return nullptr;
}

extern "C" const char *feedback_decode_run(const Task *task) {
    if (const char *message = fault(*task)) return message;
    Step{*task}.run();
    return nullptr;
}

extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
