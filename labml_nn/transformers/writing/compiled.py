r"""
---
title: One token, in one call
summary: >
  The step of a decoder as a function of C++: from a token to logits without coming back
  to Python.
---

The [lean step](step.py) calls PyTorch 29 times for each layer. For a model of four
layers with 128 features that takes longer than the arithmetic, and far longer than the
weights need to come out of the cache. So here the step is
[compiled](../../kernels/build.py): one call for a token, through all layers. The
C++ lies beside this page. `writing.cpp` follows the lean step part by part, and
`rows.h` has the one product that matters.

**Sums across.** A sum along a row ends as a vector of sums, which has to be added up
itself. Of a few columns that takes as long as the product. So sixteen such vectors are
added up together, each time two halves in one stroke, and the sixteen sums come out
side by side. For eight texts that saved a third of the time.

**Rows as they lie.** Kernels that read weights for thousands of rows of text pack them
first. For a single row that does not pay. Each number that comes out,
$y_n = \sum_k W_{nk} x_k$, is a sum along a row of $W$, and rows lie in memory as
PyTorch has put them. So the kernel reads the parameters themselves: nothing is copied
to get ready, nothing is kept twice, and a text of three letters gains as much as a long
one.

```cpp
for (Size k = 0; k < whole; k += LANES) {
    Vec numbers[G];
    for (int g = 0; g < G; g++) numbers[g] = load(x + g * x_step + k);
    for (int r = 0; r < R; r++) {
        Vec row = load(weight + r * columns + k);
        for (int g = 0; g < G; g++) sums[g][r] += row * numbers[g];
    }
}
```

With $R$ rows and $G$ texts, a weight serves $G$ texts once it is there. That is why a
few texts side by side cost little more than one.

**One thread.** Two threads would have to meet behind each product, and a product of a
small model is over in a few microseconds. A large model is another case: its weights
come from memory, PyTorch's own products share them among threads, and what a call costs
does not count. With 12 layers of 768 features, and one thread, both steps took as long:
33 and 38 ms. So from `LARGE` numbers on the lean step runs.

It computes in single precision, on a processor. Elsewhere the lean step runs and nobody
is told, because nothing is wrong.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w_t$ | `tokens` | `[B]` | the token to read, one for each text |
| $z_t$ | `logits` | `[B, V]` | what may follow |
"""

import ctypes
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from labml_nn.kernels.build import Kernel, Library, is_switched_off
from labml_nn.kernels.build import Source as Code
from labml_nn.kernels.call import fields
from labml_nn.transformers.writing import parts as taken_apart
from labml_nn.transformers.writing.memory import Kept, Memory
from labml_nn.transformers.writing.step import Source

KERNEL = Kernel(
    Code("writing", Path(__file__).parent, ("step",)),
    what="step of a decoder",
    instead="A step in PyTorch",
)
LARGE = 16_000_000


# ## What Python and C++ share
#
# In the order of `task.h`, where each field is explained.
class Map(ctypes.Structure):
    _fields_ = fields("rows columns", "", "weight bias")


class Norm(ctypes.Structure):
    _fields_ = fields("kind", "eps", "gain shift")


class Attention(ctypes.Structure):
    _fields_ = [
        *fields("heads d_k d_v places", "scale", ""),
        *((name, Norm) for name in ("norm", "query_norm", "key_norm")),
        *((name, Map) for name in ("query", "key", "value", "output")),
        *fields("", "", "keys values"),
    ]


class Layer(ctypes.Structure):
    _fields_ = [
        *fields("activation", "", ""),
        ("norm", Norm),
        *((name, Map) for name in ("up", "down")),
        *((name, Attention) for name in ("look_back", "ask_source")),
    ]


class Task(ctypes.Structure):
    _fields_ = [
        *fields("batch width layers at norm_first", "scale", ""),
        *((name, Norm) for name in ("norm_in", "norm_out")),
        ("output", Map),
        *fields("", "", "table places cos sin lengths layer tokens logits"),
        *fields("", "", "row part wide scores"),
    ]


ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2, "squared_relu": 3}


def library_for(parts: taken_apart.DecoderParts) -> Library | None:
    """
    ## Whether it runs

    Returns the kernel, built if need be, or `None` if the lean step shall run.
    """
    single = parts.table.dtype == torch.float32
    if not single or parts.floats() > LARGE or is_switched_off():
        return None
    return KERNEL.find()


