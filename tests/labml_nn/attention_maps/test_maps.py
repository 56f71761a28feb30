"""A map of attention: axes by name, labels that stay with their texts."""

import pytest
import torch

from labml_nn.attention_maps import AttentionMap

T, S, B, H = 5, 7, 2, 3


def build(**fields):
    weights = torch.randn(T, S, B, H, generator=torch.Generator().manual_seed(0)).softmax(1)
    labels = {
        "queries": tuple(tuple(f"{b}q{t}" for t in range(T)) for b in range(B)),
        "keys": tuple(tuple(f"{b}k{s}" for s in range(S)) for b in range(B)),
    }
    return AttentionMap("decoder.attn", weights, **labels | fields)


def test_axes_by_name():
    attention = build()
    assert attention.sizes == {"query": T, "key": S, "batch": B, "head": H}
    picked = attention.pick(head=2, batch=1)
    assert picked.axes == ("query", "key")
    assert torch.equal(picked.weights, attention.weights[:, :, 1, 2])
    assert torch.equal(attention.pick(batch=-1).weights, attention.weights[:, :, -1])
    mean = attention.mean("head")
    assert mean.axes == ("query", "key", "batch")
    torch.testing.assert_close(mean.weights, attention.weights.mean(3))
    order = attention.tensor("batch", "head", "query", "key")
    assert order.shape == (B, H, T, S)
    assert torch.equal(order[1, 2], attention.weights[:, :, 1, 2])
    assert attention.sizes["head"] == H  # it is a value


def test_labels_stay_with_their_text():
    attention = build()
    assert attention.pick(batch=1).queries == (("1q0", "1q1", "1q2", "1q3", "1q4"),)
    assert attention.pick(batch=-2).keys[0][6] == "0k6"
    assert attention.pick(head=0).keys == attention.keys
    assert build(queries=None, keys=None).pick(batch=0).queries is None


def test_what_a_notebook_shows():
    expected = "<AttentionMap 'decoder.attn' (attention): query=5, key=7, batch=2, head=3>"
    assert repr(build()) == expected
    assert build()._repr_html_().startswith("<svg")
    assert build().pick(batch=0, query=2)._repr_html_() is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.pick(heads=1), ValueError, "no axis 'heads'; this map has query, key, batch,"),
        (lambda m: m.pick(head=3), IndexError, "no head 3: the axis has 3"),
        (lambda m: m.pick(batch=-3), IndexError, "no batch -3"),
        (lambda m: m.mean("batch"), ValueError, r"unrelated sequences; use pick\(batch=0\)"),
        (lambda m: m.tensor("query", "key"), ValueError, "is not an order of the axes"),
        (lambda m: build(axes=("query",)), ValueError, "must give each axis .* a name of its own"),
        (lambda m: build(axes=("a", "a", "b", "c")), ValueError, r"each axis of \[5, 7, 2, 3\]"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(build())
