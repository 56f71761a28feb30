"""What enters a constructor is checked there: the error names the argument and its value.

One row for each argument of each class, and what it refuses. Widths that do not fit each other,
and arguments of methods, are tested with their module.
"""

import math
from typing import Any

import pytest
from torch import nn

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.feedback import FeedbackAttention, FeedbackTransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import TransformerLayer

SIZE, FLAG, PROBABILITY = (0, 2.5), ("no", 1), (1.5, -0.1, None)
HEADS = {"heads": 3, "d_model": 12}
NETWORK = {"d_model": 12, "feed_forward": FeedForward(12, 28), "dropout_prob": 0.1}
LAYER = TransformerLayer(
    self_attn=MultiHeadAttention(3, 12), src_attn=MultiHeadAttention(3, 12), **NETWORK
)
FEEDBACK_LAYERS = [
    FeedbackTransformerLayer(attn=FeedbackAttention(3, 12, is_kv_precomputed=shared), **NETWORK)
    for shared in (False, True)
]

# A call that is right, and for each argument values that are not.
TRANSFORMERS: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "mha.PrepareForMultiHeadAttention": (
        HEADS | {"d_k": 4, "bias": True},
        {"d_model": SIZE, "heads": SIZE, "d_k": SIZE, "bias": FLAG},
    ),
    "mha.MultiHeadAttention": (
        HEADS | {"d_k": 4},
        {"heads": (*SIZE, 5), "d_model": (*SIZE, 10), "d_k": SIZE, "d_v": SIZE}
        | {"dropout_prob": PROBABILITY, "bias": FLAG, "output_bias": FLAG},
    ),
    "modern.RotaryMultiHeadAttention": (HEADS, {"d_k": (5,), "base": (1.0, 0.5, "x")}),
    "modern.RMSNorm": ({"d_model": 12}, {"d_model": SIZE, "eps": (0.0, -1e-5, "1")}),
    "layer_norm.LayerNorm": (
        {"normalized_shape": 12},
        {"normalized_shape": (0, 12.0), "eps": (-1e-5, math.nan, math.inf, "small", True)}
        | {"elementwise_affine": FLAG, "bias": FLAG},
    ),
    "feed_forward.FeedForward": (
        {"d_model": 12, "d_ff": 28},
        {"d_model": SIZE, "d_ff": (*SIZE, "28"), "dropout": PROBABILITY}
        | {"activation": ("gelu", nn.GELU), "is_gated": FLAG}
        | {"bias1": FLAG, "bias2": FLAG, "bias_gate": FLAG},
    ),
    "label_smoothing_loss.LabelSmoothingLoss": (
        {"size": 3, "padding_idx": 0, "smoothing": 0.1},
        {"size": (*SIZE, 2), "padding_idx": (3, -1, 0.5), "smoothing": (-0.1, 1.1)},
    ),
    "positional_encoding.PositionalEncoding": (
        {"d_model": 12, "dropout_prob": 0.1},
        {"d_model": (*SIZE, "4"), "dropout_prob": PROBABILITY, "max_len": SIZE},
    ),
    "positional_encoding.LearnedPositionalEncoding": (
        {"d_model": 12, "dropout_prob": 0.1},
        {"d_model": (*SIZE, "4"), "dropout_prob": PROBABILITY, "max_len": SIZE},
    ),
    "models.EmbeddingsWithPositionalEncoding": (
        {"d_model": 12, "n_vocab": 19},
        {"d_model": SIZE, "n_vocab": SIZE, "max_len": SIZE},
    ),
    "models.EmbeddingsWithLearnedPositionalEncoding": (
        {"d_model": 12, "n_vocab": 19},
        {"d_model": SIZE, "n_vocab": SIZE, "max_len": SIZE},
    ),
    "models.Generator": ({"n_vocab": 19, "d_model": 12}, {"n_vocab": SIZE, "d_model": SIZE}),
    "models.TransformerLayer": (
        NETWORK | {"self_attn": MultiHeadAttention(3, 12)},
        {"d_model": SIZE, "dropout_prob": PROBABILITY, "norm_first": FLAG},
    ),
    "models.Encoder": ({"layer": LAYER, "n_layers": 2}, {"n_layers": SIZE, "final_norm": FLAG}),
    "models.Decoder": ({"layer": LAYER, "n_layers": 2}, {"n_layers": SIZE, "final_norm": FLAG}),
    "feedback.FeedbackAttention": (
        HEADS,
        {"heads": (*SIZE, 5), "d_model": SIZE, "dropout_prob": PROBABILITY}
        | {"is_kv_precomputed": FLAG, "max_distance": SIZE},
    ),
    "feedback.FeedbackTransformerLayer": (
        NETWORK | {"attn": FeedbackAttention(3, 12)},
        {"d_model": SIZE, "dropout_prob": PROBABILITY},
    ),
    "feedback.FeedbackTransformer": (
        {"layer": FEEDBACK_LAYERS[0], "n_layers": 2},
        {"n_layers": SIZE, "horizon": SIZE, "norm_memory": FLAG},
    ),
    "feedback.FeedbackTransformerKV": (
        {"layer": FEEDBACK_LAYERS[1], "n_layers": 2} | HEADS,
        {"horizon": SIZE, "norm_memory": FLAG, "heads": (2, 5)},
    ),
}
CONFIG = {"n_vocab": 19, "d_model": 12, "heads": 3}
MODELS = {
    "language_model.LanguageModelConfig": (
        {"n_vocab": 19},
        {"n_vocab": SIZE, "padding_token": (-1, 19, "0"), "label_smoothing": (1.1, -0.1, None)}
        | {"init_lower": (-0.1,), "init_upper": (0.1,)},
    ),
    "transformers.autoregressive.AutoregressiveConfig": (
        CONFIG,
        {"n_layers": SIZE, "max_len": SIZE, "heads": (*SIZE, 5), "d_model": SIZE}
        | {"d_k": SIZE, "d_v": SIZE, "d_ff": SIZE, "dropout_prob": PROBABILITY}
        | {"positions": ("learnt", None), "norm": ("rsm",), "activation": ("gleu",)}
        | dict.fromkeys(("norm_first", "qk_norm", "bias", "tied"), FLAG)
        | dict.fromkeys(("embedding_norm", "zero_init"), FLAG),
    ),
    "transformers.encoder_decoder.EncoderDecoderConfig": (
        CONFIG | {"d_k": 4},
        {"heads": SIZE, "d_model": SIZE, "n_layers": SIZE, "max_len": SIZE}
        | {"n_source_vocab": SIZE, "d_k": SIZE, "d_ff": SIZE, "n_vocab": (0, 2)}
        | {"n_encoder_layers": SIZE, "n_decoder_layers": SIZE, "dropout_prob": PROBABILITY}
        | {"embedding_dropout_prob": (2.0,), "attention_dropout_prob": (2.0,)}
        | {"feed_forward_dropout_prob": (2.0,), "positions": ("rotary",)}
        | {"activation": ("tanh",), "bias": FLAG, "tied": FLAG, "norm_first": FLAG}
        | {"padding_token": (1,), "start_token": (19,), "end_token": (1,)},
    ),
    "transformers.feedback.language_model.FeedbackConfig": (
        CONFIG,
        {"heads": (*SIZE, 5), "d_ff": SIZE, "n_layers": SIZE, "max_len": SIZE}
        | {"dropout_prob": PROBABILITY, "shared_kv": FLAG, "norm_memory": FLAG, "tied": FLAG},
    ),
    "recurrent.elman.ElmanCell": (
        {"d_model": 12, "d_hidden": 7},
        {"d_model": SIZE, "d_hidden": SIZE, "bias": FLAG, "nonlinearity": ("tan", 3)},
    ),
    "recurrent.elman.ElmanLayer": (
        {"d_model": 12, "d_hidden": 7},
        {"d_hidden": SIZE, "bias": FLAG, "nonlinearity": ("tan",), "learn_h_0": FLAG},
    ),
    "recurrent.elman.Elman": (
        {"d_model": 12, "d_hidden": 7},
        {"d_model": SIZE, "d_hidden": SIZE, "n_layers": SIZE, "dropout_prob": PROBABILITY},
    ),
    "lstm.LSTMCell": (
        {"input_size": 12, "hidden_size": 7},
        {"input_size": SIZE, "hidden_size": SIZE, "layer_norm": FLAG},
    ),
    "lstm.LSTM": (
        {"input_size": 12, "hidden_size": 7, "n_layers": 2},
        {"input_size": SIZE, "hidden_size": SIZE, "n_layers": SIZE, "dropout_prob": PROBABILITY},
    ),
    "lstm.gru.GRUCell": (
        {"input_size": 12, "hidden_size": 7},
        {"input_size": SIZE, "hidden_size": SIZE},
    ),
    "lstm.gru.GRU": (
        {"input_size": 12, "hidden_size": 7, "n_layers": 2},
        {"input_size": SIZE, "hidden_size": SIZE, "n_layers": SIZE, "dropout_prob": PROBABILITY},
    ),
    "lstm.gru.GRUConfig": (
        {"n_vocab": 19},
        {"d_model": SIZE, "d_hidden": SIZE, "n_layers": SIZE, "dropout_prob": PROBABILITY},
    ),
    "lstm.LSTMConfig": (
        {"n_vocab": 19},
        {"d_model": SIZE, "d_hidden": SIZE, "n_layers": SIZE, "dropout_prob": PROBABILITY}
        | {"layer_norm": FLAG},
    ),
    "recurrent.linear_attention.ShortConvolution": (
        {"features": 12},
        {"features": SIZE, "width": SIZE},
    ),
    "recurrent.delta_net.ShortConvolution": (
        {"features": 12},
        {"features": SIZE, "width": SIZE},
    ),
    "recurrent.gated_delta_net.ShortConvolution": (
        {"features": 12},
        {"features": SIZE, "width": SIZE},
    ),
    "recurrent.mamba2.ShortConvolution": (
        {"features": 12},
        {"features": SIZE, "width": SIZE},
    ),
    "recurrent.linear_attention.LinearAttention": (
        {"d_model": 12, "heads": 3},
        {"d_model": SIZE, "heads": (*SIZE, 5), "conv": SIZE},
    ),
    "recurrent.linear_attention.LinearAttentionConfig": (
        {"n_vocab": 19},
        {"d_model": SIZE, "heads": (*SIZE, 5), "n_layers": SIZE, "d_ff": SIZE, "conv": SIZE}
        | {"dropout_prob": PROBABILITY},
    ),
    "recurrent.delta_net.DeltaNet": (
        {"d_model": 12, "heads": 3},
        {"d_model": SIZE, "heads": (*SIZE, 5), "d_k": SIZE, "d_v": SIZE, "conv": SIZE}
        | {"allow_neg_eigval": FLAG},
    ),
    "recurrent.gated_delta_net.GatedDeltaNet": (
        {"d_model": 12, "heads": 3},
        {"d_model": SIZE, "heads": (*SIZE, 5), "d_k": SIZE, "d_v": SIZE, "conv": SIZE}
        | {"allow_neg_eigval": FLAG},
    ),
    "recurrent.delta_net.DeltaNetConfig": (
        {"n_vocab": 19, "d_model": 12, "heads": 3},
        {"d_model": SIZE, "heads": (*SIZE, 5), "d_k": SIZE, "d_v": SIZE, "conv": SIZE}
        | {"n_layers": SIZE, "d_ff": SIZE, "dropout_prob": PROBABILITY}
        | {"gated": FLAG, "allow_neg_eigval": FLAG},
    ),
    "recurrent.elman.ElmanConfig": (
        {"n_vocab": 19},
        {"d_model": SIZE, "d_hidden": SIZE, "n_layers": SIZE, "nonlinearity": ("rely",)}
        | dict.fromkeys(("embedding_dropout_prob", "output_dropout_prob"), PROBABILITY)
        | {"dropout_prob": PROBABILITY, "tied": FLAG, "tanh_projections": FLAG, "learn_h_0": FLAG},
    ),
    "recurrent.mamba2.Mamba2": (
        {"d_model": 12, "heads": 3},
        {"d_model": SIZE, "heads": (*SIZE, 5), "d_k": SIZE, "d_v": SIZE, "conv": SIZE}
        | {"groups": (*SIZE, 2), "bias": FLAG},
    ),
    "recurrent.mamba2.Mamba2Config": (
        {"n_vocab": 19},
        {"d_model": SIZE, "heads": (*SIZE, 5), "n_layers": SIZE, "d_ff": SIZE, "conv": SIZE}
        | {"d_k": SIZE, "d_v": SIZE, "groups": (*SIZE, 3), "dropout_prob": PROBABILITY},
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
ALL = {f"transformers.{name}": case for name, case in TRANSFORMERS.items()} | MODELS
REFUSED = [
    pytest.param(name, argument, value, id=f"{name}-{argument}-{value!r:.20}")
    for name, (_, wrong) in ALL.items()
    for argument, values in wrong.items()
    for value in values
]


@pytest.mark.parametrize("name", ALL)
def test_the_other_arguments_are_right(unhooked, name):
    module, _, cls = name.rpartition(".")
    getattr(unhooked(f"labml_nn.{module}"), cls)(**ALL[name][0])


@pytest.mark.parametrize(("name", "argument", "value"), REFUSED)
def test_what_cannot_work_is_refused_by_name(unhooked, name, argument, value):
    module, _, cls = name.rpartition(".")
    made = getattr(unhooked(f"labml_nn.{module}"), cls)
    with pytest.raises((TypeError, ValueError)) as caught:
        made(**ALL[name][0] | {argument: value})
    assert argument in str(caught.value) and str(value) in str(caught.value)
