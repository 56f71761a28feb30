"""What the authors' code and flash-linear-attention compute: makes `linear_attention.safetensors`.

It was run once, with torch==2.13.0, fla-core==0.6.0 (`pip install --no-deps`), einops==0.8.2, and
`linear_attention.py` of github.com/idiap/fast-transformers at 7ee816c, its recurrent attention,
whose path is the argument. No test needs them. Of both only one file is loaded.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

T, B, H, D, DV, W = 128, 2, 2, 3, 5, 4


def load(path: str | Path, name: str) -> Any:
    """A file without the package around it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fla_core = importlib.util.find_spec("fla").submodule_search_locations[0]
fla = load(Path(fla_core, "ops", "linear_attn", "naive.py"), "naive")

# The authors' file registers itself, and checks a deprecated argument; both are left out.
utils = MagicMock(check_state=lambda state, memory: state)
sys.modules |= {f"fast.{name}": MagicMock() for name in ("attention_registry", "a", "a.b", "a.b.c")}
sys.modules |= {"fast": MagicMock(), "fast.a._utils": utils}
authors = load(sys.argv[1], "fast.a.b.c.d").RecurrentLinearAttention()

torch.manual_seed(0)
golden: dict[str, torch.Tensor] = {}


def keep(**tensors: torch.Tensor) -> None:
    golden.update((name, tensor.detach().clone().contiguous()) for name, tensor in tensors.items())


# The forms, on one set of inputs, `[B, T, H, ...]`: positive queries and keys.
q, k = (F.elu(torch.randn(B, T, H, D)) + 1 for _ in range(2))
v, memory, z = torch.randn(B, T, H, DV), torch.randn(B, H, D, DV), torch.rand(B, 1, H, D)
keep(q=q, k=k, v=v, memory=memory, z=z)
found, after = fla.naive_recurrent_linear_attn(q, k, v, 1.0, memory, True)
keep(recurrent=found, recurrent_after=after)
found, (after, z_after) = fla.naive_recurrent_linear_attn(q, k, v, 1.0, (memory, z), True, True)
keep(average=found, average_after=after, z_after=z_after)
keep(chunk=fla.naive_chunk_linear_attn(q, k, v, 1.0))
keep(chunk_average=fla.naive_chunk_linear_attn(q, k, v, 1.0, True))

# A whole layer: the authors' attention, step by step, between projections and a convolution.
with torch.no_grad():
    layer = {
        name: nn.Linear(H * D, H * D, bias=False) for name in ("query", "key", "value", "output")
    }
    layer["conv"] = nn.Conv1d(3 * H * D, 3 * H * D, W, groups=3 * H * D, bias=False)
    x, state, ys = torch.randn(21, B, H * D), None, []
    qkv = torch.cat([layer[name](x) for name in ("query", "key", "value")], dim=-1)
    qkv = layer["conv"](F.pad(qkv.permute(1, 2, 0), (W - 1, 0))).permute(2, 0, 1)
    for qkv_t in qkv:
        heads = (part.unflatten(-1, (H, D)) for part in qkv_t.chunk(3, dim=-1))
        y, state = authors(*heads, state=state)
        ys.append(layer["output"](y.flatten(-2)))
keep(x=x, layer=torch.stack(ys), layer_memory=state[0], layer_z=state[1])
keep(**{f"layer.{name}.weight": part.weight for name, part in layer.items()})

save_file(golden, Path(__file__).with_name("linear_attention.safetensors"))
