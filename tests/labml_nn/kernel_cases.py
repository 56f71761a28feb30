"""Cases for `test_kernels.py`: modules and arguments for every kernel's owner, and whole lessons.

A kernel is enrolled by being registered. Its owner needs cases here, or the test fails::

    CASES[MyModule] = [Case("causal", lambda: MyModule(12), call, inputs)]

`call(module, **inputs)` returns a tensor, or tensors in tuples, lists and dictionaries. Random
parameters and inputs are drawn after `torch.manual_seed(0)`, floating-point inputs collect
gradients, and a case is run with kernels, without, and under `inference_mode`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from small_models import small
from torch import Tensor, nn

import labml_nn
from labml_nn.lstm import LSTM
from labml_nn.lstm.gru import GRU
from labml_nn.recurrent.elman import Elman, ElmanLanguageModel, ElmanLayer
from labml_nn.transformers.autoregressive import AutoregressiveTransformer
from labml_nn.transformers.encoder_decoder import EncoderDecoderLanguageModel
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import (
    FeedbackAttention,
    FeedbackTransformer,
    FeedbackTransformerKV,
    FeedbackTransformerLayer,
)
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
from labml_nn.transformers.mha import KVCache, MultiHeadAttention
from labml_nn.transformers.modern import (
    QKNormAttention,
    RotaryMultiHeadAttention,
    RotaryQKNormAttention,
)

T, S, B, C, H, V = 5, 7, 2, 12, 3, 11


def forward(module: nn.Module, **inputs: Any) -> Any:
    return module(**inputs)


@dataclass(frozen=True)
class Case:
    """One module with arguments."""

    name: str
    build: Callable[[], nn.Module]
    call: Callable[..., Any] = forward
    inputs: Callable[[], dict[str, Any]] = dict
    #: Tolerance, absolute and relative; for double precision a thousandth of it.
    tolerance: float = 1e-5
    dtype: torch.dtype = torch.float32

    def make(self) -> tuple[nn.Module, dict[str, Any]]:
        torch.manual_seed(0)
        module = self.build().to(self.dtype)
        inputs = {name: self._leaf(value) for name, value in self.inputs().items()}
        return module, inputs

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(self.dtype).requires_grad_()
        return value


@dataclass
class Observed:
    """Outputs, and gradients of all parameters and inputs."""

    outputs: list[Tensor]
    gradients: dict[str, Tensor] = field(default_factory=dict)


def observe(case: Case, module: nn.Module, inputs: dict[str, Any]) -> Observed:
    outputs = list(tensors(case.call(module, **inputs)))
    seen = Observed([output.detach().clone() for output in outputs])
    # Each number has a cotangent of its own, so that two outputs that change places are noticed.
    differentiable = [output for output in outputs if output.requires_grad]
    if not differentiable:
        return seen
    loss = sum((output * _cosines(output)).sum() for output in differentiable)
    leaves = {f"parameter {name}": p for name, p in module.named_parameters()}
    leaves |= {f"input {name}": x for name, x in inputs.items() if isinstance(x, Tensor)}
    leaves = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    for (name, leaf), grad in zip(leaves.items(), grads, strict=True):
        seen.gradients[name] = torch.zeros_like(leaf) if grad is None else grad.detach()
    return seen


def assert_same(actual: Observed, expected: Observed, case: Case) -> None:
    tolerance = case.tolerance * (1e-3 if case.dtype == torch.float64 else 1.0)
    torch.testing.assert_close(
        {"outputs": actual.outputs, **actual.gradients},
        {"outputs": expected.outputs, **expected.gradients},
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
    )


def tensors(value: Any) -> list[Tensor]:
    """The floating-point tensors in nested containers, dataclasses included."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if hasattr(value, "__dataclass_fields__"):
        value = vars(value)
    items = value.values() if isinstance(value, dict) else value
    nested = isinstance(value, dict | list | tuple)
    return [tensor for item in items for tensor in tensors(item)] if nested else []


def _cosines(x: Tensor) -> Tensor:
    return torch.arange(1, x.numel() + 1, dtype=x.dtype).view(x.shape).cos()


# Masks.
def causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()[:, :, None]


def padding(keys: int, *lengths: int) -> Tensor:
    return (torch.arange(keys)[:, None] < torch.tensor(lengths))[None]


def ragged(queries: int, keys: int) -> Tensor:
    """Another mask for each sequence, and a query that is fully masked in one of them."""
    mask = torch.rand(queries, keys, B) < 0.5
    mask[2, :, 1] = False
    return mask


