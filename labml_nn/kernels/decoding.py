r"""
---
title: Compiled decoding step
summary: >
  One token through all layers of a decoder in a single call of C++, with a KV cache of
  fixed size. Generation then runs at the speed at which memory delivers the weights.
---

The [model](../transformers/autoregressive.py) computes one position per token, with the
keys and values of earlier positions as its state. For a small model most of the time
goes to about 200 operations of PyTorch, each of which examines types, shapes and
devices and allocates a tensor, and to the new state: a value that is never modified is
a copy of all keys and values.

**This kernel** prepares everything once per sequence and then only computes. One call
of C++ per token reads the model's parameters where they are, through pointers. The
cache has room for the whole context from the start; a step writes one column of keys
and one row of values and copies nothing.

The product $x W^\top$ for a single vector $x$ uses each weight once, so its time is the
time to load the weights: 3.2 MB for four layers of 128 features, too large for the
caches next to a core. [Performance](../../performance.md) compares the times. The
kernel has three pages of C++:
[products of a matrix and a vector](cpp/decoding/matrix_vector.h),
[the step](cpp/decoding/decoding.cpp) and [its parameters](cpp/decoding/args.h).

**Limits.** The kernel computes in float32 on a CPU, in evaluation mode, without padding
in the context, on one thread: two would have to synchronise after each product, every
few microseconds. From `MAX_ELEMENTS` parameters on PyTorch's threads are faster. For
everything else, and wherever there is no compiler, the reference runs.

The [feedback transformer](feedback_decoding.py) and the
[Elman network](elman.py#ElmanStep) have a step of their own, with the same
[interface](#CompiledStep).

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w_t$ | `tokens` | `[B]` | the token to read, one per sequence |
| $z_t$ | `logits` | `[B, V]` | scores of the next token |
| $K$ | `keys` | `[B, H, D, capacity]` | cached keys of a layer, positions last |
| $V$ | `values` | `[B, H, capacity, Dv]` | cached values, positions first |
| $W$ | `max_len` | | length of the context |
"""

import ctypes
import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_vocabulary
from labml_nn.kernels.as_built import fits, is_as_configured
from labml_nn.kernels.build import NO_LIBRARY, SHARED, Extension, Library
from labml_nn.kernels.call import fields, up_to
from labml_nn.language_model import DecodingStep, LanguageModel
from labml_nn.reference import Declined, disabled, kernel_for
from labml_nn.transformers.autoregressive import (
    AutoregressiveTransformer,
    TokenAndPositionEmbedding,
)
from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderLanguageModel,
    TokenEmbedding,
)
from labml_nn.transformers.feed_forward import FeedForward, SquaredReLU
from labml_nn.transformers.mha import MultiHeadAttention, PrepareForMultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.modern import (
    NormalisedHeads,
    QKNormAttention,
    RMSNorm,
    RotaryMultiHeadAttention,
    RotaryQKNormAttention,
    rotate,
)
from labml_nn.transformers.positional_encoding import (
    LearnedPositionalEncoding,
    PositionalEncoding,
)
from labml_nn.transformers.sliding_window import SlidingWindow


