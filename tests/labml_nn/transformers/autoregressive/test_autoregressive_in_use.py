"""Copies, other dtypes, compilers, files; and what the model refuses."""

import copy
import pickle
from dataclasses import asdict

import pytest
import torch
from autoregressive_tools import PAD, POSITIONS, B, T, V, W, close, config, model, text
from torch import Tensor, nn

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer

PACKAGE = "labml_nn.transformers.autoregressive"


def same(a: AutoregressiveTransformer, b: AutoregressiveTransformer) -> None:
    tokens = text()
    assert torch.equal(a(tokens)[0], b(tokens)[0])


@pytest.mark.parametrize("positions", POSITIONS)
def test_copies_and_pickles(positions):
    made = model(positions=positions)
    tokens = text()
    logits, state = made(tokens)
    logits.sum().backward()
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        same(other, made)
        assert other.generator.projection.weight is other.embedding.tokens.weight
    token = text(1)
    for kept in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert torch.equal(made(token, kept)[0], made(token, state)[0])


def test_configuration_and_parameters_make_the_same_model():
    made = model(positions="sinusoidal", d_k=5, norm_first=False, padding_token=PAD)
    other = AutoregressiveTransformer.from_config(asdict(made.config)).eval()
    other.load_state_dict(made.state_dict())
    same(made, other)


def test_saved_and_loaded(tmp_path):
    made = model()
    made.save(tmp_path / "kept")
    loaded = AutoregressiveTransformer.load(tmp_path / "kept").eval()
    same(made, loaded)
    assert loaded.config == made.config
    assert loaded.generator.projection.weight is loaded.embedding.tokens.weight


@pytest.mark.parametrize("positions", POSITIONS)
def test_in_double_precision(positions):
    made, tokens = model(positions=positions), text()
    expected, _ = made(tokens)
    logits, state = made.double()(tokens)
    assert logits.dtype == torch.float64
    close(logits, expected.double(), 1e-4)
    step, _ = made(text(1), state)
    assert step.dtype == torch.float64


@pytest.mark.parametrize("norm_first", [True, False])
def test_autocast_to_bfloat16(norm_first):
    made, tokens = model(norm_first=norm_first), text()
    expected, _ = made(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        logits, state = made(tokens[:4])
        rest, _ = made(tokens[4:], state)
        loss = made.loss(tokens[:-1], tokens[1:])
    both = torch.cat([logits, rest])
    assert both.dtype == torch.bfloat16
    assert (both.float() - expected).abs().mean() < 0.05 * expected.abs().mean()
    loss.backward()
    assert all(p.grad.isfinite().all() for p in made.parameters())


def test_shapes_without_numbers():
    with torch.device("meta"):
        made, tokens = model(), text()
    logits, state = made(tokens)
    assert logits.is_meta
    assert logits.shape == (T, B, V)
    assert state.tokens.shape == (5, B)  # 0 to 6 and 3 to 9 were full windows; 6 to 10 is not


def test_state_is_a_tree_of_tensors():
    _, state = model()(text())
    leaves, _ = torch.utils._pytree.tree_flatten(state)
    assert len(leaves) == 2 + 2 * 2
    assert all(isinstance(leaf, Tensor) and leaf.shape[1] == B for leaf in leaves)


def test_prediction_is_the_last_distribution():
    made, tokens = model(dropout_prob=0.5).train(), text()
    probabilities = made.predict(tokens)
    close(probabilities, made.eval()(tokens)[0][-1].softmax(-1))
    assert not probabilities.requires_grad


# Compilers, which need the library without the hook that checks shapes.


def without_hook(unhooked, **changes) -> nn.Module:
    package = unhooked(PACKAGE)
    torch.manual_seed(0)
    return package.AutoregressiveTransformer.from_config(asdict(config(**changes)))


@pytest.mark.parametrize("padding_token", [None, PAD])
@pytest.mark.parametrize("norm_first", [True, False])
def test_compiles_whole_with_gradients(unhooked, norm_first, padding_token):
    made = without_hook(unhooked, norm_first=norm_first, padding_token=padding_token)
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    tokens = text(W)
    tokens[0, 0] = PAD
    close(compiled(tokens)[0], made(tokens)[0])
    parameters = list(made.parameters())
    gradients = [
        torch.autograd.grad(call(tokens)[0].cos().sum(), parameters) for call in (compiled, made)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("padding_token", [None, PAD])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_step_compiles_whole(unhooked, positions, padding_token):
    made = without_hook(unhooked, positions=positions, padding_token=padding_token).eval()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    tokens = text(W)
    _, state = made(tokens[:-1])
    logits, kept = compiled(tokens[-1:], state)
    close(logits, made(tokens)[0][-1:])
    assert kept.tokens.shape == (W, B)


@torch.no_grad()
def test_a_step_that_slides_compiles_whole(unhooked):
    """Without padding the shapes alone say when to slide."""
    made = without_hook(unhooked).eval()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    tokens = text(W + 1)
    _, state = made(tokens[:-1])
    close(compiled(tokens[-1:], state)[0], made(tokens)[0][-1:])


@torch.no_grad()
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects")
def test_exported_for_any_length(unhooked, strict):
    made = without_hook(unhooked).eval()
    length = torch.export.Dim("T", min=2, max=W)
    exported = torch.export.export(made, (text(5),), dynamic_shapes=({0: length},), strict=strict)
    for n in (3, W):
        tokens = text(n)
        close(exported.module()(tokens)[0], made(tokens)[0])


# What it refuses.


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (torch.zeros(T, B), TypeError, r"`tokens` has dtype torch.float32.*tokens\.long\(\)"),
        (torch.zeros(T).long(), ValueError, r"`tokens` has shape \[11\]; expected \[T, B\]"),
        (torch.zeros(0, B).long(), ValueError, "`tokens`.*the sequence is empty"),
        (torch.full((T, B), V), ValueError, "`tokens` holds 19; expected numbers from 0 to 18"),
        (torch.full((T, B), -1), ValueError, "`tokens` holds -1"),
    ],
)
def test_tokens_that_it_cannot_read(unhooked, tokens, error, message):
    with pytest.raises(error, match=message):
        without_hook(unhooked)(tokens)


