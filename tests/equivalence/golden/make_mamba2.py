"""Golden values of a Mamba-2 mixer: weights, inputs and outputs of `transformers` 5.0.0.

Run once, in an environment with `transformers==5.0.0` beside `torch` and `safetensors`; the tests
need the file that it writes, and not the package. The package computes in PyTorch where its CUDA
kernels are missing.
"""

from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.mamba2 import modeling_mamba2
from transformers.models.mamba2.configuration_mamba2 import Mamba2Config

assert transformers.__version__ == "5.0.0"
T, B, C, HEADS, D, DV = 11, 2, 6, 4, 5, 3
CACHED = 8  # tokens of the first call; the rest follow one by one

VARIANTS = {"plain": {"n_groups": 1}, "groups": {"n_groups": 2, "use_bias": True, "conv_kernel": 3}}


@torch.no_grad()
def values(**options):
    """The weights of a mixer, an input, its output, and states and outputs of a second reading."""
    config = Mamba2Config(
        hidden_size=C,
        num_heads=HEADS,
        head_dim=DV,
        state_size=D,
        expand=2,
        chunk_size=4,
        num_hidden_layers=1,
        vocab_size=7,
        **options,
    )
    torch.manual_seed(0)
    mixer = modeling_mamba2.Mamba2Mixer(config, layer_idx=0)
    for name, parameter in mixer.named_parameters():
        # Large enough that a mistake in any of them shows; decays from slow to fast.
        parameter.uniform_(-1.5, 1.5) if name in ("A_log", "dt_bias") else parameter.normal_(0, 0.5)
    weights = {f"weights.{name}": value.clone() for name, value in mixer.state_dict().items()}

    x = torch.randn(B, T, C)
    whole = mixer(x)
    cache = modeling_mamba2.Mamba2Cache(config, B, dtype=torch.float32)
    outputs = [mixer(x[:, :CACHED], cache, torch.arange(CACHED))]
    after_prompt = cache.ssm_states[0].clone()
    for t in range(CACHED, T):
        outputs.append(mixer(x[:, t : t + 1], cache, torch.tensor([t])))
    cached = torch.cat(outputs, 1)
    print(f"cached beside whole: {(cached - whole).abs().max():.1e}")
    return {
        **weights,
        "x": x,
        "whole": whole,
        "cached": cached,
        "after_prompt": after_prompt,
        "ssm_state": cache.ssm_states[0],
        "conv_state": cache.conv_states[0],
    }


if __name__ == "__main__":
    tensors = {
        f"{variant}.{name}": value.contiguous()
        for variant, options in VARIANTS.items()
        for name, value in values(**options).items()
    }
    path = Path(__file__).with_name("mamba2.safetensors")
    save_file(tensors, path, {"transformers": transformers.__version__, "torch": torch.__version__})
    print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size:,} bytes")
