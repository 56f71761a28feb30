"""What each part of a recipe is worth, beside nanoGPT's for a CPU, in equal time.

    python -m benchmarks.training                          # everything, three seeds
    python -m benchmarks.training --seeds 1 --minutes 20   # what 20 minutes allow; the rest later
    python -m benchmarks.training --only "every part" "GELU" --table

The peer is written out below: the model and the numbers that nanoGPT's README gives for a CPU,
2,000 updates of 12 texts of 64 letters. Its whole training is the unit of time. The other recipes
train a model with every part that was tried, and models with all of them but one; the `cpu` preset
of the autoregressive model is what came of that. Before a run starts, its updates and the peer's
take turns, and the ratio of their medians says how many updates fit into the time of the peer's
2,000. While it trains the peer makes an update now and then, on the side: a machine that becomes
slower meanwhile does so for both, and what is reported is the ratio as it was in the end.
Validation is the loss on the whole last tenth of the text, and its time is not counted.

Each finished run is written at once; what is in the file is not run again. The table that is
printed at the end, and alone with --table, has means over the seeds.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.experiments import experiments
from labml_nn.experiments.checkpoint import commit, now
from labml_nn.experiments.config import TrainingConfig, learning_rate_share, seq_len_at
from labml_nn.experiments.data import Corpus, Examples, Windows, pieces, read_corpus
from labml_nn.experiments.distributed import World
from labml_nn.experiments.update import Computing, Update, hardware

RESULTS = Path(__file__).parents[1] / "docs_src" / "results" / "training_ablation.json"
CPU = torch.device("cpu")
#: What nanoGPT's README gives for a CPU; the learning rate ends at a tenth.
PEER = TrainingConfig(
    steps=2000, batch_size=12, seq_len=64, learning_rate=1e-3, warmup_steps=100, beta2=0.99
)
SIZES = {"width": 128, "heads": 4, "layers": 4}


# The peer.


class Block(nn.Module):
    """Attention and a network of four times the width, without biases, as in GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=False) for _ in range(2))
        self.three = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Look back, then think."""
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.three(self.norms[0](x)).split(width, dim=2)
        )
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(x.shape))
        added: Tensor = self.down(F.gelu(self.up(self.norms[1](x))))
        return x + added


class Peer(nn.Module):
    """A GPT as nanoGPT builds it: learned positions, one matrix at both ends."""

    def __init__(self, n_vocab: int) -> None:
        super().__init__()
        width, layers = SIZES["width"], SIZES["layers"]
        self.tokens = nn.Embedding(n_vocab, width)
        self.places = nn.Embedding(PEER.seq_len, width)
        self.blocks = nn.Sequential(*(Block(width, SIZES["heads"]) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers if last else 1))

    def forward(self, tokens: Tensor) -> Tensor:
        """Batches first, as it is usual."""
        x: Tensor = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)

    def loss(self, batch: Examples) -> Tensor:
        """Mean over the batch, which is turned round for it: sequences first."""
        return F.cross_entropy(self(batch.tokens.T).flatten(0, 1), batch.targets.T.flatten())


class PeerTraining:
    """Its updates, one after the other."""

    def __init__(self, corpus: Corpus, seed: int, steps: int) -> None:
        torch.manual_seed(seed)
        self.config = (
            PEER if steps == PEER.steps else TrainingConfig.of({**PEER.values(), "steps": steps})
        )
        self.model = Peer(len(corpus.vocabulary))
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.model.parameters() if p.dim() > 1]},
            {"params": [p for p in self.model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ]
        betas = PEER.beta1, PEER.beta2
        self.optimizer = torch.optim.AdamW(
            groups, betas=betas, weight_decay=PEER.weight_decay, fused=True
        )
        self.windows = Windows(
            corpus.train, batch_size=PEER.batch_size, seq_len=PEER.seq_len, seed=seed
        )
        self.corpus = corpus

    def update(self, step: int) -> None:
        """One update."""
        batch = self.windows.batch(step)
        for group in self.optimizer.param_groups:
            group["lr"] = PEER.learning_rate * learning_rate_share(step, self.config)
        self.optimizer.zero_grad()
        self.model.loss(batch).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), PEER.clip_norm)
        self.optimizer.step()

    def validate(self) -> float:
        """Nats per token on the whole split."""
        return mean_loss(self.model.loss, self.corpus, PEER.seq_len)


# Ours.


@dataclass(frozen=True)
class Recipe:
    """The preset, with some fields changed, in some share of the peer's time."""

    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0


