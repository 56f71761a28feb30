"""Linear attention beside its authors' code and flash-linear-attention 0.6.0.

`golden/make_linear_attention.py` made their values.
"""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from labml_nn.recurrent.linear_attention import (
    LinearAttention,
    linear_attention_chunks,
    linear_attention_loop,
    linear_attention_table,
)

GOLDEN = load_file(Path(__file__).parent / "golden" / "linear_attention.safetensors")
#: Theirs are computed in single precision; this is a share of their largest number.
TOLERANCE = 1e-6
FORMS = pytest.mark.parametrize(
    "form", [linear_attention_loop, linear_attention_table, linear_attention_chunks]
)


def inputs():
    """Queries, keys and values, `[T, B, H, ...]`, the memory and the sum of keys; doubles."""
    ours = [GOLDEN[name].double().transpose(0, 1) for name in ("q", "k", "v")]
    return [*ours, GOLDEN["memory"].double(), GOLDEN["z"][:, 0].double()]


def close(ours, theirs):
    largest = theirs.abs().max().item()
    torch.testing.assert_close(ours.float(), theirs, rtol=0, atol=TOLERANCE * largest)


@FORMS
def test_sum(form):
    q, k, v, memory, _ = inputs()
    found, after = form(q, k, v, memory)
    close(found.transpose(0, 1), GOLDEN["recurrent"])
    close(after, GOLDEN["recurrent_after"])
    found, _ = form(q, k, v, torch.zeros_like(memory))
    close(found.transpose(0, 1), GOLDEN["chunk"])


@FORMS
def test_average(form):
    q, k, v, memory, z = inputs()
    v, memory = F.pad(v, (0, 1), value=1.0), torch.cat([memory, z[..., None]], dim=-1)
    found, after = form(q, k, v, memory)
    close((found[..., :-1] / found[..., -1:]).transpose(0, 1), GOLDEN["average"])
    close(after[..., :-1], GOLDEN["average_after"])
    close(after[..., -1], GOLDEN["z_after"][:, 0])
    found, _ = form(q, k, v, torch.zeros_like(memory))
    close((found[..., :-1] / found[..., -1:]).transpose(0, 1), GOLDEN["chunk_average"])


@pytest.mark.parametrize("step", [21, 5, 1])
def test_a_layer_with_the_authors_attention(step):
    layer = LinearAttention(6, 2).double()
    names = [name for name in GOLDEN if name.startswith("layer.")]
    layer.load_state_dict({name.removeprefix("layer."): GOLDEN[name] for name in names})
    state, parts = None, []
    for x in GOLDEN["x"].double().split(step):
        y, state = layer(x, state)
        parts.append(y)
    close(torch.cat(parts), GOLDEN["layer"])
    close(state.memory, torch.cat([GOLDEN["layer_memory"], GOLDEN["layer_z"][..., None]], dim=-1))
