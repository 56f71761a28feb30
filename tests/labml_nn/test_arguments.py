"""What enters a constructor is checked there: the error names the argument and its value.

The arguments of lessons and of models by name are known by their annotations, so a new one is
tested as soon as it is there. A row is for what an annotation does not tell. Widths that do not
fit each other, and arguments of methods, are tested with their module.
"""

import inspect
import math
from collections.abc import Iterator
from importlib import import_module
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from torch import nn

import labml_nn
from docs_src.lessons import LESSONS, ROOT
from labml_nn.language_model import LanguageModelConfig
from labml_nn.recurrent import gated_delta_net
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackAttention, FeedbackTransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import TransformerLayer

SIZE, FLAG, PROBABILITY = (0, 2.5), ("no", 1), (1.5, -0.1, None)
#: Arguments that are right, by name.
RIGHT = {"d_model": 12, "heads": 3, "d_k": 4, "d_hidden": 7, "input_size": 12, "hidden_size": 7}
RIGHT |= {"features": 12, "n_layers": 2, "n_vocab": 19, "dropout_prob": 0.1, "bias": True}
HEADS = {"heads": 3, "d_model": 12}
NETWORK = {"d_model": 12, "feed_forward": FeedForward(12, 28), "dropout_prob": 0.1}
ATTENTION = {"self_attn": MultiHeadAttention(3, 12), "src_attn": MultiHeadAttention(3, 12)}
STACK = {"layer": TransformerLayer(**ATTENTION, **NETWORK), "n_layers": 2}
FEEDBACK_LAYERS = [
    FeedbackTransformerLayer(attn=FeedbackAttention(3, 12, is_kv_precomputed=shared), **NETWORK)
    for shared in (False, True)
]

#: A call that is right, and for each argument values that are not.
Row = tuple[dict[str, Any], dict[str, tuple[Any, ...]]]


def classes() -> Iterator[type]:
    """The configurations of the models by name, and the modules of the lessons."""
    yield from (entry.load_class().Config for entry in labml_nn.models().values())
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in LESSONS.values())
    lessons = [import_module(name.removesuffix(".__init__")) for name in names]
    for lesson in (*lessons, gated_delta_net):
        for kind in vars(lesson).values():
            own = isinstance(kind, type) and kind.__module__ == lesson.__name__
            if own and issubclass(kind, nn.Module):
                yield kind


def row(kind: type) -> Row | None:
    """The row of a class by its annotations; none if it needs an argument that `RIGHT` lacks."""
    parameters = dict(inspect.signature(kind).parameters)
    if issubclass(kind, LanguageModelConfig) and kind is not LanguageModelConfig:
        base = inspect.signature(LanguageModelConfig).parameters
        parameters = {k: v for k, v in parameters.items() if k == "n_vocab" or k not in base}
    needed = [name for name, one in parameters.items() if one.default is one.empty]
    needed += [name for name in HEADS if name in parameters and name not in needed]
    if not set(needed) <= set(RIGHT):
        return None
    hints = get_type_hints(kind if issubclass(kind, LanguageModelConfig) else kind.__init__)
    wrong: dict[str, tuple[Any, ...]] = {}
    for name in parameters:
        several = get_args(hints[name])
        optional = NoneType in several
        annotation = several[0] if optional else hints[name]
        if annotation is bool:
            wrong[name] = FLAG
        elif annotation is int:
            wrong[name] = (*SIZE, 5) if name == "heads" and "d_k" not in needed else SIZE
        elif annotation is float and name.endswith("_prob"):
            wrong[name] = PROBABILITY[: 2 if optional else 3]
        elif get_origin(annotation) is Literal:
            wrong[name] = ("none of them",)
    return {name: RIGHT[name] for name in needed}, wrong


