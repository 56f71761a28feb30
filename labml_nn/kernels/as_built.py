r"""
---
title: Plans are checked
summary: >
  Before a kernel computes with a module, the module is compared with a new one of the
  same configuration: classes, attributes and the shape of every tensor.
---

A compiled step is planned once and then runs many times: it knows how many layers there
are, where each matrix is and how long its rows are. What if somebody has changed the
model in the meantime? A vocabulary is padded to 128 tokens, one layer gets a wider
feed-forward network, another one a different activation function. The model on its page
computes with whatever it finds. A plan that does not notice would read beyond the end
of a tensor.

It would be easy to forget one of the many things that a plan depends on. So there is no
list of them. A model has a configuration, and the same class makes a second model from
it, on PyTorch's `meta` device, where tensors have shapes and no numbers.
[One function](#is_built_like) then compares the two, module by module. Where anything
differs, the reference runs:

```python
import torch
from torch import nn
import labml_nn
from labml_nn.kernels.as_built import is_as_configured

model = labml_nn.create("autoregressive", n_vocab=65, d_model=64, tied=False)
assert is_as_configured(model)
model.generator.projection = nn.Linear(64, 128)      # 65 tokens, padded to 128
assert not is_as_configured(model)
```

The comparison takes about 20 microseconds per layer, once for each text that is
generated. C++ checks the sizes that it is given once more, and returns a message
instead of computing when they do not fit.
"""

from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig

#: What every module has, whatever its class: its hooks, its mode, and the dictionaries
#: of parameters, buffers and submodules, which are compared one by one. `attn` records
#: the attention weights of the last call.
SHARED = frozenset(vars(nn.Module())) | {"attn"}


def is_built_like(module: nn.Module, model: nn.Module) -> bool:
    """
    ## Two modules with the same plan

    Whether `module` has what `model` has: the same classes, attributes of the same
    value, and parameters and buffers of the same shapes, in all submodules. Attributes
    that only `module` has do not matter, because no method of its class knows them.
    """
    own, other = vars(module), vars(model)
    if type(module) is not type(model):
        return False
    for name in other.keys() - SHARED:
        if name not in own or not _is_same(own[name], other[name]):
            return False
    for kind in ("_parameters", "_buffers"):
        for name, tensor in other[kind].items():
            mine = own[kind].get(name)
            if (mine is None) != (tensor is None):
                return False
            if mine is not None and mine.shape != tensor.shape:
                return False

    # A list of layers runs all that are in it.
    mine, others = own["_modules"], other["_modules"]
    if mine.keys() != others.keys():
        return False
    for name, child in others.items():
        if child is None or mine[name] is None:
            if child is not mine[name]:
                return False
        elif not is_built_like(mine[name], child):
            return False
    return True


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or isinstance(one, Tensor):
        return False
    return one is other or bool(one == other)


def is_as_configured(model: LanguageModel[Any]) -> bool:
    """
    ## A model that its configuration describes

    Whether a new model of the same class and configuration would have the same plan.
    """
    try:
        new = cast(Any, _new_model)(type(model), model.config)
        return is_built_like(model, new)
    except (TypeError, ValueError, RuntimeError):  # no model has this configuration
        return False


# No numbers are drawn, so that the next ones are those that would have come.
@lru_cache(maxsize=16)
def _new_model(
    cls: type[LanguageModel[Any]], config: LanguageModelConfig
) -> LanguageModel[Any]:
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return cls.from_config(config)


def fits(tensor: Any, *shape: int) -> bool:
    """
    ## A tensor for C++

    Whether it is a plain tensor of this shape with numbers in single precision in the
    memory of the CPU.
    """
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.is_neg()  # its numbers are the negatives of those in memory
        and tensor.shape == shape
    )
