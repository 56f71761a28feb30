"""Mamba-2 equals the mixer of `transformers`; what it shares is tested for all layers."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from labml_nn.recurrent.mamba2 import Mamba2

T, B, C, H, D, DV = 11, 2, 6, 3, 5, 4
GOLDEN = Path(__file__).parents[2] / "equivalence" / "golden" / "mamba2.safetensors"
#: What the mixer of `transformers` has, see make_mamba2.py beside the golden values.
VARIANTS = {"plain": {}, "groups": {"groups": 2, "bias": True, "conv": 3}}


def same(got, expected):
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_equals_the_prompt_and_the_cached_steps_of_transformers(variant):
    expected = {
        name.removeprefix(f"{variant}."): value
        for name, value in load_file(GOLDEN).items()
        if name.startswith(variant)
    }
    mixer = Mamba2(6, 4, 5, 3, **VARIANTS[variant])
    names = mixer.state_dict()
    mixer.load_state_dict({name: expected[f"weights.{name}"] for name in names}, strict=True)
    x = expected["x"].transpose(0, 1)
    y, state = mixer(x[:8])
    same(state.h.mT, expected["after_prompt"])
    outputs = [y]
    for token in x[8:]:
        y, state = mixer(token[None], state)
        outputs.append(y)
    same(torch.cat(outputs).transpose(0, 1), expected["cached"])
    same(state.h.mT, expected["ssm_state"])
    same(state.recent.permute(1, 2, 0), expected["conv_state"][..., 1:])


def make(**options):
    torch.manual_seed(0)
    return Mamba2(C, H, D, DV, **options).double()


def some(*sizes):
    return torch.randn(*sizes, dtype=torch.double)


def test_new_heads_keep_for_between_a_token_and_a_thousand():
    mixer = Mamba2(C, 1000, D, DV)
    step = torch.nn.functional.softplus(mixer.dt_bias)
    assert step.min() < 0.0015 and step.max() > 0.07 and (step <= 0.1001).all()
    rate = mixer.A_log.exp()
    assert (rate >= 1).all() and (rate <= 16).all() and rate.min() < 1.5 and rate.max() > 15


def test_heads_of_a_group_share_keys_and_queries():
    shared, separate = make(), make(groups=H)
    weights = shared.state_dict()

    def repeated(rows):
        """Of values, then keys and queries, each group's once for each head."""
        v, k, q = rows.split([H * DV, D, D])
        return torch.cat([v, *[k] * H, *[q] * H])

    gate, vkq, step = weights["in_proj.weight"].split([H * DV, H * DV + 2 * D, H])
    weights["in_proj.weight"] = torch.cat([gate, repeated(vkq), step])
    for name in ("conv1d.weight", "conv1d.bias"):
        weights[name] = repeated(weights[name])
    separate.load_state_dict(weights)
    x = some(T, B, C)
    torch.testing.assert_close(separate(x)[0], shared(x)[0])
