"""Runs of the cell, the layer, the network and the language model."""

from pathlib import Path

import torch

from labml_nn.experiments.checkpoint import load_run
from labml_nn.recurrent.elman import Elman, ElmanConfig, ElmanLanguageModel, ElmanLayer

RESULTS = Path(__file__).parents[4] / "results"


def trace_layer(T, B, C, N):
    """With padding."""
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    ElmanLayer(C, N)(x, None, mask)


def trace_network(T, B, C, N, L):
    """Two chunks of a sequence."""
    network = Elman(C, N, n_layers=L)
    x = torch.randn(T, B, C)
    _, state = network(x)
    network(x, state)
    network.initial(B)


def trace_model(T, B, C, N, V, L):
    """A loss, and the next chunk; with the options that are off by default, too."""
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L, "padding_token": 0}
    for options in ({}, {"tied": False, "learn_h_0": True}):
        model = ElmanLanguageModel(ElmanConfig(**sizes, **options))
        tokens = torch.randint(V, (T, B))
        _, state = model(tokens)
        model.loss(tokens, tokens, state)


@torch.no_grad()
def replay_hell():
    """The trained network reads “hell”

    The small language model of this site has two layers with 256 hidden units each. The first layer
    reads all letters, then the second reads its states.

    * Zero state, `self.initial(`: Before the first letter the state is zero.
    * After h, `self.cell(x_t, h)`: The letter *h* has moved the state.
    * After l, `self.cell(x_t, h)` (3):
      The state after the first *l*. "Before" shows the one after *e*.
    * A second l, `self.cell(x_t, h)` (4): The same letter again, and the state is another one.
    * Logits, `logits = F.linear`:
      A logit for each of 65 characters, after each letter. After *h* that of
      *e* is the largest, and after *hel* that of *l*.
    """
    run = load_run(RESULTS / "elman")
    model, letters = run.model().eval(), run.vocabulary.texts
    text = "hell"
    tokens = torch.tensor([letters.index(letter) for letter in text])[:, None]
    yield {"T": list(text), "V": [repr(letter)[1:-1] for letter in letters]}
    model(tokens)
