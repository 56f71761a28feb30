r"""
---
title: Weights of nn.RNN
summary: >
  Take a network trained with torch.nn.RNN, or hand one over: the same parameters under
  other names, and two biases that count as one.
---

`torch.nn.RNN` is an Elman network too. A checkpoint made with it can be read line by
line here, and what was trained here can run where only PyTorch is installed. Both
compute the same from the same parameters:

| Here, in `layers[0].cell` | In `nn.RNN` | Shape |
|:--|:--|:--|
| `input.weight` | `weight_ih_l0` | `[N, C]` |
| `recurrent.weight` | `weight_hh_l0` | `[N, N]` |
| `input.bias` | `bias_ih_l0 + bias_hh_l0` | `[N]` |

and so on with `layers[1].cell` and `_l1`, whose inputs are $N$ wide.

The equation has one bias. In `nn.RNN` there are two, which are added up. It follows the
interface of cuDNN, in which gated networks have two, and for them it can make a
difference: the GRU multiplies one of them with a gate. Here they are one number written
down twice, with the same gradient; exercise 1 shows what that does to training.
"""

import torch
from torch import nn

from labml_nn.recurrent.elman import Elman, ElmanCell


def from_torch_rnn(rnn: nn.RNN) -> Elman:
    """
    ## From PyTorch

    * `rnn` goes in one direction, left to right

    Returns a network that computes the same, in the same precision, on the same device
    and in the same mode, with parameters of its own. Its sequences are `[T, B, C]`
    whatever `batch_first` was. Raises `ValueError` for a bidirectional network and
    `TypeError` for one of another kind, such as `nn.LSTM`.
    """
    if not isinstance(rnn, nn.RNN):
        raise TypeError(f"`rnn` is of type {type(rnn).__name__}; expected torch.nn.RNN")
    if rnn.bidirectional:
        raise ValueError(
            "`rnn` is bidirectional, and an Elman network reads in one direction; take "
            "one for each (exercise 3)"
        )
    elman = Elman(
        rnn.input_size,
        rnn.hidden_size,
        rnn.num_layers,
        float(rnn.dropout),
        nonlinearity=rnn.nonlinearity,
        bias=rnn.bias,
    )
    theirs = rnn.state_dict()
    elman.to(theirs["weight_hh_l0"]).train(rnn.training)
    with torch.no_grad():
        for number, cell in enumerate(_cells(elman)):
            cell.input.weight.copy_(theirs[f"weight_ih_l{number}"])
            cell.recurrent.weight.copy_(theirs[f"weight_hh_l{number}"])
            if rnn.bias:
                both = theirs[f"bias_ih_l{number}"] + theirs[f"bias_hh_l{number}"]
                cell.input.bias.copy_(both)
    return elman


def to_torch_rnn(elman: Elman) -> nn.RNN:
    r"""
    ## To PyTorch

    * `elman` has units that PyTorch knows, tanh or relu

    Returns an `nn.RNN` that computes the same. Our bias becomes `bias_ih`, and
    `bias_hh` is zero. `nn.RNN` begins at $h_0 = 0$; if yours was learned, give it along
    with the sequence: `rnn(x, elman.initial(B))`.

    Raises `ValueError` for units that PyTorch does not know.
    """
    cells = _cells(elman)
    nonlinearity = cells[0].nonlinearity
    if any(type(cell) is not ElmanCell for cell in cells):
        raise ValueError("a cell of `elman` was replaced; nn.RNN knows only ElmanCell")
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(
            f"nn.RNN has no {nonlinearity!r} units; known: tanh, relu. A network of "
            "sigmoid units can be turned into one of tanh units: see the exercises of "
            "labml_nn.recurrent.elman.cell"
        )
    weight, bias = cells[0].input.weight, cells[0].input.bias is not None
    rnn = nn.RNN(
        elman.d_model,
        elman.d_hidden,
        len(cells),
        nonlinearity=nonlinearity,
        bias=bias,
        dropout=elman.dropout.p if len(cells) > 1 else 0.0,
        device=weight.device,
        dtype=weight.dtype,
    ).train(elman.training)
    ours = {}
    for number, cell in enumerate(cells):
        ours[f"weight_ih_l{number}"] = cell.input.weight
        ours[f"weight_hh_l{number}"] = cell.recurrent.weight
        if bias:
            ours[f"bias_ih_l{number}"] = cell.input.bias
            ours[f"bias_hh_l{number}"] = torch.zeros_like(cell.input.bias)
    rnn.load_state_dict(ours)
    return rnn


def _cells(elman: Elman) -> list[ElmanCell]:
    return [layer.cell for layer in elman.stack()]


# ## Exercises
#
# **1.** Train the same network twice with plain gradient descent, once here and once
# with `nn.RNN`. After one step they differ. Where, and why?
#
# <details><summary>Answer</summary>
#
# In the bias. Both biases of `nn.RNN` have the gradient that our one has, both move by
# it, and their sum moves twice as far. The second bias is a learning rate in disguise.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.recurrent.elman.torch_rnn import from_torch_rnn
#
# theirs = nn.RNN(4, 6)
# ours = from_torch_rnn(theirs)
# x, cell = torch.randn(9, 2, 4), ours.layers[0].cell
# before = cell.input.bias.detach().clone()
# for network in (ours, theirs):
#     optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
#     network(x)[0].square().mean().backward()
#     optimizer.step()
# torch.testing.assert_close(cell.input.weight, theirs.weight_ih_l0)
# torch.testing.assert_close(cell.recurrent.weight, theirs.weight_hh_l0)
# moved = theirs.bias_ih_l0 + theirs.bias_hh_l0 - before
# torch.testing.assert_close(moved, 2 * (cell.input.bias - before))
# ```
#
# </details>
#
# **2.** You have a checkpoint, a file of tensors, and no `nn.RNN`. Load it.
#
# <details><summary>Answer</summary>
#
# The tensors say how large the network is. `nonlinearity` is not among them; it must be
# known.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.recurrent.elman.torch_rnn import from_torch_rnn
#
# checkpoint = nn.RNN(4, 6, num_layers=2).state_dict()
# d_hidden, d_model = checkpoint["weight_ih_l0"].shape
# n_layers = sum(name.startswith("weight_hh") for name in checkpoint)
# rnn = nn.RNN(d_model, d_hidden, n_layers)
# rnn.load_state_dict(checkpoint)
# elman = from_torch_rnn(rnn)
# x = torch.randn(9, 2, 4)
# torch.testing.assert_close(elman(x), rnn(x))
# ```
#
# </details>
#
# **3.** A bidirectional `nn.RNN` is two networks: one reads from the left and one from
# the right, and their states are laid end to end. Build it of two Elman networks.
#
# <details><summary>Answer</summary>
#
# The parameters of the second have `_reverse` at the end of their names.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.recurrent.elman.torch_rnn import from_torch_rnn
#
# both = nn.RNN(4, 6, bidirectional=True)
# state = both.state_dict()
# networks = []
# for ending in ("", "_reverse"):
#     one = nn.RNN(4, 6)
#     one.load_state_dict({name: state[name + ending] for name in one.state_dict()})
#     networks.append(from_torch_rnn(one))
# left, right = networks
# x = torch.randn(9, 2, 4)
# states = torch.cat([left(x)[0], right(x.flip(0))[0].flip(0)], dim=-1)
# torch.testing.assert_close(states, both(x)[0])
# ```
#
# </details>
