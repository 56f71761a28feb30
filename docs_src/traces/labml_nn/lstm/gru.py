"""Runs of the network and the language model."""

import torch

from labml_nn.lstm.gru import GRU, GRUConfig, GRULanguageModel


def trace_network(T, B, C, N, L):
    """Two chunks of a sequence, the second with padding."""
    network = GRU(C, N, n_layers=L)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = network(x)
    network(x, state.detach(), mask)


def trace_model(T, B, C, N, V, L):
    """A loss, and the next chunk."""
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L, "padding_token": 0}
    model = GRULanguageModel(GRUConfig(**sizes))
    tokens = torch.randint(V, (T, B))
    _, state = model(tokens)
    model.loss(tokens, tokens, state)


@torch.no_grad()
def replay_quotations():
    """Two cells read a line, and each has one gate to keep and to write

    The first cell is that of the table. It knows whether a quotation is open. The second one tries
    to count the quotation marks, with an update gate of 0.5 at each.

    * Update gates, `r, z =` (2):
      The letter *a*. What do the update gates `z` do? Both are 1, so both states
      stay.
    * Candidates, `g = torch` (3):
      The first quotation mark. What may be written? The reset gate of the first
      cell is open, so its candidate is the tanh of −10 times the old state −1. It is 1. That of
      the second cell is 1 at each mark.
    * First mark, `return z * h` (3):
      How does −1 become 1 in one step? The update gate of the first cell is 0.
      Nothing of the old state stays, so all of the candidate is written. The second cell has
      counted the mark as 0.5.
    * Second mark, `return z * h` (5):
      The second mark. The first cell turns back to −1. Has the other one two
      halves now? It has 0.75. To add a half, it had to forget half of what it had.
    * Answers, `return x, torch`:
      What is left of the line? The first cell knows that a quotation is open.
      The second one has come to 0.875, and each mark added less than the one before.
    """
    gru, text = GRU(3, 2, 1), '⏎a"b"c"'
    cell = gru.cells[0]
    # Two rows for the reset gates, two for the update gates and two for the candidates.
    sums = [[-10, 10, -10], [0, 0, 0], [10, -10, -10], [10, 0, -10], [0, 0, -10], [0, 10, 0]]
    cell.input_lin.weight.copy_(torch.tensor(sums))
    cell.input_lin.bias.zero_()
    cell.hidden_lin.weight.zero_()
    cell.hidden_lin.weight[4, 0] = -10
    cell.hidden_lin.bias.zero_()
    kinds = ["letter", '"', "⏎"]
    tokens = [kinds.index(one) if one in kinds else 0 for one in text]
    x = torch.nn.functional.one_hot(torch.tensor(tokens)[:, None], 3).float()
    yield {"T": list(text), "C": kinds, "N": ["open?", "count"]}
    gru(x)
