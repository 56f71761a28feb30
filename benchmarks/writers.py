"""Ways to write the next token: each is a function of no arguments that does it once more.

A way stands at a place in a text, its context, and stays there: it reads the same token there again
and again. So a run costs the same each time, whatever it has done before.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.feedback_models import (
    LUCIDRAINS,
    PUBLISHED_KV,
    Size,
    lucidrains_model,
    published_model,
)
from benchmarks.peers import MissingPeer
from labml_nn.kernels.build import Kernel, is_switched_off
from labml_nn.recurrent.elman import kernel as elman_step
from labml_nn.recurrent.elman.kernel.write import CompiledWriter
from labml_nn.recurrent.elman.language_model import ElmanConfig, ElmanLanguageModel
from labml_nn.recurrent.elman.torch_rnn import to_torch_rnn
from labml_nn.recurrent.elman.writing import ElmanWriter
from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from labml_nn.transformers.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderLanguageModel,
)
from labml_nn.transformers.feedback.language_model import FeedbackConfig, FeedbackLanguageModel
from labml_nn.transformers.feedback.writing import FeedbackWriter
from labml_nn.transformers.feedback.writing import compiled as feedback_step
from labml_nn.transformers.writing import DecoderWriter, compiled

#: What may follow, after a token: logits, or outputs of a model that has none.
Way = Callable[[], Tensor]
Ways = dict[str, Way]
Device = torch.device | str
REREADING, STATES = "nanoGPT's way: reads all again", "ours, a state for each token"
LEAN, COMPILED = "ours, lean", "ours, compiled"
VOCABULARY = 65


def gpt(context: int, texts: int, device: Device = "cpu", **changes: Any) -> Ways:
    """An autoregressive transformer of the default configuration, or another."""
    sizes = {"n_vocab": VOCABULARY, "max_len": context + 1, "dropout_prob": 0.0, **changes}
    torch.manual_seed(0)
    model = AutoregressiveTransformer(AutoregressiveConfig(**sizes)).eval().to(device)
    text = torch.randint(VOCABULARY, (context + 1, texts)).to(device)
    _, state = model(text[:-1])
    return {
        REREADING: partial(reread, model, text),
        STATES: lambda: model(text[-1:], state)[0][-1],
        **_writers(lambda: model.decoding_step(state), text[-1]),
    }


def reread(model: AutoregressiveTransformer, text: Tensor) -> Tensor:
    """What nanoGPT does for each token: the whole context, and logits of its last row.

    The parameters are those of `model`, of the default configuration. As in nanoGPT, queries, keys
    and values are one product, and attention is one call that knows it is causal.
    """
    heads, width = model.config.heads, model.config.d_model
    x = model.embedding.tokens.weight[text.T] * model.embedding.scale  # [B, T, C]
    assert model.embedding.table is not None
    x = x + model.embedding.table[: len(text)]
    for layer in model.stack.layers:
        attention: Any = layer.self_attn
        maps = [part.linear for part in (attention.query, attention.key, attention.value)]
        weight, bias = _together(maps)
        z = layer.norm_self_attn(x)  # type: ignore[operator]
        made = torch.unflatten(F.linear(z, weight, bias), -1, (3, heads, width // heads))
        query, key, value = made.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + attention.output(found.transpose(1, 2).flatten(2))
        network: Any = layer.feed_forward
        hidden = F.relu(network.layer1(layer.norm_ff(x)))  # type: ignore[operator]
        x = x + network.layer2(hidden)
    logits: Tensor = model.generator(model.stack.norm(x[:, -1]))
    return logits


_fused: WeakKeyDictionary[nn.Linear, tuple[Tensor, Tensor]] = WeakKeyDictionary()


def _together(maps: list[nn.Linear]) -> tuple[Tensor, Tensor]:
    # nanoGPT keeps the three in one matrix; to join them is no part of its work.
    if maps[0] not in _fused:
        weight = torch.cat([part.weight for part in maps]).detach()
        _fused[maps[0]] = weight, torch.cat([part.bias for part in maps]).detach()
    return _fused[maps[0]]


def replies(context: int, texts: int, device: Device = "cpu", **changes: Any) -> Ways:
    """An encoder–decoder whose reply is as long as what was said."""
    sizes = {"n_vocab": VOCABULARY + 3, "max_len": context + 1, "dropout_prob": 0.0, **changes}
    torch.manual_seed(0)
    model = EncoderDecoderLanguageModel(EncoderDecoderConfig(**sizes)).eval().to(device)
    said, reply = torch.randint(3, VOCABULARY, (2, context, texts)).to(device)
    begun, start, _ = model.prepare_prompt(said)
    text = torch.cat([start, reply])
    _, state = model(text[:-1], begun)
    return {
        "reads all again": lambda: model(text, model.encode(said))[0][-1],
        "reads the reply again": lambda: model(text, begun)[0][-1],
        STATES: lambda: model(text[-1:], state)[0][-1],
        **_writers(lambda: model.decoding_step(state), text[-1]),
    }


def _writers(make: Callable[[], Any], token: Tensor) -> Ways:
    """Both steps of a writer, each in a memory of its own."""
    ways: Ways = {}
    large = compiled.LARGE
    for name, limit in ((LEAN, 0), (COMPILED, sys.maxsize)):
        if name == COMPILED and not _has(compiled.KERNEL, token):
            continue
        compiled.LARGE = limit
        try:
            ways[name] = partial(_stay, make(), token)
        finally:
            compiled.LARGE = large
    return ways


def _has(kernel: Kernel, token: Tensor) -> bool:
    """Kernels are of the processor."""
    return not token.is_cuda and not is_switched_off() and kernel.find() is not None


def _stay(write: DecoderWriter, token: Tensor) -> Tensor:
    """A writer writes over its memory, so it is sent back to where it was."""
    place = write.memory.used
    logits = write(token)
    write.memory.used = place
    return logits


def feedback(context: int, texts: int, device: Device = "cpu", **changes: Any) -> Ways:
    """The published model reads all again; the peer, and ours, go on with their memory."""
    sizes = {"n_vocab": VOCABULARY, "max_len": 512, "norm_memory": False, **changes}
    torch.manual_seed(0)
    model = FeedbackLanguageModel(FeedbackConfig(**sizes)).eval().to(device)
    width, heads, layers = model.config.d_model, model.config.heads, model.config.n_layers
    size = Size(width, heads, layers, context + 1, texts)
    text = torch.randint(VOCABULARY, (context + 1, texts)).to(device)
    ways: Ways = {}
    try:
        theirs = published_model(size, "FeedbackTransformerKV").to(device)
        ways[PUBLISHED_KV] = _published(theirs, model, text)
    except MissingPeer as missing:
        print(f"No rows for {PUBLISHED_KV}: {missing}.")
    try:
        ways[LUCIDRAINS] = _lucidrains(lucidrains_model(size).eval().to(device), text)
    except MissingPeer as missing:
        print(f"No rows for {LUCIDRAINS}: {missing}.")
    _, memory = model(text[:-1])
    ways[STATES] = lambda: model(text[-1:], memory)[0][-1]
    for name, backend in ((LEAN, "by_hand"), (COMPILED, "kernel")):
        if backend == "kernel" and not _has(feedback_step.KERNEL, text):
            continue
        model.transformer.backend = backend
        write: Any = model.decoding_step(memory)
        ways[name] = partial(_stay_with_rows, write, text[-1])
    model.transformer.backend = "auto"
    return ways


def _published(theirs: Any, model: FeedbackLanguageModel, text: Tensor) -> Way:
    """It reads vectors, so it borrows our table of tokens.

    Its tables of distances go back further than ours, and it reads them from their ends.
    """
    state = theirs.eval().state_dict()
    with torch.no_grad():
        for name, value in model.transformer.state_dict().items():
            state[name][-len(value) :] = value
    table, scale = model.embed.weight, math.sqrt(model.config.d_model)
    return lambda: F.linear(theirs(F.embedding(text, table) * scale)[-1], table)


def _lucidrains(model: Any, text: Tensor) -> Way:
    _, memory = model(text[:-1].T, return_memory=True)
    return lambda: model(text[-1:].T, memory=memory, return_memory=True)[0][:, -1]


def _stay_with_rows(write: FeedbackWriter, token: Tensor) -> Tensor:
    place = write.rows.end
    logits = write(token)
    write.rows.end = place
    return logits


def elman(
    context: int, texts: int, units: int = 256, layers: int = 2, device: Device = "cpu"
) -> Ways:
    """An Elman net, which has one vector in mind whatever it has read."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": units, "d_hidden": units, "n_layers": layers}
    config = ElmanConfig(n_vocab=VOCABULARY, dropout_prob=0.0, **sizes)
    model = ElmanLanguageModel(config).eval().to(device)
    net, table, bias = to_torch_rnn(model.elman).eval(), model.embedding.weight, model.output_bias
    text = torch.randint(VOCABULARY, (context + 1, texts)).to(device)
    _, state = model(text[:-1])

    def theirs(tokens: Tensor, past: Tensor | None = None) -> Tensor:
        states, _ = net(F.embedding(tokens, table) * math.sqrt(units), past)
        return F.linear(states[-1], table, bias)

    ways = {
        "reads all again": lambda: theirs(text),
        "nn.RNN, a step": lambda: theirs(text[-1:], state),
        STATES: lambda: model(text[-1:], state)[0][-1],
    }
    lean = ElmanWriter(model.parts(), state)
    writers: dict[str, Any] = {LEAN: (lean, lean.row)}
    if (library := elman_step.have(state, lean.output)) is not None:
        compiled_from = ElmanWriter(model.parts(), state)
        writers[COMPILED] = (CompiledWriter(library, compiled_from), compiled_from.row)
    for name, (write, row) in writers.items():
        ways[name] = partial(_stay_in_mind, write, row, row.clone(), text[-1])
    return ways


def _stay_in_mind(write: Any, row: Tensor, mind: Tensor, token: Tensor) -> Tensor:
    row.copy_(mind)
    logits: Tensor = write(token)
    return logits


def check_equal(ways: Ways, tolerance: float = 1e-4) -> None:
    """All say the same of the next token, but for the peer with other parts."""
    first, *others = (name for name in ways if name != LUCIDRAINS)
    expected = ways[first]()
    for name in others:
        worst = (ways[name]() - expected).abs().max().item()
        if not worst <= tolerance * max(1.0, expected.abs().max().item()):
            raise SystemExit(f"{name} and {first} differ by {worst:.1e}; nothing was measured")