def test_states_that_are_not_its_own(unhooked):
    made, other = without_hook(unhooked), without_hook(unhooked, n_layers=3)
    token = text(1)
    with pytest.raises(TypeError, match="`state` is a Tensor; expected the state that the model"):
        made(token, torch.zeros(2))
    with pytest.raises(ValueError, match=r"`state` is that of 2 sequences.*expected B = 2"):
        made(text(1, 3), made(text())[1])
    with pytest.raises(ValueError, match=r"`past` has keys and values for 3 layers.*has 2"):
        made(token, other(text(2))[1])
    with pytest.raises(ValueError, match=r"`past` has shape \[2, 2, 2, 6\]"):
        made(token, without_hook(unhooked, heads=2)(text(2))[1])
    with pytest.raises(ValueError, match=r"`state` holds 11 tokens.*max_len = 7"):
        made(token, without_hook(unhooked, max_len=T)(text())[1])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_vocab": 0}, ValueError, r"`n_vocab` \(0\) must be at least 1"),
        ({"n_layers": 0}, ValueError, r"`n_layers` \(0\) must be at least 1"),
        ({"max_len": -1}, ValueError, r"`max_len` \(-1\) must be at least 1"),
        ({"d_k": 0}, ValueError, r"`d_k` \(0\) must be at least 1"),
        ({"d_v": 0}, ValueError, r"`d_v` \(0\) must be at least 1"),
        ({"d_ff": 0}, ValueError, r"`d_ff` \(0\) must be at least 1"),
        ({"heads": 5}, ValueError, r"`d_model` \(12\) must be divisible by `heads` \(5\)"),
        ({"heads": 5, "d_v": 2}, ValueError, "must be divisible"),
        ({"dropout_prob": 1.5}, ValueError, r"`dropout_prob` \(1.5\) must be from 0 to 1"),
        ({"label_smoothing": 1.0}, ValueError, r"`label_smoothing` \(1.0\)"),
        ({"padding_token": V}, ValueError, r"`padding_token` \(19\)"),
        ({"positions": "learnt"}, ValueError, "learnt.*learned"),
        ({"positions": None}, TypeError, r"`positions` \(None\) must be a word"),
        ({"tied": "yes"}, TypeError, r"`tied` \('yes'\) must be True or False, not a str"),
        ({"norm_first": 1}, TypeError, r"`norm_first` \(1\) must be True or False, not a int"),
        ({"init_lower": -0.1}, ValueError, "`init_upper` is missing"),
        ({"init_upper": 0.1}, ValueError, "`init_lower` is missing"),
        ({"init_lower": 0.2, "init_upper": 0.1}, ValueError, r"`init_lower` \(0.2\) must be below"),
        ({"init_lower": -float("inf"), "init_upper": 0.1}, ValueError, "both finite"),
        ({"init_lower": "a", "init_upper": 0.1}, TypeError, "must be a number, not a str"),
        ({"d_modle": 12}, ValueError, "d_modle.*d_model"),
    ],
)
def test_configurations_that_cannot_be(unhooked, changes, error, message):
    sizes = {"n_vocab": V, "d_model": 12, "heads": 3}
    with pytest.raises(error, match=message):
        unhooked(PACKAGE).AutoregressiveConfig.of({**sizes, **changes})


def test_heads_need_not_divide_what_they_do_not_share():
    made = AutoregressiveTransformer(
        AutoregressiveConfig(n_vocab=V, d_model=12, heads=5, d_k=3, d_v=2)
    )
    assert made(text())[0].shape == (T, B, V)
