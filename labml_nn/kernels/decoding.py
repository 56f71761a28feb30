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
[the step](cpp/decoding/decoding.cpp) and [its parameters](cpp/decoding/task.h).

**Limits.** The kernel computes in float32 on a CPU, in evaluation mode, without padding
in the context, on one thread: two would have to synchronise after each product, every
few microseconds. From `MAX_ELEMENTS` parameters on PyTorch's threads are faster. The
reference runs there, for everything else that the kernel does not support, and
wherever there is no compiler.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w_t$ | `tokens` of `__call__` | `[B]` | the token to read, one per sequence |
| $z_t$ | `logits` | `[B, V]` | scores of the next token |
| $K^l$ | `keys` | `[B, H, D, capacity]` | cached keys of layer $l$, positions last |
| $V^l$ | `values` | `[B, H, capacity, Dv]` | cached values, positions first |
| $W$ | `max_len` | | length of the context |
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import check_vocabulary
from labml_nn.kernels import disabled, kernel_for
from labml_nn.kernels.build import SHARED, Kernel, Library
from labml_nn.kernels.call import fields, up_to
from labml_nn.language_model import DecodingStep, LanguageModel
from labml_nn.transformers.autoregressive import (
    AutoregressiveTransformer,
    TokenAndPositionEmbedding,
)
from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderLanguageModel,
    EncoderDecoderState,
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

KERNEL = Kernel(
    "decoding",
    SHARED / "decoding",
    "step",
    what="decoding step",
    instead="The reference",
)
MAX_ELEMENTS = 16_000_000


# ## Parameters of the step
#
# The structures of `task.h`, field by field. Their meaning is explained there.
class Linear(ctypes.Structure):
    _fields_ = fields("rows columns", "", "weight bias")


class Norm(ctypes.Structure):
    _fields_ = fields("kind", "eps", "weight bias")


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


class Task(ctypes.Structure):
    _fields_ = [
        *fields("batch width layers position norm_first", "scale", ""),
        *((name, Norm) for name in ("embedding_norm", "final_norm")),
        ("output", Linear),
        *fields("", "", "token_table position_table source_lengths layer"),
        *fields("", "", "tokens logits x z wide scores"),
    ]


ACTIVATIONS: dict[type, int] = {nn.ReLU: 0, nn.GELU: 1, nn.SiLU: 2, SquaredReLU: 3}

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


class Unsupported(Exception):
    """Raised while a model is examined; then the reference runs."""


class StaticCache:
    r"""
    ## KV cache of fixed size

    Allocated once for $W$ positions, $2 L W C$ numbers per sequence; step $t$ writes to
    position $t$. Scores are sums over the features of a key, and the average is a sum
    over positions:

    $$e_s = \sum_d q_d \, K_{ds}, \qquad o_d = \sum_s A_s \, V_{sd}$$

    A CPU adds whole vectors quickly and the elements within a vector slowly. So the
    index that is *not* summed over is last in memory: keys are `[D, capacity]`, values
    `[capacity, Dv]`.
    """

    def __init__(self, window: SlidingWindow, max_len: int) -> None:
        """`window` is a state without padding, of at most `max_len` tokens."""
        self.max_len, self.length = max_len, len(window.tokens)
        self.tokens = window.tokens.new_zeros(max_len, window.tokens.shape[1])
        self.layers = [preallocate(*pair, max_len) for pair in window.layers]
        self.load(window)

    def load(self, window: SlidingWindow) -> None:
        """Replaces the contents, at the same addresses."""
        self.length = length = len(window.tokens)
        self.tokens[:length] = window.tokens
        for (keys, values), (k, v) in zip(self.layers, window.layers, strict=True):
            keys[..., :length] = k.permute(1, 2, 3, 0)
            values[:, :, :length] = v.permute(1, 2, 0, 3)

    def window(self) -> SlidingWindow:
        """Returns the contents as a state, a copy."""
        tokens = self.tokens[: self.length].clone()
        layers = tuple(
            (
                keys[..., : self.length].permute(3, 0, 1, 2).contiguous(),
                values[:, :, : self.length].permute(2, 0, 1, 3).contiguous(),
            )
            for keys, values in self.layers
        )
        return SlidingWindow(tokens, torch.ones_like(tokens, dtype=torch.bool), layers)


