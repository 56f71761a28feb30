"""Samplers: what is left of a distribution, by hand and for any logits, and fair draws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from labml_nn.sampling import Chain, Greedy, Nucleus, Sampler, Temperature, TopK

MODULE = "labml_nn.sampling"
ALL = [
    Sampler(),
    Greedy(),
    Temperature(0.7),
    TopK(2),
    Nucleus(0.8),
    Chain(Temperature(1.3), TopK(3), Nucleus(0.9)),
]


def logits_of(*rows):
    """Logits with these probabilities."""
    return torch.tensor(rows, dtype=torch.float64).log()


def left(sampler, logits):
    return (sampler.distribution(logits) > 0).tolist()


# One sampler at a time, by hand.
def test_fair_draw_leaves_the_distribution_alone():
    logits = torch.randn(2, 5)
    assert torch.equal(Sampler().distribution(logits), logits.softmax(-1))


def test_greedy_takes_the_first_of_the_most_probable():
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, -1.0, 0.0]])
    assert Greedy()(logits).tolist() == [1, 0]
    assert Greedy().distribution(logits).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_greedy_draws_no_random_number():
    before = torch.get_rng_state()
    Greedy()(torch.randn(2, 5, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), before)


def test_temperature_one_half_squares_probabilities():
    logits = logits_of([0.5, 0.3, 0.2])
    squares = torch.tensor([[0.25, 0.09, 0.04]], dtype=torch.float64)
    torch.testing.assert_close(Temperature(0.5).distribution(logits), squares / squares.sum())


def test_temperature_one_changes_nothing():
    logits = torch.randn(3, 7, dtype=torch.float64)
    torch.testing.assert_close(Temperature(1.0).distribution(logits), logits.softmax(-1))


@pytest.mark.parametrize("temperature", [1e-38, 1e-300, 5e-324])
def test_the_coldest_is_greedy_and_no_overflow(temperature):
    logits = torch.tensor([[80.0, 90.0, -math.inf], [3.0, 2.0, 1.0]])
    cold = Temperature(temperature).distribution(logits)
    assert cold.tolist() == Greedy().distribution(logits).tolist()


def test_the_hottest_is_even():
    hot = Temperature(1e30).distribution(torch.tensor([[80.0, 90.0, -math.inf]]))
    assert hot.tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize(
    ("k", "expected"), [(1, [2]), (2, [0, 2]), (3, [0, 2, 3]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])]
)
def test_top_k_by_hand(k, expected):
    logits = logits_of([0.3, 0.1, 0.4, 0.2])
    (row,) = left(TopK(k), logits)
    assert [token for token, there in enumerate(row) if there] == expected
    share = logits.exp()[0, expected]
    torch.testing.assert_close(TopK(k).distribution(logits)[0, expected], share / share.sum())


def test_top_k_is_exact_where_tokens_tie_and_lower_numbers_stay():
    logits = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]])
    assert left(TopK(3), logits) == [
        [True, True, False, True, False, False],
        [True, True, True, False, False, False],
    ]


@pytest.mark.parametrize("k", [1, 7, 40, 2999])
def test_top_k_of_a_large_vocabulary(k, monkeypatch):
    """Few different logits, so that the border runs through equals; some impossible."""
    logits = torch.randint(12, (3, 3000)).float()
    logits[1, 5:] = -math.inf
    fast = TopK(k).adjust(logits)
    monkeypatch.setattr("labml_nn.sampling.MANY", 10_000)
    assert torch.equal(fast, TopK(k).adjust(logits))


def test_top_k_of_many_equals():
    """So many that a sort which is not stable would mix them."""
    kept = TopK(100).distribution(torch.zeros(1, 5000)) > 0
    assert kept[0, :100].all() and not kept[0, 100:].any()


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.1, [1]),
        (0.5, [1]),  # reached exactly: the set is {1}
        (0.51, [1, 2]),
        (0.75, [1, 2]),
        (0.76, [0, 1, 2]),
        (0.875, [0, 1, 2]),
        (0.9, [0, 1, 2, 3]),
        (1.0, [0, 1, 2, 3]),
    ],
)
def test_nucleus_by_hand(p, expected):
    # Powers of two, so that the sums are exact.
    logits = logits_of([0.125, 0.5, 0.25, 0.125])
    (row,) = left(Nucleus(p), logits)
    assert [token for token, there in enumerate(row) if there] == expected


def test_nucleus_takes_lower_numbers_first_where_tokens_tie():
    assert left(Nucleus(0.5), torch.zeros(1, 4)) == [[True, True, False, False]]


def test_whole_nucleus_keeps_a_tail_that_rounding_would_lose():
    logits = torch.tensor([[30.0, 0.0, -5.0]])
    assert logits.softmax(-1).cumsum(-1)[0, 0] == 1
    assert left(Nucleus(1.0), logits) == [[True, True, True]]
    assert left(Nucleus(0.999), logits) == [[True, False, False]]


def test_each_row_is_cut_by_itself():
    logits = logits_of([0.97, 0.01, 0.01, 0.01], [0.25, 0.25, 0.25, 0.25])
    assert [sum(row) for row in left(Nucleus(0.9), logits)] == [1, 4]


def test_chain_works_from_left_to_right():
    logits = logits_of([0.5, 0.3, 0.2])
    cool_first = Chain(Temperature(0.25), Nucleus(0.85))
    cut_first = Chain(Nucleus(0.85), Temperature(0.25))
    assert left(cool_first, logits) == [[True, False, False]]
    assert left(cut_first, logits) == [[True, True, True]]
    assert torch.equal(Chain().distribution(logits), logits.softmax(-1))
    assert Chain(Temperature(2.0), Greedy())(logits).tolist() == [0]


# All of them, on logits of every kind.
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**16), batch=st.integers(1, 4), size=st.integers(1, 9))
@pytest.mark.parametrize("sampler", ALL, ids=repr)
def test_distributions_sum_to_one_and_leave_the_most_probable(sampler, seed, batch, size):
    torch.manual_seed(seed)
    # Whole numbers tie often; some tokens are ruled out.
    logits = torch.randint(-3, 4, (batch, size)).double()
    logits[torch.rand(batch, size) < 0.2] = -math.inf
    logits[:, 0] = logits[:, 0].nan_to_num(neginf=0.0)
    q = sampler.distribution(logits)
    torch.testing.assert_close(q.sum(-1), torch.ones(batch, dtype=torch.float64))
    assert (q[logits == -math.inf] == 0).all()
    assert (q.gather(-1, Greedy()(logits)[:, None]) > 0).all()
    # What was likelier does not become less likely, and a token drawn is one that is left.
    order = logits.sort(dim=-1, descending=True, stable=True).indices
    assert (q.gather(-1, order).diff(dim=-1) <= 1e-12).all()
    drawn = sampler(logits, torch.Generator().manual_seed(seed))
    assert (q.gather(-1, drawn[:, None]) > 0).all()


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**16), size=st.integers(1, 12), k=st.integers(1, 14))
def test_top_k_leaves_exactly_k(seed, size, k):
    torch.manual_seed(seed)
    logits = torch.randint(-1, 2, (3, size)).float()
    q = TopK(k).distribution(logits)
    assert ((q > 0).sum(-1) == min(k, size)).all()
    lost = logits.masked_fill(q > 0, -math.inf).amax(-1)
    kept = logits.masked_fill(q == 0, math.inf).amin(-1)
    assert (lost <= kept).all()


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**16), size=st.integers(1, 12), p=st.floats(0.01, 0.99))
def test_nucleus_is_the_smallest_set_that_reaches_p(seed, size, p):
    torch.manual_seed(seed)
    probabilities = torch.randn(3, size, dtype=torch.float64).softmax(-1)
    kept = Nucleus(p).distribution(probabilities.log()) > 0
    mass = probabilities.masked_fill(~kept, 0).sum(-1)
    least = probabilities.masked_fill(~kept, 2).amin(-1)
    assert (mass >= p - 1e-12).all()
    assert (mass - least < p + 1e-12).all()
    # The smallest: as many of the most probable ones do not reach it with one token fewer.
    best = probabilities.sort(descending=True).values.cumsum(-1)
    needed = (best < p - 1e-12).sum(-1) + 1
    assert (kept.sum(-1) <= needed.clamp(max=size)).all()


@pytest.mark.parametrize("sampler", ALL, ids=repr)
def test_draws_follow_the_distribution(sampler):
    """Pearson's statistic stays below a bound that a fair one passes once in a million seeds."""
    logits, draws = torch.tensor([0.5, 2.0, -1.0, 1.0, 0.0, -math.inf]), 20_000
    expected = sampler.distribution(logits[None])[0] * draws
    drawn = sampler(logits.expand(draws, -1), torch.Generator().manual_seed(5))
    counts = F.one_hot(drawn, 6).sum(0)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    statistic = ((counts - expected)[possible].square() / expected[possible]).sum()
    assert statistic < 35  # five degrees of freedom or fewer


