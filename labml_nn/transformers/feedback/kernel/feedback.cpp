// The recurrence of a feedback transformer, compiled
// ==================================================
//
// Two functions of C, called from Python through `ctypes`: a span of steps forwards, and a span of
// steps backwards. No header of PyTorch is read, which is why this compiles in seconds.

#include "backward.h"
#include "forward.h"

extern "C" void feedback_forward(const Task *task) {
    in_threads(task->threads, [=](Size thread) { Forward(*task, thread).run(); });
}

extern "C" void feedback_backward(const Task *task) {
    in_threads(task->threads, [=](Size thread) { Backward(*task, thread).run(); });
    Gather gather(*task);
    in_threads(task->workers, [&](Size) { gather.run(); });
}

// What Python has to know to set memory aside, and that it speaks of the same `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
