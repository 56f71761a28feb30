"""What Python and C++ share: scratch buffers."""

from unittest.mock import Mock

import torch

from labml_nn.kernels import call as calls
from labml_nn.kernels import elman
from labml_nn.kernels.build import Library
from labml_nn.kernels.call import SPARE, Call


def call(dtype=torch.float32):
    return Call(Mock(Library, lanes=4), elman.Args(), torch.empty(0, dtype=dtype))


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
