// Feedback transformer in C++
// ===========================
//
// Three functions, called from Python through `ctypes`: a span of steps forward, a transposed copy of memory,
// and a span of steps backward. No header of PyTorch is included, so this compiles in seconds.

#include "backward.h"
#include "forward.h"
#include "weight_grads.h"

extern "C" void feedback_forward(const Task *task) {
    in_threads(task->threads, [=](Size thread) {
        Forward(*task, part_of(task->batch, task->threads, thread)).run();
    });
}

// The forward pass multiplies keys along time and values along features, the backward pass also the other way
// round.
extern "C" void feedback_transpose(const Task *task) {
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
}

// Chunks from the last to the first. All sequences must have passed before weight gradients are computed, and
// these must be complete before the next chunk overwrites the buffers.
extern "C" void feedback_backward(const Task *task) {
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
}

// For Python, to allocate memory and to check that both declare the same `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
