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
def replay_example():
    """Hello, by hand

    The network of the first reading, with the weights that we chose by hand. Its two hidden units
    read *h e l l*, and predict the next letter each time.

    * One-hot, `self.embedding(`: One row for each letter, with a 1 in the column of that letter.
    * W x, `self.input_projection(`: $W x_t$, what each letter contributes. Only *h* and *l*
      contribute something, −1 and 2, and only to the second unit.
    * After h, `self.cell(x_t, h)`: The letter *h* adds −1 to unit 2, and tanh makes −0.76 of it.
      There is nothing to remember yet.
    * After e, `self.cell(x_t, h)` (2): The letter *e* adds nothing. Unit 1 gets twice the −0.76 of
      unit 2, and tanh makes −0.91 of it.
    * After l, `self.cell(x_t, h)` (3): The first *l* adds 2 to unit 2. The memory adds nothing,
      because unit 2 was 0.
    * A second l, `self.cell(x_t, h)` (4): The same letter again, and another state: now unit 1 gets
      twice 0.96. It says that the letter before was an *l*.
    * Logits, `logits = F.linear`: $R h_t$. In each row the largest number belongs to the next
      letter: *e*, *l*, *l*, *o*.
    """
    # Units from letters, units from units, and letters from units.
    weights = [[0.0, 0, 0, 0], [-1, 0, 2, 0]]
    memory = [[0.0, 2], [0, 0]]
    reading = [[0.0, 0], [0, -4], [-4, 4], [4, 0]]
    config = ElmanConfig(n_vocab=4, d_model=4, d_hidden=2, n_layers=1, tied=False)
    model = ElmanLanguageModel(config).eval()
    for parameter in model.parameters():
        is_bias = parameter.dim() == 1
        parameter.copy_(torch.zeros_like(parameter) if is_bias else torch.eye(*parameter.shape))
    model.embedding.weight /= model.scale
    model.input_projection.weight.copy_(torch.tensor(weights))
    model.elman.layers[0].cell.recurrent.weight.copy_(torch.tensor(memory))
    model.output_projection.weight.copy_(torch.tensor(reading))
    letters, text = list("helo"), list("hell")
    yield {"T": text, "C": letters, "V": letters, "N": ["unit 1", "unit 2"]}
    model(torch.tensor([letters.index(letter) for letter in text])[:, None])


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
