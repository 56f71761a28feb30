"""The autoregressive transformer: what it computes, in any chunks, padding and batch."""

import math
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import labml_nn
from labml_nn.sampling import generate
from labml_nn.transformers.autoregressive import (
    AutoregressiveConfig,
    AutoregressiveTransformer,
    TokenAndPositionEmbedding,
)
from labml_nn.transformers.feed_forward import SquaredReLU
from labml_nn.transformers.modern import QKNormAttention, RMSNorm
from labml_nn.transformers.positional_encoding import get_positional_encoding
from labml_nn.transformers.utils import subsequent_mask

T, B, C, H, F, V, L, W = 11, 2, 12, 3, 28, 19, 2, 7
POSITIONS = ["learned", "sinusoidal", "rotary", "none"]
MODERN = {
    "positions": "rotary",
    "norm": "rms",
    "qk_norm": True,
    "activation": "squared_relu",
    "bias": False,
    "embedding_norm": True,
    "zero_init": True,
}
CHOICES = [
    *({name: choice} for name, choice in MODERN.items()),
    *({"activation": name} for name in ("gelu", "silu")),
    MODERN,
    {**MODERN, "norm_first": False, "tied": False, "d_k": 6, "d_v": 5},
]
each_choice = pytest.mark.parametrize("changes", CHOICES, ids=lambda c: "-".join(map(str, c)))
seeds = st.integers(0, 2**16)
options = st.fixed_dictionaries(
    {
        "positions": st.sampled_from(POSITIONS),
        "norm": st.sampled_from(["layer", "rms"]),
        "activation": st.sampled_from(["relu", "gelu", "silu", "squared_relu"]),
        **dict.fromkeys(["qk_norm", "bias", "embedding_norm", "norm_first"], st.booleans()),
    }
)


def config(**changes) -> AutoregressiveConfig:
    sizes = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "n_layers": L, "max_len": W}
    return AutoregressiveConfig(**{**sizes, "dropout_prob": 0.0, **changes})


def shaken(made, seed=0):
    """With parameters far enough from their initial values for every mistake to show."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made.eval()


def model(seed: int = 0, **changes) -> AutoregressiveTransformer:
    torch.manual_seed(seed)
    return shaken(AutoregressiveTransformer(config(**changes)), seed)


def text(length: int = T, batch: int = B) -> Tensor:
    return torch.randint(1, V, (length, batch))


def begin(t: int, max_len: int) -> int:
    half = max(1, max_len // 2)
    return half * max(0, (t - max_len) // half + 1)


def naive(made: AutoregressiveTransformer, tokens: Tensor) -> Tensor:
    """Every position on its own, from the beginning of its context."""
    starts = [begin(t, made.config.max_len) for t in range(len(tokens))]
    return torch.cat([made(tokens[s : t + 1])[0][-1:] for t, s in enumerate(starts)])


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


# The computation.
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_the_submodules(tied, norm_first):
    """The layers themselves are compared with PyTorch's in `tests/equivalence`."""
    made, tokens = model(positions="learned", tied=tied, norm_first=norm_first), text(W)
    x = made.embedding(tokens, torch.arange(W)[:, None])
    for layer in made.stack.layers:
        x = layer(x=x, mask=subsequent_mask(W))
    x = made.stack.norm(x)
    matrix = made.embedding.tokens.weight if tied else made.generator.projection.weight
    close(made(tokens)[0], x @ matrix.T + made.generator.projection.bias)


@settings(deadline=None, max_examples=10)
@given(seed=seeds, changes=options, max_len=st.integers(1, 8), data=st.data())
def test_any_chunks_give_the_logits_of_the_definition(seed, changes, max_len, data):
    made = model(seed, d_k=4, max_len=max_len, **changes)
    tokens = text(data.draw(st.integers(1, 20), label="length"))
    expected = naive(made, tokens)
    close(made(tokens)[0], expected)
    state, read = None, 0
    while read < len(tokens):
        n = data.draw(st.integers(1, len(tokens) - read), label="tokens in this call")
        logits, state = made(tokens[read : read + n], state)
        close(logits, expected[read : read + n])
        read += n


# Submodules and initialisation.
@pytest.mark.parametrize("positions", POSITIONS)
def test_embedding_is_scaled_and_has_positions(positions):
    embedding = TokenAndPositionEmbedding(config(positions=positions, d_k=4))
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
    embedding.dropout.p = 1.0
    assert not embedding(tokens, places).any() and embedding.eval()(tokens, places).all()
    learned = {"table"} if positions == "learned" else set()
    assert set(embedding.state_dict()) - {"tokens.weight"} == learned


