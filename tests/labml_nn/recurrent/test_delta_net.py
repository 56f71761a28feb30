"""The delta rule: its forms give the same, and the memory does what the page says of it."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from labml_nn.recurrent.delta_net import (
    DeltaNet,
    DeltaNetConfig,
    DeltaNetLanguageModel,
    delta_rule_chunks,
    delta_rule_loop,
)
from labml_nn.recurrent.gated_delta_net import (
    GatedDeltaNet,
    gated_delta_rule_chunks,
    gated_delta_rule_loop,
)

T, B, H, D, DV, C = 9, 2, 3, 5, 7, 11
GATED = pytest.mark.parametrize("gated", [False, True])
RULES = pytest.mark.parametrize("rule", [delta_rule_loop, delta_rule_chunks])
#: Loop and chunks, without forgetting and with it.
FORMS = {
    False: (delta_rule_loop, delta_rule_chunks),
    True: (gated_delta_rule_loop, gated_delta_rule_chunks),
}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def inputs(gated, t=T, b=B, h=H, d=D, dv=DV, dtype=torch.double):
    """Rates up to 2, and if gated, decays from hardly any to nearly all of the memory."""
    q, k = (F.normalize(torch.randn(t, b, h, d, dtype=dtype), dim=-1) for _ in range(2))
    v, beta = torch.randn(t, b, h, dv, dtype=dtype), 2 * torch.rand(t, b, h, dtype=dtype)
    log_alpha = -10 * torch.rand(t, b, h, dtype=dtype) ** 4
    return q, k, v, beta, *[log_alpha] * gated, torch.randn(b, h, d, dv, dtype=dtype)


def close(ours, theirs, tolerance=1e-10):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def mixer(gated=True, **config):
    config = {"d_k": D, "d_v": DV} | config
    return (GatedDeltaNet if gated else DeltaNet)(C, H, **config).double()


sizes = st.integers(1, 5)


@GATED
@settings(deadline=None, max_examples=60)
@given(
    t=st.integers(1, 40),
    b=sizes,
    h=sizes,
    d=sizes,
    dv=sizes,
    chunk=st.integers(1, 45),
    seed=st.integers(0, 99),
)
def test_chunks_are_the_loop(gated, t, b, h, d, dv, chunk, seed):
    torch.manual_seed(seed)
    given_, (loop, chunks) = inputs(gated, t, b, h, d, dv), FORMS[gated]
    close(chunks(*given_, chunk=chunk), loop(*given_))


@GATED
def test_chunks_are_the_loop_in_single_precision(gated):
    given_, (loop, chunks) = inputs(gated, t=200, dtype=torch.float32), FORMS[gated]
    close(chunks(*given_), loop(*given_), 2e-5)


@GATED
def test_gradients_of_chunks_are_those_of_the_loop(gated):
    grads, (loop, chunks) = [], FORMS[gated]
    for rule in (loop, lambda *x: chunks(*x, chunk=4)):
        torch.manual_seed(1)
        leaves = [x.requires_grad_() for x in inputs(gated)]
        y, memory = rule(*leaves)
        (y.sin().sum() + memory.cos().sum()).backward()
        grads.append([leaf.grad for leaf in leaves])
    close(*grads)


@GATED
@pytest.mark.parametrize("chunk", [2, 5])
def test_gradients_of_chunks_are_right(gated, chunk):
    leaves = [x.requires_grad_() for x in inputs(gated, t=5, b=1, h=2, d=2, dv=3)]
    assert torch.autograd.gradcheck(lambda *x: FORMS[gated][1](*x, chunk=chunk), leaves)


def test_without_forgetting_both_rules_are_the_same():
    *given_, memory = inputs(gated=False, t=40)
    for plain, gated in zip(*FORMS.values(), strict=True):
        close(gated(*given_, torch.zeros_like(given_[-1]), memory), plain(*given_, memory))


def test_a_memory_that_forgets_all_gives_finite_gradients():
    # In a chunk of 32 tokens only 1e-1390 of the first would be left, which no float can hold.
    q, k, v, beta, _, memory = (x.float().requires_grad_() for x in inputs(True, t=32))
    log_alpha = torch.full_like(beta, -100.0, requires_grad=True)
    y, _ = gated_delta_rule_chunks(q, k, v, beta, log_alpha, memory)
    y.sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v, beta, log_alpha, memory))
    close([y], [gated_delta_rule_loop(q, k, v, beta, log_alpha, memory)[0]], 1e-5)


# What the rule does.
def remember(rule, keys, values, rate=1.0, memory=None):
    """The memory after these pairs, `[D, Dv]`, of one sequence and one head."""
    k, v = torch.tensor(keys)[:, None, None], torch.tensor(values)[:, None, None]
    beta = torch.full(k.shape[:-1], rate)
    zeros = torch.zeros(1, 1, k.shape[-1], v.shape[-1])
    memory = zeros if memory is None else memory[None, None]
    return rule(k, k, v, beta, memory)[1][0, 0]


@RULES
def test_the_second_value_of_a_key_replaces_the_first(rule):
    key, first, second = [0.6, 0.8], [1.0, 2.0], [3.0, -1.0]
    memory = remember(rule, [key, key], [first, second])
    close([torch.tensor(key) @ memory], [torch.tensor(second)], 1e-6)
    half = remember(rule, [key, key], [first, second], rate=0.5)
    close([torch.tensor(key) @ half], [0.25 * torch.tensor(first) + 0.5 * torch.tensor(second)])


@RULES
def test_a_write_leaves_what_orthogonal_keys_find(rule):
    memory = remember(rule, [[1.0, 0.0]], [[1.0, 2.0]])
    after = remember(rule, [[0.0, 1.0]], [[5.0, 5.0]], memory=memory)
    close([after[0]], [memory[0]])


@RULES
def test_a_rate_of_two_flips_the_sign(rule):
    memory = remember(rule, [[1.0, 0.0]], [[1.0, 2.0]])
    close([remember(rule, [[1.0, 0.0]], [[0.0, 0.0]], 2.0, memory)], [-memory])


# The mixer.
@GATED
@settings(deadline=None, max_examples=20)
@given(cuts=st.sets(st.integers(1, 69)), seed=st.integers(0, 99))
def test_calls_continue_each_other(gated, cuts, seed):
    torch.manual_seed(seed)
    layer, x = mixer(gated=gated), torch.randn(70, B, C, dtype=torch.double)
    whole, end = layer(x)
    state, parts = None, []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 70], strict=True):
        y, state = layer(x[first:last], state)
        parts.append(y)
    close([torch.cat(parts), *state], [whole, *end])


@GATED
@pytest.mark.parametrize("conv", [1, 4])
def test_padding_is_not_remembered(gated, conv):
    layer, x = mixer(gated=gated, conv=conv), torch.randn(T, B, C, dtype=torch.double)
    lengths = torch.tensor([T, 4])
    _, state = layer(x[:2])
    whole, end = layer(x, state, torch.arange(T)[:, None] < lengths)
    alone, last = layer(x[:4, 1:], one(state))
    close([whole[:4, 1:], end.memory[1:], end.recent[:, 1:]], [alone, *last])


def one(state):
    """The state of the second sequence."""
    return type(state)(state.memory[1:], state.recent[:, 1:])


@GATED
def test_no_position_depends_on_later_ones(gated):
    layer, x = mixer(gated=gated), torch.randn(T, B, C, dtype=torch.double, requires_grad=True)
    layer(x)[0][4].sum().backward()
    assert (x.grad[:5].abs().sum((1, 2)) > 0).all() and (x.grad[5:] == 0).all()


def test_a_language_model_has_the_layers_that_its_configuration_says():
    for gated, kind in ((False, DeltaNet), (True, GatedDeltaNet)):
        config = DeltaNetConfig(n_vocab=7, d_model=12, heads=3, d_k=5, gated=gated)
        layers = DeltaNetLanguageModel(config).layers
        assert {type(layer.mixer) for layer in layers} == {kind}
        assert layers[0].mixer.d_k == 5


def test_without_gate_all_is_kept_and_a_gated_layer_with_open_gates_is_the_same_rule():
    plain, gated = mixer(gated=False), mixer(gated=True)
    gated.load_state_dict(plain.state_dict(), strict=False)
    nn.init.constant_(gated.A_log, -40.0)
    x = torch.randn(T, B, C, dtype=torch.double)
    close([gated(x)[1].memory], [plain(x)[1].memory])


@GATED
@pytest.mark.parametrize(("allowed", "most"), [(False, 1.0), (True, 2.0)])
def test_rates_reach_two_only_where_they_may(monkeypatch, gated, allowed, most):
    rates, chunks = [], FORMS[gated][1]

    def recording(q, k, v, beta, *rest):
        rates.append(beta)
        return chunks(q, k, v, beta, *rest)

    monkeypatch.setattr(f"{chunks.__module__}.{chunks.__name__}", recording)
    layer = mixer(gated, allow_neg_eigval=allowed)
    nn.init.constant_(layer.beta.weight, 50.0)
    layer(torch.rand(T, B, C, dtype=torch.double))
    torch.testing.assert_close(rates[0].max().item(), most)


@GATED
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_a_memory_in_single(gated, half):
    layer, x = mixer(gated).to(half), torch.randn(T, B, C).to(half)
    y, state = layer(x)
    assert y.dtype == half and state.memory.dtype == torch.float32
    close([y.double()], [copy.deepcopy(layer).double()(x.double())[0]], 0.05)
    y, _ = layer(x[:1], state)
    assert y.dtype == half and y.isfinite().all()


@GATED
def test_meta_device(gated):
    layer, x = mixer(gated).to("meta"), torch.randn(T, B, C, dtype=torch.double, device="meta")
    y, state = layer(x)
    layer(x, state)[0].sum().backward()
    assert y.is_meta and all(parameter.grad.is_meta for parameter in layer.parameters())


@pytest.mark.parametrize("kind", [DeltaNet, GatedDeltaNet])
@pytest.mark.parametrize("wrong", [{"heads": 0}, {"d_k": 0}, {"conv": 0}, {"allow_neg_eigval": 1}])
def test_arguments(kind, wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        kind(**{"d_model": 12, "heads": 3} | wrong)
