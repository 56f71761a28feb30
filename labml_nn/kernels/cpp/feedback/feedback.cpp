// Feedback transformer in C++
// ===========================
//
// Three functions, called from Python through `ctypes`: a span of steps forward, a transposed copy of memory,
// and a span of steps backward. No header of PyTorch is included, so this compiles in seconds.

#include "backward.h"
#include "forward.h"
#include "weight_grads.h"

// What all loops rely on. The shapes of tensors were compared in Python, with these sizes.
static const char *fault(const Task &task) {
    if (task.layers < 1 || task.batch < 1 || task.heads * task.head != task.width)
        return "the heads do not fill the features";
    if (task.threads < 1 || task.threads > task.batch || task.workers < task.threads)
        return "there are more threads than sequences";
    if (task.wide < task.width || task.hidden_wide < task.hidden || task.head_wide < task.head ||
        task.memory_wide < 2 * task.width || task.memory_wide % PANEL || task.wide % PANEL)
        return "padded rows are shorter than rows";
    if (task.start < 0 || task.start > task.stop || task.before + task.stop > task.capacity)
        return "there are more slots than memory for them";
    const Size slots = task.before + task.stop - 1, most = task.horizon ? task.horizon : slots;
    if ((slots < most ? slots : most) > task.longest || task.low < 0 || task.low % PANEL)
        return "a slot is farther away than the table of distances is long";
    return nullptr;
}

extern "C" const char *feedback_forward(const Task *task) {
    if (const char *message = fault(*task)) return message;
    if (task->stored != 1 && task->stored < task->stop) return "there is no memory for all steps";
    if (task->scratch_size < task->wide + task->memory_wide) return "the scratch memory is too small";
    in_threads(task->threads, [=](Size thread) {
        Forward(*task, part_of(task->batch, task->threads, thread)).run();
    });
    return nullptr;
}

// The forward pass multiplies keys along time and values along features, the backward pass also the other way
// round.
extern "C" const char *feedback_transpose(const Task *task) {
    if (task->before + task->stop > task->capacity) return "there are more slots than memory for them";
    Size rows = task->before + task->stop;
    in_threads(task->threads, [=](Size thread) {
        Part pairs = part_of(task->heads * task->batch, task->threads, thread);
        for (Size pair = pairs.first; pair < pairs.first + pairs.count; pair++)
            for (Size j = 0; j < rows; j++) {
                Size panel = (pair * task->capacity + j - j % PANEL) * task->head + j % PANEL;
                Size row = (pair * task->capacity + j) * task->head_wide;
                for (Size k = 0; k < task->head; k++) {
                    task->keys_rows[row + k] = task->keys[panel + k * PANEL];
                    task->values[panel + k * PANEL] = task->values_rows[row + k];
                }
            }
    });
    return nullptr;
}

// Chunks from the last to the first. All sequences must have passed before weight gradients are computed, and
// these must be complete before the next chunk overwrites the buffers.
extern "C" const char *feedback_backward(const Task *task) {
    if (const char *message = fault(*task)) return message;
    if (task->stored < task->stop || task->chunk < 1) return "there is no memory for all steps";
    if (task->scratch_size < 3 * task->wide) return "the scratch memory is too small";
    std::atomic<Size> next{0};
    in_crew(task->workers, [&](Crew &crew, Size thread) {
        Size all = crew.number, threads = all < task->threads ? all : task->threads;
        for (Size stop = task->stop, start; stop > task->start; stop = start) {
            start = stop - task->start > task->chunk ? stop - task->chunk : task->start;
            Chunk chunk{*task, start, stop};
            if (thread < threads) Backward(chunk, part_of(task->batch, threads, thread)).run();
            crew.meet();
            WeightGrads(chunk).run(next);
            crew.meet();
            if (thread == 0) next = 0;
        }
    });
    return nullptr;
}

// For Python, to allocate memory and to check that both declare the same `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