@pytest.mark.parametrize("sampler", ALL, ids=repr)
def test_a_seed_draws_the_same_and_leaves_the_global_generator_alone(sampler):
    logits = torch.randn(50, 9)
    before = torch.get_rng_state()
    one, other = (sampler(logits, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_generator_the_global_one_draws():
    logits = torch.zeros(50, 9)
    torch.manual_seed(3)
    one = Sampler()(logits)
    torch.manual_seed(3)
    assert torch.equal(Sampler()(logits), one)
    assert not torch.equal(Sampler()(logits), one)


@pytest.mark.parametrize("sampler", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_every_precision(sampler, dtype):
    logits = torch.tensor([[1.0, -math.inf, 3.0, 2.0], [0.0, 0.5, -2.0, 8.0]], dtype=dtype)
    q = sampler.distribution(logits)
    assert q.dtype in (torch.float32, torch.float64)
    torch.testing.assert_close(q.sum(-1), torch.ones(2, dtype=q.dtype))
    drawn = sampler(logits, torch.Generator().manual_seed(0))
    assert drawn.shape == (2,) and drawn.dtype == torch.int64


@pytest.mark.parametrize("sampler", ALL, ids=repr)
def test_a_vocabulary_of_one(sampler):
    assert sampler(torch.tensor([[-4.0], [7.0]])).tolist() == [0, 0]


@pytest.mark.parametrize("sampler", ALL, ids=repr)
def test_logits_are_not_changed(sampler):
    logits = torch.randn(2, 5)
    before = logits.clone()
    sampler(logits)
    assert torch.equal(logits, before)


def test_samplers_print_as_they_are_written():
    sampler = Chain(Temperature(0.8), TopK(10), Nucleus(0.9), Greedy(), Sampler())
    assert repr(sampler) == (
        "Chain(Temperature(temperature=0.8), TopK(k=10), Nucleus(p=0.9), Greedy(), Sampler())"
    )


# What cannot be.
@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("Temperature", 0.0, ValueError, r"`temperature` \(0.0\) must be above 0.*Greedy\(\)"),
        ("Temperature", -1.0, ValueError, r"\(-1.0\)"),
        ("Temperature", math.inf, ValueError, r"\(inf\) must be above 0 and finite"),
        ("Temperature", math.nan, ValueError, r"\(nan\)"),
        ("Temperature", "1", TypeError, r"`temperature` \('1'\) must be a number, not a str"),
        ("Temperature", True, TypeError, "not a bool"),
        ("TopK", 0, ValueError, r"`k` \(0\) must be at least 1"),
        ("TopK", 2.0, TypeError, r"`k` \(2.0\) must be a whole number"),
        ("Nucleus", 0.0, ValueError, r"`p` \(0.0\) must be above 0 and at most 1"),
        ("Nucleus", 1.1, ValueError, r"`p` \(1.1\)"),
        ("Nucleus", math.nan, ValueError, r"`p` \(nan\)"),
        ("Nucleus", None, TypeError, r"`p` \(None\) must be a number"),
        ("Chain", 0.8, TypeError, r"`samplers` holds a float \(0.8\)"),
    ],
)
def test_impossible_samplers(unhooked, name, value, error, message):
    with pytest.raises(error, match=message):
        getattr(unhooked(MODULE), name)(value)


def test_whole_numbers_are_numbers(unhooked):
    sampling = unhooked(MODULE)
    logits = torch.randn(2, 5)
    torch.testing.assert_close(sampling.Temperature(1).distribution(logits), logits.softmax(-1))
    assert torch.equal(sampling.Nucleus(1).distribution(logits), logits.softmax(-1))


@pytest.mark.parametrize("draw", ["Sampler", "Greedy"])
@pytest.mark.parametrize(
    ("logits", "error", "message"),
    [
        (torch.zeros(5), ValueError, r"shape \[5\]; expected \[B, V\].*logits\[-1\]"),
        (torch.zeros(2, 3, 5), ValueError, r"shape \[2, 3, 5\]"),
        (torch.zeros(2, 0), ValueError, r"shape \[2, 0\]"),
        (torch.zeros(2, 5).long(), TypeError, "dtype torch.int64; expected floating-point"),
        (torch.tensor([[0.0, 1.0], [0.0, math.nan]]), ValueError, "row 1 .* nan.*diverge"),
        (torch.tensor([[0.0, math.inf]]), ValueError, "row 0 .* inf.*infinite"),
        (torch.full((1, 3), -math.inf), ValueError, "row 0 .* -inf.*ruled out"),
    ],
)
def test_logits_from_which_nothing_can_be_drawn(unhooked, draw, logits, error, message):
    with pytest.raises(error, match=message):
        getattr(unhooked(MODULE), draw)()(logits)
