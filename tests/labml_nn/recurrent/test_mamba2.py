"""Mamba-2: its three forms are equal, and the mixer equals that of `transformers`."""

import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from labml_nn.recurrent.mamba2 import Mamba2, Mamba2State, ssd_chunks, ssd_loop, ssd_table

T, B, C, H, D, DV = 11, 2, 6, 3, 5, 4
GOLDEN = Path(__file__).parents[2] / "equivalence" / "golden" / "mamba2.safetensors"
#: What the mixer of `transformers` has, see make_mamba2.py beside the golden values.
VARIANTS = {"plain": {}, "groups": {"groups": 2, "bias": True, "conv": 3}}
few = settings(max_examples=25)
every_variant = pytest.mark.parametrize("variant", VARIANTS)

sizes = st.fixed_dictionaries(
    {
        "T": st.integers(1, 13),
        "B": st.integers(1, 3),
        "H": st.integers(1, 3),
        "D": st.integers(1, 4),
        "DV": st.integers(1, 4),
        "seed": st.integers(0, 99),
    }
)


def inputs(T=T, B=B, H=H, D=D, DV=DV, seed=0, dtype=torch.double):
    """Queries, keys, values, logarithms of decays, and a state."""
    torch.manual_seed(seed)
    q, k = torch.randn(2, T, B, H, D, dtype=dtype)
    v, h = torch.randn(T, B, H, DV, dtype=dtype), torch.randn(B, H, D, DV, dtype=dtype)
    return [one.requires_grad_() for one in (q, k, v, -torch.rand(T, B, H, dtype=dtype), h)]


def with_gradients(form, given, *options):
    y, h = form(*given, *options)
    weighted = (y * y.detach().sin()).sum() + (h * h.detach().cos()).sum()
    return y, h, *torch.autograd.grad(weighted, given)


@few
@given(sizes=sizes, chunk=st.integers(1, 14))
def test_loop_table_and_chunks_are_equal(sizes, chunk):
    given = inputs(**sizes)
    loop = with_gradients(ssd_loop, given)
    torch.testing.assert_close(with_gradients(ssd_table, given), loop)
    torch.testing.assert_close(with_gradients(ssd_chunks, given, chunk), loop)


@few
@given(sizes=sizes, cut=st.integers(1, 12), chunk=st.integers(1, 14))
def test_a_state_stands_for_what_was_read(sizes, cut, chunk):
    *sequence, h = inputs(**sizes | {"T": 13})
    whole = ssd_loop(*sequence, h)
    first, middle = ssd_chunks(*(x[:cut] for x in sequence), h, chunk)
    second, last = ssd_table(*(x[cut:] for x in sequence), middle)
    torch.testing.assert_close((torch.cat([first, second]), last), whole)


def test_gradients_are_those_of_finite_differences():
    given = inputs(T=4, B=1, H=2, D=2, DV=3)
    assert torch.autograd.gradcheck(lambda *x: ssd_chunks(*x, 3), given)


@pytest.mark.parametrize("reset", [1.0, 30.0, 1000.0])
def test_single_precision_survives_resets(reset):
    """Sums of logarithms over a chunk grow to thousands; what follows a reset still counts."""
    q, k, v, log_decay, h = inputs(T=200, dtype=torch.float32)
    log_decay = torch.where(torch.rand_like(log_decay) < 0.1, reset, 0.01) * log_decay
    exact = ssd_loop(*(one.double() for one in (q, k, v, log_decay, h)))
    for form in (ssd_loop, ssd_table, ssd_chunks):
        for got, expected in zip(form(q, k, v, log_decay, h), exact, strict=True):
            torch.testing.assert_close(got, expected.float(), rtol=1e-5, atol=3e-5)
    assert all(one.isfinite().all() for one in with_gradients(ssd_table, [q, k, v, log_decay, h]))


def test_nothing_is_kept_or_all():
    q, k, v, log_decay, h = inputs()
    y, last = ssd_chunks(q, k, v, torch.full_like(log_decay, -1e4), h)
    torch.testing.assert_close(y, (q * k).sum(-1, keepdim=True) * v)
    y, last = ssd_chunks(q, k, v, torch.zeros_like(log_decay), h)
    torch.testing.assert_close(last, h + torch.einsum("tbhd,tbhe->bhde", k, v))


# The mixer.
@pytest.fixture(scope="module")
def golden():
    return load_file(GOLDEN)


def of(golden, variant):
    """A mixer with the weights of a variant, and the other tensors by name."""
    found = {
        name.removeprefix(f"{variant}."): value
        for name, value in golden.items()
        if name.startswith(variant)
    }
    mixer = Mamba2(6, 4, 5, 3, **VARIANTS[variant])
    weights = {
        name.removeprefix("weights."): value
        for name, value in found.items()
        if name.startswith("weights.")
    }
    mixer.load_state_dict(weights, strict=True)
    return mixer, found


