r"""
---
title: Recurrent networks
summary: >
  Networks that read like a listener, word after word, with all that they remember in
  one vector. Where they came from, how they learn, and what they can and cannot keep.
---

Somebody reads a story to you. The words are gone as soon as they are spoken. You cannot
turn back a page; what you have is what you made of it all so far. Each word changes
that a little. A **recurrent network** works the same way: it has a *state*, a vector of
fixed size, and a rule by which each input turns the state into the next.

$$h_t = f(x_t, \; h_{t-1})$$

The rule is the same at every step, so that a network of a few parameters reads texts of
any length. How good it is depends on two questions. What does the rule keep? And how
can it learn to keep what is needed only much later?

| Page | What it is about |
|:--|:--|
| [Elman network](elman/__init__.py) | the simplest rule, and what it found in 1990 |
| [The Elman cell](elman/cell.py) | one step |
| [The Elman layer](elman/layer.py) | all steps, padding, speed |
| [Backpropagation through time](elman/bptt.py) | how it learns, and why it forgets |
| [The layer, compiled](elman/kernel/__init__.py) | all steps in one call |
| [Elman language model](elman/language_model.py) | it reads and writes |
| [An Elman network writes](elman/writing.py) | with less for each token |
| [Weights of nn.RNN](elman/torch_rnn.py) | from PyTorch and back |

Beside the [transformers](../transformers/__init__.py) they are the other way to read.
A transformer has the whole page in front of it: nothing is forgotten, and each new
token costs more than the last. Here each token costs the same, and everything that is
known fits in a vector.

```python
import torch
from labml_nn.recurrent.elman import Elman

network = Elman(d_model=12, d_hidden=32, n_layers=2)
text = torch.randn(9, 3, 12)  # [T, B, C]
states, end = network(text)
assert states.shape == (9, 3, 32)  # [T, B, N], of the last layer
assert end.shape == (2, 3, 32)  # [L, B, N], to go on from

first, middle = network(text[:4])
second, _ = network(text[4:], middle)
torch.testing.assert_close(torch.cat([first, second]), states)
```
"""
