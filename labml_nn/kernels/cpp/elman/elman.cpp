// Elman layer
// ===========
//
// Three C functions, called from Python through `ctypes`: the forward pass of all steps, the backward
// pass, and one decoding step of the language model.

#include "backward.h"
#include "decode.h"
#include "forward.h"
#include "gradients.h"

// What all loops rely on. The shapes of tensors were compared in Python, with these sizes.
static const char *fault(const Task &task) {
    if (task.steps < 1 || task.batch < 1 || task.width < 1 || task.units < 1)
        return "an axis of the inputs is empty";
    if (task.threads < 1 || task.threads > task.batch || task.workers < task.threads)
        return "there are more threads than sequences";
    if (!task.x || !task.h_0 || !task.states || !task.recurrent || !task.input || !task.scratch)
        return "a tensor is missing";
    return is_activation(task.activation) ? nullptr : "the activation function is not known";
}

extern "C" const char *elman_forward(const Task *task) {
    if (const char *message = fault(*task)) return message;
    const Size sequences = (task->batch + task->threads - 1) / task->threads;
    const Size features = task->units + (task->threads > 1 ? task->width : 0);
    if (task->scratch_size < task->block * sequences * features)
        return "the scratch memory is too small";
    with_activation(task->activation, [=](auto activation) {
        in_threads(task->threads,
                   [=](Size thread) { Forward<decltype(activation)>(*task, thread).run(); });
    });
    return nullptr;
}

extern "C" const char *elman_backward(const Task *task) {
    if (const char *message = fault(*task)) return message;
    if (!task->grad_states || !task->deltas || !task->grad_h_0 || !task->grad_x ||
        !task->grad_recurrent || !task->grad_input)
        return "a gradient is missing";
    with_activation(task->activation, [=](auto activation) {
        in_threads(task->threads,
                   [=](Size thread) { Backward<decltype(activation)>(*task, thread).run(); });
    });
    in_threads(task->workers, [=](Size thread) { Gradients{*task, thread}.run(); });
    in_threads(task->workers, [=](Size thread) { Gradients{*task, thread}.inputs(); });
    return nullptr;
}

extern "C" const char *elman_decode(const Decoding *task) {
    if (task->batch < 1 || task->layers < 1 || task->units < 1) return "an axis of the state is empty";
    if (!is_activation(task->activation)) return "the activation function is not known";
    for (Size b = 0; b < task->batch; b++)
        if (task->tokens[b] < 0 || task->tokens[b] >= task->vocabulary)
            return "a token is not in the vocabulary";
    with_activation(task->activation,
                    [=](auto activation) { Decode<decltype(activation)>{*task}.run(); });
    return nullptr;
}

// Python allocates memory by the first number, and compares the second with its own `Task`.
extern "C" Size lanes() { return LANES; }
extern "C" Size task_size() { return sizeof(Task); }
