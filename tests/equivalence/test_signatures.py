"""Code written for labml-nn 0.5.1 can call ours: every argument is where it was."""

import importlib
import inspect

import pytest
from oracle import published

#: Public classes and functions by module, with the methods that old code calls or overrides.
PUBLIC = {
    "labml_nn.utils": {"clone_module_list": ()},
    "labml_nn.lstm": {"LSTMCell": ("__init__", "forward"), "LSTM": ("__init__", "forward")},
    "labml_nn.transformers.mha": {
        "PrepareForMultiHeadAttention": ("__init__", "forward"),
        "MultiHeadAttention": ("__init__", "forward", "get_scores", "prepare_mask"),
    },
    "labml_nn.transformers.feed_forward": {"FeedForward": ("__init__", "forward")},
    "labml_nn.transformers.positional_encoding": {
        "PositionalEncoding": ("__init__", "forward"),
        "get_positional_encoding": (),
    },
    "labml_nn.transformers.models": {
        "EmbeddingsWithPositionalEncoding": ("__init__", "forward"),
        "EmbeddingsWithLearnedPositionalEncoding": ("__init__", "forward"),
        "TransformerLayer": ("__init__", "forward"),
        "Encoder": ("__init__", "forward"),
        "Decoder": ("__init__", "forward"),
        "Generator": ("__init__", "forward"),
        "EncoderDecoder": ("__init__", "forward", "encode", "decode"),
    },
    "labml_nn.transformers.utils": {"subsequent_mask": ()},
    "labml_nn.transformers.label_smoothing_loss": {"LabelSmoothingLoss": ("__init__", "forward")},
    "labml_nn.transformers.feedback": {
        "FeedbackAttention": ("__init__", "forward", "get_scores"),
        "FeedbackTransformerLayer": ("__init__", "forward"),
        "FeedbackTransformer": ("__init__", "forward"),
        "FeedbackTransformerKV": ("__init__", "forward", "free"),
        "Stack": ("__init__", "append", "get", "free"),
    },
    "labml_nn.transformers.fast_weights": {
        "DPFP": ("__init__", "forward", "dpfp"),
        "FastWeightsAttention": ("__init__", "forward"),
        "FastWeightsAttentionTransformerLayer": ("__init__", "forward"),
        "FastWeightsAttentionTransformer": ("__init__", "forward"),
    },
    "labml_nn.transformers.fast_weights.token_wise": {
        "FastWeightsAttention": ("__init__", "forward"),
        "FastWeightsAttentionTransformerLayer": ("__init__", "forward"),
        "FastWeightsAttentionTransformer": ("__init__", "forward"),
    },
}


def signatures(public):
    """Name, kind and default of every argument, by the dotted name of what takes it."""
    found = {}
    for module_name, things in public.items():
        module = importlib.import_module(module_name)
        for thing, methods in things.items():
            for name in [f"{thing}.{method}" for method in methods] or [thing]:
                function = module
                for part in name.split("."):
                    function = getattr(function, part)
                found[f"{module_name}.{name}"] = [
                    (
                        argument.name,
                        argument.kind.name,
                        "required"
                        if argument.default is argument.empty
                        else repr(argument.default),
                    )
                    for argument in inspect.signature(function).parameters.values()
                ]
    return found


#: One old object serves every network there: a module as a default, where ours makes a new one.
#: And an encoder can do without a mask.
NEW_DEFAULTS = {
    ("labml_nn.transformers.models.Encoder.forward", "mask"): ("required", "None"),
    ("labml_nn.transformers.feed_forward.FeedForward.__init__", "activation"): ("ReLU()", "None"),
}

CASES = (
    "import importlib, inspect\n"
    'sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = MagicMock()\n'
    f"PUBLIC = {PUBLIC!r}\n"
    + inspect.getsource(signatures)
    + 'records["signatures"] = signatures(PUBLIC)\n'
)


@pytest.fixture(scope="module")
def old():
    return published(CASES)["signatures"]


NAMES = sorted(
    f"{module}.{thing}" + (f".{method}" if method else "")
    for module, things in PUBLIC.items()
    for thing, methods in things.items()
    for method in methods or ("",)
)


@pytest.fixture(scope="module")
def new():
    return signatures(PUBLIC)


@pytest.mark.parametrize("name", NAMES)
def test_every_old_argument_is_where_it_was(old, new, name):
    expected = [
        (argument, kind, NEW_DEFAULTS.get((name, argument), (default, default))[1])
        for argument, kind, default in old[name]
    ]
    added = [argument for argument in new[name] if argument[0] not in {old for old, *_ in expected}]
    assert [argument for argument in new[name] if argument not in added] == expected

    # What is new can be left out, and never stands before something old. `get_scores` of the
    # feedback attention has a third argument, which may be given by position.
    for argument, kind, default in added:
        assert default != "required", argument
        assert kind == "KEYWORD_ONLY" or new[name][-1] == (argument, kind, default)


def test_exceptions_are_still_needed(old):
    for (name, argument), (default, _) in NEW_DEFAULTS.items():
        assert (argument, "POSITIONAL_OR_KEYWORD", default) in old[name]
