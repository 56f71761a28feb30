"""What the autoregressive transformer computes, and how it begins."""

import math

import pytest
import torch
from autoregressive_tools import POSITIONS, B, C, F, H, L, T, V, W, close, config, model, text
from torch import Tensor, nn

from labml_nn.transformers.autoregressive import AutoregressiveTransformer, PlacedEmbedding
from labml_nn.transformers.positional_encoding import get_positional_encoding

# Against a model built of PyTorch's modules.


class Theirs(nn.Module):
    """The same model, of nn.TransformerEncoder and a table of positions."""

    def __init__(self, ours: AutoregressiveTransformer) -> None:
        super().__init__()
        c = ours.config
        block = nn.TransformerEncoderLayer(
            C, H, F, 0.0, norm_first=c.norm_first, dtype=ours.generator.projection.weight.dtype
        )
        norm = nn.LayerNorm(C, dtype=block.linear1.weight.dtype) if c.norm_first else None
        self.stack = nn.TransformerEncoder(block, L, norm, enable_nested_tensor=False)
        self.table = nn.Parameter(ours.embedding.tokens.weight.detach().clone())
        self.bias = nn.Parameter(ours.generator.projection.bias.detach().clone())
        self.places = nn.Parameter(ours.embedding.table.detach().clone())
        for theirs, mine in self.pairs(ours):
            theirs.data.copy_(mine)

    def pairs(self, ours: AutoregressiveTransformer, grad: bool = False):
        """Their parameters beside ours, or beside the gradients of ours."""

        def of(parameter: nn.Parameter) -> Tensor:
            return parameter.grad if grad else parameter.detach()

        for theirs, mine in zip(self.stack.layers, ours.stack.layers, strict=True):
            attention = mine.self_attn
            parts = [part.linear for part in (attention.query, attention.key, attention.value)]
            in_projection = theirs.self_attn
            yield in_projection.in_proj_weight, torch.cat([of(part.weight) for part in parts])
            yield in_projection.in_proj_bias, torch.cat([of(part.bias) for part in parts])
            modules = [
                (theirs.self_attn.out_proj, attention.output),
                (theirs.norm1, mine.norm_self_attn),
                (theirs.norm2, mine.norm_ff),
                (theirs.linear1, mine.feed_forward.layer1),
                (theirs.linear2, mine.feed_forward.layer2),
            ]
            for their_module, our_module in modules:
                yield their_module.weight, of(our_module.weight)
                yield their_module.bias, of(our_module.bias)
        if self.stack.norm is not None:
            yield self.stack.norm.weight, of(ours.stack.norm.weight)
            yield self.stack.norm.bias, of(ours.stack.norm.bias)
        yield self.table, of(ours.embedding.tokens.weight)
        yield self.bias, of(ours.generator.projection.bias)
        if isinstance(ours.embedding.table, nn.Parameter):
            yield self.places, of(ours.embedding.table)

    def forward(self, tokens: Tensor) -> Tensor:
        x = nn.functional.embedding(tokens, self.table) * math.sqrt(C)
        x = x + self.places[: len(tokens), None]
        future = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
        return self.stack(x, mask=future) @ self.table.T + self.bias


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_equals_a_model_of_pytorchs_modules(positions, norm_first, dtype, tolerance):
    ours = model(positions=positions, norm_first=norm_first).to(dtype)
    theirs = Theirs(ours)
    tokens, cotangent = text(W), torch.randn(W, B, V, dtype=dtype)
    our_logits, their_logits = ours(tokens)[0], theirs(tokens)
    close(our_logits, their_logits, tolerance)
    (our_logits * cotangent).sum().backward()
    (their_logits * cotangent).sum().backward()
    for parameter, gradient in theirs.pairs(ours, grad=True):
        close(gradient, parameter.grad, tolerance)
    named = sum(p.numel() for p in ours.parameters())
    assert named == sum(x.numel() for _, x in theirs.pairs(ours))  # none was forgotten


# Its parts.


@pytest.mark.parametrize("positions", POSITIONS)
def test_embedding_is_scaled_and_placed(positions):
    embedding = PlacedEmbedding(config(positions=positions))
    tokens, places = text(), torch.randint(W, (T, B))
    if positions == "learned":
        nn.init.normal_(embedding.table)
    expected = embedding.tokens.weight[tokens] * math.sqrt(C)
    if positions == "sinusoidal":
        expected = expected + get_positional_encoding(C, W)[places, 0]
    elif positions == "learned":
        expected = expected + embedding.table[places]
    close(embedding(tokens, places), expected)
    close(embedding(tokens, places[:, :1])[:, 0], expected[:, 0])


def test_what_files_hold():
    keys = {kind: set(model(positions=kind).state_dict()) for kind in POSITIONS}
    assert keys["learned"] - keys["none"] == {"embedding.table"}
    assert keys["sinusoidal"] == keys["none"]


