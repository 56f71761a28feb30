r"""
---
title: Feedback decoding step
summary: >
  One token of a feedback language model in a single call of C++, from its embedding to
  the logits of the next token, with memory in a buffer of fixed size.
paper: https://arxiv.org/abs/2002.09402
---

In generation a [feedback language
model](../transformers/feedback/language_model.py) reads one token at a time. With $C$
features and $L$ layers it has about $10 L C^2$ weights, and a token is multiplied with
each of them once. For a single sequence nothing is shared, so the time per token can be
no less than the time to **load the weights**. `forward` is far from that: each layer
makes about 60 calls into PyTorch, most of which take longer than what they compute, and
each token gets a new memory, because a state is a value.

This kernel, attached to `decoding_step`, prepares a sequence once, like that of
[other decoders](decoding.py):

* Parameters are [folded](feedback_recurrence.py#Params) and packed, and the norm of the
  outputs is folded into the map to logits, $E \, (g \odot \hat{x} + b) = (E
  \operatorname{diag} g) \, \hat{x} + E b$.
* Memory is a [cache](decoding.py#StaticCache) that the step writes to.
* A step is [one call](cpp/feedback/feedback_decode.cpp).

**Scores.** A score has a term for the content of a slot and one for its distance. In
PyTorch they are two products, because all sums $k_j + E_d$ would have to be written to
memory, anew for each layer. In C++ a sum is made in a register, used and forgotten:
$q^\top k_j + q^\top E_d = q^\top (k_j + E_d)$.

**Memory of fixed size.** A step reads the last $\tau$ slots and writes one, so the
window moves by one slot per step. To move the slots instead would copy $\tau$ of them
each time. So the buffer has room for $2 \tau$ slots, and when it is full, the last
$\tau$ are copied to its beginning: one copied slot per step on average.

```text
 τ = 4    a  b  c  d  e  .  .  .      reads b c d e
          a  b  c  d  e  f  g  h      reads e f g h; full
          e  f  g  h  .  .  .  .      the same, at the beginning
```

With $C = 128$, $H = 4$, $L = 4$ and 64 slots in memory, a token takes 0.073 ms on an
AMD EPYC with AVX-512, in which 3.2 MB of weights and memory are loaded at 43 GB/s.
Version 0.5.1, which reads the text again, takes 52 ms.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w_t$ | `tokens` | `[B]` | the token that is read |
| $z_t$ | `logits` | `[B, V]` | logits of the next token |
| $k_j$ | `cache.keys` | `[B, H, D, capacity]` | keys, time last |
| $v_j$ | `cache.values` | `[B, H, capacity, D]` | values |
| $\tau$ | `horizon` | | slots that a step attends to at most |
"""

import ctypes
import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.kernels.as_built import fits
from labml_nn.kernels.build import NO_LIBRARY, SHARED, Extension, Library
from labml_nn.kernels.call import Call, fields, up_to
from labml_nn.kernels.decoding import (
    FOR_CPP,
    NOT_DECODABLE,
    CompiledStep,
    StaticCache,
    is_decodable,
)
from labml_nn.kernels.feedback_recurrence import SUBMODULES, config_of, fold_params
from labml_nn.language_model import LanguageModel
from labml_nn.reference import Declined, kernel_for
from labml_nn.transformers.feedback import FeedbackMemory, FeedbackTransformerKV
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel

EXTENSION = Extension(
    "feedback_decode",
    SHARED / "feedback",
    "run",
    what="decoding step of the feedback language model",
    instead="The reference",
)

# The fields of the structure in `feedback_decode.cpp`, in the same order.
SIZES = """
    batch layers width wide hidden hidden_wide memory_wide vocab vocab_wide
    heads head capacity first end distances distance_capacity norm_memory
"""
POINTERS = """
    embed query query_bias output output_bias up up_bias down down_bias
    memory memory_bias vocab_map vocab_bias shares table table_bias keys values
    own_slots tokens logits x norm heads_out features vector scores
"""


class Args(ctypes.Structure):
    _fields_ = fields(SIZES, "eps scale", POINTERS)


