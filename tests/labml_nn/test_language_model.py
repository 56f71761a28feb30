"""The doors that all language models share, with small models made for the purpose."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from labml_nn.language_model import LanguageModel, LanguageModelConfig, evaluating

MODULE = "labml_nn.language_model"
V = 7


class Bigrams(LanguageModel[None]):
    """Logits are rows of a table, with dropout."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)
        self.dropout = nn.Dropout(0.5)

    def forward(self, tokens, state=None):
        return self.dropout(self.table(tokens)), None


class Running(LanguageModel[torch.Tensor]):
    """Bets on what it has seen so far, counted."""

    def __init__(self, config):
        super().__init__(config)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, tokens, state=None):
        seen = F.one_hot(tokens, self.config.n_vocab).float().cumsum(0)
        seen = seen if state is None else seen + state
        return self.scale * seen, seen[-1].detach()


def make(cls=Bigrams, **config):
    torch.manual_seed(0)
    return cls.from_config({"n_vocab": V} | config)


# The loss.
def test_loss_by_hand():
    model = make().eval()
    model.table.weight.data = torch.tensor([0.5, 0.25, 0.125, 0.125, 0, 0, 0]).log().repeat(V, 1)
    tokens, targets = torch.zeros(3, 1).long(), torch.tensor([[0], [1], [2]])
    expected = (math.log(2) + math.log(4) + math.log(8)) / 3
    torch.testing.assert_close(model.loss(tokens, targets), torch.tensor(expected))


def test_who_knows_nothing_pays_log_v():
    model = make().eval()
    nn.init.zeros_(model.table.weight)
    tokens, targets = torch.randint(V, (5, 2)), torch.randint(V, (5, 2))
    torch.testing.assert_close(model.loss(tokens, targets), torch.tensor(math.log(V)))


def test_padding_is_not_asked_for():
    model = make(padding_token=3).eval()
    tokens = torch.randint(V, (4, 2))
    targets = torch.tensor([[1, 0], [2, 3], [3, 3], [3, 3]])
    logits, _ = model(tokens)
    steps = -logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    expected = (steps[0, 0] + steps[1, 0] + steps[0, 1]) / 3
    torch.testing.assert_close(model.loss(tokens, targets), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_nothing_but_padding_costs_nothing_and_moves_nothing(smoothing):
    model = make(padding_token=3, label_smoothing=smoothing)
    tokens = torch.full((4, 2), 3)
    loss = model.loss(tokens, tokens)
    loss.backward()
    assert loss == 0
    assert (model.table.weight.grad == 0).all()


def test_without_padding_every_target_counts():
    model = make().eval()
    tokens, targets = torch.randint(V, (5, 2)), torch.randint(V, (5, 2))
    logits, _ = model(tokens)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(model.loss(tokens, targets), expected)


def test_smoothing_is_for_training_only():
    model = make(label_smoothing=0.3, padding_token=0)
    logits = torch.randn(5, 2, V, dtype=torch.float64)
    targets = torch.randint(1, V, (5, 2))
    p, right = logits.log_softmax(-1), targets[..., None]
    plain = -p.gather(-1, right).mean()
    smoothed = 0.7 * plain - 0.3 * p.mean()
    torch.testing.assert_close(model.loss_of(logits, targets), smoothed)
    torch.testing.assert_close(model.eval().loss_of(logits, targets), plain)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    length=st.integers(1, 5),
    batch=st.integers(1, 4),
    padding=st.none() | st.integers(0, V - 1),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_loss_is_a_mean_over_what_is_asked(seed, length, batch, padding, smoothing):
    """In whichever order, and whatever padding stands around it."""
    model = make(padding_token=padding, label_smoothing=smoothing)
    torch.manual_seed(seed)
    logits = torch.randn(length, batch, V, dtype=torch.float64)
    targets = torch.randint(V, (length, batch))
    loss = model.loss_of(logits, targets)
    assert loss.isfinite() and loss >= 0
    order = torch.randperm(batch)
    torch.testing.assert_close(model.loss_of(logits[:, order], targets[:, order]), loss)
    if padding is not None:
        more = torch.randn(2, batch, V, dtype=torch.float64)
        filled = torch.cat([targets, torch.full((2, batch), padding)])
        torch.testing.assert_close(model.loss_of(torch.cat([logits, more]), filled), loss)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype):
    model = make().eval()
    logits = torch.zeros(40_000, 1, V, dtype=dtype)
    loss = model.loss_of(logits, torch.randint(V, (40_000, 1)))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, torch.tensor(math.log(V)))


def test_loss_goes_on_from_a_state():
    model = make(Running)
    tokens, targets = torch.randint(V, (8, 2)), torch.randint(V, (8, 2))
    _, state = model(tokens[:3])
    logits, _ = model(tokens)
    expected = model.loss_of(logits[3:], targets[3:])
    torch.testing.assert_close(model.loss(tokens[3:], targets[3:], state), expected)


def test_tokens_of_32_bits():
    model = make().eval()
    tokens, targets = torch.randint(V, (5, 2)), torch.randint(V, (5, 2))
    assert torch.equal(model.loss(tokens.int(), targets.int()), model.loss(tokens, targets))


def test_training_compiles_whole(unhooked):
    base = unhooked(MODULE)

    class Table(base.LanguageModel):
        def __init__(self, config):
            super().__init__(config)
            self.table = nn.Embedding(V, V)

        def forward(self, tokens, state=None):
            return self.table(tokens), None

    model = Table(base.LanguageModelConfig(n_vocab=V, padding_token=2, label_smoothing=0.1))
    tokens, targets = torch.randint(V, (5, 2)), torch.randint(V, (5, 2))
    compiled = torch.compile(model.loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(tokens, targets), model.loss(tokens, targets))


