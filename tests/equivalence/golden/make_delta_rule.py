"""What transformers and flash-linear-attention compute: makes `delta_rule.safetensors`.

It was run once, with torch==2.13.0, transformers==5.0.0, flash-linear-attention==0.6.0,
fla-core==0.6.0 (both with `pip install --no-deps`) and einops==0.8.2. No test needs them. Of
flash-linear-attention only the two files of its reference are loaded, which need no GPU.
"""

import importlib.util
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextGatedDeltaNet,
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

T, B, H, D, DV, C = 21, 2, 3, 5, 7, 11


def fla(name: str) -> Any:
    """The reference of an operation of flash-linear-attention, without the package around it."""
    package = importlib.util.find_spec("fla")
    path = Path(next(iter(package.submodule_search_locations)), "ops", name, "naive.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch.manual_seed(0)
golden: dict[str, torch.Tensor] = {}


def keep(**tensors: torch.Tensor) -> None:
    golden.update((name, tensor.detach().clone()) for name, tensor in tensors.items())


# The rule, on one set of inputs, `[B, T, H, ...]`. Queries and keys are normalised.
q, k = (torch.nn.functional.normalize(torch.randn(B, T, H, D), dim=-1) for _ in range(2))
v, beta = torch.randn(B, T, H, DV), 2 * torch.rand(B, T, H)
g, memory = -torch.rand(B, T, H) * torch.tensor([0.1, 1.0, 5.0]), torch.randn(B, H, D, DV)
keep(q=q, k=k, v=v, beta=beta, g=g, memory=memory)

y, after = torch_recurrent_gated_delta_rule(q, k, v, g, beta, memory, True)
keep(recurrent=y, recurrent_after=after)

leaves = [leaf.requires_grad_() for leaf in (q, k, v, g, beta, memory)]
y, after = torch_chunk_gated_delta_rule(q, k, v, g, beta, 8, memory, True)
keep(chunk=y, chunk_after=after)
(y.sin().sum() + after.sin().sum()).backward()
keep(
    **{
        f"grad_{n}": x.grad
        for n, x in zip(["q", "k", "v", "g", "beta", "memory"], leaves, strict=True)
    }
)

gated = fla("gated_delta_rule")
with torch.no_grad():
    y, after = gated.naive_recurrent_gated_delta_rule(q, k, v, beta, g, None, memory, True)
    keep(fla_gated=y, fla_gated_after=after)
    y, after = fla("delta_rule").delta_rule_recurrence(
        *(x.transpose(1, 2) for x in (q, k, v, beta)), memory
    )
    keep(fla_plain=y.transpose(1, 2), fla_plain_after=after)

# A whole layer. Our norm sees answers that are sqrt(D) times as large, so its epsilon is D times.
config = Qwen3NextConfig(
    hidden_size=C,
    linear_num_value_heads=H,
    linear_num_key_heads=H,
    linear_key_head_dim=D,
    linear_value_head_dim=DV,
    linear_conv_kernel_dim=4,
    rms_norm_eps=1e-5 / D,
)
layer = Qwen3NextGatedDeltaNet(config, 0)
for parameter in layer.parameters():
    if parameter.dim() > 1:
        torch.nn.init.normal_(parameter, std=0.5)
torch.nn.init.normal_(layer.norm.weight, 1.0, 0.2)
torch.nn.init.normal_(layer.dt_bias)
torch.nn.init.normal_(layer.A_log, -1.0)
x = torch.randn(B, T, C)
with torch.no_grad():
    keep(x=x, layer=layer(x))
keep(**{f"layer.{name}": value for name, value in layer.state_dict().items()})

save_file(golden, Path(__file__).with_name("delta_rule.safetensors"))