def same(got, expected):
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=2e-6)


@every_variant
@torch.no_grad()
def test_equals_transformers(golden, variant):
    mixer, expected = of(golden, variant)
    y, state = mixer(expected["x"].transpose(0, 1))
    same(y.transpose(0, 1), expected["whole"])
    same(state.h.mT, expected["ssm_state"])


@every_variant
@torch.no_grad()
def test_equals_the_cached_step_of_transformers(golden, variant):
    mixer, expected = of(golden, variant)
    x = expected["x"].transpose(0, 1)
    y, state = mixer(x[:8])
    same(state.h.mT, expected["after_prompt"])
    outputs = [y]
    for token in x[8:]:
        y, state = mixer(token[None], state)
        outputs.append(y)
    same(torch.cat(outputs).transpose(0, 1), expected["cached"])
    same(state.h.mT, expected["ssm_state"])
    same(state.recent.permute(1, 2, 0), expected["conv_state"][..., 1:])


def make(**options):
    torch.manual_seed(0)
    return Mamba2(C, H, D, DV, **options).double()


def some(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


@few
@given(cuts=st.sets(st.integers(1, T - 1)))
def test_calls_with_a_state_give_what_one_call_gives(cuts):
    mixer, x = make(conv=3), some(T, B, C)
    whole, last = mixer(x)
    outputs, state, ends = [], None, [0, *sorted(cuts), T]
    for first, end in itertools.pairwise(ends):
        y, state = mixer(x[first:end], state)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs), whole)
    torch.testing.assert_close(state, last)
    assert isinstance(state, Mamba2State)


@few
@given(lengths=st.lists(st.integers(0, T), min_size=B, max_size=B))
def test_padding_at_the_end_is_not_remembered(lengths):
    mixer, x = make(), some(T, B, C)
    _, before = mixer(some(3, B, C))
    y, state = mixer(x, before, torch.arange(T)[:, None] < torch.tensor(lengths))
    for column, length in enumerate(lengths):
        one = slice(column, column + 1)
        start = Mamba2State(before.h[one], before.recent[:, one])
        expected, last = mixer(x[:length, one], start) if length else (x[:0, one], start)
        torch.testing.assert_close(y[:length, one], expected)
        torch.testing.assert_close(state.h[one], last.h)
        torch.testing.assert_close(state.recent[:, one], last.recent)


def test_new_heads_keep_for_between_a_token_and_a_thousand():
    mixer = Mamba2(C, 1000, D, DV)
    step = torch.nn.functional.softplus(mixer.dt_bias)
    assert step.min() < 0.0015 and step.max() > 0.07 and (step <= 0.1001).all()
    rate = mixer.A_log.exp()
    assert (rate >= 1).all() and (rate <= 16).all() and rate.min() < 1.5 and rate.max() > 15


def test_heads_of_a_group_share_keys_and_queries():
    shared, separate = make(), make(groups=H)
    weights = shared.state_dict()

    def repeated(rows):
        """Of values, then keys and queries, each group's once for each head."""
        v, k, q = rows.split([H * DV, D, D])
        return torch.cat([v, *[k] * H, *[q] * H])

    gate, vkq, step = weights["in_proj.weight"].split([H * DV, H * DV + 2 * D, H])
    weights["in_proj.weight"] = torch.cat([gate, repeated(vkq), step])
    for name in ("conv1d.weight", "conv1d.bias"):
        weights[name] = repeated(weights[name])
    separate.load_state_dict(weights)
    x = some(T, B, C)
    torch.testing.assert_close(separate(x)[0], shared(x)[0])


def test_runs_on_the_meta_device():
    with torch.device("meta"):
        y, state = Mamba2(C, H, D, DV)(torch.randn(T, B, C), None, torch.ones(T, B).bool())
    assert y.shape == (T, B, C) and y.is_meta and state.h.is_meta and state.recent.is_meta


def test_a_longer_text_costs_no_more_memory():
    mixer = make()
    for length in (1, 5, 50):
        _, state = mixer(some(length, B, C))
        assert [tuple(part.shape) for part in state] == [(B, H, D, DV), (3, B, H * DV + 2 * D)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": 4}, r"`d_model` \(6\) must be divisible by `heads` \(4\); try 8"),
        ({"groups": 2}, r"`heads` \(3\) must be divisible by `groups` \(2\); try 4"),
        ({"d_k": 0}, r"`d_k` \(0\) must be at least 1"),
        ({"conv": 0}, r"`conv` \(0\) must be at least 1"),
    ],
)
def test_impossible_sizes_are_explained(options, said):
    with pytest.raises(ValueError, match=said):
        Mamba2(**{"d_model": C, "heads": H} | options)
