"""What makes attention fast: masks known as causal, one product for three maps, no T x T."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from labml_nn.attention_maps import record_attention
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.qk_norm import QKNormAttention
from labml_nn.transformers.scaled_dot_product import einsum_attention, fused_attention
from labml_nn.transformers.utils import (
    combine_masks,
    is_known_as_causal,
    known_as_causal,
    padding_mask,
    share_among_heads,
    subsequent_mask,
)

T, B, C, H = 5, 2, 12, 3
#: A length with more rows than features.
MANY = 9


class Calls(TorchDispatchMode):
    """Which operations run, and how large what they make is."""

    def __init__(self):
        super().__init__()
        self.names, self.sizes = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.names.append(func.overloadpacket.__name__)
        for made in result if isinstance(result, tuple | list) else [result]:
            if isinstance(made, torch.Tensor) and not func.is_view:
                self.sizes.append(made.numel())
        return result


def attention(kind=MultiHeadAttention, **options):
    torch.manual_seed(0)
    return kind(H, C, 0.0, **options).double()


def rows(length=T):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(length, B, C, dtype=torch.float64, generator=generator).requires_grad_()


def to_itself(module, mask=None, length=T):
    """The result, and all gradients."""
    x = rows(length)
    result = module(query=x, key=x, value=x, mask=mask)
    cotangent = torch.linspace(-1, 1, result.numel(), dtype=x.dtype).view(result.shape)
    return [result, *torch.autograd.grad(result, [x, *module.parameters()], cotangent)]


# Masks that are known.


def test_what_is_made_as_causal_is_known():
    mask = subsequent_mask(T)
    assert is_known_as_causal(mask)
    assert is_known_as_causal(share_among_heads(mask))
    assert is_known_as_causal(combine_masks(None, mask))
    assert not is_known_as_causal(None)
    assert not is_known_as_causal(torch.ones(T, T, 1, dtype=torch.bool).tril())


def test_what_is_made_of_it_is_not():
    mask = subsequent_mask(T)
    real = padding_mask(torch.tensor([T, 3]))
    for other in (mask[1:], mask.clone(), ~mask, mask & real, combine_masks(mask, real), mask.mT):
        assert not is_known_as_causal(other)
        assert not is_known_as_causal(share_among_heads(other[..., :1]))


@pytest.mark.parametrize(
    "change",
    [
        lambda mask: mask.zero_(),
        lambda mask: mask.logical_not_(),
        lambda mask: mask.transpose_(0, 1),
        lambda mask: mask[0].fill_(True),
        lambda mask: mask.detach().fill_(True),
        lambda mask: mask.view(-1).copy_(torch.ones(T * T)),
    ],
)
def test_a_mask_that_was_changed_is_known_no_more(change):
    mask = subsequent_mask(T)
    shared = share_among_heads(mask)
    change(mask)
    assert not is_known_as_causal(mask)
    assert not is_known_as_causal(shared)
    module = attention()
    torch.testing.assert_close(to_itself(module, mask), to_itself(module, mask.clone()))


def test_copies_have_to_earn_it_again(tmp_path):
    mask = subsequent_mask(T)
    torch.save(mask, tmp_path / "mask.pt")
    twins = [
        copy.deepcopy(mask),
        pickle.loads(pickle.dumps(mask)),
        torch.load(tmp_path / "mask.pt"),
    ]
    for twin in twins:
        assert torch.equal(twin, mask)
        assert not is_known_as_causal(twin)
        assert is_known_as_causal(known_as_causal(twin))


def test_the_inference_mode_counts_nothing():
    with torch.inference_mode():
        mask = subsequent_mask(T)
        assert not is_known_as_causal(mask)
        result = attention()(query=rows(), key=rows(), value=rows(), mask=mask)
    expected = attention()(query=rows(), key=rows(), value=rows(), mask=subsequent_mask(T))
    torch.testing.assert_close(result, expected)


def test_the_kernel_is_told():
    """With the same result as by reading the mask, and as the readable form has."""
    known, unknown = subsequent_mask(T), subsequent_mask(T).clone()
    results = [
        to_itself(attention(store_attn=store), mask)
        for store, mask in ((False, known), (False, unknown), (True, known))
    ]
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])

    query, key, value = torch.randn(3, T, B, H, 4, dtype=torch.float64)
    torch.testing.assert_close(
        fused_attention(query, key, value, share_among_heads(known)),
        einsum_attention(query, key, value, share_among_heads(known)),
    )


@pytest.mark.parametrize("backward", [False, True])
def test_nothing_as_large_as_all_pairs_is_made(backward):
    length = 128  # many more pairs than numbers in all rows
    module, x, mask = attention(), rows(length), subsequent_mask(length)
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with Calls() as calls, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = module(query=x, key=x, value=x, mask=mask)
        if backward:
            result.sum().backward()
    assert max(calls.sizes) <= 3 * length * B * C < length**2
    assert max(kept) <= length * B * C * 3


@pytest.mark.parametrize("dynamic", [None, True])
def test_masks_in_compiled_graphs(unhooked, dynamic):
    """One that is made in the graph is known; one from outside is read, as it may be any."""
    mha = unhooked("labml_nn.transformers.mha")
    utils = unhooked("labml_nn.transformers.utils")
    module = mha.MultiHeadAttention(H, C, 0.0).double()
    x = rows().detach()

    def inside(x):
        return module(query=x, key=x, value=x, mask=utils.subsequent_mask(x.shape[0]))

    def outside(x, mask):
        return module(query=x, key=x, value=x, mask=mask)

    mask = utils.subsequent_mask(T)
    expected = outside(x, mask)
    options = {"fullgraph": True, "backend": "eager", "dynamic": dynamic}
    torch.testing.assert_close(torch.compile(inside, **options)(x), expected)
    compiled = torch.compile(outside, **options)
    torch.testing.assert_close(compiled(x, mask), expected)
    mask.fill_(True)
    torch.testing.assert_close(compiled(x, mask), outside(x, None))


# One product.


class Doubled(nn.Linear):
    """Something else in place of a linear layer."""

    def forward(self, x):
        return 2 * super().forward(x)


class Halves(MultiHeadAttention):
    """A half of one's own."""

    def project(self, *, key, value, rotation=None):
        return super().project(key=2 * key, value=2 * value, rotation=rotation)


