"""Feedback transformers for tests: models with random parameters, tokens, and the plain loop."""

import pytest
import torch

from labml_nn.transformers import feedback

T, B, C, H, F, L = 5, 2, 12, 3, 28, 2
#: PyTorch's tracer makes an instance of `torch.autograd.Function` and warns itself not to.
COMPILED = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
BOTH = pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])


def build(
    shared,
    *,
    dropout=0.0,
    n_layers=L,
    d_model=C,
    heads=H,
    horizon=None,
    norm_memory=False,
    package=None,
    **options,
):
    """A model whose parameters are all random; `package` is the library without its hook."""
    names = vars(package or feedback)
    torch.manual_seed(0)
    attn = names["FeedbackAttention"](heads, d_model, dropout, is_kv_precomputed=shared, **options)
    layer = names["FeedbackTransformerLayer"](
        d_model=d_model,
        attn=attn,
        feed_forward=names["FeedForward"](d_model, F, dropout),
        dropout_prob=dropout,
    )
    model_options = {"horizon": horizon, "norm_memory": norm_memory}
    if shared:
        model = names["FeedbackTransformerKV"](layer, n_layers, d_model, heads, **model_options)
    else:
        model = names["FeedbackTransformer"](layer, n_layers, **model_options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return model


def tokens(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*(shape or (T, B, C)), generator=generator, dtype=dtype)


def plain(model, x_seq, horizon=1000):
    """The paper's loop with nothing clever: lists, `torch.stack`, one layer after the other."""
    keys, values, top = [], [], []
    for x in x_seq:
        outputs = [x]
        for layer in model.layers:
            if keys:
                x = layer(
                    x=x, key=torch.stack(keys[-horizon:]), value=torch.stack(values[-horizon:])
                )
            else:
                x = layer(x=x, key=None, value=None)
            outputs.append(x)
        shares = torch.softmax(model.weights, 0)
        memory = sum(share * output for share, output in zip(shares, outputs, strict=True))
        memory = model.norm_memory(memory)
        shared = isinstance(model, feedback.FeedbackTransformerKV)
        keys.append(model.key(memory) if shared else memory)
        values.append(model.value(memory) if shared else memory)
        top.append(x)
    return model.norm(torch.stack(top))


def gradients(model, output, seed=0):
    """Gradients of a fixed, lopsided sum of an output."""
    weight = tokens(*output.shape, seed=seed).to(output)
    return torch.autograd.grad((output * weight).sum(), list(model.parameters()))
