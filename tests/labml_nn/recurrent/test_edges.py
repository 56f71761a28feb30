"""All parallel forms at the edge of their range are as exact as their loops.

No decay, decay to zero (also as a logarithm of minus infinity), nothing and everything written,
keys of length zero, and tokens of all kinds beside each other: values and gradients.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labml_nn.recurrent.delta_net import delta_rule_chunk, delta_rule_chunks, delta_rule_loop
from labml_nn.recurrent.gated_delta_net import (
    gated_delta_rule_chunk,
    gated_delta_rule_chunks,
    gated_delta_rule_loop,
)
from labml_nn.recurrent.linear_attention import (
    linear_attention_chunks,
    linear_attention_loop,
    linear_attention_table,
)
from labml_nn.recurrent.mamba2 import ssd_chunks, ssd_loop, ssd_table

T, B, H, D, DV = 35, 1, 2, 4, 5
FORMS = {
    linear_attention_table: (linear_attention_loop, "qkvm"),
    linear_attention_chunks: (linear_attention_loop, "qkvm"),
    delta_rule_chunk: (delta_rule_loop, "qkvbm"),
    delta_rule_chunks: (delta_rule_loop, "qkvbm"),
    gated_delta_rule_chunk: (gated_delta_rule_loop, "qkvbdm"),
    gated_delta_rule_chunks: (gated_delta_rule_loop, "qkvbdm"),
    ssd_table: (ssd_loop, "qkvdm"),
    ssd_chunks: (ssd_loop, "qkvdm"),
}
DECAYS = {
    "none": lambda: torch.zeros(T, B, H),
    "hardly any": lambda: -1e-8 * torch.rand(T, B, H),
    "little": lambda: -0.01 * torch.rand(T, B, H),
    "strong": lambda: -100 - 200 * torch.rand(T, B, H),
    "all": lambda: torch.full((T, B, H), -torch.inf),
}
EDGES = {
    "decay": [*DECAYS, "mixed"],
    "beta": [0.0, 1.0, "mixed"],
    "key": ["zero", "equal", "other"],
}


def inputs(decay, beta, key, seed):
    torch.manual_seed(seed)
    q, k = torch.nn.functional.normalize(torch.randn(2, T, B, H, D), dim=-1)
    if key == "zero":
        k[torch.rand(T) < 0.6] = 0.0
    if key == "equal":
        k[:] = k[:1].clone()
    each = torch.stack([make() for make in DECAYS.values()])
    which = torch.randint(len(DECAYS), (1, T, B, H))
    return {
        "q": q,
        "k": k,
        "v": torch.randn(T, B, H, DV),
        "b": torch.rand(T, B, H).round(decimals=1) if beta == "mixed" else q[..., 0] * 0 + beta,
        "d": each.gather(0, which)[0] if decay == "mixed" else DECAYS[decay](),
        "m": torch.randn(B, H, D, DV),
    }


def run(form, parts, dtype):
    """Values, memory and gradients of all inputs."""
    leaves = [part.to(dtype).requires_grad_() for part in parts]
    found, memory = form(*leaves)
    loss = found.sin().sum() + memory.cos().sum()
    grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    return [found.detach(), memory.detach(), *grads]


def errors(found, exact):
    return [
        float((a.double() - b).norm() / b.norm().clamp(min=1e-3))
        for a, b in zip(found, exact, strict=True)
    ]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@given(st.fixed_dictionaries({k: st.sampled_from(v) for k, v in EDGES.items()}), st.integers(0, 99))
@settings(deadline=None, max_examples=6)
def test_parallel_forms_are_as_exact_as_the_loop(form, edge, seed):
    loop, names = FORMS[form]
    given_ = inputs(**edge, seed=seed)
    parts = [given_[name] for name in names]
    exact = run(loop, parts, torch.float64)
    assert all(part.isfinite().all() for part in exact)
    of_loop = errors(run(loop, parts, torch.float32), exact)
    of_form = errors(run(form, parts, torch.float32), exact)
    for error, own in zip(of_form, of_loop, strict=True):
        assert error < 2e-6 + 5 * own, (of_form, of_loop)
