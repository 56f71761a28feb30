"""The delta rule beside transformers 5.0.0 and flash-linear-attention 0.6.0.

`golden/make_delta_rule.py` made their values.
"""

from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from labml_nn.recurrent.delta_net import delta_rule_chunks, delta_rule_loop
from labml_nn.recurrent.gated_delta_net import (
    GatedDeltaNet,
    gated_delta_rule_chunks,
    gated_delta_rule_loop,
)

GOLDEN = load_file(Path(__file__).parent / "golden" / "delta_rule.safetensors")
#: Theirs are computed in single precision. They divide queries by the root of $d_k$, and we do not.
TOLERANCE = 3e-6
SCALE = GOLDEN["q"].shape[-1] ** 0.5


def forms(loop, chunks):
    return pytest.mark.parametrize(
        "rule", [loop, chunks, partial(chunks, chunk=8)], ids=["loop", "chunks", "chunks of 8"]
    )


PLAIN = forms(delta_rule_loop, delta_rule_chunks)
GATED = forms(gated_delta_rule_loop, gated_delta_rule_chunks)


def inputs():
    """Queries, keys, values, rates and decays, `[T, B, H, ...]`, and a memory; doubles."""
    ours = [GOLDEN[name].double().transpose(0, 1) for name in ("q", "k", "v", "beta", "g")]
    return [*ours, GOLDEN["memory"].double()]


def close(ours, theirs, tolerance=TOLERANCE):
    torch.testing.assert_close(ours.float(), theirs, rtol=tolerance, atol=tolerance)


@GATED
@pytest.mark.parametrize("which", ["recurrent", "chunk", "fla_gated"])
def test_gated_rule(rule, which):
    y, after = rule(*inputs())
    close(y.transpose(0, 1) / SCALE, GOLDEN[which])
    close(after, GOLDEN[which + "_after"])


@PLAIN
def test_rule_without_decay(rule):
    q, k, v, beta, _, memory = inputs()
    y, after = rule(q, k, v, beta, memory)
    close(y.transpose(0, 1) / SCALE, GOLDEN["fla_plain"])
    close(after, GOLDEN["fla_plain_after"])


@GATED
def test_gradients(rule):
    leaves = [leaf.requires_grad_() for leaf in inputs()]
    y, after = rule(*leaves)
    ((y / SCALE).sin().sum() + after.sin().sum()).backward()
    for leaf, name in zip(leaves, ["q", "k", "v", "beta", "g"], strict=False):
        close(leaf.grad.transpose(0, 1), GOLDEN["grad_" + name])
    close(leaves[-1].grad, GOLDEN["grad_memory"])


def test_layer_of_qwen3_next():
    """Our layer with the weights of theirs, which holds those of each head side by side."""
    theirs = {name.removeprefix("layer."): value for name, value in GOLDEN.items()}
    heads, d_model = len(theirs["A_log"]), GOLDEN["x"].shape[-1]
    d_k, d_v = GOLDEN["k"].shape[-1], GOLDEN["v"].shape[-1]
    layer = GatedDeltaNet(d_model, heads, d_k, d_v).double()

    rows = theirs["in_proj_qkvz.weight"].unflatten(0, (heads, -1))
    q, k, v, z = (part.flatten(0, 1) for part in rows.split([d_k, d_k, d_v, d_v], dim=1))
    beta, alpha = theirs["in_proj_ba.weight"].unflatten(0, (heads, 2)).unbind(1)
    maps = {"query": q, "key": k, "value": v, "gate": z, "beta": beta, "alpha": alpha}
    maps |= {"conv": theirs["conv1d.weight"], "output": theirs["out_proj.weight"]}
    weights = {f"{name}.weight": value for name, value in maps.items()}
    same = {name: theirs[name] for name in ("A_log", "dt_bias", "norm.weight")}
    layer.load_state_dict(weights | same, strict=True)
    # They add a millionth to the square of the length by which they divide keys and queries.
    y, _ = layer(GOLDEN["x"].double().transpose(0, 1))
    close(y.transpose(0, 1), GOLDEN["layer"], 1e-4)
