"""Samplers: distributions by hand and for any logits. Generation: with models made for the test."""

import math
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import labml_nn
from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.sampling import Chain, Greedy, Nucleus, Sampler, Temperature, TopK, generate

MODULE = "labml_nn.sampling"
ALL = [
    Sampler(),
    Greedy(),
    Temperature(0.7),
    TopK(2),
    Nucleus(0.8),
    Chain(Temperature(1.3), TopK(3), Nucleus(0.9)),
]
every = pytest.mark.parametrize("sampler", ALL, ids=repr)


def logits_of(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


def kept(sampler, logits):
    """The tokens that a sampler keeps in each row."""
    possible = sampler.distribution(logits) > 0
    return [row.nonzero().flatten().tolist() for row in possible]


# One sampler at a time, by hand.
def test_greedy_is_the_first_of_the_most_probable_and_draws_nothing():
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, -1.0, 0.0]])
    before = torch.get_rng_state()
    assert Greedy()(logits).tolist() == [1, 0]
    assert Greedy().distribution(logits).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert torch.equal(torch.get_rng_state(), before)


def test_temperature_by_hand_and_at_the_limits():
    logits = logits_of([0.5, 0.3, 0.2])
    squares = torch.tensor([[0.25, 0.09, 0.04]], dtype=torch.float64)
    torch.testing.assert_close(Temperature(0.5).distribution(logits), squares / squares.sum())
    torch.testing.assert_close(Temperature(1.0).distribution(logits), logits.softmax(-1))
    logits = torch.tensor([[80.0, 90.0, -math.inf], [3.0, 2.0, 1.0]])
    for temperature in (1e-38, 5e-324):
        cold = Temperature(temperature).distribution(logits)
        assert cold.tolist() == Greedy().distribution(logits).tolist()
    assert Temperature(1e30).distribution(logits[:1]).tolist() == [[0.5, 0.5, 0.0]]


POWERS = [0.125, 0.5, 0.25, 0.125]  # of two, so that the sums are exact


@pytest.mark.parametrize(
    ("sampler", "rows", "expected"),
    [
        (TopK(1), [[0.3, 0.1, 0.4, 0.2]], [[2]]),
        (TopK(2), [[0.3, 0.1, 0.4, 0.2]], [[0, 2]]),
        (TopK(9), [[0.3, 0.1, 0.4, 0.2]], [[0, 1, 2, 3]]),
        # Of equals, those with lower numbers.
        (TopK(3), [[1, 2, 1, 2, 1], [2, 2, 2, 2, 2]], [[0, 1, 3], [0, 1, 2]]),
        (TopK(100), [[1] * 5000], [list(range(100))]),
        (TopK(2), [[0, 1, 0]], [[1]]),
        (Nucleus(0.5), [POWERS], [[1]]),  # reached exactly: the set is {1}
        (Nucleus(0.51), [POWERS], [[1, 2]]),
        (Nucleus(0.75), [POWERS], [[1, 2]]),
        (Nucleus(0.76), [POWERS], [[0, 1, 2]]),
        (Nucleus(1.0), [POWERS], [[0, 1, 2, 3]]),
        (Nucleus(0.5), [[0.97, 0.01, 0.01, 0.01], [0.25] * 4], [[0], [0, 1]]),
        # From left to right.
        (Chain(Temperature(0.25), Nucleus(0.85)), [[0.5, 0.3, 0.2]], [[0]]),
        (Chain(Nucleus(0.85), Temperature(0.25)), [[0.5, 0.3, 0.2]], [[0, 1, 2]]),
    ],
    ids=repr,
)
def test_kept_by_hand(sampler, rows, expected):
    assert kept(sampler, logits_of(*rows)) == expected


def test_a_thin_tail_is_in_the_nucleus_of_all():
    tail = torch.tensor([[30.0, 0.0, -5.0]])
    assert tail.softmax(-1)[0, 0] == 1  # rounded
    assert kept(Nucleus(1.0), tail) == [[0, 1, 2]]
    assert kept(Nucleus(0.999), tail) == [[0]]


