"""A transformer reads texts four times as long as those of its training: what happens to its loss?

``python -m docs_src.results.longer`` trains all models and writes ``longer.json`` beside it, in
about two minutes of one CPU thread. The page about positional encoding shows the results.
"""

import json
import time
from pathlib import Path

import torch
from torch.nn import functional as F

import labml_nn
from labml_nn.experiments.data import Vocabulary, read_corpus

KEPT = Path(__file__).with_suffix(".json")
POSITIONS, SEEDS = ("sinusoidal", "rotary"), (1, 2, 3)
UPDATE_STEPS, LENGTH, LONGER = 800, 64, 256


def train(positions: str, seed: int) -> dict[str, object]:
    """One model on texts of 64 characters; its loss at each position of texts of 256."""
    torch.manual_seed(seed)
    corpus = read_corpus()
    vocabulary = Vocabulary.from_text(corpus.text)
    text, unseen = vocabulary.encode(corpus.train), vocabulary.encode(corpus.validation)
    config = {"d_model": 64, "heads": 4, "n_layers": 4, "dropout_prob": 0.0}
    config |= {"n_vocab": len(vocabulary), "max_len": LONGER, "positions": positions}
    model = labml_nn.create("autoregressive", **config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, UPDATE_STEPS)
    begun = time.perf_counter()
    for _ in range(UPDATE_STEPS):
        starts = torch.randint(len(text) - LENGTH, (16,))
        window = text[torch.arange(LENGTH + 1)[:, None] + starts]
        loss = model.loss(window[:-1], window[1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    rows = len(unseen) // (LONGER + 1)
    windows = unseen[: rows * (LONGER + 1)].view(rows, LONGER + 1).t()
    with torch.no_grad():
        logits, _ = model.eval()(windows[:-1])
        losses = F.cross_entropy(logits.flatten(0, 1), windows[1:].flatten(), reduction="none")
    return {
        "positions": positions,
        "seed": seed,
        "seconds": round(time.perf_counter() - begun, 1),
        "losses": [round(loss, 4) for loss in losses.view(LONGER, rows).mean(1).tolist()],
    }


def main() -> None:
    """Train all models and keep what they lose."""
    torch.set_num_threads(1)
    runs = [train(positions, seed) for positions in POSITIONS for seed in SEEDS]
    KEPT.write_text(json.dumps(runs) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
