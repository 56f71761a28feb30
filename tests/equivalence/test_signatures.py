"""Code written for labml-nn 0.5.1 can call ours: every argument is where it was."""

import inspect
import pkgutil

import pytest
from oracle import published

#: Functions and classes, and methods besides `forward` that old code calls or overrides.
PUBLIC = """
utils:clone_module_list
lstm:LSTMCell
lstm:LSTM
transformers.mha:PrepareForMultiHeadAttention
transformers.mha:MultiHeadAttention get_scores prepare_mask
transformers.feed_forward:FeedForward
transformers.positional_encoding:PositionalEncoding
transformers.positional_encoding:get_positional_encoding
transformers.models:EmbeddingsWithPositionalEncoding
transformers.models:EmbeddingsWithLearnedPositionalEncoding
transformers.models:TransformerLayer
transformers.models:Encoder
transformers.models:Decoder
transformers.models:Generator
transformers.models:EncoderDecoder encode decode
transformers.utils:subsequent_mask
transformers.label_smoothing_loss:LabelSmoothingLoss
transformers.feedback:FeedbackAttention get_scores
transformers.feedback:FeedbackTransformerLayer
transformers.feedback:FeedbackTransformer
transformers.feedback:FeedbackTransformerKV free
transformers.feedback:Stack append get free
transformers.fast_weights:DPFP dpfp
transformers.fast_weights:FastWeightsAttention
transformers.fast_weights:FastWeightsAttentionTransformerLayer
transformers.fast_weights:FastWeightsAttentionTransformer
transformers.fast_weights.token_wise:FastWeightsAttention
transformers.fast_weights.token_wise:FastWeightsAttentionTransformerLayer
transformers.fast_weights.token_wise:FastWeightsAttentionTransformer
""".strip().splitlines()
#: One old object serves every network there: a module as a default, where ours makes a new one.
#: And an encoder can do without a mask.
NEW_DEFAULTS = {
    ("transformers.models:Encoder", "forward", "mask"): ("required", "None"),
    ("transformers.feed_forward:FeedForward", "__init__", "activation"): ("ReLU()", "None"),
}


def signatures(lines):
    """Name, kind and default of every argument of a function or of the methods of a class."""
    found = {}
    for line in lines:
        path, *methods = line.split()
        thing = pkgutil.resolve_name(f"labml_nn.{path}")
        if inspect.isclass(thing):
            methods += ["__init__", *(["forward"] if hasattr(thing, "forward") else [])]
        for name in methods or ["__call__"]:
            function = getattr(thing, name) if methods else thing
            found[path, name] = [
                (a.name, a.kind.name, "required" if a.default is a.empty else repr(a.default))
                for a in inspect.signature(function).parameters.values()
            ]
    return found


@pytest.fixture(scope="module")
def old():
    cases = (
        "import inspect, pkgutil\n"
        'sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = MagicMock()\n'
        f'{inspect.getsource(signatures)}records["signatures"] = signatures({PUBLIC!r})\n'
    )
    return published(cases)["signatures"]


@pytest.mark.parametrize("line", PUBLIC)
def test_every_old_argument_is_where_it_was(old, line):
    path, new = line.split()[0], signatures([line])
    for name in [name for where, name in old if where == path]:
        expected = [
            (argument, kind, NEW_DEFAULTS.get((path, name, argument), (default, default))[1])
            for argument, kind, default in old[path, name]
        ]
        names = {argument for argument, *_ in expected}
        found = new[path, name]
        assert [argument for argument in found if argument[0] in names] == expected

        # What is new can be left out, and never stands before something old. `get_scores` of the
        # feedback attention has a third argument, which may be given by position.
        for argument, kind, default in found:
            if argument not in names:
                assert default != "required", argument
                assert kind == "KEYWORD_ONLY" or found[-1] == (argument, kind, default)


def test_exceptions_are_still_needed(old):
    for (path, name, argument), (default, _) in NEW_DEFAULTS.items():
        assert (argument, "POSITIONAL_OR_KEYWORD", default) in old[path, name]
