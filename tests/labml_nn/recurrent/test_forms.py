"""All parallel forms of a recurrence give what its loop gives: values, memories and gradients.

Of any sizes and in chunks of any length; and at the edge of their range they are as exact as the
loop: no decay, decay to zero (also as a logarithm of minus infinity), nothing and everything
written, keys of length zero, and tokens of all kinds beside each other.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

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
#: The loop of each form, and what it reads: queries, keys, values, beta, log of the decay, memory.
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
    "none": lambda *sizes: torch.zeros(sizes),
    "hardly any": lambda *sizes: -1e-8 * torch.rand(sizes),
    "little": lambda *sizes: -0.01 * torch.rand(sizes),
    "some": lambda *sizes: -10 * torch.rand(sizes) ** 4,
    "strong": lambda *sizes: -100 - 200 * torch.rand(sizes),
    "all": lambda *sizes: torch.full(sizes, -torch.inf),
}
EDGES = {
    "decay": [*DECAYS, "mixed"],
    "beta": [0.0, 1.0, "mixed"],
    "key": ["zero", "equal", "other"],
}
SIZES = {name: st.integers(1, 4) for name in ("b", "h", "d", "dv")}
every = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)


def inputs(names, decay, beta, key, seed=0, t=T, b=B, h=H, d=D, dv=DV):
    torch.manual_seed(seed)
    q, k = normalize(torch.randn(2, t, b, h, d), dim=-1)
    if key == "zero":
        k[torch.rand(t) < 0.6] = 0.0
    if key == "equal":
        k[:] = k[:1].clone()
    each = torch.stack([make(t, b, h) for make in DECAYS.values()])
    which = torch.randint(len(DECAYS), (1, t, b, h))
    rates = 2 * torch.rand(t, b, h)
    made = {
        "q": q,
        "k": k,
        "v": torch.randn(t, b, h, dv),
        "b": rates if beta == "any" else rates.round() / 2 if beta == "mixed" else rates * 0 + beta,
        "d": each.gather(0, which)[0] if decay == "mixed" else DECAYS[decay](t, b, h),
        "m": torch.randn(b, h, d, dv),
    }
    return [made[name] for name in names]


def run(form, parts, dtype, *options):
    """Values, memory and gradients of all inputs."""
    leaves = [part.to(dtype).requires_grad_() for part in parts]
    found, memory = form(*leaves, *options)
    loss = found.sin().sum() + memory.cos().sum()
    grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    return [found.detach(), memory.detach(), *grads]


@every
@given(
    st.fixed_dictionaries({"t": st.integers(1, 40), "seed": st.integers(0, 99)} | SIZES), st.data()
)
@settings(max_examples=15)
def test_any_sizes_and_chunks_give_what_the_loop_gives(form, sizes, data):
    """With rates up to 2, where a write turns the sign of what was there."""
    loop, names = FORMS[form]
    parts = inputs(names, "some", "any", "other", **sizes)
    options = []
    if form.__name__.endswith("chunks"):
        options.append(data.draw(st.integers(1, 45), label="length of a chunk"))
    expected = run(loop, parts, torch.double)
    torch.testing.assert_close(run(form, parts, torch.double, *options), expected)


def errors(found, exact):
    return [
        float((a.double() - b).norm() / b.norm().clamp(min=1e-3))
        for a, b in zip(found, exact, strict=True)
    ]


@every
@given(st.fixed_dictionaries({k: st.sampled_from(v) for k, v in EDGES.items()}), st.integers(0, 99))
@settings(max_examples=6)
def test_parallel_forms_are_as_exact_as_the_loop(form, edge, seed):
    loop, names = FORMS[form]
    parts = inputs(names, **edge, seed=seed)
    exact = run(loop, parts, torch.float64)
    assert all(part.isfinite().all() for part in exact)
    of_loop = errors(run(loop, parts, torch.float32), exact)
    of_form = errors(run(form, parts, torch.float32), exact)
    for error, own in zip(of_form, of_loop, strict=True):
        assert error < 2e-6 + 5 * own, (of_form, of_loop)


def test_loops_are_the_sums_of_their_formulas():
    """Without corrections a memory is a sum of outer products, each as much as its decay left."""
    q, k, v, b, d, m = (
        x.double() for x in inputs("qkvbdm", "some", "any", "other", t=7, b=2, dv=3)
    )
    found, after = ssd_loop(q, k, v, d, m)
    for t in range(7):
        left = [d[s + 1 : t + 1].sum(0).exp()[..., None, None] for s in range(-1, t + 1)]
        memory = left[0] * m + sum(
            left[s + 1] * k[s, ..., None] * v[s, ..., None, :] for s in range(t + 1)
        )
        torch.testing.assert_close(found[t], torch.einsum("bhd,bhde->bhe", q[t], memory))
    torch.testing.assert_close(after, memory)
    kept = torch.zeros_like(d)
    torch.testing.assert_close(ssd_loop(q, k, v, kept, m), linear_attention_loop(q, k, v, m))
    torch.testing.assert_close(
        gated_delta_rule_loop(q, k, v, b, kept, m), delta_rule_loop(q, k, v, b, m)
    )