@pytest.mark.parametrize("kind", [MultiHeadAttention, QKNormAttention])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"d_k": 6, "d_v": 7}])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "products"), [(MANY, 2), (T, 4)], ids=["many", "few"])
def test_one_product_is_three(kind, options, causal, length, products):
    """Where there are more rows than features: one for all heads, and one to join them."""
    module, mask = attention(kind, **options), subsequent_mask(length) if causal else None
    with Calls() as calls:
        together = to_itself(module, mask, length)
    assert forward_products(calls) == products
    module.key.register_forward_hook(lambda *_: None)  # somebody watches: no call is left out
    with Calls() as calls:
        alone = to_itself(module, mask, length)
    assert forward_products(calls) == 4
    torch.testing.assert_close(alone, together)


def test_each_source_has_a_product_of_its_own():
    module, x = attention(), rows(MANY)
    with Calls() as calls:
        result = module(query=x, key=x, value=2 * x)
    assert sum(name == "addmm" for name in calls.names) == 4
    readable = attention(store_attn=True)
    torch.testing.assert_close(result, readable(query=x, key=x, value=2 * x))


@pytest.mark.parametrize("same", [False, True], ids=["cross", "self"])
def test_errors_name_what_was_given(unhooked, same):
    module = unhooked("labml_nn.transformers.mha").MultiHeadAttention(H, C)
    x = rows().detach()
    query = x if same else x.float()
    with pytest.raises(TypeError, match=f"`{'query' if same else 'key'}` has dtype torch.float64"):
        module(query=query, key=x, value=x)


def forward_products(calls):
    names = calls.names[: calls.names.index("linspace")]
    return sum(name in ("mm", "addmm") for name in names)


