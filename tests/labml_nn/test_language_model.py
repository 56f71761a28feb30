"""What all language models inherit: configuration, loss, predictions; with small models."""

import math
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Literal

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
        self.gain = nn.Parameter(torch.ones(1))
        self.init_uniform()

    def forward(self, tokens, state=None):
        return self.gain * self.dropout(self.table(tokens)), None


class Counts(LanguageModel[torch.Tensor]):
    """Logits are the numbers of tokens so far."""

    def forward(self, tokens, state=None):
        counts = F.one_hot(tokens, self.config.n_vocab).float().cumsum(0)
        counts = counts if state is None else counts + state
        return counts, counts[-1]


def make(cls=Bigrams, **config):
    torch.manual_seed(0)
    return cls.from_config({"n_vocab": V} | config)


def some(*shape):
    return torch.randint(V, shape)


# Configuration.
@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"padding_token": 7}, ValueError, r"`padding_token` \(7\) .* raise `n_vocab`"),
        ({"init_lower": 2, "init_upper": 1}, ValueError, r"\(2\) must be at most .* \(1\)"),
        ({"init_biases": True}, ValueError, r"`init_biases` \(True\) needs a range"),
        ({"init_lower": -math.inf, "init_upper": 1.0}, ValueError, "both finite"),
        ({"bias": "no"}, TypeError, r"`bias` \('no'\) must be True or False, not a str"),
        ({"text": 3}, TypeError, r"`text` \(3\) must be a string, not a int"),
        ({"norm": "rsm"}, ValueError, "there is no `norm` 'rsm'; did you mean 'rms'"),
        ({"choice": 3}, TypeError, r"`choice` \(3\) must be a string"),
    ],
)
def test_fields_are_checked(unhooked, fields, error, message):
    base = unhooked(MODULE)

    @dataclass(frozen=True, kw_only=True)
    class Config(base.LanguageModelConfig):
        bias: bool = True
        text: str = ""
        norm: Literal["layer", "rms"] = "layer"
        choice: Literal["a", "b"] | None = None
        sizes: tuple[int, ...] = ()

    Config(n_vocab=V, init_lower=-1, init_upper=1, choice="b", sizes=(1,))
    with pytest.raises(error, match=message):
        Config(**({"n_vocab": V} | fields))


def test_configurations_are_values():
    config = LanguageModelConfig(n_vocab=V, label_smoothing=0.1)
    assert config == LanguageModelConfig.of({"n_vocab": V, "label_smoothing": 0.1})
    assert len({config, replace(config), replace(config, n_vocab=V + 1)}) == 2
    assert config.init_bounds is None
    assert replace(config, init_lower=-1.0, init_upper=0.5).init_bounds == (-1.0, 0.5)
    with pytest.raises(FrozenInstanceError):
        config.n_vocab = 5
    with pytest.raises(ValueError, match="'n_vocabs'; did you mean 'n_vocab'"):
        LanguageModelConfig.of({"n_vocabs": V})
    assert Bigrams.from_config(config).config is config
    assert f"n_vocab={V}, padding_token=None" in repr(make())


# Loss.
def test_loss_by_hand():
    model = make().eval()
    model.table.weight.data = torch.tensor([0.5, 0.25, 0.125, 0.125, 0, 0, 0]).log().repeat(V, 1)
    tokens, targets = torch.zeros(3, 1).long(), torch.tensor([[0], [1], [2]])
    expected = (math.log(2) + math.log(4) + math.log(8)) / 3
    torch.testing.assert_close(model.loss(tokens, targets), torch.tensor(expected))
    assert torch.equal(model.loss(tokens.int(), targets.int()), model.loss(tokens, targets))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_nothing_but_padding_costs_nothing(smoothing):
    model, tokens = make(padding_token=3, label_smoothing=smoothing), torch.full((4, 2), 3)
    loss = model.loss(tokens, tokens)
    loss.backward()
    assert loss == 0 and (model.table.weight.grad == 0).all()
    assert make().loss(some(4, 0), some(4, 0)) == 0