DERIVED = {
    f"{kind.__module__}.{kind.__name__}".removeprefix("labml_nn."): found
    for kind in classes()
    if (found := row(kind)) is not None
}
#: Of other classes.
ROWS: dict[str, Row] = {
    "transformers.modern.RotaryMultiHeadAttention": (HEADS, {"d_k": (5,), "base": (1.0, 0.5, "x")}),
    "transformers.modern.RMSNorm": ({"d_model": 12}, {"d_model": SIZE, "eps": (0.0, -1e-5, "1")}),
    "transformers.layer_norm.LayerNorm": (
        {"normalized_shape": 12},
        {"normalized_shape": (0, 12.0), "eps": (-1e-5, math.nan, "small", True)}
        | {"elementwise_affine": FLAG, "bias": FLAG},
    ),
    "transformers.feed_forward.FeedForward": (
        {"d_model": 12, "d_ff": 28},
        {"d_model": SIZE, "d_ff": (*SIZE, "28"), "dropout": PROBABILITY}
        | {"activation": ("gelu", nn.GELU), "is_gated": FLAG}
        | {"bias1": FLAG, "bias2": FLAG, "bias_gate": FLAG},
    ),
    "transformers.label_smoothing_loss.LabelSmoothingLoss": (
        {"size": 3, "padding_idx": 0, "smoothing": 0.1},
        {"size": (*SIZE, 2), "padding_idx": (3, -1, 0.5), "smoothing": (-0.1, 1.1)},
    ),
    "transformers.models.TransformerLayer": (
        NETWORK | ATTENTION,
        {"d_model": SIZE, "dropout_prob": PROBABILITY, "norm_first": FLAG},
    ),
    "transformers.models.Encoder": (STACK, {"n_layers": SIZE, "final_norm": FLAG}),
    "transformers.models.Decoder": (STACK, {"n_layers": SIZE, "final_norm": FLAG}),
    "transformers.feedback.FeedbackTransformerLayer": (
        NETWORK | {"attn": FeedbackAttention(3, 12)},
        {"d_model": SIZE, "dropout_prob": PROBABILITY},
    ),
    "transformers.feedback.FeedbackTransformer": (
        {"layer": FEEDBACK_LAYERS[0], "n_layers": 2},
        {"n_layers": SIZE, "horizon": SIZE, "norm_memory": FLAG},
    ),
    "transformers.feedback.FeedbackTransformerKV": (
        {"layer": FEEDBACK_LAYERS[1], "n_layers": 2} | HEADS,
        {"horizon": SIZE, "norm_memory": FLAG, "heads": (2, 5)},
    ),
    "language_model.LanguageModelConfig": (
        {"n_vocab": 19},
        {"n_vocab": SIZE, "padding_token": (-1, 19, "0"), "label_smoothing": (1.1, -0.1, None)}
        | {"init_lower": (-0.1,), "init_upper": (0.1,)},
    ),
    "sampling.Temperature": ({"temperature": 1.0}, {"temperature": (0.0, math.inf, "1")}),
    "sampling.TopK": ({"k": 3}, {"k": SIZE}),
    "sampling.Nucleus": ({"p": 0.9}, {"p": (0.0, 1.1, None)}),
    "transformers.fast_weights.DPFP": ({}, {"nu": SIZE, "eps": ("0",)}),
    "transformers.fast_weights.FastWeightsAttention": (
        {"heads": 3, "d_model": 12, "dropout_prob": 0.1, "phi": nn.Identity()},
        {"heads": (*SIZE, 5), "d_model": SIZE, "dropout_prob": PROBABILITY},
    ),
    "utils.independent_copies": ({"module": nn.Linear(3, 5), "n": 2}, {"n": SIZE}),
}
#: What annotations do not tell: widths that do not fit, and names that only others know.
MORE: dict[str, dict[str, tuple[Any, ...]]] = {
    "transformers.mha.MultiHeadAttention": {"d_model": (10,)},
    "transformers.positional_encoding.PositionalEncoding": {"d_model": ("4",)},
    "transformers.positional_encoding.LearnedPositionalEncoding": {"d_model": ("4",)},
    "transformers.autoregressive.AutoregressiveConfig": {"positions": (None,)},
    "transformers.encoder_decoder.EncoderDecoderConfig": {"n_vocab": (2,)}
    | {"padding_token": (1,), "start_token": (19,), "end_token": (1,)}
    | {"positions": ("rotary",), "activation": ("tanh",)},
    "recurrent.elman.ElmanCell": {"nonlinearity": ("tan", 3)},
    "recurrent.elman.ElmanLayer": {"nonlinearity": ("tan",)},
    "recurrent.elman.ElmanConfig": {"nonlinearity": ("rely",)},
    "recurrent.mamba2.Mamba2": {"groups": (2,)},
    "recurrent.mamba2.Mamba2Config": {"groups": (2,)},
}
ALL = DERIVED | ROWS
for _name, _more in MORE.items():
    for _argument, _values in _more.items():
        ALL[_name][1][_argument] = (*ALL[_name][1].get(_argument, ()), *_values)
REFUSED = [
    pytest.param(name, argument, value, id=f"{name}-{argument}-{value!r:.20}")
    for name, (_, wrong) in ALL.items()
    for argument, values in wrong.items()
    for value in values
]


@pytest.mark.parametrize(("name", "argument", "value"), REFUSED)
def test_what_cannot_work_is_refused_by_name(unhooked, name, argument, value):
    module, _, cls = name.rpartition(".")
    made = getattr(unhooked(f"labml_nn.{module}"), cls)
    with pytest.raises((TypeError, ValueError)) as caught:
        made(**ALL[name][0] | {argument: value})
    assert argument in str(caught.value) and str(value) in str(caught.value)
