// The recurrence of a feedback transformer, compiled
// ==================================================
//
// Three functions of C, called from Python through `ctypes`: a span of steps forwards, memory turned
// round, and a span of steps backwards. No header of PyTorch is read, which is why this compiles in
// seconds.

#include "backward.h"
#include "forward.h"
#include "gather.h"

extern "C" void feedback_forward(const Task *task) {
    in_threads(task->threads, [=](Size thread) {
        Forward(*task, part_of(task->batch, task->threads, thread)).run();
    });
}

// Forwards, keys are multiplied along time and values along features. Backwards it is also the other
// way round.
extern "C" void feedback_turn(const Task *task) {
    Size rows = task->before + task->stop;
    in_threads(task->threads, [=](Size thread) {
        Part pairs = part_of(task->heads * task->batch, task->threads, thread);
        for (Size pair = pairs.first; pair < pairs.first + pairs.count; pair++)
            for (Size j = 0; j < rows; j++) {
                Size panel = (pair * task->room + j - j % PANEL) * task->head + j % PANEL;
                Size row = (pair * task->room + j) * task->head_wide;
                for (Size k = 0; k < task->head; k++) {
                    task->keys_rows[row + k] = task->keys[panel + k * PANEL];
                    task->values[panel + k * PANEL] = task->values_rows[row + k];
                }
            }
    });
}

// Pieces from the last to the first. Before weights are gathered all texts must have been walked
// through, and before the next walk all must be gathered.
extern "C" void feedback_backward(const Task *task) {
    std::atomic<Size> next{0};
    in_crew(task->workers, [&](Crew &crew, Size thread) {
        Size all = crew.number, threads = all < task->threads ? all : task->threads;
        for (Size stop = task->stop, start; stop > task->start; stop = start) {
            start = stop - task->start > task->piece ? stop - task->piece : task->start;
            Piece piece{*task, start, stop};
            if (thread < threads) Backward(piece, part_of(task->batch, threads, thread)).run();
            crew.meet();
            Gather(piece).run(next);
            crew.meet();
            if (thread == 0) next = 0;
        }
    });
}

// What Python has to know to set memory aside, and that it speaks of the same `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