class StaticCache:
    r"""
    ## KV cache of fixed size

    Allocated once, for $S$ positions of one layer; step $t$ writes to position $t$.
    Scores are sums over the features of a key, and the average is a sum over positions:

    $$e_s = \sum_d q_d \, K_{ds}, \qquad o_d = \sum_s A_s \, V_{sd}$$

    A CPU adds whole vectors quickly and the elements within a vector slowly. So the
    index that is *not* summed over is last in memory: keys are `[D, capacity]`, values
    `[capacity, Dv]`. Unused positions hold zeros; a score of memory that was never
    written could be NaN.
    """

    def __init__(
        self,
        size: int,
        keys: Float[Tensor, "S B H D"],
        values: Float[Tensor, "S B H Dv"],
    ) -> None:
        """
        * `size` is the number of positions. It is rounded up to a cache line, and one
          line more: with 512 positions neighbouring features would be exactly 4 KiB
          apart, and compete for the same places of the CPU's cache
        * `keys`, `values` are the first entries
        """
        capacity = up_to(size, LINE) + LINE
        _, batch, heads, d_k = keys.shape
        self.keys = zeros(batch, heads, d_k, capacity)
        self.values = zeros(batch, heads, capacity, values.shape[3])
        self.write(keys, values)

    def write(
        self, keys: Float[Tensor, "S B H D"], values: Float[Tensor, "S B H Dv"]
    ) -> None:
        """Replaces the first entries, at the same addresses."""
        self.keys[..., : len(keys)] = keys.permute(1, 2, 3, 0)
        self.values[:, :, : len(values)] = values.permute(1, 2, 0, 3)

    def read(
        self, first: int, end: int
    ) -> tuple[Float[Tensor, "S B H D"], Float[Tensor, "S B H Dv"]]:
        """Returns copies of some entries."""
        keys = self.keys[..., first:end].permute(3, 0, 1, 2)
        values = self.values[:, :, first:end].permute(2, 0, 1, 3)
        return keys.clone(), values.clone()


#: Floats in a cache line. No vector register holds more.
LINE = 16

#: What C++ computes with, whatever PyTorch's default dtype and device are.
FOR_CPP: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}


def zeros(*shape: int) -> Tensor:
    """With room behind the last row, for vectors that begin in it and end outside."""
    size = math.prod(shape)
    return torch.zeros(size + 4 * LINE, **FOR_CPP)[:size].view(shape)


