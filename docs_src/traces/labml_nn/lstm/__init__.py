"""Runs of the cell, the network and the language model."""

import torch

from labml_nn.lstm import LSTM, LSTMConfig, LSTMLanguageModel


def trace_network(T, B, C, N, L):
    """Two chunks of a sequence, the second with padding."""
    network = LSTM(C, N, n_layers=L)
    x, mask = torch.randn(T, B, C), torch.arange(T)[:, None] < T - torch.arange(B) % T
    _, state = network(x)
    network(x, state.detach(), mask)
    state.batch_size  # noqa: B018


def trace_normalised(T, B, C, N, L):
    """With layer normalisation."""
    LSTM(C, N, n_layers=L, layer_norm=True)(torch.randn(T, B, C))


def trace_model(T, B, C, N, V, L):
    """A loss, and the next chunk."""
    sizes = {"n_vocab": V, "d_model": C, "d_hidden": N, "n_layers": L, "padding_token": 0}
    model = LSTMLanguageModel(LSTMConfig(**sizes))
    tokens = torch.randint(V, (T, B))
    _, state = model(tokens)
    model.loss(tokens, tokens, state)


@torch.no_grad()
def replay_brackets():
    """The cell of the table reads “f(g(x))”

    One cell with the weights that we chose by hand. Its numbers are those of the first reading.

    * First bracket, `c = f * c` (2):
      The first bracket. The input gate is open, and the candidate 1 is added.
    * Second bracket, `c = f * c` (4):
      The second bracket. The forget gate is open, too: 1 stays, and 1 is added.
    * Letter, `c = f * c` (5): The letter *x*. The input gate is closed, and the cell state stays 2.
    * Last bracket, `c = f * c` (7):
      The last bracket. The candidate is −1, and the count is back at 0.
    * Answers, `return x, LSTMState(h, c)`:
      What was shown after each character, and the state at the end.
    """
    sums = [[-10, 10, 10, -10], [10, 10, 10, -10], [10, 10, -10, 10], [10, 10, 10, 10]]
    lstm, text = LSTM(4, 1, 1), "f(g(x))"
    cell = lstm.cells[0]
    cell.input_lin.weight.copy_(torch.tensor(sums))
    cell.hidden_lin.weight.zero_()
    cell.hidden_lin.bias.zero_()
    kinds = ["letter", "(", ")", "⏎"]
    tokens = [kinds.index(one) if one in kinds else 0 for one in text]
    x = torch.nn.functional.one_hot(torch.tensor(tokens)[:, None], 4).float()
    yield {"T": list(text), "C": kinds}
    lstm(x)
