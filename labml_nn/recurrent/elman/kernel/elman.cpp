// The recurrence of an Elman layer, compiled
// ==========================================
//
// Functions of C, called from Python through `ctypes`: all steps forwards, all steps back, and one
// step of a model that writes.

#include "backward.h"
#include "forward.h"
#include "gather.h"
#include "write.h"

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

extern "C" void elman_write(Writing *task) {
    task->is_known = all_known(*task);
    if (!task->is_known) return;
    with_bend(task->bend, [=](auto bend) { Write<decltype(bend)>{*task}.run(); });
}

// What Python has to know to set memory aside, and that it speaks of the same `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