def test_whoever_watches_a_map_sees_it():
    module, seen = attention(), []
    module.value.linear.register_forward_hook(lambda *_: seen.append("linear"))
    module.query.register_forward_pre_hook(lambda *_: seen.append("before"))
    module.key.register_full_backward_hook(lambda *_: seen.append("backward"))
    to_itself(module)
    assert sorted(seen) == ["backward", "before", "linear"]


@pytest.mark.parametrize("same", [False, True], ids=["cross", "self"])
def test_whoever_watches_all_modules_sees_the_maps(same):
    module, x, seen = attention(), rows(MANY), []
    hook = nn.modules.module.register_module_forward_hook(lambda each, *_: seen.append(each))
    try:
        result = module(query=x, key=x, value=x if same else x.clone())
    finally:
        hook.remove()
    maps = [module.query, module.key, module.value]
    assert {id(each) for each in (*maps, *(each.linear for each in maps))} <= set(map(id, seen))
    torch.testing.assert_close(result, module(query=x, key=x, value=x))


def test_operations_are_counted_by_module():
    module, x = attention(), rows(MANY)
    with FlopCounterMode(display=False) as counter:
        module(query=x, key=x, value=x)
    for name in ("query", "key", "value", "output"):
        counts = counter.get_flop_counts()[f"MultiHeadAttention.{name}"]
        assert sum(counts.values()) == 2 * MANY * B * C * C


def test_what_is_put_in_place_of_a_map_is_used():
    x = rows().detach()
    module = attention()
    expected = module(query=x, key=x, value=2 * x)
    module.value.linear.bias.data.zero_()
    without_bias = module(query=x, key=x, value=2 * x)
    assert not torch.equal(expected, without_bias)
    changed = Doubled(C, C).double()
    changed.load_state_dict(module.value.linear.state_dict())
    module.value.linear = changed
    torch.testing.assert_close(module(query=x, key=x, value=x), without_bias)

    parametrised = attention()
    nn.utils.parametrizations.weight_norm(parametrised.key.linear)
    torch.testing.assert_close(
        parametrised(query=x, key=x, value=x), attention()(query=x, key=x, value=x)
    )


def test_values_without_a_bias_go_by_themselves():
    module = attention(output_bias=False)
    with Calls() as calls:
        result = to_itself(module)
    assert forward_products(calls) == 4
    full = attention()
    full.load_state_dict(
        {**module.state_dict(), "value.linear.bias": torch.zeros(C), "output.bias": torch.zeros(C)}
    )
    torch.testing.assert_close(to_itself(full)[:2], result[:2])


def test_a_half_of_ones_own_is_asked():
    x, own = rows().detach(), Halves(H, C, 0.0).double()
    plain = attention()
    plain.load_state_dict(own.state_dict())
    torch.testing.assert_close(own(query=x, key=x, value=x), plain(query=x, key=2 * x, value=2 * x))


def test_maps_of_attention_are_recorded():
    module, x = attention(), rows()
    with record_attention(module) as maps:
        module(query=x, key=x, value=x, mask=subsequent_mask(T))
    assert len(maps) == 1
    torch.testing.assert_close(maps[0].weights.sum(1), torch.ones(T, B, H, dtype=torch.float64))


def test_two_forwards_before_one_backward():
    module, x = attention(), rows()
    results = [module(query=y, key=y, value=y, mask=subsequent_mask(T)) for y in (x, 2 * x)]
    (results[0].sum() + results[1].square().sum()).backward()
    together = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    for y, last in ((x, torch.sum), (2 * x, lambda result: result.square().sum())):
        last(module(query=y, key=y, value=y, mask=subsequent_mask(T))).backward()
    torch.testing.assert_close([p.grad for p in module.parameters()], together)


def test_autocast():
    module, x = attention().float(), rows().detach().float()
    expected = module(query=x, key=x, value=x, mask=subsequent_mask(T))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = module(query=x, key=x, value=x, mask=subsequent_mask(T))
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.03)
