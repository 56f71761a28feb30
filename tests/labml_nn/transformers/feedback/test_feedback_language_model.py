"""The feedback language model: equations, state, padding, initialisation, errors."""

import math

import pytest
import torch

from labml_nn import kernels
from labml_nn.transformers.feedback import FeedbackTransformer, FeedbackTransformerKV
from labml_nn.transformers.feedback.language_model import FeedbackConfig, FeedbackLanguageModel

V, B, C, H, HORIZON, PADDING = 11, 2, 12, 3, 4, 0
KINDS = pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])


def build(shared, **config):
    fields = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": 28, "n_layers": 2}
    fields |= {"max_len": HORIZON, "shared_kv": shared, "dropout_prob": 0.0} | config
    torch.manual_seed(0)
    model = FeedbackLanguageModel(FeedbackConfig(**fields)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    return model


def text(*shape, seed=0):
    return torch.randint(1, V, shape, generator=torch.Generator().manual_seed(seed))


@KINDS
@pytest.mark.parametrize("tied", [False, True])
def test_equations(shared, tied):
    model, tokens = build(shared, tied=tied), text(3, B)
    assert type(model.transformer) is (FeedbackTransformerKV if shared else FeedbackTransformer)
    outputs = model.transformer(model.embed(tokens) * math.sqrt(C))
    table = model.embed if tied else model.output
    torch.testing.assert_close(model(tokens)[0], outputs @ table.weight.T)
    assert (model.output.weight is model.embed.weight) == tied
    transformer, first = model.transformer, model.transformer.layers[0]
    assert transformer.horizon == first.attn.P == HORIZON
    assert first.feed_forward.layer1.out_features == 28
    assert len(transformer.norm_memory.state_dict()) == 2
    assert len(build(shared, norm_memory=False).transformer.norm_memory.state_dict()) == 0
    assert build(shared, d_ff=None).transformer.layers[0].feed_forward.layer1.out_features == 4 * C


@KINDS
def test_initialization(shared):
    """What sub-layers add is small."""
    torch.manual_seed(0)
    model = FeedbackLanguageModel(FeedbackConfig(n_vocab=65, shared_kv=shared, n_layers=2))
    layer = model.transformer.layers[1]
    assert layer.attn.query.linear.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert layer.attn.output.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert layer.feed_forward.layer2.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert layer.feed_forward.layer1.bias.count_nonzero() == 0


def test_embeddings_are_dropped_in_training():
    model = build(True, dropout_prob=1.0)
    with kernels.disabled():
        assert model.train()(text(3, B))[0].unique(dim=1).shape[1] == 1
        assert model.eval()(text(3, B))[0].unique(dim=1).shape[1] == B
