"""One more token of a text: re-reading the context, or continuing from a state.

Candidates of one model share their parameters, and their logits are found equal first (but for the
peer feedback-transformer-pytorch, which has other parts).

Tables: `tokens` (milliseconds per token by model, context and batch), `text` (per token of 200 that
`labml_nn.sampling.generate` writes, sampling included).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import labml_nn
from benchmarks.feedback import KV, PEER, Size, peer_model, published_model
from benchmarks.harness import Rows, Run, Tables, check_equal, compare
from benchmarks.peers import MissingPeer
from labml_nn.sampling import Chain, Temperature, TopK, generate

AGAIN, STATE, STEP = "re-reads the context", "ours, forward with state", "ours, decoding step"
MODELS = ("autoregressive", "encoder_decoder", "feedback", "elman")
VOCABULARY = 68
#: A token takes a tenth of a millisecond, too short for a clock: a run makes several.
TOKENS = 10

Way = Callable[[], Tensor]


@torch.no_grad()
def ways(name: str, context: int, batch: int, room: int) -> tuple[dict[str, Way], dict[str, Way]]:
    """Functions that return the next token's logits: at a fixed place, and moving on."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"dropout_prob": 0.0}
    if name != "elman":
        sizes["max_len"] = context + room
    model = labml_nn.create(name, n_vocab=VOCABULARY, **sizes).eval()
    text = torch.randint(3, VOCABULARY, (context + 1, batch))
    prompt, begun = text, None
    if name == "encoder_decoder":
        begun, start, _ = model.prepare_prompt(text[:-1])
        text = torch.cat([start, text[1:]])
    _, state = model(text[:-1], begun)
    step = model.decoding_step(state)
    fixed: dict[str, Way] = {AGAIN: lambda: model(text, begun)[0][-1]}
    if name == "encoder_decoder":
        fixed[AGAIN] = lambda: model(text, model.prepare_prompt(prompt[:-1])[0])[0][-1]
    if name == "feedback":
        fixed = {**_feedback_peers(model, text), **fixed}
    fixed[STATE] = lambda: model(text[-1:], state)[0][-1]
    return fixed, {STEP: lambda: step(text[-1])}


def _feedback_peers(model: Any, text: Tensor) -> dict[str, Way]:
    """0.5.1 has no state; the peer has one."""
    config = model.config
    size = Size(config.d_model, config.heads, config.n_layers, len(text), text.shape[1])
    found: dict[str, Way] = {}
    if not config.norm_memory:
        theirs: Any = published_model(size, kv=True).eval()
        found[KV] = lambda: F.linear(
            theirs(model.embed(text))[-1], model.embed.weight
        )  # pragma: no cover
    try:
        peer: Any = peer_model(size).eval()
    except MissingPeer as missing:
        print(f"No rows for {PEER}: {missing}.")
        return found
    tokens = text.T % 65
    _, memory = peer(tokens[:, :-1], return_memory=True)
    found[PEER] = lambda: peer(tokens[:, -1:], memory=memory, return_memory=True)[0][:, -1]
    return found


def several(way: Way, number: int) -> Run:
    """A run of some tokens, without gradients."""

    def run() -> None:
        with torch.inference_mode():
            for _ in range(number):
                way()

    return run


def tokens(contexts: tuple[int, ...], batches: tuple[int, ...], rounds: int) -> Rows:
    """Each way of each model."""
    rows: Rows = []
    for name in MODELS:
        for context in contexts:
            for batch in batches:
                fixed, moving = ways(name, context, batch, room=(rounds + 3) * TOKENS)
                with torch.inference_mode():
                    every = {**fixed, **moving}
                    check_equal({key: [way()] for key, way in every.items() if key != PEER})
                numbers = {key: 1 if key in (AGAIN, KV) else TOKENS for key in every}
                runs = {key: several(way, numbers[key]) for key, way in every.items()}
                order = {AGAIN: runs.pop(AGAIN), **runs}
                about = {"model": name, "context": context, "batch": batch}
                for row in compare(order, rounds=rounds, **about):
                    own = numbers[row["form"]]
                    each = {key: row[key] / own for key in ("ms", "low", "high", "cpu_ms")}
                    rows.append({**row, **each, "ratio": row["ratio"] * own})
    return rows


def text(number: int, rounds: int) -> Rows:
    """`generate` as users call it."""
    rows: Rows = []
    sampler = Chain(Temperature(0.8), TopK(40))
    for batch in (1, 8):
        runs: dict[str, Run] = {}
        for name in MODELS:
            torch.manual_seed(0)
            model = labml_nn.create(name, n_vocab=VOCABULARY).eval()
            prompt = torch.randint(3, VOCABULARY, (16, batch))
            runs[name] = _writing(model, prompt, number, sampler)
        for row in compare(runs, rounds=rounds, batch=batch):
            each = {key: row[key] / number for key in ("ms", "low", "high", "cpu_ms")}
            rows.append({**row, **each})
    return rows


def _writing(model: Any, prompt: Tensor, number: int, sampler: Any) -> Run:
    return lambda: generate(model, prompt, number, sampler, seed=0, stop=())


def measure(quick: bool, rounds: int) -> Tables:
    """All tables."""
    contexts, batches = ((4, 9), (1, 2)) if quick else ((64, 128, 256), (1, 8))
    yield "tokens", tokens(contexts, batches, rounds)
    yield "text", text(12 if quick else 200, rounds)