# All of them, on logits of every kind.
@every
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**16), batch=st.integers(1, 4), size=st.integers(1, 9))
def test_distributions_sum_to_one_and_keep_the_order(sampler, seed, batch, size):
    torch.manual_seed(seed)
    logits = torch.randint(-3, 4, (batch, size)).double()  # whole numbers are often equal
    logits[torch.rand(batch, size) < 0.2] = -math.inf
    logits[:, 0] = logits[:, 0].nan_to_num(neginf=0.0)
    before = logits.clone()
    q = sampler.distribution(logits)
    torch.testing.assert_close(q.sum(-1), torch.ones(batch, dtype=torch.float64))
    assert (q[logits == -math.inf] == 0).all()
    assert (q.gather(-1, Greedy()(logits)[:, None]) > 0).all()
    order = logits.sort(dim=-1, descending=True, stable=True).indices
    assert (q.gather(-1, order).diff(dim=-1) <= 1e-12).all()
    drawn = sampler(logits, torch.Generator().manual_seed(seed))
    assert (q.gather(-1, drawn[:, None]) > 0).all()
    assert torch.equal(logits, before)


@every
def test_draws_follow_the_distribution(sampler):
    """Pearson's statistic stays below a bound that one seed in a million exceeds."""
    logits, draws = torch.tensor([0.5, 2.0, -1.0, 1.0, 0.0, -math.inf]), 20_000
    expected = sampler.distribution(logits[None])[0] * draws
    before = torch.get_rng_state()
    drawn = sampler(logits.expand(draws, -1), torch.Generator().manual_seed(5))
    assert torch.equal(sampler(logits.expand(draws, -1), torch.Generator().manual_seed(5)), drawn)
    assert torch.equal(torch.get_rng_state(), before)
    counts, possible = F.one_hot(drawn, 6).sum(0), expected > 0
    assert counts[~possible].sum() == 0
    assert ((counts - expected)[possible].square() / expected[possible]).sum() < 35


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_every_dtype(sampler, dtype):
    logits = torch.tensor([[1.0, -math.inf, 3.0, 2.0], [0.0, 0.5, -2.0, 8.0]], dtype=dtype)
    q = sampler.distribution(logits)
    assert q.dtype in (torch.float32, torch.float64)
    torch.testing.assert_close(q.sum(-1), torch.ones(2, dtype=q.dtype))
    assert sampler(logits, torch.Generator().manual_seed(0)).dtype == torch.int64


# Generation.
V = 11


class Counter(LanguageModel[torch.Tensor]):
    """The token after `a` is certainly `a + (the number of tokens so far)`, modulo V."""

    def __init__(self, config):
        super().__init__(config)
        self.calls = []

    def forward(self, tokens, state=None):
        self.calls.append(tuple(tokens.shape))
        before = torch.zeros(1, dtype=torch.long) if state is None else state
        count = before + torch.arange(1, len(tokens) + 1)
        target = (tokens + count[:, None]) % self.config.n_vocab
        return 50 * F.one_hot(target, self.config.n_vocab).float(), count[-1:]