# Asking.
def test_predict_is_the_softmax_of_the_last_logits():
    model = make()
    tokens = torch.randint(V, (5, 2))
    expected = model.table(tokens)[-1].softmax(-1)
    torch.testing.assert_close(model.predict(tokens), expected)
    assert not model.predict(tokens).requires_grad


def test_predict_goes_on_from_a_state():
    model = make(Running)
    tokens = torch.randint(V, (5, 2))
    _, state = model(tokens[:3])
    torch.testing.assert_close(model.predict(tokens[3:], state), model.predict(tokens))


def test_predict_answers_where_the_model_does():
    class Answers(Running):
        def begin(self, prompt, lengths=None):
            heard = F.one_hot(prompt, V).float().sum(0)
            return heard, torch.full((1, prompt.shape[1]), 4), None

    model, prompt = make(Answers), torch.randint(V, (5, 2))
    seen = F.one_hot(prompt, V).sum(0) + F.one_hot(torch.tensor(4), V)
    torch.testing.assert_close(model.predict(prompt), seen.float().softmax(-1))


def test_predict_of_half_precision_sums_to_one():
    model = make(n_vocab=5000).bfloat16()
    p = model.predict(torch.randint(5000, (3, 2)))
    assert p.dtype == torch.float32
    torch.testing.assert_close(p.sum(-1), torch.ones(2))


def modes(model):
    return [module.training for module in model.modules()]


def test_evaluating_gives_every_part_its_own_mode_back():
    model = make()
    model.dropout.eval()
    before = modes(model)
    assert before == [True, True, False]
    with evaluating(model):
        assert modes(model) == [False] * 3
    assert modes(model) == before
    with pytest.raises(KeyboardInterrupt), evaluating(model):
        raise KeyboardInterrupt
    assert modes(model) == before
    model.predict(torch.randint(V, (5, 2)))
    assert modes(model) == before


def test_predict_gives_modes_back_when_it_fails():
    model = make()
    with pytest.raises(ValueError, match=f"`prompt` holds {V}"):
        model.predict(torch.full((5, 2), V))
    assert model.training and model.dropout.training


# Beginning.
def test_a_model_continues_its_prompt():
    model = make()
    prompt, lengths = torch.randint(V, (5, 2)), torch.tensor([5, 1])
    assert model.prepare_prompt(prompt) == (None, prompt, None)
    assert model.prepare_prompt(prompt, lengths) == (None, prompt, lengths)
    assert model.end_token is None


@pytest.mark.parametrize(
    ("prompt", "lengths", "message"),
    [
        (torch.full((5, 2), V), None, f"`prompt` holds {V}; .* n_vocab"),
        (torch.zeros(0, 2).long(), None, "`prompt` .* the sequence is empty"),
        (torch.zeros(5, 2).long(), torch.tensor([6, 1]), r"`lengths` go from 1 to 6.*\(5\)"),
        (torch.zeros(5, 2).long(), torch.tensor([0, 1]), "`lengths` holds 0: a prompt is empty"),
        (torch.zeros(5, 2).long(), torch.tensor([1]), "`lengths` has 1 numbers for 2 prompts"),
    ],
)
def test_prompts_that_cannot_be(unhooked, prompt, lengths, message):
    base = unhooked(MODULE)
    model = base.LanguageModel(base.LanguageModelConfig(n_vocab=V))
    with pytest.raises(ValueError, match=message):
        model.prepare_prompt(prompt, lengths)


# Building.
def test_from_config_takes_a_value_or_its_fields():
    config = LanguageModelConfig(n_vocab=V, padding_token=2)
    assert Bigrams.from_config(config).config is config
    assert Bigrams.from_config({"n_vocab": V, "padding_token": 2}).config == config


def test_configuration_of_another_model(unhooked):
    base = unhooked(MODULE)

    class Other(base.LanguageModelConfig):
        pass

    class Model(base.LanguageModel):
        Config = Other

    with pytest.raises(TypeError, match="`config` is a LanguageModelConfig; Model needs a Other"):
        Model.from_config(base.LanguageModelConfig(n_vocab=V))


def test_print_shows_the_configuration():
    lines = repr(make(label_smoothing=0.1)).split("\n")
    assert lines[1].strip() == f"n_vocab={V}, padding_token=None, label_smoothing=0.1"


def test_copies_and_pickles():
    model = make(Running, padding_token=3)
    tokens = torch.randint(V, (5, 2))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.config == model.config
        assert torch.equal(other.predict(tokens), model.predict(tokens))


def test_targets_that_do_not_fit(unhooked):
    base = unhooked(MODULE)
    model = base.LanguageModel(base.LanguageModelConfig(n_vocab=V))
    logits = torch.randn(5, 2, V)
    for targets, error, message in [
        (torch.zeros(4, 2).long(), ValueError, r"`targets` has shape \[4, 2\].*logits \[5, 2, 7\]"),
        (torch.zeros(2, 5).long(), ValueError, r"one target for each position, \[5, 2\]"),
        (torch.full((5, 2), V), ValueError, f"`targets` holds {V}"),
        (torch.full((5, 2), -100), ValueError, "`targets` holds -100"),
        (torch.zeros(5, 2), TypeError, "`targets` has dtype torch.float32"),
    ]:
        with pytest.raises(error, match=message):
            model.loss_of(logits, targets)


def test_forward_is_for_subclasses():
    with pytest.raises(NotImplementedError):
        LanguageModel(LanguageModelConfig(n_vocab=V))(torch.zeros(5, 2).long())
