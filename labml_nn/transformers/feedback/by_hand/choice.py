r"""
---
title: When a feedback transformer is run by hand
summary: >
  The form by hand knows the model as it was built. What somebody has changed since is
  a reason to run the form that everybody can change.
---

The [loop by hand](index.html) computes what `FeedbackTransformerKV` is *made of*. A
hook, a layer of one's own, weights of attention that somebody wants to see: it knows
nothing of them. So it is asked first whether there is anything it does not know. If
there is, the plain form runs, and nothing is lost but time.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback.attention import FeedbackAttention
from labml_nn.transformers.feedback.layer import FeedbackTransformerLayer
from labml_nn.transformers.mha import PrepareForMultiHeadAttention

if TYPE_CHECKING:
    from labml_nn.transformers.feedback.shared import FeedbackTransformerKV

# ## Names
#
# Of `backend=`.
BACKENDS = ("auto", "plain", "by_hand", "kernel", "graphs", "triton")

# ## Nonlinearities
#
# Each number by itself, and without parameters: then its slope is one number too.
MODULES: tuple[type[nn.Module], ...] = (
    nn.ReLU,
    nn.GELU,
    nn.SiLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.Identity,
    nn.ELU,
    nn.LeakyReLU,
    nn.Mish,
    nn.Softplus,
)
FUNCTIONS: tuple[object, ...] = (
    *(F.relu, F.gelu, F.silu, F.sigmoid, F.tanh, F.elu, F.leaky_relu, F.mish),
    *(torch.relu, torch.sigmoid, torch.tanh),
)

# ## Parts
#
# Each has to be of exactly this kind: a subclass may do something else.
KINDS: tuple[type[nn.Module], ...] = (
    FeedbackTransformerLayer,
    FeedbackAttention,
    FeedForward,
    PrepareForMultiHeadAttention,
    nn.ModuleList,
    nn.Linear,
    nn.LayerNorm,
    nn.Dropout,
    nn.Identity,
)

# ## Hooks
#
# They are called with what goes into a module and comes out of it, and by hand nothing
# goes into a module.
HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def objection(model: nn.Module, kind: type[nn.Module]) -> str | None:
    r"""
    ## What speaks against it

    * `model` is the transformer
    * `kind` is what it should be

    Returns what it has that the loop by hand does not know, or `None`.
    """
    if type(model) is not kind:
        return f"the model is a {type(model).__name__}, not a {kind.__name__}"
    for name, module in model.named_modules():
        if name.endswith("feed_forward.activation"):
            if not isinstance(module, MODULES) or type(module) not in MODULES:
                return f"`{name}` is a {type(module).__name__}"
            if getattr(module, "inplace", False):
                return f"`{name}` works in place"
        elif module is not model and type(module) not in KINDS:
            return f"`{name}` is a {type(module).__name__}"
        found = _changed(module)
        if found:
            return f"`{name or 'the model'}` has {found}"
    return _odd(model)


def _changed(module: nn.Module) -> str | None:
    if any(getattr(module, hooks) for hooks in HOOKS):
        return "hooks"
    own = [name for name in vars(module) if callable(getattr(type(module), name, None))]
    if own:
        return f"a `{own[0]}` of its own"
    if isinstance(module, FeedbackAttention) and module.store_attn:
        return "`store_attn`"
    if isinstance(module, FeedForward):
        activation = module.activation
        if not isinstance(activation, nn.Module) and activation not in FUNCTIONS:
            return f"an activation that is not known, {activation!r}"
    return None


# All layers are computed together, so they have to be alike.
def _odd(model: nn.Module) -> str | None:
    layers = [layer for layer in model.modules() if type(layer) in KINDS[:1]]
    if len({_traits(layer) for layer in layers}) > 1:
        return "layers that differ in more than their parameters"
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    if any(norm.weight is None or norm.bias is None for norm in norms):
        return "a norm without gain or bias"
    if len({norm.eps for norm in norms}) > 1:
        return "norms of more than one epsilon"
    return None


def _traits(layer: nn.Module) -> tuple[object, ...]:
    dropouts = [module for module in layer.modules() if isinstance(module, nn.Dropout)]
    network = layer.feed_forward
    assert isinstance(network, FeedForward)
    return (
        *((dropout.p, dropout.training) for dropout in dropouts),
        network.is_gated,
        repr(network.activation),
        network.layer1.weight.shape,
    )


def traced(x: Tensor) -> bool:
    r"""
    ## When nothing is computed

    Compilers, `torch.func` and tensors without numbers follow the operations of the
    plain form, and make of them what they need.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or x.is_meta
        or type(x) not in (Tensor, nn.Parameter)
    )


#: With fewer tokens, folding the weights costs more than the loop saves.
SHORTEST = 4


def suits(model: "FeedbackTransformerKV", kind: type[nn.Module], x_seq: Tensor) -> bool:
    r"""
    ## Choose

    * `model` is the transformer, whose `backend` may leave the choice to us
    * `kind` is what it should be
    * `x_seq` is what it shall read

    Returns whether it shall be done by hand, in PyTorch,
    [compiled](../kernel/index.html) or [on a GPU](../gpu/index.html). Raises
    `ValueError` if the model asks for it and has something that the loop does not know.
    """
    if model.backend == "plain" or traced(x_seq):
        return False
    if model.backend == "auto":
        return len(x_seq) >= SHORTEST and not objection(model, kind)
    found = objection(model, kind)
    if found:
        raise ValueError(
            f"backend = {model.backend!r} cannot run this model: {found}; with "
            "'auto' the plain form runs instead"
        )
    return True
