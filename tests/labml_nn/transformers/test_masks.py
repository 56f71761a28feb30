"""Masks: written out by hand, combined, and what is refused."""

import pytest
import torch

from labml_nn.transformers.utils import (
    check_mask,
    combine_masks,
    padding_mask,
    subsequent_mask,
    token_padding_mask,
)


def bits(*rows):
    return torch.tensor([[int(bit) for bit in row] for row in rows], dtype=torch.bool)


def test_subsequent_mask():
    mask = subsequent_mask(4)
    assert mask.dtype == torch.bool
    assert mask.shape == (4, 4, 1)
    assert torch.equal(mask[..., 0], bits("1000", "1100", "1110", "1111"))
    assert torch.equal(subsequent_mask(1), torch.ones(1, 1, 1, dtype=torch.bool))


def test_subsequent_mask_on_a_device():
    assert subsequent_mask(3, device="meta").device.type == "meta"


def test_padding_mask():
    lengths = torch.tensor([2, 0, 3])
    assert torch.equal(padding_mask(lengths)[0], bits("101", "101", "001"))
    assert torch.equal(padding_mask(lengths, 4)[0], bits("101", "101", "001", "000"))
    assert padding_mask(lengths.int()).shape == (1, 3, 3)


def test_token_padding_mask():
    tokens = torch.tensor([[5, 0], [0, 7], [0, 9]])
    assert torch.equal(token_padding_mask(tokens, 0)[0], bits("10", "01", "01"))
    assert torch.equal(token_padding_mask(tokens, 9)[0], bits("11", "11", "10"))


def test_combine_masks():
    causal, padding = subsequent_mask(3), padding_mask(torch.tensor([1, 3]))
    combined = combine_masks(causal, None, padding)
    assert combined.shape == (3, 3, 2)
    assert torch.equal(combined[..., 0], bits("100", "100", "100"))
    assert torch.equal(combined[..., 1], bits("100", "110", "111"))


def test_combining_nothing():
    assert combine_masks() is None
    assert combine_masks(None, None) is None
    causal = subsequent_mask(3)
    assert torch.equal(combine_masks(None, causal), causal)


def test_check_mask_accepts_axes_of_one():
    for shape in ((5, 7, 2), (1, 7, 2), (5, 7, 1), (1, 7, 1)):
        mask = torch.ones(shape, dtype=torch.bool)
        assert check_mask(mask, 5, 7, 2) is mask


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda u: u.subsequent_mask(0), ValueError, r"`seq_len` \(0\) must be at least 1"),
        (lambda u: u.subsequent_mask(2.0), TypeError, r"`seq_len` \(2\.0\) must be a whole"),
        (
            lambda u: u.padding_mask(torch.tensor([1.0])),
            TypeError,
            r"`lengths` has dtype torch\.float32; expected integers",
        ),
        (
            lambda u: u.padding_mask(torch.tensor([[1]])),
            ValueError,
            r"`lengths` has shape \[1, 1\]; expected \[B\]$",
        ),
        (
            lambda u: u.padding_mask(torch.tensor([], dtype=torch.long)),
            ValueError,
            r"`lengths` has shape \[0\]: the batch is empty; expected B to be at least 1",
        ),
        (
            lambda u: u.padding_mask(torch.tensor([4, 2]), 3),
            ValueError,
            r"`lengths` go from 2 to 4; expected 0 to max_len \(3\): cut the sequences",
        ),
        (
            lambda u: u.padding_mask(torch.tensor([0, 0])),
            ValueError,
            r"`max_len` \(0\) must be at least 1",
        ),
        (
            lambda u: u.padding_mask(torch.tensor([2, -1])),
            ValueError,
            r"`lengths` go from -1 to 2; expected 0 to max_len \(2\)",
        ),
        (
            lambda u: u.token_padding_mask(torch.tensor([0.0, 1.0]), 0),
            TypeError,
            r"`tokens` has dtype torch\.float32",
        ),
        (
            lambda u: u.combine_masks(u.subsequent_mask(3), u.subsequent_mask(4)),
            ValueError,
            r"masks of shapes \[3, 3, 1\] and \[4, 4, 1\] do not fit",
        ),
        (
            lambda u: u.token_padding_mask(torch.tensor([0, 1]), 0),
            ValueError,
            r"`tokens` has shape \[2\]; expected \[S, B\]; for one sequence use tokens\[:, None\]",
        ),
        (
            lambda u: u.combine_masks(u.subsequent_mask(3), torch.ones(3, 3) > 0),
            ValueError,
            r"masks of shapes \[3, 3, 1\] and \[3, 3\] do not fit",
        ),
        (
            lambda u: u.combine_masks(u.subsequent_mask(3), torch.zeros(3, 3, 1)),
            TypeError,
            r"`mask` has dtype torch\.float32; expected torch\.bool",
        ),
        (
            lambda u: u.check_mask(torch.ones(1, 1, 1, dtype=torch.cfloat), 1, 1, 1),
            TypeError,
            r"`mask` has dtype torch\.complex64",
        ),
    ],
)
def test_what_is_refused(unhooked, call, error, message):
    with pytest.raises(error, match=message):
        call(unhooked("labml_nn.transformers.utils"))


def test_masks_inside_a_compiled_graph(unhooked):
    """The lengths are not looked at there, so `max_len` has to be given."""
    masks = unhooked("labml_nn.transformers.utils")

    def both(lengths, max_len):
        return masks.combine_masks(masks.subsequent_mask(3), masks.padding_mask(lengths, max_len))

    lengths = torch.tensor([1, 3])
    compiled = torch.compile(both, fullgraph=True, backend="eager")
    assert torch.equal(compiled(lengths, 3), both(lengths, 3))
