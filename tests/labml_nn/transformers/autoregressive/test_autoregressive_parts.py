"""The parts that were added since GPT-2, each alone and all together."""

from dataclasses import asdict

import pytest
import torch
from autoregressive_tools import PAD, B, C, F, H, T, V, W, close, config, model, naive, text
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labml_nn.attention_maps import record_attention
from labml_nn.sampling import Greedy, generate
from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from labml_nn.transformers.feed_forward import SquaredReLU
from labml_nn.transformers.qk_norm import QKNormAttention
from labml_nn.transformers.rms_norm import RMSNorm

PACKAGE = "labml_nn.transformers.autoregressive"
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
    {"activation": "gelu"},
    {"activation": "silu"},
    MODERN,
    {**MODERN, "norm_first": False, "tied": False, "d_k": 6, "d_v": 5},
]
each_choice = pytest.mark.parametrize("changes", CHOICES, ids=lambda c: "-".join(map(str, c)))
choices = st.fixed_dictionaries(
    {
        "positions": st.sampled_from(["rotary", "learned"]),
        "norm": st.sampled_from(["layer", "rms"]),
        "activation": st.sampled_from(["relu", "gelu", "silu", "squared_relu"]),
        "qk_norm": st.booleans(),
        "bias": st.booleans(),
        "embedding_norm": st.booleans(),
        "norm_first": st.booleans(),
    }
)


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**16), changes=choices, max_len=st.integers(1, 8), data=st.data())
def test_any_cut_gives_the_logits_of_the_definition(seed, changes, max_len, data):
    """Across slides, too: what is read anew is turned anew."""
    made, tokens = model(seed, max_len=max_len, **changes), text(13)
    expected = naive(made, tokens)
    state, read = None, 0
    while read < len(tokens):
        n = data.draw(st.integers(1, len(tokens) - read), label="tokens in this call")
        logits, state = made(tokens[read : read + n], state)
        close(logits, expected[read : read + n])
        read += n


@settings(deadline=None, max_examples=8)
@given(changes=choices, n=st.integers(1, 12), left=st.booleans())
def test_padding_changes_nothing(changes, n, left):
    made = model(padding_token=PAD, **changes)
    short, long = text(n, 1), text(14, 1)
    tokens = torch.full((14, 2), PAD)
    place = slice(14 - n, 14) if left else slice(0, n)
    tokens[place, 0], tokens[:, 1] = short[:, 0], long[:, 0]
    logits, _ = made(tokens)
    close(logits[place, :1], naive(made, short))
    close(logits[:, 1:], naive(made, long))


@each_choice
def test_parts_are_those_that_were_asked_for(changes):
    made = model(**changes)
    asked = {**asdict(AutoregressiveConfig(n_vocab=V)), **changes}
    layer = made.stack.layers[1]
    kind = RMSNorm if asked["norm"] == "rms" else nn.LayerNorm
    assert isinstance(layer.norm_self_attn, kind)
    assert isinstance(layer.norm_ff, kind)
    assert isinstance(made.stack.norm, kind if asked["norm_first"] else nn.Identity)
    assert isinstance(made.embedding.norm, kind if asked["embedding_norm"] else nn.Identity)
    assert isinstance(layer.self_attn, QKNormAttention) is asked["qk_norm"]
    function = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "squared_relu": SquaredReLU}
    assert isinstance(layer.feed_forward.activation, function[asked["activation"]])
    biases = {name for name, _ in layer.named_parameters() if name.endswith("linear.bias")}
    assert bool(biases) is asked["bias"]
    assert (layer.feed_forward.layer1.bias is not None) is asked["bias"]
    assert (made.embedding.table is None) is (asked["positions"] == "rotary")


@each_choice
def test_only_the_norms_are_scales(changes):
    """Every vector is a gain or a bias, by its name: the start and the optimizer go by that."""
    made = model(**changes)
    for name, parameter in made.named_parameters():
        assert parameter.dim() == 2 or "norm" in name or name.endswith("bias"), name


@each_choice
def test_gradients_reach_every_parameter_once_the_zeros_have_moved(changes):
    made, tokens = model(dropout_prob=0.1, **changes).train(), text(W + 1)
    made.loss(tokens[:-1], tokens[1:]).backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        if "key.linear.bias" not in name:
            assert parameter.grad.abs().max() > 0, name


def test_squared_relu():
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 3.0])
    assert SquaredReLU()(x).tolist() == [0.0, 0.0, 0.0, 0.25, 9.0]


