"""The `cpu` preset of the autoregressive model beside nanoGPT's recipe for a CPU, in equal time.

The peer is written out below: the model and the hyperparameters of nanoGPT's README for a CPU,
2,000 updates of 12 sequences of 64 characters, with the fused optimizer and attention that it would
use. Updates of both take turns first, and the ratio of their medians says how many of ours fit into
the time of 2,000. The loss is that of the whole validation split, in nats per character.

Table: `equal_time`, with means and ranges over three seeds.
"""

import math
import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import Rows, Tables, compare
from labml_nn.experiments import Corpus, Trainer, experiments, read_corpus
from labml_nn.experiments.data import TextTask
from labml_nn.experiments.distributed import World
from labml_nn.experiments.presets import TrainingConfig, learning_rate_share
from labml_nn.experiments.trainer import Update

NANOGPT, OURS = "nanoGPT's recipe", "ours, preset cpu"
RECIPE = TrainingConfig(
    steps=2000, batch_size=12, seq_len=64, learning_rate=1e-3, warmup_steps=100, beta2=0.99
)
WIDTH, HEADS, LAYERS = 128, 4, 4
SEEDS = (1, 2, 3)


class Block(nn.Module):
    """Attention and a feed-forward network without biases, as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Batch first, [B, T, C]."""
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).split(WIDTH, dim=2)
        )
        heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(x.shape))
        added: Tensor = self.down(F.gelu(self.up(self.norms[1](x))))
        return x + added


class NanoGPT(nn.Module):
    """Learned positions, tied embeddings, GPT-2's initialisation."""

    def __init__(self, n_vocab: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(n_vocab, WIDTH)
        self.positions = nn.Embedding(RECIPE.seq_len, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS if last else 1))

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean over [T, B] tokens."""
        x = self.tokens(tokens.T) + self.positions.weight[: tokens.shape[0]]
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.T.flatten())


class Training:
    """nanoGPT's loop: AdamW with decay of matrices, warm-up and cosine, clipping."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        torch.manual_seed(seed)
        self.step = 0
        self.task = TextTask(
            corpus, batch_size=RECIPE.batch_size, seq_len=RECIPE.seq_len, seed=seed
        )
        self.model = NanoGPT(len(self.task.vocabulary))
        every = list(self.model.parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for p in every if p.dim() > 1], "weight_decay": RECIPE.weight_decay},
            {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(RECIPE.beta1, RECIPE.beta2), fused=True)

    def update(self) -> None:
        """One update."""
        batch = self.task.batch(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = RECIPE.learning_rate * learning_rate_share(self.step, RECIPE)
        self.optimizer.zero_grad()
        loss = self.model.loss(batch.tokens, batch.targets)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), RECIPE.clip_norm)
        self.optimizer.step()
        self.step += 1

    @torch.no_grad()
    def validation_loss(self) -> float:
        """On the whole split, in windows of the training's length."""
        total, count = 0.0, 0
        for batch in self.task.validation():
            total += self.model.loss(batch.tokens, batch.targets).item() * batch.count
            count += batch.count
        return total / count


def ours(corpus: Corpus, seed: int, steps: int | None) -> Any:
    """Model, task and configuration of the preset; `None` keeps its number of updates."""
    changes: dict[str, Any] = {"seed": seed, "device": "cpu"}
    if steps is not None:
        changes["steps"] = steps
    return experiments()["autoregressive"].build("cpu", corpus=corpus, training=changes)


def updates_in_equal_time(corpus: Corpus, rounds: int) -> int:
    """How many of our updates take as long as all of nanoGPT's recipe."""
    theirs = Training(corpus, seed=0)
    model, task, config = ours(corpus, 0, None)
    model.train()
    update = Update(model, config, torch.device("cpu"), World())
    batch = task.batch(0, config.seq_len)

    def several(run: Any) -> Any:
        return lambda: [run() for _ in range(20)]

    runs = {NANOGPT: several(theirs.update), OURS: several(lambda: update(0, batch, 1.0))}
    rows = compare(runs, rounds=3 * rounds)
    return int(RECIPE.steps * rows[1]["ratio"])


def measure(quick: bool, rounds: int) -> Tables:
    """The table."""
    corpus = Corpus.of("a proverb", "the course of true love. " * 300) if quick else read_corpus()
    steps = 20 if quick else updates_in_equal_time(corpus, rounds)
    losses: dict[str, list[float]] = {NANOGPT: [], OURS: []}
    for seed in SEEDS[: 1 if quick else None]:
        theirs = Training(corpus, seed)
        for _ in range(20 if quick else RECIPE.steps):
            theirs.update()
        losses[NANOGPT].append(theirs.validation_loss())
        model, task, config = ours(corpus, seed, steps)
        result = Trainer(model, task, config, reporters=[]).train()
        losses[OURS].append(result.validation_loss or math.nan)
        print({form: round(found[-1], 4) for form, found in losses.items()}, flush=True)
    counts = {NANOGPT: RECIPE.steps, OURS: steps}
    rows: Rows = [
        {
            "form": form,
            "updates": counts[form],
            "loss": statistics.mean(found),
            "lowest": min(found),
            "highest": max(found),
            "seeds": len(found),
        }
        for form, found in losses.items()
    ]
    yield "equal_time", rows
