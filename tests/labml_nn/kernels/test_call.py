"""What Python and C++ share: packed weights and scratch buffers."""

import ctypes

import pytest
import torch

from labml_nn.kernels.build import Library
from labml_nn.kernels.call import PAGE, SPARE, Call, Spare, fields, release_buffers


class Four(Library):
    """No library: only the number of floats in its vectors."""

    def __init__(self):
        self.lanes = 4


class Task(ctypes.Structure):
    """Three weights."""

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


def test_buffers_are_reused_when_a_call_is_done():
    release_buffers()
    call = Call(Four(), Task(), torch.empty(0))
    first = call.borrow(3, 5)
    assert call.borrow(3, 5).data_ptr() != first.data_ptr()  # it is still in use
    call.done()
    call.done()
    assert len(SPARE.blocks) == 2
    again = Call(Four(), Task(), torch.empty(0))
    assert again.borrow(5, 3).data_ptr() == first.data_ptr()
    assert again.borrow(5, 4).data_ptr() != first.data_ptr()
    double = Call(Four(), Task(), torch.empty(0, dtype=torch.float64))
    assert double.borrow(5, 3).dtype == torch.float64
    release_buffers()
    assert not SPARE.blocks


def test_a_buffer_of_inference_mode_serves_in_training():
    release_buffers()
    with torch.inference_mode():
        call = Call(Four(), Task(), torch.empty(0))
        call.borrow(3, 5).zero_()
        call.done()
    again = Call(Four(), Task(), torch.empty(0))
    again.borrow(3, 5).add_(1)
    release_buffers()


def test_kept_buffers_are_bounded():
    spare = Spare()
    spare.most = 1000
    blocks = [torch.empty(size) for size in (100, 120, 90, 300)]
    spare.leave(blocks[:3])
    assert [block.numel() for block in spare.blocks] == [120, 90]
    spare.leave(blocks[3:])  # more than there is room for
    assert not spare.blocks


def test_a_tensor_without_room_is_copied():
    call = Call(Four(), Task(), torch.empty(0))
    roomy = call.space(3, 5)
    assert call.roomy(roomy) is roomy
    assert call.roomy(torch.ones(3, 5)).untyped_storage().nbytes() > 60