def test_begins_by_adding_nothing():
    torch.manual_seed(0)
    made = AutoregressiveTransformer(config(zero_init=True)).eval()
    tokens = text(W)
    rows = made.embedding(tokens, torch.arange(W)[:, None])
    assert torch.equal(made(tokens)[0], made.generator(made.stack.norm(rows)))
    for layer in made.stack.layers:
        assert not layer.self_attn.output.weight.any()
        assert not layer.feed_forward.layer2.weight.any()
        assert layer.feed_forward.layer1.weight.std() > 0.01
    made.loss(tokens[:-1], tokens[1:]).backward()
    layer = made.stack.layers[0]
    assert layer.feed_forward.layer2.weight.grad.any()
    assert not layer.feed_forward.layer1.weight.grad.any()  # nothing has passed through yet


def test_between_two_numbers_but_for_the_zeros():
    made = AutoregressiveTransformer(config(zero_init=True, init_lower=0.1, init_upper=0.3))
    layer = made.stack.layers[0]
    assert not layer.self_attn.output.weight.any()
    assert layer.feed_forward.layer1.weight.min() >= 0.1


def test_old_configurations_and_checkpoints_are_what_they_were():
    old = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "positions": "sinusoidal"}
    made = AutoregressiveTransformer.from_config(old)
    named = set(dict(made.named_parameters()))
    assert not any("query.norm" in name or "embedding.norm" in name for name in named)
    assert "stack.layers.0.self_attn.query.linear.bias" in named
    assert isinstance(made.stack.norm, nn.LayerNorm)


def test_saved_and_loaded(tmp_path):
    made, tokens = model(**MODERN), text()
    made.save(tmp_path / "kept")
    loaded = AutoregressiveTransformer.load(tmp_path / "kept").eval()
    assert torch.equal(loaded(tokens)[0], made(tokens)[0])


def test_writes_what_it_would_write_reading_all_again():
    made, prompt = model(**MODERN), text(3)
    written = generate(made, prompt, 12, sampler=Greedy())
    tokens = getattr(written, "tokens", written)
    expected = prompt
    for _ in range(12):
        guess = naive(made, expected)[-1:].argmax(-1)
        expected = torch.cat([expected, guess])
    assert torch.equal(tokens[-12:], expected[-12:])


def test_attention_can_be_watched():
    made, tokens = model(**MODERN), text(W)
    expected, _ = made(tokens)
    with record_attention(made) as maps:
        close(made(tokens)[0], expected)
    assert len(maps) == len(made.stack.layers)
    assert maps[0].weights.shape == (W, W, B, H)


def test_in_double_precision_and_under_autocast():
    made, tokens = model(**MODERN), text()
    expected, _ = made(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, state = made(tokens[:4])
        rest, _ = made(tokens[4:], state)
        made.loss(tokens[:-1], tokens[1:]).backward()
    both = torch.cat([rounded, rest]).float()
    assert (both - expected).abs().mean() < 0.08 * expected.abs().mean()
    close(made.double()(tokens)[0], expected.double(), 1e-4)


def test_compiles_whole(unhooked):
    package = unhooked(PACKAGE)
    torch.manual_seed(0)
    changes = {**MODERN, "zero_init": False, "padding_token": PAD}
    made = package.AutoregressiveTransformer.from_config(asdict(config(**changes))).eval()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    tokens = text(W)
    close(compiled(tokens)[0], made(tokens)[0])
    parameters = list(made.parameters())
    gradients = [
        torch.autograd.grad(call(tokens)[0].cos().sum(), parameters) for call in (compiled, made)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        _, state = made(tokens[:-1])
        close(compiled(tokens[-1:], state)[0], made(tokens)[0][-1:])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"positions": "rotary", "heads": 4}, ValueError, r"`d_k` \(3\) must be even.*try 4"),
        ({"positions": "rotary", "d_k": 5}, ValueError, r"`d_k` \(5\) must be even.*try 6"),
        ({"norm": "rsm"}, ValueError, "no kind of norm 'rsm'; did you mean 'rms'"),
        ({"activation": "gleu"}, ValueError, "no activation 'gleu'; did you mean 'gelu'"),
        ({"qk_norm": 1}, TypeError, r"`qk_norm` \(1\) must be True or False"),
        ({"bias": "no"}, TypeError, r"`bias` \('no'\)"),
        ({"zero_init": None}, TypeError, r"`zero_init` \(None\)"),
        ({"embedding_norm": 0}, TypeError, r"`embedding_norm` \(0\)"),
    ],
)
def test_configurations_that_cannot_be(unhooked, changes, error, message):
    sizes = {"n_vocab": V, "d_model": 12, "heads": 3}
    with pytest.raises(error, match=message):
        unhooked(PACKAGE).AutoregressiveConfig.of({**sizes, **changes})


def test_length_of_the_text_is_as_it_was():
    """Rotations know positions up to `max_len`, and the window needs no more."""
    made = model(**MODERN)
    assert made.rotary.cos.shape == (W, C // H // 2)
    assert made(text(5 * W))[0].shape == (5 * W, B, V)
    assert T > W