class FeedbackStep(CompiledStep):
    r"""
    ## The step

    The state is copied. The parameters are copied too: a step belongs to the parameters
    as they were when it was created.
    """

    model: FeedbackLanguageModel

    def __init__(
        self,
        library: Library,
        model: FeedbackLanguageModel,
        keys: Float[Tensor, "S B H D"],
        values: Float[Tensor, "S B H D"],
        mask: Bool[Tensor, "S B"] | None,
    ) -> None:
        super().__init__(library, model, keys.shape[1])
        self.end, self.horizon = len(keys), model.config.max_len
        self.cache = StaticCache(2 * self.horizon, keys, values)
        self.own = None if mask is None else mask.sum(0)
        self.call = self.pack()

    @property
    def first(self) -> int:
        """The first slot that the next step attends to."""
        return max(0, self.end - self.horizon)

    def pack(self) -> Call:
        """A call with everything that all steps have in common."""
        model, transformer = self.model, self.model.transformer
        assert isinstance(transformer, FeedbackTransformerKV)
        config = config_of(transformer)
        assert config is not None
        embed = model.embed.weight.detach()
        table = model.output.weight.detach()
        p = fold_params(transformer, self.horizon)

        call = Call(self.library, Args(), embed)
        args = call.args
        args.batch, args.heads, args.head, args.capacity = self.cache.keys.shape
        args.layers, args.width, _ = p.query.shape
        args.hidden, args.vocab = p.down.shape[1], len(table)
        sizes = (args.width, args.hidden, 2 * args.width, args.vocab)
        args.wide, args.hidden_wide, args.memory_wide, args.vocab_wide = (
            up_to(size, call.panel) for size in sizes
        )
        args.distances = p.distance.shape[2]
        args.distance_capacity = args.distances + 4 * call.lanes
        args.norm_memory, args.eps = config.norm_memory, config.eps
        args.scale = math.sqrt(model.config.d_model)

        vocab_map = table * transformer.norm.weight
        maps = {name: getattr(p, name).mT for name in ("query", "output", "up")}
        maps.update(down=p.down, memory=p.memory.T, vocab_map=vocab_map.T)
        biases = {f"{name}_bias": getattr(p, f"{name}_bias") for name in [*maps][:-1]}
        biases["vocab_bias"] = table @ transformer.norm.bias
        call.point(**{name: call.pack(matrix) for name, matrix in maps.items()})
        call.point(**{name: call.wide(bias) for name, bias in biases.items()})
        padding = (0, args.distance_capacity - args.distances)
        features = max(args.hidden_wide, args.memory_wide)
        rows = dict.fromkeys(("x", "norm", "heads_out", "vector"), args.wide)
        for name, size in {**rows, "features": features}.items():
            call.point(**{name: call.zeros(args.batch, size)})
        call.point(
            embed=embed,
            shares=p.shares,
            table=F.pad(p.distance.mT, padding),
            table_bias=F.pad(p.distance_bias, padding),
            keys=self.cache.keys,
            values=self.cache.values,
            scores=call.zeros(args.capacity),
        )
        return call

    def advance(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        "Moves the window to the beginning of the cache if that is full."
        if self.end == 2 * self.horizon:
            self.cache.write(*self.cache.read(self.first, self.end))
            self.end = self.horizon
        args = self.call.args
        logits = torch.empty(self.batch, self.n_vocab, **FOR_CPP)
        args.first, args.end = self.first, self.end
        args.own_slots = None if self.own is None else self.own.data_ptr()
        args.tokens, args.logits = tokens.data_ptr(), logits.data_ptr()
        self.call.run("run")
        self.end += 1
        if self.own is not None:
            self.own = (self.own + 1).clamp(max=self.horizon)
        return logits

    def state(self) -> FeedbackMemory:
        keys, values = self.cache.read(self.first, self.end)
        mask = None
        if self.own is not None:
            back = torch.arange(len(keys), 0, -1, device="cpu")
            mask = back[:, None] <= self.own
        return FeedbackMemory(keys, values, mask)


# The memory of another model would be read beyond its end; and C++ counts the slots of
# a sequence back from the last one.
def _is_state_of(
    transformer: FeedbackTransformerKV, keys: Tensor, values: Tensor, mask: Any
) -> bool:
    slots, batch = keys.shape[:2]
    shape = slots, batch, transformer.heads, transformer.d_k
    if not (slots and fits(keys, *shape) and fits(values, *shape)):
        return False
    if mask is None:
        return True
    back = torch.arange(slots, 0, -1, device=mask.device)[:, None]
    own = mask.sum(0)
    return mask.shape == (slots, batch) and bool(
        (own > 0).all() and ((back <= own) == mask).all()
    )


@kernel_for(
    LanguageModel.decoding_step,
    owner=FeedbackLanguageModel,
    submodules={FeedbackTransformerKV, nn.Embedding, nn.Identity, *SUBMODULES},
)
def decoding_step(model: FeedbackLanguageModel, state: FeedbackMemory) -> Any:
    r"""
    ## Attached to the language model

    The kernel computes with shared keys and values; each sequence must have a slot.
    Returns the step, or `Declined`.
    """
    transformer, keys, values = model.transformer, state.keys, state.values
    if type(transformer) is not FeedbackTransformerKV:
        return Declined("it is for shared keys and values, `shared_kv=True`")
    if keys is None or values is None or keys.dim() != 4 or keys.shape[1] == 0:
        return Declined("the memory is empty")
    if not is_decodable(model) or config_of(transformer) is None:
        return Declined(NOT_DECODABLE)
    if (
        not _is_state_of(transformer, keys, values, state.mask)
        or not len(keys) <= model.config.max_len == transformer.horizon
    ):
        return Declined("the memory is not one of this model")
    if (library := EXTENSION.find()) is None:
        return Declined(NO_LIBRARY)
    # Tensors made in inference mode could not be modified outside it.
    with torch.inference_mode(False), torch.no_grad():
        return FeedbackStep(library, model, keys, values, state.mask)
