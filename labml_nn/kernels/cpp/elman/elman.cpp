// Elman layer
// ===========
//
// Three C functions, called from Python through `ctypes`: the forward pass of all steps, the backward
// pass, and one decoding step of the language model.

#include "backward.h"
#include "decode.h"
#include "forward.h"
#include "gradients.h"

extern "C" void elman_forward(const Task *task) {
    with_activation(task->activation, [=](auto activation) {
        in_threads(task->threads,
                   [=](Size thread) { Forward<decltype(activation)>(*task, thread).run(); });
    });
}

extern "C" void elman_backward(const Task *task) {
    with_activation(task->activation, [=](auto activation) {
        in_threads(task->threads,
                   [=](Size thread) { Backward<decltype(activation)>(*task, thread).run(); });
    });
    in_threads(task->workers, [=](Size thread) { Gradients{*task, thread}.run(); });
    in_threads(task->workers, [=](Size thread) { Gradients{*task, thread}.inputs(); });
}

extern "C" void elman_decode(const Decoding *task) {
    with_activation(task->activation,
                    [=](auto activation) { Decode<decltype(activation)>{*task}.run(); });
}

// Python allocates memory by the first number, and compares the second with its own `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
