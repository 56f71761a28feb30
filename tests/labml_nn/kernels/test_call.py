"""What Python and C++ share: packed weights and scratch buffers."""

import ctypes

import pytest
import torch

from labml_nn.kernels import call as calls
from labml_nn.kernels.build import Library
from labml_nn.kernels.call import PAGE, SPARE, Call, fields


class Task(ctypes.Structure):
    """Three weights."""

    _fields_ = fields("", "", "first second third")


class Four(Library):
    """No library: only the number of floats in its vectors."""

    def __init__(self):
        self.lanes = 4


def call(dtype=torch.float32):
    return Call(Four(), Task(), torch.empty(0, dtype=dtype))


def packed_by_hand(maps):
    """Panels of two vectors of columns, each with all terms of the sum."""
    wide = torch.nn.functional.pad(maps, (0, -maps.shape[-1] % 8))
    return torch.stack(wide.split(8, -1), -3)


@pytest.mark.parametrize("rows", [3, 70_000], ids=["less than a page", "more"])
def test_packed_side_by_side(rows):
    one, end = call(), None
    second = torch.randn(rows, 11).mT
    maps = {"first": torch.randn(2, 5, 13), "second": second, "third": torch.randn(7, 8)}
    one.point_packed(**maps)
    for name, given in maps.items():
        tensor = one.tensors[name]
        start = tensor.data_ptr()
        assert getattr(one.task, name) == start and end in (None, start)
        assert end is not None or rows == 3 or start % PAGE == 0
        assert torch.equal(tensor, packed_by_hand(given))
        end = start + tensor.nbytes


def test_scratch_buffers_are_reused_up_to_a_limit(monkeypatch):
    """When their call is done, by calls of the same size and dtype; also made in inference mode."""
    SPARE.clear()
    with torch.inference_mode():
        one = call()
        first, second = one.borrow(3, 5), one.borrow(3, 5)
        assert second.data_ptr() != first.data_ptr()  # it is still in use
    one.done()
    one.done()
    assert len(SPARE) == 2
    again = call()
    assert again.borrow(5, 3).add_(1).data_ptr() == first.data_ptr()
    assert again.borrow(5, 4).data_ptr() != second.data_ptr()
    assert call(torch.float64).borrow(5, 3).dtype == torch.float64
    monkeypatch.setattr(calls, "LIMIT", SPARE[0].nbytes)
    again.done()
    assert len(SPARE) <= 1
    SPARE.clear()


def test_a_tensor_without_room_is_copied():
    one = call()
    roomy = one.space(3, 5)
    assert one.roomy(roomy) is roomy
    assert one.roomy(torch.ones(3, 5)).untyped_storage().nbytes() > 60