class Noise(LanguageModel[None]):
    """A table of bigrams with dropout."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)
        self.dropout = nn.Dropout(0.5)

    def forward(self, tokens, state=None):
        return self.dropout(self.table(tokens)), None


class Answer(Counter):
    """Starts from a token of its own, as an encoder–decoder does, and ends with 9."""

    end_token = 9

    def prepare_prompt(self, prompt, lengths=None):
        self.given = prompt, lengths
        return torch.tensor([0]), torch.full((1, prompt.shape[1]), 3), None


def make(cls=Counter, **config):
    torch.manual_seed(0)
    return cls(LanguageModelConfig(**{"n_vocab": V} | config))


def counted(prompt, n):
    """The continuation by `Counter`, by hand."""
    text = list(prompt)
    for _ in range(n):
        text.append((text[-1] + len(text)) % V)
    return text[len(prompt) :]


def test_by_hand_and_at_constant_cost():
    model = make()
    text = generate(model, torch.tensor([[5]]), 3)
    assert text.tolist() == [[6], [8], [0]] and text.dtype == torch.int64
    assert model.calls == [(1, 1)] * 3  # the last token is never read
    model = make()
    assert generate(model, torch.tensor([[2, 3], [1, 1]]), 1).tolist() == [[3, 3]]
    assert model.calls == [(2, 2)]


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ([4, 9], [[2, 4], [4, 4]]),
        ([7, 5], [[2, 4, 7, 7], [4, 6, 9, 2]]),
        (7, [[2, 4, 7, 7], [4, 6, 9, 2]]),
        ((), [[2, 4, 7, 0], [4, 6, 9, 2]]),
    ],
)
def test_stop_tokens_end_a_sequence_and_fill_its_column(stop, expected):
    assert counted([1], 4) == [2, 4, 7, 0] and counted([3], 4) == [4, 6, 9, 2]
    model = make()
    text = generate(model, torch.tensor([[1, 3]]), 4, stop=stop)
    assert text.T.tolist() == expected
    assert len(model.calls) == len(text)


def test_stop_tokens_of_prompts_and_discarded_samples_do_not_count():
    # In column 0, which still reads its prompt, 2 and 9 are sampled and discarded.
    assert counted([1], 1) == [2] and counted([1, 7], 1) == [9]
    prompt = torch.tensor([[1, 3], [7, 0], [5, 0]])
    text = generate(make(), prompt, 2, lengths=torch.tensor([3, 1]), stop=[1, 2, 7, 9])
    assert text.T.tolist() == [[8, 1], [4, 6]]


def test_a_model_that_answers_starts_and_ends_by_itself():
    prompt, lengths = torch.tensor([[1, 2], [5, 5]]), torch.tensor([2, 1])
    model = make(Answer)
    assert generate(model, prompt, 8, lengths=lengths).tolist() == [[4, 4], [6, 6], [9, 9]]
    assert model.given == (prompt, lengths) and model.calls == [(1, 2)] * 3
    assert len(generate(model, prompt, 8, stop=())) == 8


def test_padding_is_generated_only_as_a_stop_token():
    model, prompt = make(Noise, n_vocab=3, padding_token=1), torch.zeros(2, 40).long()
    text = generate(model, prompt, 20, Sampler(), seed=0)
    assert set(text.unique().tolist()) == {0, 2}
    text = generate(model, prompt, 20, Sampler(), seed=0, stop=1)
    assert (text == 1).any(0).sum() > 20


@pytest.mark.parametrize("n", [2, 4])
def test_tokens_are_reported_as_they_are_generated(n):
    seen, prompt = [], torch.tensor([[1, 3], [7, 0], [5, 0]])
    lengths = torch.tensor([3, 1])
    generate(make(), prompt, n, lengths=lengths, stop=9, on_token=lambda *pair: seen.append(pair))
    # Column 0 reads two more tokens of its prompt; column 1 ends with 9 or after n.
    assert seen[:3] == [(1, 4), (1, 6), (0, 8)]
    assert [token for column, token in seen if column == 0] == counted([1, 7, 5], n)
    assert [token for column, token in seen if column == 1] == [4, 6, 9][:n]


def test_seeds():
    model, prompt = make(Noise), torch.randint(V, (4, 3))
    before = torch.get_rng_state()
    one, two, other, large = (
        generate(model, prompt, 20, Temperature(2.0), seed=seed) for seed in (1, 1, -2, 2**64 - 1)
    )
    assert torch.equal(one, two) and not torch.equal(one, other) and not torch.equal(one, large)
    assert torch.equal(torch.get_rng_state(), before)
    texts = []
    for _ in range(2):
        torch.manual_seed(7)
        texts += [generate(model, prompt, 20, Sampler()) for _ in range(2)]
    assert torch.equal(texts[0], texts[2]) and not torch.equal(texts[0], texts[1])


def test_any_callable_is_a_sampler():
    calls = []

    def sampler(logits, generator):
        calls.append((logits.shape, generator.initial_seed()))
        return torch.full((3,), 2)

    text = generate(make(), torch.randint(V, (4, 3)), 2, sampler, seed=5)
    assert text.tolist() == [[2, 2, 2]] * 2 and calls == [((3, V), 5)] * 2


def test_modes_and_gradients_come_back():
    model, inside = make(Noise), []
    model.table.eval()
    before = [module.training for module in model.modules()]
    model.dropout.register_forward_hook(
        lambda module, inputs, y: inside.append(module.training or y.requires_grad)
    )
    text = generate(model, torch.randint(V, (4, 3)), 5)
    with pytest.raises(KeyboardInterrupt):
        generate(model, text, 5, on_token=Mock(side_effect=KeyboardInterrupt))
    assert inside == [False] * 6
    assert [module.training for module in model.modules()] == before == [True, False, True]
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    text[0] = 1  # an ordinary tensor
    model.loss(text[:-1], text[1:]).backward()
    assert model.table.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": 0}, ValueError, r"`n` \(0\) must be at least 1"),
        ({"model": nn.Linear(2, 2)}, TypeError, "`model` is a Linear; expected a language model"),
        ({"prompt": torch.zeros(4, 0).long()}, ValueError, "`prompt` is an empty batch"),
        ({"prompt": [[3], [2]]}, TypeError, r"`prompt` is a list; .* torch.as_tensor\(prompt\)"),
        ({"prompt": torch.full((4, 2), V)}, ValueError, f"`prompt` holds {V}; .* 0 to {V - 1}"),
        ({"lengths": torch.tensor([0, 3])}, ValueError, "`lengths` go from 0 to 3; expected 1"),
        ({"stop": V}, ValueError, f"`stop` holds {V}; expected tokens from 0 to {V - 1}"),
        ({"stop": "ab"}, TypeError, r"`stop` \('a'\) must be a whole number, not a str"),
        ({"seed": 1.5}, TypeError, r"`seed` \(1.5\) must be a whole number, not a float"),
        ({"seed": 2**64}, ValueError, r"`seed` \(\d+\) must fit into 64 bits"),
        ({"sampler": "greedy"}, TypeError, r"`sampler` \('greedy'\) .*instance.* Greedy\(\)"),
        ({"sampler": TopK}, TypeError, r"`sampler` \(.*\) must be an instance"),
        (
            {"sampler": lambda logits, _: logits},
            ValueError,
            rf"`sampler` returned the shape \[2, {V}\]; expected .*\[2\]",
        ),
    ],
)
def test_invalid_arguments(unhooked, change, error, message):
    base = unhooked("labml_nn.language_model")

    class Table(base.LanguageModel):
        def __init__(self, config):
            super().__init__(config)
            self.table = nn.Embedding(V, V)

        def forward(self, tokens, state=None):
            return self.table(tokens), None

    model = Table(base.LanguageModelConfig(n_vocab=V))
    arguments = {"model": model, "prompt": torch.zeros(4, 2).long(), "n": 3} | change
    with pytest.raises(error, match=message):
        unhooked(MODULE).generate(**arguments)
    assert model.training


def test_logits_are_those_of_a_batch(unhooked):
    with pytest.raises(ValueError, match=r"`logits` has shape \[5\]; expected \[B, V\]"):
        unhooked(MODULE).Greedy()(torch.randn(5))


def test_logits_that_are_no_numbers():
    """Drawing from them fails; generation says so whatever the sampler."""
    with pytest.raises(ValueError, match="`logits` holds NaN"):
        Sampler()(torch.full((2, 5), torch.nan))
    model = labml_nn.create("autoregressive", n_vocab=5, d_model=8, heads=2, n_layers=1)
    with torch.no_grad():
        model.generator.projection.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="`logits` holds NaN"):
        generate(model, torch.ones(3, 1, dtype=torch.long), 2)