def preallocate(
    keys: Float[Tensor, "S B H D"], values: Float[Tensor, "S B H Dv"], length: int
) -> tuple[Float[Tensor, "B H D capacity"], Float[Tensor, "B H capacity Dv"]]:
    """
    ### Room for one layer

    The capacity is `length`, rounded up to a cache line, and one line more: a vector
    that begins at the last position must end inside the memory. Unused positions hold
    zeros; a score of memory that was never written could be NaN.
    """
    _, batch, heads, d_k = keys.shape
    capacity = up_to(length, 16) + 16
    room = keys.new_zeros(batch, heads, d_k, capacity)
    return room, values.new_zeros(batch, heads, capacity, values.shape[3])


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


class Network(NamedTuple):
    r"""
    ## The submodules of a decoder

    * the token embedding is multiplied by `scale`, and `positions` are added
    * `embedding_norm` and `final_norm` are before the first layer and after the last
    * `output` maps features to logits
    * `window` is the context so far, and `state_of` makes a state of the model from one
    * `sources` are the source's keys and values for each layer of an encoder–decoder,
      `[S, B, H, D]`, and `source_lengths` the numbers of its real tokens, `[B]`
    """

    embedding: nn.Embedding
    scale: float
    positions: Float[Tensor, "max_len C"] | None
    embedding_norm: nn.Module
    layers: Sequence[TransformerLayer]
    final_norm: nn.Module
    output: nn.Linear
    window: SlidingWindow | None
    state_of: Callable[[SlidingWindow], Any]
    sources: Sequence[tuple[Tensor, Tensor]] = ()
    source_lengths: Int[Tensor, " B"] | None = None


