"""Parameters and multiplications of models, counted part by part."""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from unittest.mock import patch

import torch
import torch._dynamo  # the counter imports it, which would be part of a figure's time
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.mha import MultiHeadAttention
from labml_nn.transformers.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    Generator,
    TransformerLayer,
)
from labml_nn.transformers.utils import subsequent_mask
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


#: The same for an encoder–decoder.
HALVES = {
    "encoder self-attention": ("encoder", ".self_attn"),
    "encoder feed-forward": ("encoder", ".feed_forward"),
    "decoder self-attention": ("decoder", ".self_attn"),
    "cross-attention": ("decoder", ".src_attn"),
    "decoder feed-forward": ("decoder", ".feed_forward"),
    "embeddings": ("embed",),
    "generator": ("generator",),
}


def encoder_decoder():
    """The base model of the paper, and a pair of sentences of 32 tokens each."""
    length, layers, size, hidden, vocabulary = 32, 6, 512, 2048, 37_000
    with _without_numbers():
        halves = (_half(Encoder, layers, size, hidden), _half(Decoder, layers, size, hidden))
        embeds = (nn.Embedding(vocabulary, size) for _ in range(2))  # sinusoids are no parameters
        model = EncoderDecoder(*halves, *embeds, Generator(vocabulary, size))
    parameters, work = dict.fromkeys(HALVES, 0), dict.fromkeys(HALVES, 0)
    for name, parameter in model.named_parameters():
        if part := _named(name):
            parameters[part] += parameter.numel()
    # One layer of each, which costs as much as another.
    mask = subsequent_mask(length).to("meta")
    with _without_numbers():
        encoder, decoder = (_half(stack, 1, size, hidden) for stack in (Encoder, Decoder))
        x = torch.empty(length, 1, size)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        decoder(x, encoder(x, None), None, mask)
        model.generator(x)
    for name, operations in counter.get_flop_counts().items():
        # Those of a module include what is in it.
        if name == "Generator.projection":
            work["generator"] = sum(operations.values())
        elif name.count(".") == 3:
            work[_named(name.lower())] += layers * sum(operations.values())
    total = sum(parameters.values())
    once = round(100 * parameters["cross-attention"] / total)
    tables = round(100 * (parameters["embeddings"] + parameters["generator"]) / total)
    rows = [[part, _short(parameters[part]), _short(work[part])] for part in HALVES]
    rows.append(["all", _short(total), _short(sum(work.values()))])
    return Figure(
        [_panel("parameters", parameters), _panel("FLOP for a pair of sentences", work)],
        f"Two lists of bars. Of {_short(total)} parameters, {tables} % are in the three tables "
        f"of tokens, which are one in the paper, and {once} % in cross-attention.",
        Table(["part", "parameters", "FLOP"], rows),
    )


def _half(stack, layers, size, hidden):
    def attention():
        return MultiHeadAttention(8, size, 0.0)

    layer = TransformerLayer(
        d_model=size,
        self_attn=attention(),
        src_attn=attention() if stack is Decoder else None,
        feed_forward=FeedForward(size, hidden, 0.0),
        dropout_prob=0.0,
    )
    return stack(layer, layers)


def _named(name):
    """The part of a model of two halves; normalisations are too small to see."""
    fits = (part for part, words in HALVES.items() if all(word in name for word in words))
    return next(fits, "")


@contextmanager
def _without_numbers():
    """Shapes alone. Even to draw no numbers would import a compiler, so nothing is drawn."""
    names = ("normal_", "uniform_", "xavier_uniform_", "kaiming_uniform_")
    nothing = dict.fromkeys(names, lambda tensor, *_, **__: tensor)
    with torch.device("meta"), patch.multiple(nn.init, **nothing):
        yield


def _parameters(config):
    counts = dict.fromkeys(PARTS, 0)
    for name, parameter in _model(config).named_parameters():
        counts[_part(name)] += parameter.numel()
    return counts


def _model(config):
    # To compute sinusoids without numbers would import the compiler as well.
    with _without_numbers() if config.positions == "learned" else nullcontext():
        return AutoregressiveTransformer(config).to("meta")


def _work(config):
    """FLOP of a full context, divided by its tokens, as PyTorch's counter sees them."""
    # One layer costs as much as another.
    layer = _model(replace(config, n_layers=1, n_vocab=2)).stack.layers[0].eval()
    mask = subsequent_mask(config.max_len).to("meta")
    with _without_numbers():
        rows = torch.empty(config.max_len, 1, config.d_model)
        generator = Generator(config.n_vocab, config.d_model)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(x=rows, mask=mask)
        generator(rows)
    counts = counter.get_flop_counts()
    of = {name: sum(ops.values()) for name, ops in counts.items()}
    attention = "TransformerLayer.self_attn"
    # Maps are products of two matrices, and weights and means of two stacks of them.
    stacks = (torch.ops.aten.bmm, torch.ops.aten.baddbmm)
    maps = sum(work for kind, work in counts[attention].items() if kind not in stacks)
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
    for power, word in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= power:
            return f"{count / power:.3g}{word}"
    return str(count)
