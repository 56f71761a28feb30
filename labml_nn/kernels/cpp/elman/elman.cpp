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
static const char *fault(const Args &args) {
    if (args.steps < 1 || args.batch < 1 || args.width < 1 || args.units < 1)
        return "an axis of the inputs is empty";
    if (args.threads < 1 || args.threads > args.batch || args.workers < args.threads)
        return "there are more threads than sequences";
    if (!args.x || !args.h_0 || !args.states || !args.recurrent || !args.input || !args.scratch)
        return "a tensor is missing";
    return is_activation(args.activation) ? nullptr : "the activation function is not known";
}

extern "C" const char *elman_forward(const Args *args) {
    if (const char *message = fault(*args)) return message;
    const Size sequences = (args->batch + args->threads - 1) / args->threads;
    const Size features = args->units + (args->threads > 1 ? args->width : 0);
    if (args->scratch_size < args->block * sequences * features)
        return "the scratch memory is too small";
    with_activation(args->activation, [=](auto activation) {
        in_threads(args->threads,
                   [=](Size thread) { Forward<decltype(activation)>(*args, thread).run(); });
    });
    return nullptr;
}

extern "C" const char *elman_backward(const Args *args) {
    if (const char *message = fault(*args)) return message;
    if (!args->grad_states || !args->deltas || !args->grad_h_0 || !args->grad_x ||
        !args->grad_recurrent || !args->grad_input)
        return "a gradient is missing";
    with_activation(args->activation, [=](auto activation) {
        in_threads(args->threads,
                   [=](Size thread) { Backward<decltype(activation)>(*args, thread).run(); });
    });
    in_threads(args->workers, [=](Size thread) { Gradients{*args, thread}.run(); });
    in_threads(args->workers, [=](Size thread) { Gradients{*args, thread}.inputs(); });
    return nullptr;
}

extern "C" const char *elman_decode(const Decoding *args) {
    if (args->batch < 1 || args->layers < 1 || args->units < 1) return "an axis of the state is empty";
    if (!is_activation(args->activation)) return "the activation function is not known";
    for (Size b = 0; b < args->batch; b++)
        if (args->tokens[b] < 0 || args->tokens[b] >= args->vocabulary)
            return "a token is not in the vocabulary";
    with_activation(args->activation,
                    [=](auto activation) { Decode<decltype(activation)>{*args}.run(); });
    return nullptr;
}

// Python allocates memory by the first number, and compares the second with its own `Args`.
extern "C" Size lanes() { return LANES; }
extern "C" Size args_size() { return sizeof(Args); }