#: The parts that were tried and did not earn their place, beside those of the preset.
EVERY_PART: dict[str, Any] = {"norm": "rms", "activation": "squared_relu", "zero_init": True}


def without(model: Mapping[str, Any] | None = None, **training: Any) -> Recipe:
    """Every part but one."""
    return Recipe({**EVERY_PART, **(model or {})}, training)


#: By what is taken away from every part; "nanoGPT" itself is no recipe of ours.
RECIPES: dict[str, Recipe | None] = {
    "nanoGPT": None,
    "the preset": Recipe(),
    "the preset, a third of the time": Recipe(share=1 / 3),
    "every part": without(),
    "every part, a third of the time": Recipe(EVERY_PART, share=1 / 3),
    # Steps that suit embeddings are too large for AdamW on matrices.
    "AdamW for all parameters": without(optimizer="adamw", learning_rate=3e-3),
    "learned positions": without({"positions": "learned"}),
    "layer norm": without({"norm": "layer"}),
    "no QK norm": without({"qk_norm": False}),
    "GELU": without({"activation": "gelu"}),
    "no zeros at the start": without({"zero_init": False}),
    "with biases": without({"bias": True}),
    "the peer's shape": without({"n_layers": 4, "d_model": 128, "heads": 4, "d_ff": 512}),
    "the peer's batch": without(batch_size=12, seq_len=64),
}


class OurTraining:
    """Updates of the preset, by the trainer's own hands."""

    def __init__(self, corpus: Corpus, seed: int, recipe: Recipe, steps: int | None) -> None:
        changes = {"seed": seed, "device": "cpu", **recipe.training}
        if steps is not None:
            changes["steps"] = steps
        experiment = experiments()["autoregressive"]
        self.model, self.task, self.config = experiment.build(
            "cpu", corpus=corpus, model=recipe.model, training=changes
        )
        self.model.train()
        computing = Computing(self.config, CPU, self.model.name)
        self._update = Update(self.model, self.config, computing, World())
        self.corpus = corpus

    def update(self, step: int) -> None:
        """One update."""
        batch = self.task.batch(step, seq_len_at(step, self.config))
        self._update(step, batch, learning_rate_share(step, self.config))

    def validate(self) -> float:
        """Nats per token on the whole split."""
        self.model.eval()

        def loss(batch: Examples) -> Tensor:
            return self.model.loss(batch.tokens, batch.targets)

        try:
            return mean_loss(loss, self.corpus, self.config.seq_len)
        finally:
            self.model.train()


Training = PeerTraining | OurTraining


@torch.no_grad()
def mean_loss(loss: Callable[[Examples], Tensor], corpus: Corpus, seq_len: int) -> float:
    """The loss on the whole validation split, each token asked for once."""
    total = count = 0.0
    for batch in pieces(corpus.validation, seq_len, 64):
        total += loss(batch).item() * batch.count
        count += batch.count
    return total / count


# Time.


def seconds(training: Training, step: int) -> tuple[float, float]:
    """What one update takes, on the wall and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    training.update(step)
    return time.perf_counter() - wall, time.process_time() - processor


def updates_in(corpus: Corpus, recipe: Recipe, rounds: int = 15) -> int:
    """How many updates fit into a share of the peer's time."""
    peer, ours = PeerTraining(corpus, 0, PEER.steps), OurTraining(corpus, 0, recipe, None)
    taken = [(seconds(peer, step)[0], seconds(ours, step)[0]) for step in range(rounds + 3)]
    peer_time, our_time = (statistics.median(times) for times in zip(*taken[3:], strict=True))
    updates: int = round(recipe.share * PEER.steps * peer_time / our_time)
    return max(1, updates)


