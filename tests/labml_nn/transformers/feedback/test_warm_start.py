"""A feedback model that starts with the weights of an ordinary transformer."""

import pytest
import torch

from labml_nn.transformers.autoregressive import AutoregressiveTransformer
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
from labml_nn.transformers.feedback.warm_start import take_weights

SIZES = {"n_vocab": 7, "d_model": 12, "heads": 3, "n_layers": 1}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_one_layer_that_reads_embeddings_computes_the_same(shared, tied):
    """Up to the mask: a memory ends with the position before."""
    torch.manual_seed(0)
    old = AutoregressiveTransformer.from_config({**SIZES, "positions": "none", "tied": tied})
    new = FeedbackLanguageModel.from_config({**SIZES, "shared_kv": shared, "tied": tied})
    old, new = old.eval(), new.eval()
    with torch.no_grad():
        for name, parameter in old.named_parameters():
            if name != "generator.projection.bias":
                parameter.normal_(std=0.3)
        left = take_weights(new, old)
        new.transformer.weights[0] = 100
        tokens = torch.randint(7, (5, 2))
        past = torch.ones(5, 5).tril(-1).bool()[..., None]
        x = old.embedding(tokens, torch.arange(5)[:, None])
        expected = old.generator(old.stack(x, past))
        logits, _ = new(tokens)
    torch.testing.assert_close(logits[1:], expected[1:], rtol=1e-4, atol=1e-4)
    assert {name.split(".")[-1] for name in left} >= {"weights", "key_pos_bias"}
    assert "transformer.layers.0.attn.query.linear.weight" not in left


def test_models_that_differ_are_refused():
    old = AutoregressiveTransformer.from_config({**SIZES, "norm_first": False})
    new = FeedbackLanguageModel.from_config({**SIZES, "d_model": 24, "norm_memory": False})
    before = new.embed.weight.clone()
    with pytest.raises(ValueError, match=r"`d_model` is 12 .*`norm_first` .*`norm_memory`"):
        take_weights(new, old)
    assert torch.equal(new.embed.weight, before)
    with pytest.raises(ValueError, match="cannot start from 'feedback'"):
        take_weights(new, new)
