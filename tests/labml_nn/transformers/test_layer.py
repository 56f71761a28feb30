"""The transformer layer: its equations with parts we can follow by hand, and its errors."""

import copy

import pytest
import torch
from torch import Tensor, nn

from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.layer import TransformerLayer
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.utils import subsequent_mask

MODULE = "labml_nn.transformers.layer"
T, S, B, C, H, F = 5, 7, 2, 12, 3, 28


class Attention(nn.Module):
    """Stands in for attention: remembers the call, answers with a multiple of the keys' mean."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor
        self.call: dict[str, Tensor | None] = {}

    def forward(self, *, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        self.call = {"query": query, "key": key, "value": value, "mask": mask}
        return self.factor * query + key.mean(0)


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x


def simple(norm_first: bool, decoder: bool = True, dropout_prob: float = 0.0) -> TransformerLayer:
    layer = TransformerLayer(
        d_model=C,
        self_attn=Attention(2.0),
        src_attn=Attention(3.0) if decoder else None,
        feed_forward=Square(),
        dropout_prob=dropout_prob,
        norm_first=norm_first,
    )
    for norm in (layer.norm_self_attn, layer.norm_ff, getattr(layer, "norm_src_attn", None)):
        if norm is not None:
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
    return layer


def real(decoder: bool = False, *, heads: int = H, **arguments) -> TransformerLayer:
    return TransformerLayer(
        d_model=C,
        self_attn=MultiHeadAttention(heads, C, 0.0),
        src_attn=MultiHeadAttention(heads, C, 0.0) if decoder else None,
        feed_forward=FeedForward(C, F, 0.0),
        **{"dropout_prob": 0.0, **arguments},
    )


def test_pre_norm_equations():
    layer, x, m = simple(norm_first=True), torch.randn(T, B, C), torch.randn(S, B, C)
    z = layer.norm_self_attn(x)
    rows = x + 2 * z + z.mean(0)
    z = layer.norm_src_attn(rows)
    rows = rows + 3 * z + m.mean(0)
    rows = rows + layer.norm_ff(rows) ** 2
    torch.testing.assert_close(layer(x=x, mask=None, src=m), rows)


def test_post_norm_equations():
    layer, x, m = simple(norm_first=False), torch.randn(T, B, C), torch.randn(S, B, C)
    rows = layer.norm_self_attn(x + 2 * x + x.mean(0))
    rows = layer.norm_src_attn(rows + 3 * rows + m.mean(0))
    rows = layer.norm_ff(rows + rows**2)
    torch.testing.assert_close(layer(x=x, mask=None, src=m), rows)


@pytest.mark.parametrize("norm_first", [True, False])
def test_which_vectors_and_masks_meet(norm_first):
    layer, x, m = simple(norm_first), torch.randn(T, B, C), torch.randn(S, B, C)
    mask, src_mask = subsequent_mask(T), torch.ones(1, S, B, dtype=torch.bool)
    layer(x=x, mask=mask, src=m, src_mask=src_mask)
    own, source = layer.self_attn.call, layer.src_attn.call
    assert own["query"] is own["key"] is own["value"]
    assert own["mask"] is mask
    assert source["key"] is source["value"] is m
    assert source["query"] is not m
    assert source["mask"] is src_mask


@pytest.mark.parametrize("norm_first", [True, False])
def test_without_a_source_a_decoders_layer_leaves_its_middle_out(norm_first):
    torch.manual_seed(0)
    decoder = simple(norm_first)
    torch.manual_seed(0)
    encoder = simple(norm_first, decoder=False)
    encoder.load_state_dict(decoder.state_dict(), strict=False)
    x = torch.randn(T, B, C)
    torch.testing.assert_close(decoder(x=x, mask=None), encoder(x=x, mask=None))
    assert decoder.src_attn.call == {}


def test_dropout_falls_on_what_is_added_and_only_there():
    x = torch.randn(T, B, C)
    layer = simple(norm_first=True, decoder=False, dropout_prob=1.0)
    assert torch.equal(layer(x=x, mask=None), x)
    assert not torch.equal(layer.eval()(x=x, mask=None), x)

    layer = simple(norm_first=False, decoder=False, dropout_prob=1.0)
    assert torch.equal(layer(x=x, mask=None), layer.norm_ff(layer.norm_self_attn(x)))


def test_hundred_layers_that_add_nothing():
    """The first exercise of the page."""
    x = torch.randn(T, B, C, requires_grad=True)
    cotangent = torch.randn(T, B, C)
    for norm_first in (True, False):
        rows: Tensor = x
        for _ in range(100):
            layer = TransformerLayer(
                d_model=C,
                self_attn=Attention(0.0),
                feed_forward=Square(),
                dropout_prob=1.0,
                norm_first=norm_first,
            )
            rows = layer(x=rows, mask=None)
        (gradient,) = torch.autograd.grad(rows, x, cotangent)
        if norm_first:
            assert torch.equal(rows, x)
            assert torch.equal(gradient, cotangent)
            continue
        close = {"rtol": 1e-2, "atol": 1e-2}
        once = nn.functional.layer_norm(x, (C,))
        torch.testing.assert_close(rows, once, **close)
        nothing = torch.zeros(T, B)
        torch.testing.assert_close(gradient.mean(-1), nothing, **close)
        torch.testing.assert_close((gradient * once).mean(-1), nothing, **close)


def test_saved_input_survives_a_network_that_works_in_place():
    layer = TransformerLayer(
        d_model=C,
        self_attn=Attention(0.0),
        feed_forward=nn.ReLU(inplace=True),
        dropout_prob=0.0,
    )
    layer.is_save_ff_input = True
    with torch.no_grad():
        layer(x=torch.randn(T, B, C), mask=None)
    assert (layer.ff_input < 0).any()


@pytest.mark.parametrize("norm_first", [True, False])
def test_saved_input_of_the_feed_forward_network(norm_first):
    layer, x = real(norm_first=norm_first), torch.randn(T, B, C)
    seen = []
    layer.feed_forward.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    layer(x=x, mask=None)
    assert layer.ff_input is None
    layer.is_save_ff_input = True
    layer(x=x, mask=None)
    assert torch.equal(layer.ff_input, seen[1])
    assert layer.ff_input is not seen[1]
    assert not layer.ff_input.requires_grad
    copy.deepcopy(layer)


def test_parameter_names_are_those_of_old_checkpoints():
    names = {name.rsplit(".", 1)[0] for name, _ in real(decoder=True).named_parameters()}
    attention = {"query.linear", "key.linear", "value.linear", "output"}
    assert names == {
        *(f"{part}.{name}" for part in ("self_attn", "src_attn") for name in attention),
        *(f"feed_forward.layer{i}" for i in (1, 2)),
        *(f"norm_{part}" for part in ("self_attn", "src_attn", "ff")),
    }
    assert not any("src_attn" in name for name, _ in real().named_parameters())


def test_source_given_to_an_encoders_layer():
    with pytest.raises(ValueError, match="to a layer without `src_attn`, which cannot"):
        real()(x=torch.zeros(T, B, C), mask=None, src=torch.zeros(S, B, C))


def test_source_mask_without_a_source():
    mask = torch.ones(1, S, B, dtype=torch.bool)
    with pytest.raises(ValueError, match="`src_mask` was given without"):
        real(decoder=True)(x=torch.zeros(T, B, C), mask=None, src_mask=mask)


def ones(*shape: int, dtype: torch.dtype = torch.bool) -> Tensor:
    return torch.ones(*shape, dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"x": torch.zeros(T, C)}, ValueError, r"`x` has shape \[5, 12\]; expected \[T, B, C\]"),
        ({"x": torch.zeros(T, B, 9)}, ValueError, "C = d_model = 12"),
        ({"x": torch.zeros(0, B, C)}, ValueError, "`x`.*the sequence is empty"),
        ({"x": torch.zeros(T, B, C).long()}, TypeError, "`x` has dtype torch.int64"),
        ({"x": torch.zeros(T, B, C).double()}, TypeError, "float64 but the parameters have"),
        ({"src": torch.zeros(S, B, 9)}, ValueError, r"`src` has shape \[7, 2, 9\]"),
        ({"src": torch.zeros(0, B, C)}, ValueError, "`src`.*the sequence is empty"),
        ({"src": torch.zeros(S, 3, C)}, ValueError, "the same number of sequences"),
        ({"mask": ones(T, S, 1)}, ValueError, r"`mask` has shape \[5, 7, 1\]"),
        ({"mask": ones(T, T)}, ValueError, r"\[5, 5\].*mask\[:, :, None\]"),
        ({"mask": ones(T, T, 1, dtype=torch.float32)}, TypeError, "expected torch.bool"),
        ({"src_mask": ones(T, T, 1)}, ValueError, r"`mask` has shape \[5, 5, 1\].*S = 7"),
        ({"src_mask": ones(1, S, B, dtype=torch.float64)}, TypeError, "expected torch.bool"),
    ],
)
def test_what_a_layer_refuses(unhooked, arguments, error, message):
    names = {name: unhooked(f"labml_nn.transformers.{name}") for name in ("mha", "feed_forward")}
    layer = unhooked(MODULE).TransformerLayer(
        d_model=C,
        self_attn=names["mha"].MultiHeadAttention(H, C),
        src_attn=names["mha"].MultiHeadAttention(H, C),
        feed_forward=names["feed_forward"].FeedForward(C, F),
        dropout_prob=0.0,
    )
    call = {"x": torch.zeros(T, B, C), "mask": None, "src": torch.zeros(S, B, C), **arguments}
    with pytest.raises(error, match=message):
        layer(**call)


def test_heads_that_do_not_divide():
    with pytest.raises(ValueError, match=r"`d_model` \(12\) must be divisible by `heads` \(5\)"):
        real(heads=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"d_model": 0}, "`d_model`.*0.* at least 1"), ({"dropout_prob": -0.1}, "`dropout_prob`")],
)
def test_impossible_arguments(arguments, message):
    parts = {"self_attn": Attention(1.0), "feed_forward": Square()}
    with pytest.raises(ValueError, match=message):
        TransformerLayer(**{"d_model": C, "dropout_prob": 0.0, **parts, **arguments})