class CompiledStep:
    r"""
    ## The step

    Called as [the lean one](step.py) is, and with the same result.
    """

    def __init__(
        self,
        library: Library,
        parts: taken_apart.DecoderParts,
        memory: Memory,
        source: Source | None,
    ) -> None:
        """
        * `library` is the kernel
        * the others are those of the lean step
        """
        self.library, self.memory = library, memory
        self.held: list[Tensor] = []
        self.batch, width = memory.tokens.shape[1], parts.table.shape[1]
        self.n_vocab = len(parts.output.weight)
        layers = [
            self._layer(layer, kept, None if source is None else source.layers[number])
            for number, (layer, kept) in enumerate(
                zip(parts.layers, memory.layers, strict=True)
            )
        ]
        self.layers = (Layer * len(layers))(*layers)
        cos, sin = (None, None) if parts.turns is None else parts.turns
        self.task = Task(
            batch=self.batch,
            width=width,
            layers=len(layers),
            norm_first=parts.norm_first,
            scale=parts.scale,
            norm_in=self._norm(parts.norm_in),
            norm_out=self._norm(parts.norm_out),
            output=self._map(parts.output),
            table=self._at(parts.table),
            places=self._at(parts.places),
            cos=self._at(cos),
            sin=self._at(sin),
            lengths=self._at(None if source is None else source.lengths),
            layer=ctypes.addressof(self.layers),
        )
        self._set_aside(parts, source)

    def _set_aside(
        self, parts: taken_apart.DecoderParts, source: Source | None
    ) -> None:
        """
        ### Scratch

        Room for the longest of all rows, and for vectors that end behind theirs.
        """
        widest, longest = 0, self.memory.layers[0].keys.shape[3]
        for layer in parts.layers:
            a = layer.look_back
            heads = [len(m.weight) for m in (a.query, a.key, a.value, a.value)]
            widest = max(widest, sum(heads), len(layer.up.weight))
        if source is not None:
            longest = max(longest, source.layers[0].keys.shape[3])
        width = self.batch * parts.table.shape[1]
        sizes = {"row": width, "part": width, "wide": self.batch * widest}
        self.scratch = parts.table.new_zeros(longest + 64)
        self.task.scores = self._at(self.scratch)
        for name, size in sizes.items():
            setattr(self.task, name, self._at(self.scratch.new_zeros(size + 64)))

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        """
        ### From a token to logits

        `tokens` are in the vocabulary; the writer has looked.
        """
        tokens = tokens.long().contiguous()
        logits = self.scratch.new_empty(self.batch, self.n_vocab)
        task = self.task
        task.at, task.tokens = self.memory.used, tokens.data_ptr()
        task.logits = logits.data_ptr()
        self.library.run("step", task)
        return logits

    # ### Structures of parts
    #
    # A pointer does not keep a tensor alive, so the step does.
    def _at(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        tensor = tensor.detach().contiguous()
        self.held.append(tensor)
        return tensor.data_ptr()

    def _map(self, part: taken_apart.Map) -> Map:
        rows, columns = part.weight.shape
        return Map(rows, columns, self._at(part.weight), self._at(part.bias))

    def _norm(self, part: taken_apart.Norm | None) -> Norm:
        if part is None:
            return Norm()
        kind = 2 if part.is_rms else 1
        return Norm(kind, part.eps, self._at(part.gain), self._at(part.shift))

    def _layer(
        self, layer: taken_apart.LayerParts, kept: Kept, source: Kept | None
    ) -> Layer:
        made = Layer(
            activation=ACTIVATIONS[layer.activation],
            norm=self._norm(layer.norm),
            up=self._map(layer.up),
            down=self._map(layer.down),
            look_back=self._attention(layer.look_back, kept),
        )
        if source is not None and layer.ask_source is not None:
            made.ask_source = self._attention(layer.ask_source, source)
        return made

    def _attention(self, part: taken_apart.AttentionParts, kept: Kept) -> Attention:
        _, heads, d_k, places = kept.keys.shape
        norms = {"norm": part.norm, "query_norm": part.query_norm}
        maps = {"query": part.query, "key": part.key, "value": part.value}
        return Attention(
            heads=heads,
            d_k=d_k,
            d_v=kept.values.shape[3],
            places=places,
            scale=part.scale,
            **{name: self._norm(norm) for name, norm in norms.items()},
            key_norm=self._norm(part.key_norm),
            **{name: self._map(map_) for name, map_ in maps.items()},
            output=self._map(part.output),
            keys=self._at(kept.keys),
            values=self._at(kept.values),
        )