# Attention.
def attention_inputs(
    queries: int = T,
    keys: int | None = None,
    batch: int = B,
    mask: Callable[[], Tensor] | None = None,
    width: int = C,
) -> dict[str, Any]:
    """Self-attention, or cross-attention if there is a number of keys."""
    inputs: dict[str, Any] = {"query": torch.randn(queries, batch, width)}
    if keys is not None:
        inputs |= {name: torch.randn(keys, batch, width) for name in ("key", "value")}
    return inputs | {"mask": None if mask is None else mask()}


def attend_to_itself(module: nn.Module, query: Tensor, **inputs: Any) -> Any:
    return module(**{"query": query, "key": query, "value": query, **inputs})


def with_cache(module: nn.Module, query: Tensor, mask: Tensor | None) -> Any:
    """The first positions at once, the rest one by one against cached keys and values."""
    cache, first = KVCache(), query[:2]
    head = None if mask is None else mask[:2, :2]
    outputs = [module(query=first, key=first, value=first, mask=head, cache=cache)]
    for x in query[2:].split(1):
        outputs.append(module(query=x, key=x, value=x, cache=cache))
    return outputs, cache.keys, cache.values


def attend(module: nn.Module, mask: Tensor | None = None, **inputs: Tensor) -> Any:
    return module.attend(*inputs.values(), mask)


def heads(queries: int, keys: int, mask: Callable[[], Tensor] | None = None) -> dict[str, Any]:
    inputs: dict[str, Any] = {"query": torch.randn(queries, B, H, 4)}
    inputs |= {"key": torch.randn(keys, B, H, 4), "value": torch.randn(keys, B, H, 6)}
    return inputs | ({} if mask is None else {"mask": mask()})


def attention_cases(cls: type[MultiHeadAttention]) -> list[Case]:
    def case(name: str, call: Any, inputs: Any, *args: Any, **options: Any) -> Case:
        return Case(name, partial(cls, H, C, 0.0, *args, **options), call, inputs)

    own, inputs = attend_to_itself, attention_inputs
    own_causal = partial(inputs, mask=partial(causal, T))
    last_too = torch.arange(T) == T - 1
    masks: dict[str, Callable[[], Tensor]] = {
        "padding": partial(padding, T, 3, 5),
        "ragged": partial(ragged, T, T),
        "almost causal": lambda: causal(T) | last_too[None, :, None],
    }
    of_heads = {"ragged": lambda: ragged(T, S)[..., None]}
    of_heads |= {"mask": lambda: torch.rand(1, S, B, H) < 0.7, "no mask": None}
    return [
        case("self", own, inputs),
        case("causal", own, own_causal),
        Case("evaluation", lambda: cls(H, C, 0.5).eval(), own, own_causal),
        replace(case("double", own, own_causal), dtype=torch.float64),
        case("one position", own, partial(inputs, 1)),
        case("empty batch", own, partial(inputs, batch=0)),
        case("many rows", own, partial(inputs, 33, batch=5)),
        case("long and causal", own, partial(inputs, 70, mask=partial(causal, 70))),
        *(case(name, own, partial(inputs, mask=mask)) for name, mask in masks.items()),
        case("cache", with_cache, own_causal),
        case("no bias", own, inputs, False),
        case("one bias", own, partial(inputs, 33), False, output_bias=True),
        case("widths of heads", own, own_causal, d_k=6, d_v=7),
        *(
            case(f"heads, {name}", attend, partial(heads, T, S, mask), d_v=6)
            for name, mask in of_heads.items()
        ),
    ]


def cross_attention_cases() -> list[Case]:
    masks = [None, partial(padding, S, 0, 6), lambda: ragged(T, S)]
    build = partial(MultiHeadAttention, H, C, 0.0)
    return [
        Case(f"cross {name}", build, inputs=partial(attention_inputs, T, S, mask=mask))
        for name, mask in zip(("", "padding", "ragged"), masks, strict=True)
    ]


def sequence(length: int = T, batch: int = B) -> dict[str, Any]:
    return {"x": torch.randn(length, batch, C)}


def call_positional(module: nn.Module, x: Tensor) -> Any:
    return module(x)


def with_state() -> dict[str, Any]:
    return sequence() | {"state": torch.randn(B, 10)}


def padded() -> dict[str, Any]:
    return sequence() | {"mask": torch.rand(T, B) < 0.7}


# Language models.
SMALL = {name: small(name, d_model=C, heads=H, max_len=8) for name in labml_nn.models()}
# Of one width, for then two matrices of a cell can share their weight.
SMALL["lstm"]["d_hidden"] = SMALL["gru"]["d_hidden"] = C


def language_model(name: str, **config: Any) -> nn.Module:
    config = {"n_vocab": V, "dropout_prob": 0.0} | SMALL[name] | config
    return random(labml_nn.create(name, **config))


