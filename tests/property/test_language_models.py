"""What holds for every language model, whatever the text: one file for all of them.

A model is asked through the doors that all of them have, `forward(tokens, state)` alone. Texts are
longer and shorter than the context, which is short here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

import labml_nn
from labml_nn.language_model import LanguageModel

#: Tokens 0, 1 and 2 have a meaning; texts are made of the others.
PADDING, START, FIRST, N_VOCAB = 0, 1, 3, 11
SMALL = {"n_vocab": N_VOCAB, "d_model": 12, "n_layers": 2, "padding_token": PADDING}
FEW = settings(deadline=None, max_examples=10)


@dataclass
class Kind:
    """A model, and how a text begins for it."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def replies(self) -> bool:
        return self.name == "encoder_decoder"

    @cached_property
    def model(self) -> LanguageModel[Any]:
        torch.manual_seed(0)
        made = labml_nn.create(self.name, **{**SMALL, **self.fields}).double().eval()
        for parameter in made.parameters():  # beginnings are small and even: make it matter
            nn.init.normal_(parameter, std=0.4)
        return made

    def begin(self, texts: Sequence[int]) -> Any:
        """The state before the texts of these numbers. A reply has something to reply to."""
        if not self.replies:
            return None
        source = torch.tensor([[b + i for b in texts] for i in range(5)]) % 8 + FIRST
        source[4] = source[4].where(torch.tensor(texts) % 2 > 0, PADDING)
        return self.model.encode(source)

    def text(self, length: int, batch: int) -> Tensor:
        tokens = torch.randint(FIRST, N_VOCAB, (length, batch))
        if self.replies:
            tokens[0] = START
        return tokens


SLIDING = {"heads": 3, "max_len": 6}
KINDS = {
    "autoregressive": Kind("autoregressive", SLIDING),
    "autoregressive, post-norm": Kind(
        "autoregressive", {**SLIDING, "positions": "sinusoidal", "norm_first": False}
    ),
    "encoder_decoder": Kind("encoder_decoder", SLIDING),
    "feedback": Kind("feedback", {**SLIDING, "shared_kv": True}),
    "feedback, own maps": Kind("feedback", {**SLIDING, "shared_kv": False}),
    "elman": Kind("elman", {"d_hidden": 14}),
}
every = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
lengths = st.integers(2, 15)
seeds = st.integers(0, 999)


def test_every_model_of_the_table_is_here():
    assert {kind.name for kind in KINDS.values()} == set(labml_nn.models().names)


def close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-9, atol=1e-9)


@every
@FEW
@given(length=lengths, seed=seeds, data=st.data())
def test_no_position_sees_the_future(kind, length, seed, data):
    torch.manual_seed(seed)
    text = kind.text(length, 2)
    t = data.draw(st.integers(1, length - 1))
    other = text.clone()
    other[t:] = (other[t:] - FIRST + 1) % 8 + FIRST
    before, after = (kind.model(tokens, kind.begin([0, 1]))[0] for tokens in (text, other))
    assert close(before[:t], after[:t])
    assert not close(before[t], after[t])


@every
@FEW
@given(length=lengths, seed=seeds, cuts=st.sets(st.integers(1, 14)))
def test_it_does_not_matter_how_a_text_is_cut_into_calls(kind, length, seed, cuts):
    torch.manual_seed(seed)
    text = kind.text(length, 2)
    whole, _ = kind.model(text, kind.begin([0, 1]))
    ends = [*sorted(cut for cut in cuts if cut < length), length]
    state, pieces = kind.begin([0, 1]), []
    for start, end in zip([0, *ends], ends, strict=False):
        logits, state = kind.model(text[start:end], state)
        pieces.append(logits)
    assert close(torch.cat(pieces), whole)


@every
@FEW
@given(length=lengths, seed=seeds)
def test_a_state_can_be_gone_on_from_twice(kind, length, seed):
    """Reading makes a new one, and leaves the old as it was."""
    torch.manual_seed(seed)
    text = kind.text(length, 2)
    one, other = torch.randint(FIRST, N_VOCAB, (2, 3, 2))
    _, state = kind.model(text, kind.begin([0, 1]))
    first, _ = kind.model(one, state)
    kind.model(other, state)
    assert close(kind.model(one, state)[0], first)
    whole, _ = kind.model(torch.cat([text, one]), kind.begin([0, 1]))
    assert close(whole[length:], first)


@every
@FEW
@given(length=lengths, seed=seeds, order=st.permutations(range(4)))
def test_order_of_the_batch_does_not_matter(kind, length, seed, order):
    torch.manual_seed(seed)
    text = kind.text(length, 4)
    logits, _ = kind.model(text, kind.begin(range(4)))
    moved, _ = kind.model(text[:, order], kind.begin(order))
    assert close(moved, logits[:, order])


@every
@FEW
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3), first=st.booleans(), seed=seeds)
def test_padding_has_no_influence(kind, lengths, first, seed):
    """Before the text or behind it. Each is read, and gone on with, as if it were alone."""
    torch.manual_seed(seed)
    longest, B = max(lengths) + 1, len(lengths)
    padded = torch.full((longest, B), PADDING)
    places = []
    for b, length in enumerate(lengths):
        places.append(slice(longest - length, longest) if first else slice(length))
        padded[places[b], b] = kind.text(length, 1)[:, 0]
    more = torch.randint(FIRST, N_VOCAB, (2, B))

    together, state = kind.model(padded, kind.begin(range(B)))
    behind, _ = kind.model(more, state)
    assert together.isfinite().all()
    for b, place in enumerate(places):
        alone, state = kind.model(padded[place, [b]], kind.begin([b]))
        assert close(together[place, [b]], alone)
        assert close(behind[:, [b]], kind.model(more[:, [b]], state)[0])


@FEW
@given(seed=seeds, order=st.permutations(range(4)))
def test_without_positions_one_layer_reads_a_bag(seed, order):
    """The last token sees the others as a set. From the second layer on each knows its past."""
    torch.manual_seed(seed)
    text = torch.randperm(8)[:5, None] + FIRST  # five different tokens
    for n_layers in (1, 2):
        fields = {**SLIDING, "positions": "none", "n_layers": n_layers}
        model = Kind("autoregressive", fields).model
        before, after = (model(tokens)[0][-1] for tokens in (text, text[[*order, 4]]))
        assert close(before, after) == (n_layers == 1 or list(order) == sorted(order))