class CompiledStep:
    """
    ## A decoding step

    A function from tokens `[B]` to logits `[B, V]`, with the state of one batch of
    texts. This class is what the compiled steps of all models have in common; each
    defines `advance`, which reads a token, and `state`, a copy of its state.
    """

    def __init__(self, library: Library, model: LanguageModel[Any], batch: int) -> None:
        self.library, self.model, self.batch = library, model, batch
        self.n_vocab = model.config.n_vocab
        self.padding_token = model.config.padding_token
        self.reference: DecodingStep | None = None

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        r"""
        ### One token

        Returns the logits of the tokens after `tokens`, without gradients. Padding
        needs masks: the reference has them, and continues from the state as it is.

        Raises `ValueError` for tokens outside the vocabulary or of another batch.
        """
        if self.reference is None and self.is_regular(tokens):
            return self.advance(tokens.long().contiguous())
        if tokens.shape != (self.batch,):
            raise ValueError(
                f"`tokens` has shape {list(tokens.shape)}; expected one token for each "
                f"sequence, [{self.batch}]"
            )
        check_vocabulary(tokens, self.n_vocab)
        with torch.no_grad():
            if self.reference is None:
                with disabled():
                    self.reference = self.model.decoding_step(self.state())
            return self.reference(tokens)

    def is_regular(self, tokens: Tensor) -> bool:
        """A batch is a few numbers, which Python compares faster than PyTorch."""
        if tokens.dtype not in (torch.int64, torch.int32) or tokens.dim() != 1:
            return False
        numbers = tokens.tolist()
        return (
            len(numbers) == self.batch
            and min(numbers) >= 0
            and max(numbers) < self.n_vocab
            and self.padding_token not in numbers
        )

    def advance(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        """Reads a regular token."""
        raise NotImplementedError

    def state(self) -> Any:
        """A copy of the state, as a value."""
        raise NotImplementedError


def is_decodable(model: LanguageModel[Any]) -> bool:
    """
    ### Supported models

    Whether a step in C++ may compute with a model: it is [what its configuration
    describes](as_built.py), in single precision on a CPU, in evaluation mode.
    """
    numbers = [x for x in model.buffers() if x.is_floating_point()]
    return (
        all(fits(x, *x.shape) for x in (*model.parameters(), *numbers))
        and not any(module.training for module in model.modules())
        and not torch.is_autocast_enabled("cpu")
        and is_as_configured(model)
    )


NOT_DECODABLE = (
    "the model is not what its configuration describes, or not in evaluation mode and "
    "float32 on a CPU, or autocast is on"
)


# ## Parameters of the step
#
# The structures of `args.h`, field by field. Their meaning is explained there.
class Linear(ctypes.Structure):
    _fields_ = fields("rows columns", "", "weight bias")


class Norm(ctypes.Structure):
    _fields_ = fields("kind size", "eps", "weight bias")


class Attention(ctypes.Structure):
    _fields_ = [
        *fields("heads d_k d_v capacity", "scale", ""),
        *((name, Norm) for name in ("norm", "query_norm", "key_norm")),
        *((name, Linear) for name in ("query", "key", "value", "output")),
        *fields("", "", "cos sin keys values"),
    ]


class Layer(ctypes.Structure):
    _fields_ = [
        *fields("activation", "", ""),
        ("norm", Norm),
        *((name, Linear) for name in ("up", "down")),
        *((name, Attention) for name in ("self_attention", "cross_attention")),
    ]


class Args(ctypes.Structure):
    _fields_ = [
        *fields("batch width layers position norm_first", "scale", ""),
        *fields("vocabulary positions wide_size scores_size", "", ""),
        *((name, Norm) for name in ("embedding_norm", "final_norm")),
        ("output", Linear),
        *fields("", "", "token_table position_table source_lengths layer"),
        *fields("", "", "tokens logits x z wide scores"),
    ]


ACTIVATIONS: dict[type, int] = {nn.ReLU: 0, nn.GELU: 1, nn.SiLU: 2, SquaredReLU: 3}
MAX_ELEMENTS = 16_000_000
EXTENSION = Extension(
    "decoding",
    SHARED / "decoding",
    "step",
    what="decoding step",
    instead="The reference",
)


class DecoderStep(CompiledStep):
    """
    ## The step of a decoder

    Its structures are filled from the model's modules; `held` keeps the tensors behind
    pointers alive.
    """

    def __init__(self, library: Library, model: Any, given: Any) -> None:
        """`given` is the state of the model, with at least one token in its context."""
        self.given, window = given, window_of(given)
        super().__init__(library, model, window.tokens.shape[1])
        self.length, self.max_len = len(window.tokens), model.config.max_len
        self.tokens = window.tokens.new_zeros(self.max_len, self.batch)
        self.tokens[: self.length] = window.tokens
        self.caches = [StaticCache(self.max_len, *pair) for pair in window.layers]
        self.held: list[Any] = []
        self.args = self._args()

    def state(self) -> Any:
        tokens = self.tokens[: self.length].clone()
        layers = tuple(cache.read(0, self.length) for cache in self.caches)
        window = SlidingWindow(
            tokens, torch.ones_like(tokens, dtype=torch.bool), layers
        )
        if isinstance(self.given, SlidingWindow):
            return window
        return self.given._replace(target=window)

    def advance(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        """If the context is full, `forward` slides it by half and reads the rest."""
        if self.length == self.max_len:
            with torch.no_grad():
                logits, state = self.model(tokens.unsqueeze(0), self.state())
            window = window_of(state)
            self.length = len(window.tokens)
            self.tokens[: self.length] = window.tokens
            for cache, pair in zip(self.caches, window.layers, strict=True):
                cache.write(*pair)
            last: Tensor = logits[-1]
            return last
        self.tokens[self.length] = tokens
        logits = torch.empty(self.batch, self.n_vocab, **FOR_CPP)
        args = self.args
        args.position = self.length
        args.tokens, args.logits = tokens.data_ptr(), logits.data_ptr()
        self.library.run("step", args)
        self.length += 1
        return logits

    # The scale, positions and norm of embeddings are options of autoregressive models,
    # and fixed in an encoder-decoder.
    def _args(self) -> Args:
        model: Any = self.model
        if isinstance(model, AutoregressiveTransformer):
            embedding, stack, top = model.embedding, model.stack, model.generator
            scale, positions, norm = embedding.scale, embedding.table, embedding.norm
        else:
            embedding, stack = model.transformer.tgt_embed, model.transformer.decoder
            top, norm = model.transformer.generator, None
            positions = embedding.positions.positional_encodings.flatten(1)
            scale = math.sqrt(embedding.d_model)
        layers = (Layer * len(stack.layers))(
            *map(self._layer, stack.layers, self.caches)
        )
        self.held.append(layers)
        width = embedding.tokens.weight.shape[1]
        args = Args(
            batch=self.batch,
            width=width,
            layers=len(layers),
            norm_first=stack.layers[0].norm_first,
            scale=scale,
            vocabulary=len(embedding.tokens.weight),
            positions=self.max_len if positions is None else len(positions),
            embedding_norm=self._norm(norm),
            final_norm=self._norm(stack.norm),
            output=self._linear(top.projection),
            token_table=self._pointer(embedding.tokens.weight),
            position_table=self._pointer(positions),
            layer=ctypes.addressof(layers),
        )

        # The source was projected before the first token. Padding comes last in it, so
        # its length says which positions are real.
        if not isinstance(self.given, SlidingWindow):
            sources = zip(layers, stack.layers, self.given.sources, strict=True)
            for to, layer, pair in sources:
                cache = StaticCache(len(pair[0]), *pair)
                to.cross_attention = self._attention(
                    layer.src_attn, layer.norm_src_attn, cache
                )
            args.source_lengths = self._pointer(self.given.source_mask.sum(0))

        # Scratch memory for the longest rows.
        attentions = [(x.self_attention, x.cross_attention) for x in layers]
        args.wide_size = max(
            *(2 * own.heads * (own.d_k + own.d_v) for own, _ in attentions),
            *(layer.up.rows for layer in layers),
            width,
        )
        args.scores_size = max(x.capacity for pair in attentions for x in pair)
        for name, size in {"x": width, "z": width, "wide": args.wide_size}.items():
            setattr(args, name, self._pointer(zeros(self.batch, size)))
        args.scores = self._pointer(zeros(args.scores_size))
        return args

    def _layer(self, layer: Any, cache: StaticCache) -> Layer:
        network = layer.feed_forward
        return Layer(
            activation=ACTIVATIONS[type(network.activation)],
            norm=self._norm(layer.norm_ff),
            up=self._linear(network.layer1),
            down=self._linear(network.layer2),
            self_attention=self._attention(
                layer.self_attn, layer.norm_self_attn, cache
            ),
        )

    def _attention(self, attention: Any, norm: Any, cache: StaticCache) -> Attention:
        _, heads, d_k, capacity = cache.keys.shape
        cos = sin = None
        if isinstance(attention, RotaryMultiHeadAttention):
            cos, sin = self._rotations(d_k, attention.base)
        query, key, value = attention.query, attention.key, attention.value
        norms = norm, getattr(query, "norm", None), getattr(key, "norm", None)
        linears = query.linear, key.linear, value.linear, attention.output
        return Attention(
            *(heads, d_k, cache.values.shape[3], capacity, attention.scale),
            *map(self._norm, norms),
            *map(self._linear, linears),
            *map(self._pointer, (cos, sin, cache.keys, cache.values)),
        )

    # Rotating the point $(1, 0)$ of each pair gives the cosine and sine of its angle.
    def _rotations(self, d_k: int, base: float) -> tuple[Tensor, Tensor]:
        points = torch.zeros(self.max_len, 1, 1, d_k, **FOR_CPP)
        points[..., : d_k // 2] = 1.0
        positions = torch.arange(self.max_len, device="cpu")[:, None]
        cos, sin = rotate(points, positions, base).chunk(2, dim=-1)
        return cos, sin

    def _norm(self, norm: Any) -> Norm:
        if norm is None or isinstance(norm, nn.Identity):
            return Norm()
        kind = 2 if isinstance(norm, RMSNorm) else 1
        weight, bias = norm.weight, getattr(norm, "bias", None)
        pointers = self._pointer(weight), self._pointer(bias)
        return Norm(kind, 0 if weight is None else len(weight), norm.eps, *pointers)

    def _linear(self, linear: Any) -> Linear:
        weight, bias = linear.weight, linear.bias
        return Linear(*weight.shape, self._pointer(weight), self._pointer(bias))

    def _pointer(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self.held.append(tensor.detach().contiguous())
        address: int = self.held[-1].data_ptr()
        return address


def window_of(state: Any) -> Any:
    """The context of the tokens that are generated, in a state of either model."""
    return getattr(state, "target", state)


def decoding_step(model: Any, state: Any) -> Any:
    """
    ## Attached to the language models

    Returns the step, or `Declined`.
    """
    window = None if state is None else window_of(state)
    sources = getattr(state, "sources", None)
    if (
        window is None
        or not window.layers
        or sources == ()
        or not window.tokens.numel()
        or not bool(window.real.all())
    ):
        return Declined("the state holds no tokens yet, or padding")
    stack: Any = model.transformer.decoder if sources else model.stack
    if not is_decodable(model):
        return Declined(NOT_DECODABLE)
    if sum(parameter.numel() for parameter in model.parameters()) > MAX_ELEMENTS:
        return Declined(f"the model has more than {MAX_ELEMENTS:,} parameters")
    if not all(map(_is_supported, stack.layers)):
        return Declined("a feed-forward network is gated, or has another activation")
    if not _is_state_of(stack.layers, state, model.config.max_len):
        return Declined("the state is not one of this model")
    if (library := EXTENSION.find()) is None:
        return Declined(NO_LIBRARY)

    # Tensors made in inference mode could not be modified outside it.
    with torch.inference_mode(False), torch.no_grad():
        return DecoderStep(library, model, state)


# Choices of a configuration that the step does not know.
def _is_supported(layer: Any) -> bool:
    network = layer.feed_forward
    return (
        type(network.activation) in ACTIVATIONS
        and getattr(network.activation, "approximate", "none") == "none"
        and not network.is_gated
    )


# The state of another model would be read beyond its end. In a source padding comes
# last, because the step knows its length alone.
def _is_state_of(layers: Any, state: Any, max_len: int) -> bool:
    window, sources = window_of(state), getattr(state, "sources", ())
    length, batch = window.tokens.shape
    own = [layer.self_attn for layer in layers]
    if length > max_len or not _are_caches(own, window.layers, length, batch):
        return False
    if not sources:
        return True
    real = state.source_mask
    first = torch.arange(len(real), device=real.device)[:, None] < real.sum(0)
    across = [layer.src_attn for layer in layers]
    return (
        real.shape[1] == batch
        and bool((first == real).all())
        and _are_caches(across, sources, *real.shape)
    )


def _are_caches(attentions: list[Any], caches: Any, length: int, batch: int) -> bool:
    return len(attentions) == len(caches) and all(
        fits(keys, length, batch, attention.heads, attention.d_k)
        and fits(values, length, batch, attention.heads, attention.d_v)
        for attention, (keys, values) in zip(attentions, caches, strict=True)
    )


# The classes that the kernel computes itself. [The registry](__init__.py) makes sure
# that a model consists of nothing else, and that none of them was modified.
SUBMODULES: set[type[nn.Module]] = {
    *(nn.ReLU, nn.GELU, nn.SiLU, SquaredReLU),
    *(nn.Linear, nn.Embedding, nn.LayerNorm, nn.Identity, nn.Dropout, nn.Softmax),
    *(nn.ModuleList, Encoder, Generator, TransformerLayer, FeedForward),
    *(MultiHeadAttention, PrepareForMultiHeadAttention),
    *(NormalisedHeads, QKNormAttention, RMSNorm),
    *(RotaryMultiHeadAttention, RotaryQKNormAttention),
}
for _owner, _own in (
    (AutoregressiveTransformer, {TokenAndPositionEmbedding}),
    (
        EncoderDecoderLanguageModel,
        {EncoderDecoder, Decoder, TokenEmbedding}
        | {PositionalEncoding, LearnedPositionalEncoding},
    ),
):
    kernel_for(LanguageModel.decoding_step, owner=_owner, submodules=SUBMODULES | _own)(
        decoding_step
    )
