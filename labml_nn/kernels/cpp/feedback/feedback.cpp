// Feedback transformer in C++
// ===========================
//
// Three functions, called from Python through `ctypes`: a span of steps forward, a transposed copy of memory,
// and a span of steps backward. No header of PyTorch is included, so this compiles in seconds.

#include "backward.h"
#include "forward.h"
#include "weight_grads.h"

// What all loops rely on. The shapes of tensors were compared in Python, with these sizes.
static const char *fault(const Args &args) {
    if (args.layers < 1 || args.batch < 1 || args.heads * args.head != args.width)
        return "the heads do not fill the features";
    if (args.threads < 1 || args.threads > args.batch || args.workers < args.threads)
        return "there are more threads than sequences";
    if (args.wide < args.width || args.hidden_wide < args.hidden || args.head_wide < args.head ||
        args.memory_wide < 2 * args.width || args.memory_wide % PANEL || args.wide % PANEL)
        return "padded rows are shorter than rows";
    if (args.start < 0 || args.start > args.stop || args.before + args.stop > args.capacity)
        return "there are more slots than memory for them";
    const Size slots = args.before + args.stop - 1, most = args.horizon ? args.horizon : slots;
    if ((slots < most ? slots : most) > args.longest || args.low < 0 || args.low % PANEL)
        return "a slot is farther away than the table of distances is long";
    return nullptr;
}

extern "C" const char *feedback_forward(const Args *args) {
    if (const char *message = fault(*args)) return message;
    if (args->stored != 1 && args->stored < args->stop) return "there is no memory for all steps";
    if (args->scratch_size < args->wide + args->memory_wide) return "the scratch memory is too small";
    in_threads(args->threads, [=](Size thread) {
        Forward(*args, part_of(args->batch, args->threads, thread)).run();
    });
    return nullptr;
}

// The forward pass multiplies keys along time and values along features, the backward pass also the other way
// round.
extern "C" const char *feedback_transpose(const Args *args) {
    if (args->before + args->stop > args->capacity) return "there are more slots than memory for them";
    Size rows = args->before + args->stop;
    in_threads(args->threads, [=](Size thread) {
        Part pairs = part_of(args->heads * args->batch, args->threads, thread);
        for (Size pair = pairs.first; pair < pairs.first + pairs.count; pair++)
            for (Size j = 0; j < rows; j++) {
                Size panel = (pair * args->capacity + j - j % PANEL) * args->head + j % PANEL;
                Size row = (pair * args->capacity + j) * args->head_wide;
                for (Size k = 0; k < args->head; k++) {
                    args->keys_rows[row + k] = args->keys[panel + k * PANEL];
                    args->values[panel + k * PANEL] = args->values_rows[row + k];
                }
            }
    });
    return nullptr;
}

// Chunks from the last to the first. All sequences must have passed before weight gradients are computed, and
// these must be complete before the next chunk overwrites the buffers.
extern "C" const char *feedback_backward(const Args *args) {
    if (const char *message = fault(*args)) return message;
    if (args->stored < args->stop || args->chunk < 1) return "there is no memory for all steps";
    if (args->scratch_size < 3 * args->wide) return "the scratch memory is too small";
    std::atomic<Size> next{0};
    in_crew(args->workers, [&](Crew &crew, Size thread) {
        Size all = crew.number, threads = all < args->threads ? all : args->threads;
        for (Size stop = args->stop, start; stop > args->start; stop = start) {
            start = stop - args->start > args->chunk ? stop - args->chunk : args->start;
            Chunk chunk{*args, start, stop};
            if (thread < threads) Backward(chunk, part_of(args->batch, threads, thread)).run();
            crew.meet();
            WeightGrads(chunk).run(next);
            crew.meet();
            if (thread == 0) next = 0;
        }
    });
    return nullptr;
}

// For Python, to allocate memory and to check that both declare the same `Args`.
extern "C" Size lanes() { return LANES; }
extern "C" Size args_size() { return sizeof(Args); }
