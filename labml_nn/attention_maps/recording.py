r"""
---
title: Watching attention
summary: >
  Keep the weights of every attention in a model for as long as you look, and leave the
  model as it was.
---

A model does not keep its attention weights. They are its largest tensors, and its fast
kernels never even write them down. But each attention here can be told to keep them
(`store_attn`), and then computes in the form that has weights at all. What is left to
do is to tell all of them, to be there each time one is called, and to put everything
back afterwards, whatever happens in between.

**Where to stand.** Weights of a `MultiHeadAttention` come into being in `attend_to`,
whether keys and values were made just now or kept from earlier. For as long as we
watch, that method is hidden behind one of ours, on the object and not on its class: it
calls the real one, takes the weights, and returns what was returned.

**Feedback models** have no matrix of weights. They attend with one query at a time, to
a memory that grows in between, and the rows get longer:

```text
 step 0                         (nothing to look at yet)
 step 1      a₁₀
 step 2      a₂₀ a₂₁
 step 3      a₃₀ a₃₁ a₃₂
```

We collect the rows of a whole `scan` and put them into a matrix, each where it belongs:
column $s$ is the row of memory that step $s$ wrote. Step $t$ sees $s < t$, and what a
window has let go is zero.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $A_{tsbh}$ | `weights` | `[T, S, B, H]` | the weights of one call |
| $a_t$ | `row` | `[S, B, H]` | what step $t$ of a feedback model looks at |
| | `before` | | rows of memory that were there before the scan |
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from labml_nn.attention_maps.maps import AttentionMap
from labml_nn.transformers.feedback import FeedbackMemory

#: What the last part of a module's name means to a reader.
ROLES = {"self_attn": "self", "src_attn": "source"}

Method = Callable[..., Any]


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[AttentionMap]]:
    r"""
    ## Watch a model

    ```python
    import torch
    from labml_nn.attention_maps import record_attention
    from labml_nn.transformers.mha import MultiHeadAttention

    attention, x = MultiHeadAttention(heads=3, d_model=12), torch.randn(5, 2, 12)
    with record_attention(attention) as maps:
        attention(query=x, key=x, value=x)
    print(maps)  # [<AttentionMap '' (attention): query=5, key=5, batch=2, head=3>]
    assert attention.attn is None  # it has forgotten that we were here
    ```

    * `model` is any module with attention somewhere inside, in training or evaluation

    Gives a list to which each call of an attention adds a map, in the order of the
    calls. A module that is used twice adds two, with the name under which it is found
    first. A feedback model adds one for each layer and call of `scan`, `step` or
    `forward`; texts with padding are read in several scans, so they make several maps.

    Raises `ValueError` for a model without attention, and for a compiled one: what is
    compiled no longer asks its modules.
    """
    attentions = _attentions(model)
    maps: list[AttentionMap] = []
    watch = _Watch(maps)
    with ExitStack() as restore:
        for name, module in attentions.items():
            restore.callback(_keep, module, module.store_attn, module.attn)
            module.store_attn = True
            method = "attend_to" if hasattr(module, "attend_to") else "forward"
            around = watch.attention(name, module, getattr(module, method))
            _hide(restore, module, method, around)
        for part in model.modules():
            scan: Any = getattr(part, "scan", None)
            if scan is not None and hasattr(part, "is_kv_precomputed"):
                _hide(restore, part, "scan", watch.scan(scan))
        yield maps


def _attentions(model: nn.Module) -> dict[str, Any]:
    r"""
    An attention is known by what it can do, not by its class: it keeps weights in
    `attn` while `store_attn` is on. So one that you have written yourself, or changed
    in a notebook, can be watched like ours.
    """
    if any(hasattr(module, "_orig_mod") for module in model.modules()):
        raise ValueError(
            "the model is compiled, and attention inside a compiled graph cannot be "
            "watched; give the model that was compiled"
        )
    found = {
        name: module
        for name, module in model.named_modules()
        if hasattr(module, "store_attn") and hasattr(module, "attn")
    }
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no attention to look at. Recurrent networks, "
            "such as an Elman net, keep what they read in one vector; expected a model "
            "with MultiHeadAttention or FeedbackAttention inside, or with another that "
            "has `store_attn` and `attn`"
        )
    return found


def _keep(module: Any, store_attn: bool, attn: Tensor | None) -> None:
    module.store_attn, module.attn = store_attn, attn


def _hide(restore: ExitStack, module: nn.Module, method: str, ours: Method) -> None:
    # A name on the object hides the one of its class. If somebody has put one there
    # before us, it comes back when we go.
    own = vars(module)
    if method in own:
        restore.callback(own.__setitem__, method, own[method])
    else:
        restore.callback(own.pop, method)
    own[method] = ours


class _Watch:
    r"""
    ## What is seen

    Calls come in the order in which the model makes them. Those of a feedback attention
    during a scan are put aside until the scan is over.
    """

    def __init__(self, maps: list[AttentionMap]) -> None:
        self.maps = maps
        self.calls: dict[str, int] = {}
        self.scans: list[dict[str, list[Tensor]]] = []

    def add(self, name: str, role: str, weights: Float[Tensor, "T S B H"]) -> None:
        """One map more."""
        call = self.calls.get(name, 0)
        self.calls[name] = call + 1
        self.maps.append(
            AttentionMap(name, weights, title=title(name, role), call=call)
        )

    def attention(self, name: str, module: Any, real: Method) -> Method:
        """Takes the weights after each call of an attention."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            if module.attn is None:
                raise ValueError(
                    f"the attention {name!r} kept no weights although `store_attn` is "
                    "on; a form of your own has to set `attn`"
                )
            if hasattr(module, "attend_to"):
                self.add(name, "", module.attn)
            elif self.scans:
                self.scans[-1].setdefault(name, []).append(module.attn)
            else:
                self.add(name, "memory", module.attn.unsqueeze(0))
            return result

        return watched

    def scan(self, real: Method) -> Method:
        """Makes maps of the rows of a scan."""

        def watched(
            x_seq: Tensor, memory: FeedbackMemory | None = None, **kwargs: Any
        ) -> Any:
            self.scans.append({})
            try:
                result = real(x_seq, memory, **kwargs)
            finally:
                seen = self.scans.pop()
            before = 0 if memory is None else len(memory)
            for name, rows in seen.items():
                self.add(name, "memory", matrix(rows, len(x_seq), before))
            return result

        return watched