class DecoderStep(CompiledStep):
    """
    ## The step of a decoder

    `window` is the context so far, at least one token.
    """

    def __init__(
        self,
        library: Library,
        model: Any,
        network: Network,
        window: SlidingWindow,
    ) -> None:
        super().__init__(library, model, window.tokens.shape[1])
        self.state_of = network.state_of
        self.cache = StaticCache(window, model.config.max_len)
        self.held: list[Tensor] = []
        self.task = self._task(network)
        read = nn.ModuleList([*network.layers, network.output]).parameters()
        if sum(parameter.numel() for parameter in read) > MAX_ELEMENTS:
            raise Unsupported("a large model")

    def state(self) -> Any:
        return self.state_of(self.cache.window())

    def advance(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B V"]:
        """If the context is full, `forward` slides it by half and reads the rest."""
        cache, task = self.cache, self.task
        if cache.length == cache.max_len:
            with torch.no_grad():
                logits, state = self.model(tokens.unsqueeze(0), self.state())
            cache.load(state if isinstance(state, SlidingWindow) else state.target)
            last: Tensor = logits[-1]
            return last
        cache.tokens[cache.length] = tokens
        logits = self.scratch.new_empty(self.batch, self.n_vocab)
        task.position = cache.length
        task.tokens, task.logits = tokens.data_ptr(), logits.data_ptr()
        self.library.run("step", task)
        cache.length += 1
        return logits

    # ### Conversion of modules to structures
    #
    # Each method raises `Unsupported` if the C++ would compute something else. `held`
    # keeps the tensors behind the pointers alive.
    def _task(self, network: Network) -> Task:
        batch, width = self.batch, network.embedding.weight.shape[1]
        sources: Sequence[Any] = network.sources or [None] * len(network.layers)
        parts = zip(network.layers, self.cache.layers, sources, strict=True)
        layers = [self._layer(*part) for part in parts]
        self.layers = (Layer * len(layers))(*layers)
        task = Task(
            batch=batch,
            width=width,
            layers=len(layers),
            norm_first=network.layers[0].norm_first,
            scale=network.scale,
            embedding_norm=self._norm(network.embedding_norm),
            final_norm=self._norm(network.final_norm),
            output=self._linear(network.output),
            token_table=self._pointer(network.embedding.weight),
            position_table=self._pointer(network.positions),
            layer=ctypes.addressof(self.layers),
        )
        if network.source_lengths is not None:
            lengths = network.source_lengths.long().contiguous()
            self.held.append(lengths)
            task.source_lengths = lengths.data_ptr()

        # Scratch memory for the longest rows, and a vector behind each.
        widest, longest = 0, max(pair[0].shape[3] for pair in self.cache.layers)
        for layer in layers:
            a = layer.self_attention
            widest = max(widest, 2 * a.heads * (a.d_k + a.d_v), layer.up.rows)
            longest = max(longest, layer.cross_attention.capacity)
        self.scratch = network.embedding.weight.detach().new_zeros(longest + 64)
        task.scores = self._pointer(self.scratch)
        for name, size in {"x": width, "z": width, "wide": widest}.items():
            room = self.scratch.new_zeros(batch * size + 64)
            setattr(task, name, self._pointer(room))
        return task

    def _layer(
        self,
        layer: TransformerLayer,
        cache: tuple[Tensor, Tensor],
        source: tuple[Tensor, Tensor] | None,
    ) -> Layer:
        network = cast(FeedForward, layer.feed_forward)
        activation = network.activation
        if (
            type(activation) not in ACTIVATIONS
            or getattr(activation, "approximate", "none") != "none"
            or network.is_gated
            or layer.is_save_ff_input
        ):
            raise Unsupported("another feed-forward network")
        made = Layer(
            activation=ACTIVATIONS[type(activation)],
            norm=self._norm(layer.norm_ff),
            up=self._linear(network.layer1),
            down=self._linear(network.layer2),
            self_attention=self._attention(
                layer.self_attn, layer.norm_self_attn, cache
            ),
        )
        if source is not None and layer.src_attn is not None:
            keys, values = preallocate(*source, len(source[0]))
            keys[..., : len(source[0])] = source[0].permute(1, 2, 3, 0)
            values[:, :, : len(source[1])] = source[1].permute(1, 2, 0, 3)
            made.cross_attention = self._attention(
                layer.src_attn, layer.norm_src_attn, (keys, values)
            )
        return made

    def _attention(
        self, module: nn.Module, norm: nn.Module, cache: tuple[Tensor, Tensor]
    ) -> Attention:
        attention, (keys, values) = cast(MultiHeadAttention, module), cache
        if attention.softmax.dim != 1 or type(attention.scale) is not float:
            raise Unsupported("a softmax over another axis, or a learned scale")
        _, heads, d_k, capacity = keys.shape
        if heads != attention.heads or d_k != attention.d_k:
            raise Unsupported("the state of another model")
        cos, sin = None, None
        if isinstance(attention, RotaryMultiHeadAttention):
            cos, sin = self._rotations(d_k, attention.base)
        query, key, value = attention.query, attention.key, attention.value
        norms = norm, getattr(query, "norm", None), getattr(key, "norm", None)
        linears = query.linear, key.linear, value.linear, attention.output
        return Attention(
            *(heads, d_k, values.shape[3], capacity, attention.scale),
            *map(self._norm, norms),
            *map(self._linear, linears),
            *map(self._pointer, (cos, sin, keys, values)),
        )

    # Rotating the point $(1, 0)$ of each pair gives the cosine and sine of its angle.
    def _rotations(self, d_k: int, base: float) -> tuple[Tensor, Tensor]:
        points = torch.zeros(self.cache.max_len, 1, 1, d_k, dtype=torch.float32)
        points[..., : d_k // 2] = 1.0
        positions = torch.arange(self.cache.max_len)[:, None]
        cos, sin = rotate(points, positions, base).chunk(2, dim=-1)
        return cos, sin

    def _norm(self, module: nn.Module | None) -> Norm:
        if module is None or isinstance(module, nn.Identity):
            return Norm()
        if isinstance(module, RMSNorm):
            return Norm(2, module.eps, self._pointer(module.weight), None)
        norm = cast(nn.LayerNorm, module)
        return Norm(1, norm.eps, self._pointer(norm.weight), self._pointer(norm.bias))

    def _linear(self, module: nn.Module) -> Linear:
        linear = cast(nn.Linear, module)
        rows, columns = linear.weight.shape
        return Linear(
            rows, columns, self._pointer(linear.weight), self._pointer(linear.bias)
        )

    def _pointer(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            raise Unsupported("another dtype or device")
        tensor = tensor.detach().contiguous()
        self.held.append(tensor)
        return tensor.data_ptr()


def autoregressive(model: AutoregressiveTransformer, state: SlidingWindow) -> Network:
    """
    ## Supported models

    The submodules of an autoregressive transformer.
    """
    embedding, stack = model.embedding, model.stack
    return Network(
        embedding=embedding.tokens,
        scale=embedding.scale,
        positions=embedding.table,
        embedding_norm=embedding.norm,
        layers=[cast(TransformerLayer, layer) for layer in stack.layers],
        final_norm=stack.norm,
        output=model.generator.projection,
        window=state,
        state_of=lambda window: window,
    )


def encoder_decoder(
    model: EncoderDecoderLanguageModel, state: EncoderDecoderState
) -> Network:
    """
    Those of an encoder–decoder. Padding comes last in the source, so its length says
    which positions are real.
    """
    embedding = cast(TokenEmbedding, model.transformer.tgt_embed)
    decoder = model.transformer.decoder
    positions = embedding.positions.positional_encodings
    return Network(
        embedding=embedding.tokens,
        scale=math.sqrt(embedding.d_model),
        positions=positions.reshape(len(positions), -1),
        embedding_norm=nn.Identity(),
        layers=[cast(TransformerLayer, layer) for layer in decoder.layers],
        final_norm=decoder.norm,
        output=cast(nn.Linear, model.transformer.generator.projection),
        window=state.target if state.sources else None,
        state_of=lambda window: state._replace(target=window),
        sources=state.sources,
        source_lengths=state.source_mask.sum(0),
    )


def decoding_step(model: Any, state: Any) -> Any:
    """
    ## Attached to the language models

    Returns the step, or `NotImplemented`.
    """
    if state is None:
        return NotImplemented
    is_autoregressive = isinstance(model, AutoregressiveTransformer)
    network = (autoregressive if is_autoregressive else encoder_decoder)(model, state)
    window = network.window
    if (
        window is None
        or not window.layers
        or window.tokens.device.type != "cpu"
        or not window.tokens.numel()
        or not bool(window.real.all())
        or torch.is_autocast_enabled("cpu")
        or any(module.training for module in model.modules())
        or network.embedding.max_norm is not None
        or (library := KERNEL.find()) is None
    ):
        return NotImplemented

    # Tensors made in inference mode could not be modified outside it.
    with torch.inference_mode(False), torch.no_grad():
        try:
            return DecoderStep(library, model, network, window)
        except Unsupported:
            return NotImplemented


for _owner, _embedding in (
    (AutoregressiveTransformer, {TokenAndPositionEmbedding}),
    (
        EncoderDecoderLanguageModel,
        {EncoderDecoder, Decoder, TokenEmbedding}
        | {PositionalEncoding, LearnedPositionalEncoding},
    ),
):
    kernel_for(
        LanguageModel.decoding_step, owner=_owner, submodules=SUBMODULES | _embedding
    )(decoding_step)