@pytest.mark.parametrize("positions", POSITIONS)
def test_only_sinusoids_are_computed_again(positions):
    embedding = TokenAndPositionEmbedding(config(positions=positions, d_k=4))
    with torch.no_grad():
        for table in (embedding.table,) if embedding.table is not None else ():
            table.fill_(7.0)
    embedding.reset_tables()
    if positions == "sinusoidal":
        assert torch.equal(embedding.table, get_positional_encoding(C, W)[:, 0])
    else:
        assert embedding.table is None or (embedding.table == 7).all()


@each_choice
def test_submodules_are_those_of_the_configuration(changes):
    made = model(**{"d_k": 4, **changes}, dropout_prob=0.1)
    asked = {**asdict(AutoregressiveConfig(n_vocab=V)), **changes}
    layer = made.stack.layers[1]
    kind = RMSNorm if asked["norm"] == "rms" else nn.LayerNorm
    assert isinstance(layer.norm_self_attn, kind) and isinstance(layer.norm_ff, kind)
    assert isinstance(made.stack.norm, kind if asked["norm_first"] else nn.Identity)
    assert isinstance(made.embedding.norm, kind if asked["embedding_norm"] else nn.Identity)
    assert isinstance(layer.self_attn, QKNormAttention) is asked["qk_norm"]
    function = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "squared_relu": SquaredReLU}
    assert isinstance(layer.feed_forward.activation, function[asked["activation"]])
    assert (layer.self_attn.output.bias is not None) is asked["bias"]
    assert (layer.feed_forward.layer1.bias is not None) is asked["bias"]
    assert (layer.feed_forward.layer2.bias is not None) is asked["bias"]
    assert (made.embedding.table is None) is (asked["positions"] == "rotary")
    assert {m.p for m in made.modules() if isinstance(m, nn.Dropout)} == {0.1}
    tied = made.generator.projection.weight is made.embedding.tokens.weight
    assert tied is asked["tied"]

    for name, parameter in made.named_parameters():
        # Vectors are gains or biases by their names: optimizers rely on that.
        assert parameter.dim() == 2 or "norm" in name or name.endswith("bias"), name


def test_feed_forward_networks_are_four_times_as_wide_by_default():
    assert model(d_ff=None).stack.layers[0].feed_forward.layer1.weight.shape == (4 * C, C)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tied", [True, False])
def test_initialisation_of_gpt_2(positions, tied):
    torch.manual_seed(0)
    changes = {"d_model": 48, "d_ff": 96, "n_layers": 3, "positions": positions, "tied": tied}
    made = AutoregressiveTransformer(config(**changes))
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            last = name.endswith(("self_attn.output.weight", "feed_forward.layer2.weight"))
            std = 0.02 / math.sqrt(6) if last else 0.02
            assert parameter.std().item() == pytest.approx(std, rel=0.1), name
            assert parameter.abs().max() > 2.3 * std, name  # normal, not uniform
    first, second = (layer.feed_forward.layer1.weight for layer in made.stack.layers[:2])
    assert not torch.equal(first, second)


def test_zeros_at_first_let_layers_add_nothing():
    made, tokens = AutoregressiveTransformer(config(zero_init=True)), text(W)
    x = made.embedding(tokens, torch.arange(W)[:, None])
    assert torch.equal(made(tokens)[0], made.generator(made.stack.norm(x)))


# Use.
def test_the_trained_model_has_the_loss_that_it_had():
    folder = Path(__file__).parents[3] / "docs_src/results/autoregressive/model"
    made, tokens = labml_nn.load(folder).eval(), torch.arange(65)[:, None]
    close(made.loss(tokens[:-1], tokens[1:]), torch.tensor(7.533405))


@torch.no_grad()
def test_unscaled_embeddings_and_an_output_without_bias():
    """The two options of other programs are two lines, and kernels notice them."""
    made, tokens = model(positions="none"), text()
    made.generator.projection.bias.fill_(0.5)
    before, _ = made(tokens)
    made.embedding.scale = 1.0
    made.embedding.tokens.weight.mul_(C**0.5)
    made.generator.projection.weight = nn.Parameter(made.embedding.tokens.weight / C**0.5)
    made.generator.projection.bias = None
    close(made(tokens)[0], before - 0.5)
    prompt, n = tokens[:3], 3
    written = generate(made.eval(), prompt, n)
    for step in range(n):
        logits, _ = made(torch.cat([prompt, written[:step]]))
        assert torch.equal(logits[-1].argmax(-1), written[step])


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects")
# The attention weights of the last call are no part of what is exported.
@pytest.mark.filterwarnings("ignore:The tensor attribute", "ignore::FutureWarning")
def test_exports_for_any_length(unhooked):
    kind = unhooked("labml_nn.transformers.autoregressive").AutoregressiveTransformer
    made = shaken(kind.from_config(asdict(config())))
    length = torch.export.Dim("T", min=2, max=W)
    exported = torch.export.export(made, (text(5),), dynamic_shapes=({0: length},), strict=False)
    for n in (3, W):
        tokens = text(n)
        close(exported.module()(tokens)[0], made(tokens)[0])
