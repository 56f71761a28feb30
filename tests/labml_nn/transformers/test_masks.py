"""Masks: written out by hand, combined, as the page draws them, and what is refused."""

import re

import pytest
import torch

from labml_nn.transformers.utils import (
    combine_masks,
    padding_mask,
    subsequent_mask,
    token_padding_mask,
)

LENGTHS = torch.tensor([4, 2])


def bits(*rows):
    return torch.tensor([[int(bit) for bit in row] for row in rows], dtype=torch.bool)


def test_subsequent_mask():
    mask = subsequent_mask(4)
    assert mask.shape == (4, 4, 1)
    assert torch.equal(mask[..., 0], bits("1000", "1100", "1110", "1111"))
    assert torch.equal(subsequent_mask(1), torch.ones(1, 1, 1, dtype=torch.bool))
    assert subsequent_mask(3, device="meta").is_meta


def test_padding_mask():
    lengths = torch.tensor([2, 0, 3])
    assert torch.equal(padding_mask(lengths)[0], bits("101", "101", "001"))
    assert torch.equal(padding_mask(lengths, 4)[0], bits("101", "101", "001", "000"))
    assert padding_mask(lengths.int()).shape == (1, 3, 3)
    assert padding_mask(lengths.to("meta"), 4).is_meta


def test_token_padding_mask():
    tokens = torch.tensor([[5, 0], [0, 7], [0, 9]])
    assert torch.equal(token_padding_mask(tokens, 0), bits("10", "01", "01")[None])
    assert torch.equal(token_padding_mask(tokens, 9), bits("11", "11", "10")[None])


def test_combine_masks():
    causal, padding = subsequent_mask(3), padding_mask(torch.tensor([1, 3]))
    combined = combine_masks(causal, None, padding)
    assert combined.shape == (3, 3, 2)
    assert torch.equal(combined[..., 0], bits("100", "100", "100"))
    assert torch.equal(combined[..., 1], bits("100", "110", "111"))
    assert combine_masks() is None and combine_masks(None, None) is None
    assert torch.equal(combine_masks(None, causal), causal)


def drawn(function):
    """The 1 and . in the drawing of a docstring."""
    lines = re.findall(r"```text\n(.*?)```", function.__doc__, re.S)[0].split("\n")
    found = [re.findall(r"(?<= )[1.](?= |$)", line) for line in lines]
    return bits(*[[cell == "1" for cell in row] for row in found if row])


def test_the_drawings_of_the_page():
    assert torch.equal(drawn(subsequent_mask), subsequent_mask(4)[:, :, 0])
    assert torch.equal(drawn(padding_mask).T, padding_mask(LENGTHS)[0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda u: u.padding_mask(torch.tensor([1.0])), TypeError, "`lengths` has dtype"),
        (lambda u: u.padding_mask(LENGTHS, 3), ValueError, r"from 2 to 4; .* 0 to max_len \(3\)"),
        (lambda u: u.padding_mask(0 * LENGTHS), ValueError, r"`max_len` \(0\)"),
        (lambda u: u.token_padding_mask(1.0 * LENGTHS, 0), TypeError, "`tokens` has dtype"),
        (lambda u: u.token_padding_mask(LENGTHS, 0), ValueError, r"\[2\]; expected \[S, B\]"),
    ],
)
def test_what_is_refused(unhooked, call, error, message):
    with pytest.raises(error, match=message):
        call(unhooked("labml_nn.transformers.utils"))