def matrix(
    rows: list[Float[Tensor, "_ B H"]], steps: int, before: int
) -> Float[Tensor, "T S B H"]:
    r"""
    ## Rows of different lengths become a matrix

    * `rows` are the weights of a feedback attention, `[S_t, B, H]`, oldest first. The
      first step of a text has none
    * `steps` is the number of steps, $T$
    * `before` is how many rows memory had before the first of them

    Returns `[T, S, B, H]` with $S$ = `before + steps`. The memory of step $t$ ends with
    the row before its own, so that each row ends one column before the diagonal.
    """
    weights = rows[0].new_zeros(steps, before + steps, *rows[0].shape[1:])
    for step, row in enumerate(rows, start=steps - len(rows)):
        end = before + step
        weights[step, end - len(row) : end] = row
    return weights


def title(name: str, role: str = "") -> str:
    """
    ## A name for readers

    `transformer.decoder.layers.1.src_attn` is "decoder layer 2, source".
    """
    parts = name.split(".") if name else []
    half = next((part for part in parts if part in ("encoder", "decoder")), "")
    numbers = [int(part) for part in parts if part.isdigit()]
    words = [half, f"layer {numbers[-1] + 1}" if numbers else ""]
    where = " ".join(word for word in words if word)
    role = role or (ROLES.get(parts[-1], parts[-1]) if parts else "")
    return ", ".join(word for word in (where, role) if word) or "attention"


# ## Exercises
#
# **1.** Record while a model is trained. Are these the weights that it computes with?
#
# <details><summary>Answer</summary>
#
# They are those before dropout. What the model multiplies its values with has some of
# them replaced by zeros and the others made larger. What was recorded sums to one.
#
# ```python
# import torch
# from labml_nn.attention_maps import record_attention
# from labml_nn.transformers.mha import MultiHeadAttention
#
# attention = MultiHeadAttention(heads=3, d_model=12, dropout_prob=0.5).train()
# x = torch.randn(5, 2, 12)
# with record_attention(attention) as maps:
#     attention(query=x, key=x, value=x)
# assert torch.allclose(maps[0].weights.sum(1), torch.ones(5, 2, 3))
# ```
#
# </details>
#
# **2.** Let a decoder write three tokens with keys and values that it kept. What are
# the shapes of the maps?
#
# <details><summary>Answer</summary>
#
# One query each, and one key more each time: `[1, S, B, H]`.
#
# ```python
# import torch
# from labml_nn.attention_maps import record_attention
# from labml_nn.transformers.mha import KeysValues, MultiHeadAttention
#
# attention = MultiHeadAttention(heads=3, d_model=12)
# past = None
# with record_attention(attention) as maps:
#     for x in torch.randn(3, 1, 2, 12):
#         new = attention.project(key=x, value=x)
#         pairs = zip(past, new) if past else None
#         past = KeysValues(*map(torch.cat, pairs)) if pairs else new
#         attention.attend_to(query=x, past=past)
# assert [one.weights.shape for one in maps] == [(1, s, 2, 3) for s in (1, 2, 3)]
# assert [one.call for one in maps] == [0, 1, 2]
# ```
#
# </details>
#
# **3.** Rows that a feedback model recorded sum to one, but for one of them. Which, and
# why?
#
# <details><summary>Answer</summary>
#
# The first: nothing was in memory when the first token was read.
#
# ```python
# import torch
# from labml_nn.attention_maps import record_attention
# from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
#
# config = {"n_vocab": 5, "d_model": 12, "heads": 3, "n_layers": 2, "max_len": 3}
# model = FeedbackLanguageModel.from_config(config)
# with record_attention(model) as maps:
#     model(torch.randint(5, (6, 2)))
# weights = maps[-1].weights
# assert weights.sum(1)[0].abs().max() == 0
# assert torch.allclose(weights.sum(1)[1:], torch.ones(5, 2, 3))
# assert weights[5, :2].abs().max() == 0  # beyond the window of three rows
# ```
#
# </details>