def random(module: nn.Module) -> nn.Module:
    """Parameters without a structure that an intervention would leave as it is."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


def texts(length: int = T) -> dict[str, Any]:
    tokens, targets = torch.randint(3, V, (2, length, B))
    return {"tokens": tokens, "targets": targets}


def read_and_write(model: Any, tokens: Tensor, targets: Tensor) -> Any:
    """Logits of two chunks with the state between them, and of tokens that are generated."""
    logits, state = model(tokens)
    more, _ = model(targets[:2], state)
    return logits, more, decode(model, tokens, targets)


def translate(model: Any, tokens: Tensor, targets: Tensor) -> Any:
    """Logits of the target after the source `tokens`, and of tokens that are generated."""
    state, begin, _ = model.prepare_prompt(tokens)
    return model(torch.cat([begin, targets]), state)[0], decode(model, tokens, targets)


def decode(model: Any, tokens: Tensor, targets: Tensor) -> Any:
    """Logits while `targets` are written after the prompt `tokens`."""
    with torch.no_grad():
        state, prompt, _ = model.prepare_prompt(tokens)
        logits, state = model(prompt, state)
        step = model.decoding_step(state)
        return [logits[-1], *(step(row).clone() for row in targets[:3])]


def padded_texts() -> dict[str, Any]:
    """Sequences of different lengths, and a padding token among those that are generated."""
    inputs = texts()
    inputs["tokens"][:2, 0] = inputs["tokens"][3, 1] = inputs["targets"][2, 0] = 0
    return inputs


def decoding_cases(name: str, **variants: dict[str, Any]) -> list[Case]:
    return [
        Case(variant or name, lambda c=config: language_model(name, **c).eval(), decode, texts)
        for variant, config in {"": {}, **variants}.items()
    ]


# The feedback transformer.
def feedback_layer(attn: FeedbackAttention, network: FeedForward) -> FeedbackTransformerLayer:
    return FeedbackTransformerLayer(d_model=C, attn=attn, feed_forward=network, dropout_prob=0.0)


def feedback_kv(
    activation: Callable[[Tensor], Tensor] | None = None,
    is_gated: bool = False,
    dropped: str = "",
    max_distance: int = 64,
    **options: Any,
) -> nn.Module:
    """Random parameters; all of one kind of features can be dropped."""
    attn = FeedbackAttention(H, C, 0.0, is_kv_precomputed=True, max_distance=max_distance)
    network = FeedForward(C, 28, 0.0, activation, is_gated)
    layer = feedback_layer(attn, network)
    dropouts = {"weights": attn.dropout, "sub-layers": layer.dropout, "hidden": network.dropout}
    if dropped:
        dropouts[dropped].p = 1.0
    return random(FeedbackTransformerKV(layer, 2, C, H, **options))


def scan_chunks(model: Any, x: Tensor, mask: Tensor | None = None, cut: int = 6) -> Any:
    """Outputs of two chunks and the memory between and after them, without empty slots."""
    first, middle = model.scan(x[:cut], mask=None if mask is None else mask[:cut])
    rest, memory = model.scan(x[cut:], middle, mask=None if mask is None else mask[cut:])
    found = [first, rest]
    for each in (middle, memory):
        own = 1.0 if each.mask is None else each.mask[..., None, None].to(x.dtype)
        found += [each.keys * own, each.values * own]
    return found


def feedback_inputs(length: int = 40, batch: int = B, is_padded: bool = False) -> dict[str, Any]:
    inputs: dict[str, Any] = {"x": torch.randn(length, batch, C)}
    if is_padded:
        inputs["mask"] = torch.rand(length, batch) < 0.7
        inputs["mask"][:2, -1] = False
    return inputs


def feedback_cases() -> list[Case]:
    def case(name: str, inputs: Any = feedback_inputs, **options: Any) -> Case:
        return Case(name, partial(feedback_kv, **options), scan_chunks, inputs, 1e-2)

    def double(*args: Any, **options: Any) -> Case:
        return replace(case(*args, **options), tolerance=1e-4, dtype=torch.float64)

    window: dict[str, Any] = {"horizon": 5, "norm_memory": True}
    padded = partial(feedback_inputs, is_padded=True)
    return [
        case("sequence"),
        case("window", **window),
        double("double", norm_memory=True),
        double("window, double", **window),
        double("long window", horizon=20, max_distance=7),
        case("seventeen rows", partial(feedback_inputs, 21, 17), horizon=9),
        double("padding", padded),
        double("window, padding", padded, **window),
        double("GELU", activation=nn.GELU()),
        double("SwiGLU", activation=nn.SiLU(), is_gated=True),
        double("tanh", activation=torch.tanh, horizon=3),
        *(
            make(f"no {dropped}, {make.__name__}", dropped=dropped)
            for dropped in ("weights", "sub-layers", "hidden")
            for make in (case, double)
        ),
        case("empty batch", partial(feedback_inputs, batch=0)),
        case("few tokens", partial(feedback_inputs, 8)),
    ]


def elman_cases() -> list[Case]:
    def case(name: str, inputs: Any = sequence, units: int = 10, **options: Any) -> Case:
        return Case(name, partial(ElmanLayer, C, units, **options), inputs=inputs)

    return [
        case("sequence"),
        case("sigmoid", with_state, nonlinearity="sigmoid"),
        case("relu", with_state, nonlinearity="relu"),
        case("padding", padded, learn_h_0=True),
        case("one step", partial(sequence, 1)),
        case("empty batch", partial(sequence, batch=0)),
        case("long", partial(sequence, 40), 17),
        case("no bias", bias=False),
        replace(case("double"), dtype=torch.float64),
    ]


def after_a_seed(module: nn.Module, **inputs: Any) -> Any:
    """Dropout draws the same numbers each time."""
    torch.manual_seed(1)
    return module(**inputs)


def gated_cases(kind: type[LSTM] | type[GRU]) -> list[Case]:
    def case(name: str, inputs: Any = sequence, **options: Any) -> Case:
        return Case(name, partial(kind, C, 10, 2, **options), inputs=inputs)

    def states() -> dict[str, Any]:
        h, c = torch.randn(2, 2, B, 10)
        return sequence() | {"state": h if kind is GRU else (h, c)}

    return [
        case("sequence"),
        case("state", states),
        case("padding", padded),
        replace(case("dropout", dropout_prob=0.5), call=after_a_seed),
        *([case("layer norm", layer_norm=True)] if kind is LSTM else []),
        case("one step", partial(sequence, 1)),
        case("empty batch", partial(sequence, batch=0)),
        replace(case("double"), dtype=torch.float64),
    ]


# The table: cases by owner.
CASES: dict[type[nn.Module], list[Case]] = {
    MultiHeadAttention: attention_cases(MultiHeadAttention) + cross_attention_cases(),
    RotaryMultiHeadAttention: attention_cases(RotaryMultiHeadAttention),
    QKNormAttention: attention_cases(QKNormAttention),
    RotaryQKNormAttention: attention_cases(RotaryQKNormAttention),
    # Their other choices are tried in `kernels/test_decoding.py`.
    AutoregressiveTransformer: decoding_cases("autoregressive", padding={"padding_token": 0}),
    EncoderDecoderLanguageModel: decoding_cases(
        "encoder_decoder",
        widths={"d_k": 3, "activation": "silu", "tied": False, "n_source_vocab": V + 2},
    ),
    FeedbackTransformerKV: feedback_cases(),
    FeedbackLanguageModel: [
        *decoding_cases(
            "feedback",
            untied={"tied": False, "norm_memory": False},
            window={"max_len": 3},
            separate={"shared_kv": False},
        ),
        replace(decoding_cases("feedback", padding={"padding_token": 0})[1], inputs=padded_texts),
    ],
    ElmanLanguageModel: decoding_cases(
        "elman",
        padding={"padding_token": 3},
        sigmoid={"nonlinearity": "sigmoid", "tied": False},
        classic={"tanh_projections": True},
    ),
    ElmanLayer: elman_cases(),
    LSTM: gated_cases(LSTM),
    GRU: gated_cases(GRU),
}


def elman() -> nn.Module:
    """Its recurrent weights are not orthogonal: spectral norm would not change those."""
    network = Elman(C, 10, 2)
    for layer in network.layers:
        nn.init.normal_(layer.cell.recurrent.weight, std=0.4)
    return network


# The lessons' modules, on which `changes.py` tries whatever users do to modules.
def feedback() -> nn.Module:
    return FeedbackTransformer(
        feedback_layer(FeedbackAttention(H, C, 0.0), FeedForward(C, 8, 0.0)), 2
    )


LESSONS: dict[str, Case] = {
    case.name: case
    for case in (
        replace(attention_cases(MultiHeadAttention)[1], name="mha"),
        Case("elman", elman, call_positional, sequence, tolerance=2e-4),
        Case("feedback", feedback, call_positional, partial(sequence, 3)),
        Case("feedback_kv", feedback_kv, call_positional, partial(sequence, 4)),
        *(
            Case(
                f"{name} language model",
                lambda name=name: language_model(name, n_layers=1).eval(),
                translate if name == "encoder_decoder" else read_and_write,
                partial(texts, 3),
                # Fused steps round differently, and a recurrence amplifies that.
                1e-3 if name == "elman" else 1e-5,
            )
            for name in SMALL
        ),
    )
}
