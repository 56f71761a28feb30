// The recurrence of an Elman layer, compiled
// ==========================================
//
// Two functions of C, called from Python through `ctypes`: all steps forwards, and all steps back.

#include "backward.h"
#include "forward.h"
#include "gather.h"

extern "C" void elman_forward(const Task *task) {
    with_bend(task->bend, [=](auto bend) {
        in_threads(task->threads,
                   [=](Size thread) { Forward<decltype(bend)>(*task, thread).run(); });
    });
}

extern "C" void elman_backward(const Task *task) {
    with_bend(task->bend, [=](auto bend) {
        in_threads(task->threads,
                   [=](Size thread) { Backward<decltype(bend)>(*task, thread).run(); });
    });
    in_threads(task->workers, [=](Size thread) { Gather{*task, thread}.run(); });
    if (task->of_x)
        in_threads(task->workers, [=](Size thread) { Gather{*task, thread}.inputs(); });
}

// What Python has to know to set memory aside, and that it speaks of the same `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
