"""Parameters and multiplications of models, counted part by part."""

from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from pylit.figures.draw import Figure, Table, bar_list

#: Parts of the model, and what the names of their parameters contain; the first that fits counts.
PARTS = {
    "attention, maps": (".query", ".key", ".value", ".output"),
    "attention, weights": (),
    "feed-forward": (".feed_forward",),
    "normalisation": (".norm",),
    "positions": (".table",),
    "tokens in and out": ("embedding", "generator"),
}


def autoregressive():
    """The default model of letters, and one of the size of GPT-2."""
    small = AutoregressiveConfig(n_vocab=65)
    large = AutoregressiveConfig(
        n_vocab=50_257, n_layers=12, d_model=768, heads=12, max_len=1024, positions="learned"
    )
    counts = {
        "parameters, default": _parameters(small),
        "FLOP per token, default": _work(small),
        "parameters, as GPT-2": _parameters(large),
        "FLOP per token, as GPT-2": _work(large),
    }
    shares = [round(100 * parts["feed-forward"] / sum(parts.values())) for parts in counts.values()]
    rows = [[part, *(_short(parts[part]) for parts in counts.values())] for part in PARTS]
    rows.append(["all", *(_short(sum(parts.values())) for parts in counts.values())])
    return Figure(
        [_panel(title, parts) for title, parts in counts.items()],
        f"Four lists of bars. The feed-forward networks hold {shares[0]} % of the parameters of "
        f"the default model and {shares[2]} % of the one as large as GPT-2; of the FLOP for one "
        f"token they take {shares[1]} % and {shares[3]} %.",
        Table(["part", *counts], rows),
    )


@contextmanager
def _without_numbers():
    """Shapes alone. Even to draw no numbers would import a compiler, so nothing is drawn."""
    with torch.device("meta"), patch.object(nn.init, "normal_", lambda tensor, *_, **__: tensor):
        yield


def _parameters(config):
    with _without_numbers():
        model = AutoregressiveTransformer(config)
    counts = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        counts[_part(name)] += parameter.numel()
    return counts


def _work(config):
    """FLOP of a full context, divided by its tokens, as PyTorch's counter sees them."""
    with _without_numbers():
        model = AutoregressiveTransformer(config).eval()
        rows = torch.zeros(config.max_len, 1, config.d_model)
        mask = torch.ones(config.max_len, config.max_len, 1, dtype=torch.bool)
    layer = model.stack.layers[0]
    layer.self_attn.store_attn = True  # the readable form, whose products can be counted
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(x=rows, mask=mask)
        model.generator(rows)
    of = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    attention = "TransformerLayer.self_attn"
    maps = sum(of[f"{attention}.{name}"] for name in ("query", "key", "value", "output"))
    layers, total = config.n_layers, dict.fromkeys(PARTS, 0)
    total["attention, maps"] = layers * maps
    total["attention, weights"] = layers * (of[attention] - maps)
    total["feed-forward"] = layers * of["TransformerLayer.feed_forward"]
    total["tokens in and out"] = of["Generator.projection"]
    return {part: count // config.max_len for part, count in total.items()}


def _part(name):
    return next(part for part, words in PARTS.items() if any(word in name for word in words))


def _panel(title, counts):
    shown = {part: count for part, count in counts.items() if count}
    values = list(shown.values())
    return bar_list(list(shown), values, list(map(_short, values)), title=title)


def _short(count):
    """Three digits, and a word for the rest."""
    for power, word in ((1e6, " M"), (1e3, " k")):
        if count >= power:
            return f"{count / power:.3g}{word}"
    return str(count)
