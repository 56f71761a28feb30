"""What holds for attention whatever its inputs: causality, order, padding, batches, both forms."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import combine_masks, padding_mask, subsequent_mask

FEW = settings(deadline=None, max_examples=25)
BOTH = pytest.mark.parametrize("store_attn", [False, True], ids=["fast", "readable"])
sizes = st.integers(1, 6)


def attention(heads, d_k, seed, store_attn):
    torch.manual_seed(seed)
    module = MultiHeadAttention(heads, heads * d_k, dropout_prob=0.0, store_attn=store_attn)
    return module.double()


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def attend_to_itself(module, x, mask=None):
    return module(query=x, key=x, value=x, mask=mask)


@FEW
@given(T=sizes, S=sizes, B=sizes, H=sizes, K=sizes, seed=st.integers(0, 999), data=st.data())
def test_both_forms_are_one_function(T, S, B, H, K, seed, data):
    """Outputs and gradients, for any mask, rows that allow nothing included."""
    torch.manual_seed(seed)
    shape = (data.draw(st.sampled_from([1, T])), S, data.draw(st.sampled_from([1, B])))
    mask = data.draw(st.sampled_from([None, torch.rand(shape) < 0.5]))
    readable, fast = attention(H, K, seed, True), attention(H, K, seed, False)
    x = {"query": random(T, B, H * K), "key": random(S, B, H * K), "value": random(S, B, H * K)}
    cotangent = random(T, B, H * K)
    results = []
    for module in (readable, fast):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in x.items()}
        result = module(**leaves, mask=mask)
        result.backward(cotangent)
        gradients = [parameter.grad for parameter in module.parameters()]
        results.append([result.detach(), *gradients, *(leaf.grad for leaf in leaves.values())])
    torch.testing.assert_close(results[1], results[0])


@BOTH
@FEW
@given(T=st.integers(2, 7), B=sizes, seed=st.integers(0, 999), data=st.data())
def test_the_future_has_no_influence(store_attn, T, B, seed, data):
    module, x = attention(2, 3, seed, store_attn), random(T, B, 6)
    t = data.draw(st.integers(1, T - 1))
    changed = torch.cat([x[:t], random(T - t, B, 6)])
    mask = subsequent_mask(T)
    before, after = (attend_to_itself(module, sequence, mask) for sequence in (x, changed))
    torch.testing.assert_close(after[:t], before[:t])
    assert not torch.isclose(after[t:], before[t:]).all()
    # A model that reads the prefix alone gets the same.
    torch.testing.assert_close(attend_to_itself(module, x[:t], mask[:t, :t]), before[:t])


@BOTH
@FEW
@given(T=sizes, S=sizes, B=sizes, seed=st.integers(0, 999))
def test_order_does_not_matter(store_attn, T, S, B, seed):
    module = attention(2, 3, seed, store_attn)
    query, key, value, mask = (
        random(T, B, 6),
        random(S, B, 6),
        random(S, B, 6),
        torch.rand(T, S, B) < 0.5,
    )
    result = module(query=query, key=key, value=value, mask=mask)
    t, s, b = torch.randperm(T), torch.randperm(S), torch.randperm(B)
    # Of keys, together with their values and the mask: no difference.
    shuffled = module(query=query, key=key[s], value=value[s], mask=mask[:, s])
    torch.testing.assert_close(shuffled, result)
    # Of queries and of sequences: the results are in the new order.
    shuffled = module(query=query[t], key=key, value=value, mask=mask[t])
    torch.testing.assert_close(shuffled, result[t])
    shuffled = module(query=query[:, b], key=key[:, b], value=value[:, b], mask=mask[:, :, b])
    torch.testing.assert_close(shuffled, result[:, b])


@BOTH
@FEW
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 999))
def test_padding_has_no_influence(store_attn, lengths, seed):
    """Each sequence of a padded batch comes out as if it were alone."""
    module, T, B = attention(2, 3, seed, store_attn), 6, len(lengths)
    x = random(T, B, 6)
    mask = combine_masks(padding_mask(torch.tensor(lengths), T), subsequent_mask(T))
    together = attend_to_itself(module, x, mask)
    for b, length in enumerate(lengths):
        alone = attend_to_itself(module, x[:length, b : b + 1], subsequent_mask(length))
        torch.testing.assert_close(together[:length, b : b + 1], alone)


@BOTH
@FEW
@given(T=sizes, S=sizes, B=sizes, seed=st.integers(0, 999))
def test_axes_of_one_mean_all_alike(store_attn, T, S, B, seed):
    module = attention(2, 3, seed, store_attn)
    query, key, value = random(T, B, 6), random(S, B, 6), random(S, B, 6)
    for shape in ((1, S, 1), (T, S, 1), (1, S, B)):
        mask = torch.rand(shape) < 0.5
        narrow = module(query=query, key=key, value=value, mask=mask)
        wide = module(query=query, key=key, value=value, mask=mask.expand(T, S, B))
        torch.testing.assert_close(narrow, wide)


@FEW
@given(T=sizes, S=sizes, B=sizes, seed=st.integers(0, 999))
def test_weights_are_a_distribution(T, S, B, seed):
    module, mask = attention(2, 3, seed, True), torch.rand(T, S, B) < 0.5
    key = random(S, B, 6)
    module(query=random(T, B, 6), key=key, value=key, mask=mask)
    assert (module.attn >= 0).all()
    assert (module.attn[~mask] == 0).all()
    sums = module.attn.sum(dim=1)
    sees = mask.any(dim=1)[..., None].expand_as(sums)
    torch.testing.assert_close(sums, sees.double())


@FEW
@given(S=st.integers(2, 6), seed=st.integers(0, 999))
def test_the_bias_of_the_keys_does_nothing(S, seed):
    """Exercise 2 of the page."""
    module, x = attention(2, 3, seed, False), random(S, 2, 6)
    before = attend_to_itself(module, x)
    torch.nn.init.normal_(module.key.linear.bias)
    torch.testing.assert_close(attend_to_itself(module, x), before)