def test_label_smoothing_is_spread_over_all_tokens_in_training():
    model = make(label_smoothing=0.3, padding_token=0)
    logits, targets = torch.randn(5, 2, V).double(), torch.randint(1, V, (5, 2))
    p, right = logits.log_softmax(-1), targets[..., None]
    plain = -p.gather(-1, right).mean()
    torch.testing.assert_close(model.loss_of(logits, targets), 0.7 * plain - 0.3 * p.mean())
    torch.testing.assert_close(model.eval().loss_of(logits, targets), plain)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**16), shape=st.tuples(st.integers(1, 5), st.integers(1, 4)))
def test_loss_is_a_mean_in_any_order_and_with_any_padding(seed, shape):
    torch.manual_seed(seed)
    padding, smoothing = seed % V, (0.0, 0.1, 0.9)[seed % 3]
    model = make(padding_token=padding, label_smoothing=smoothing)
    logits, targets, order = torch.randn(*shape, V).double(), some(*shape), torch.randperm(shape[1])
    loss = model.loss_of(logits, targets)
    assert loss.isfinite() and loss >= 0
    torch.testing.assert_close(model.loss_of(logits[:, order], targets[:, order]), loss)
    more = torch.randn(2, shape[1], V).double()
    padded = torch.cat([targets, torch.full((2, shape[1]), padding)])
    torch.testing.assert_close(model.loss_of(torch.cat([logits, more]), padded), loss)


def test_half_precision_is_summed_in_single():
    for dtype in (torch.bfloat16, torch.float16):
        loss = make().loss_of(torch.zeros(40_000, 1, V, dtype=dtype), some(40_000, 1))
        torch.testing.assert_close(loss, torch.tensor(math.log(V)))
    p = make(n_vocab=5000).bfloat16().predict(torch.randint(5000, (3, 2)))
    torch.testing.assert_close(p.sum(-1), torch.ones(2))


def test_padding_after_a_continuation_is_ignored():
    model, tokens = make(Counts, padding_token=0), torch.randint(1, V, (3, 2))
    tokens[2, 1] = 0
    p = model.predict(tokens, torch.zeros(2, V))
    torch.testing.assert_close(p[1:], model.predict(tokens[:2, 1:], torch.zeros(1, V)))
    tokens[:, 1] = 0
    with pytest.raises(ValueError, match=r"sequence 1 is nothing but padding \(0\)"):
        model.predict(tokens, torch.zeros(2, V))


def test_evaluation_mode_ends_whatever_happens():
    model = make()
    model.table.eval()
    before = [module.training for module in model.modules()]
    assert before == [True, False, True]
    with pytest.raises(KeyboardInterrupt), evaluating(model):
        assert not any(module.training for module in model.modules())
        raise KeyboardInterrupt
    for call in (model.predict, model.pred):
        assert torch.equal(call(torch.ones(5, 2).long())[0], call(torch.ones(5, 2).long())[0])
        with pytest.raises(ValueError, match=f"holds {V}"):
            call(torch.full((5, 2), V))
    assert [module.training for module in model.modules()] == before


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        (torch.zeros(4, 2).long(), ValueError, r"`targets` has shape \[4, 2\].*logits \[5, 2, 7\]"),
        (torch.full((5, 2), -100), ValueError, "`targets` holds -100"),
        (torch.zeros(5, 2), TypeError, "`targets` has dtype torch.float32"),
    ],
)
def test_invalid_targets(unhooked, targets, error, message):
    base = unhooked(MODULE)
    model = base.LanguageModel(base.LanguageModelConfig(n_vocab=V))
    with pytest.raises(error, match=message):
        model.loss_of(torch.randn(5, 2, V), targets)


def test_tied_weights_stay_tied_on_other_devices():
    class Tied(Bigrams):
        def __init__(self, config):
            super().__init__(config)
            self.output = nn.Linear(V, V)
            self.output.weight = self.table.weight

    model = make(Tied).to("meta")
    assert model.output.weight is model.table.weight and model.table.weight.is_meta
    assert model.to_empty(device="cpu").output.weight is model.table.weight
    assert model.double().output.weight is model.table.weight
    assert make().to("meta").gain.is_meta