def train(name: str, corpus: Corpus, seed: int, every: int = 20, looks: int = 4) -> dict[str, Any]:
    """One run: what came out, and in what part of the peer's time."""
    recipe = RECIPES[name]
    steps = PEER.steps if recipe is None else updates_in(corpus, recipe)
    training: Training = (
        PeerTraining(corpus, seed, steps)
        if recipe is None
        else OurTraining(corpus, seed, recipe, steps)
    )
    beside = PeerTraining(corpus, seed + 1000, PEER.steps)
    wall = processor = 0.0
    peer_times, curve = [], []
    for step in range(steps):
        taken = seconds(training, step)
        wall, processor = wall + taken[0], processor + taken[1]
        if step % every == 0:
            peer_times.append(seconds(beside, step // every))
        if (step + 1) % max(1, steps // looks) == 0 or step + 1 == steps:
            loss = training.validate()
            curve.append([step + 1, round(loss, 5), round(wall, 2), round(processor, 2)])
            print(f"  {name}, seed {seed}: {step + 1}/{steps}, {loss:.4f}", flush=True)
    whole = [PEER.steps * statistics.mean(times) for times in zip(*peer_times, strict=True)]
    return {
        "recipe": name,
        "seed": seed,
        "steps": steps,
        "validation_loss": curve[-1][1],
        "seconds": round(wall, 2),
        "process_seconds": round(processor, 2),
        "peer_times": round(wall / whole[0], 4),
        "peer_process_times": round(processor / whole[1], 4),
        "curve": curve,
        "threads": torch.get_num_threads(),
        "hardware": hardware(CPU),
        "commit": commit(),
        "finished": now(),
    }


# Results.


def read(path: Path) -> list[dict[str, Any]]:
    """The runs that are there."""
    if not path.exists():
        return []
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return runs


def write(path: Path, runs: list[dict[str, Any]]) -> None:
    """All runs, aside first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    about = "python -m benchmarks.training: the cpu preset with one part taken away, in equal time"
    aside.write_text(json.dumps({"about": about, "runs": runs}, indent=1) + "\n", encoding="utf-8")
    aside.replace(path)


def table(runs: list[dict[str, Any]]) -> str:
    """Means over the seeds, with their spread."""
    lines = [
        "| recipe | seeds | updates | time, of the peer's | validation loss | spread |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    for name in RECIPES:
        found = [run for run in runs if run["recipe"] == name]
        if not found:
            continue
        losses = [run["validation_loss"] for run in found]
        spread = f"{max(losses) - min(losses):.3f}" if len(losses) > 1 else ""
        updates = statistics.mean(run["steps"] for run in found)
        share = statistics.mean(run["peer_times"] for run in found)
        lines.append(
            f"| {name} | {len(found)} | {updates:.0f} | {share:.2f} | "
            f"{statistics.mean(losses):.3f} | {spread} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after these")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--text", type=Path, default=None, help="another text than Tiny Shakespeare"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="run nothing, print the table")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    runs, begun = read(options.out), time.monotonic()
    there = {(run["recipe"], run["seed"]) for run in runs}
    missing = [
        (name, seed)
        for seed in options.seeds
        for name in options.only
        if (name, seed) not in there and not options.table
    ]
    corpus = read_corpus(options.text) if missing else None
    for name, seed in missing:
        if time.monotonic() - begun > 60 * options.minutes:
            print(f"{options.minutes:g} minutes are over; call again for what is missing")
            break
        assert corpus is not None
        runs.append(train(name, corpus, seed))
        write(options.out, runs)
    print(table(runs))


if __name__ == "__main__":
    main()