def test_tied_weights_are_one_parameter():
    tied, untied = model(), model(tied=False)
    assert tied.generator.projection.weight is tied.embedding.tokens.weight
    assert untied.generator.projection.weight is not untied.embedding.tokens.weight
    sizes = [sum(p.numel() for p in each.parameters()) for each in (untied, tied)]
    assert sizes[0] - sizes[1] == V * C


@pytest.mark.parametrize("norm_first", [True, False])
def test_one_normalisation_at_the_end(norm_first):
    made = model(norm_first=norm_first)
    assert isinstance(made.stack.norm, nn.LayerNorm if norm_first else nn.Identity)


def test_heads_of_any_width():
    made = model(d_k=5, d_v=8)
    attention = made.stack.layers[0].self_attn
    assert attention.query.linear.weight.shape == (H * 5, C)
    assert attention.value.linear.weight.shape == (H * 8, C)
    _, state = made(text(4))
    assert state.layers[0].keys.shape == (4, B, H, 5)
    assert state.layers[0].values.shape == (4, B, H, 8)


def test_feed_forward_is_four_times_as_wide_unless_said():
    assert model(d_ff=None).stack.layers[0].feed_forward.layer1.weight.shape == (4 * C, C)
    assert model().stack.layers[0].feed_forward.layer1.weight.shape == (F, C)


# How it begins.


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tied", [True, False])
def test_begins_as_gpt_2_does(positions, tied):
    torch.manual_seed(0)
    n_layers = 3
    made = AutoregressiveTransformer(
        config(d_model=48, d_ff=96, n_layers=n_layers, positions=positions, tied=tied)
    )
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            last = name.endswith(("self_attn.output.weight", "feed_forward.layer2.weight"))
            std = 0.02 / math.sqrt(2 * n_layers) if last else 0.02
            assert parameter.std().item() == pytest.approx(std, rel=0.1), name
            # Normal numbers go beyond three standard deviations, uniform ones do not reach two.
            assert parameter.abs().max() > 2.3 * std, name
    layers = made.stack.layers
    assert not torch.equal(
        layers[0].feed_forward.layer1.weight, layers[1].feed_forward.layer1.weight
    )


def test_begins_between_two_numbers():
    torch.manual_seed(0)
    made = AutoregressiveTransformer(config(d_model=48, init_lower=-0.1, init_upper=0.3))
    for name, parameter in made.named_parameters():
        if parameter.dim() > 1:
            assert -0.1 <= parameter.min() < -0.09, name
            assert 0.29 < parameter.max() <= 0.3, name
        elif "bias" in name:
            assert not parameter.any(), name


@pytest.mark.parametrize("tied", [True, False])
def test_first_loss_is_that_of_somebody_who_guesses(tied):
    torch.manual_seed(0)
    made = AutoregressiveTransformer(
        config(n_vocab=65, d_model=128, heads=4, max_len=64, tied=tied)
    )
    tokens = torch.randint(65, (65, 8))
    assert abs(made.loss(tokens[:-1], tokens[1:]).item() - math.log(65)) < 0.2


def test_deep_models_begin_with_rows_of_the_same_size():
    """What the layers add has the same size, however many there are; the page says so."""
    added = {}
    for n_layers in (2, 32):
        torch.manual_seed(0)
        made = AutoregressiveTransformer(config(d_model=48, d_ff=192, n_layers=n_layers)).eval()
        embedded = made.embedding(text(W), torch.arange(W)[:, None])
        made.stack.norm = nn.Identity()
        added[n_layers] = (made.stack(embedded, None) - embedded).std()
    assert 0.7 < added[32] / added[2] < 1.4


# What the losses are.


def test_loss_is_the_surprise_per_token():
    made, tokens = model(), text(W + 1)
    logits, _ = made(tokens[:-1])
    surprise = -logits.log_softmax(-1).gather(-1, tokens[1:, :, None])
    close(made.loss(tokens[:-1], tokens[1:]), surprise.mean())


def test_labels_are_smoothed_in_training_only():
    made, plain = model(label_smoothing=0.3), model()
    tokens = text(W + 1)
    pair = tokens[:-1], tokens[1:]
    close(made.loss(*pair), plain.loss(*pair))
    assert not torch.allclose(made.train().loss(*pair), plain.train().loss(*pair), rtol=1e-3)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tied", [True, False])
def test_gradients_reach_every_parameter(positions, tied):
    made = model(positions=positions, tied=tied, dropout_prob=0.1, label_smoothing=0.1).train()
    tokens = text(W + 1)
    made.loss(tokens[:-1], tokens[1:]).backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        if "key.linear.bias" not in name:  # a softmax does not see it
            assert parameter.grad.abs().max() > 0, name


def test_dropout_falls_in_training_only():
    made, tokens = model(dropout_prob=0.5), text(W)
    assert torch.equal(made(tokens)[0], made(tokens)[0])
    made.train()
    assert not torch.equal(made(tokens)[0], made(tokens)[0])
