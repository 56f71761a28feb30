"""Copies for stacks: identical ones, and ones with parameters of their own."""

import torch
from torch import nn

from labml_nn.utils import clone_module_list, independent_copies


def layer():
    return nn.Sequential(nn.Linear(3, 5), nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 2)))


def test_clones_are_equal_and_share_nothing():
    original = layer()
    clones = clone_module_list(original, 3)
    assert isinstance(clones, nn.ModuleList) and len(clones) == 3
    for clone in clones:
        torch.testing.assert_close(clone.state_dict(), original.state_dict(), rtol=0, atol=0)
    pointers = {p.data_ptr() for module in [original, *clones] for p in module.parameters()}
    assert len(pointers) == 4 * len(list(original.parameters()))


def test_independent_copies_draw_their_own_parameters():
    original = layer()
    copies = independent_copies(original, 3)
    torch.testing.assert_close(copies[0].state_dict(), original.state_dict(), rtol=0, atol=0)
    for name in ("0.weight", "0.bias", "1.1.weight", "1.1.bias"):
        first, second, third = (copy.state_dict()[name] for copy in copies)
        assert (first != second).all() and (second != third).all()
    assert torch.equal(copies[2].state_dict()["1.0.weight"], torch.ones(5))


def test_parents_initialise_last_and_what_cannot_be_drawn_is_copied():
    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.child, self.scale = nn.Linear(3, 5), nn.Parameter(torch.full((3,), 7.0))

        def reset_parameters(self):
            nn.init.zeros_(self.child.weight)

    for copy in independent_copies(Parent(), 2)[1:]:
        assert torch.equal(copy.child.weight, torch.zeros(5, 3))
        assert torch.equal(copy.scale, torch.full((3,), 7.0))
