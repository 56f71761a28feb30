"""What Python and C++ share: maps packed side by side."""

import ctypes

import pytest
import torch

from labml_nn.compiled import Call, Library, fields
from labml_nn.compiled.call import PAGE


class Four(Library):
    """No library: only how many numbers its vectors have."""

    def __init__(self):
        self.lanes = 4


class Task(ctypes.Structure):
    """Three maps."""

    _fields_ = fields("", "", "first second third")


def packed_by_hand(maps):
    """Panels of two vectors of columns, each with all terms of the sum."""
    columns = maps.shape[-1]
    wide = torch.zeros(*maps.shape[:-1], -columns % 8 + columns)
    wide[..., :columns] = maps
    return torch.stack([wide[..., j : j + 8] for j in range(0, wide.shape[-1], 8)], -3)


@pytest.mark.parametrize("rows", [3, 70_000], ids=["less than a page", "more"])
def test_packed_side_by_side(rows):
    call = Call(Four(), Task(), torch.empty(0))
    maps = {
        "first": torch.randn(2, 5, 13),
        "second": torch.randn(rows, 11).mT,
        "third": torch.randn(7, 8),
    }
    call.point_packed(**maps)
    addresses = []
    for name, given in maps.items():
        tensor = call.tensors[name]
        assert getattr(call.task, name) == tensor.data_ptr()
        assert torch.equal(tensor, packed_by_hand(given))
        addresses += [tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes]
    assert addresses[1] == addresses[2]
    assert addresses[3] == addresses[4]
    assert rows == 3 or addresses[0] % PAGE == 0
