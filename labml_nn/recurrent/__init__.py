r"""
---
title: Recurrent networks
summary: >
  Networks that process a sequence step by step with a hidden state of fixed size: the
  Elman network, its language model, and backpropagation through time.
---

A **recurrent network** processes a sequence one step at a time. It has a **hidden
state**, a vector of fixed size, and a function that computes the next state from an
input and the previous state:

$$h_t = f(x_t, \; h_{t-1})$$

The function and its weights are the same at every step, so a network with few
parameters processes sequences of any length. Two questions decide how well it works:
which information does the state keep, and how does the network learn to keep what is
needed only much later?

| Page | Content |
|:--|:--|
| [Elman network](elman/__init__.py) | cell, layer, network and language model |
| [Linear attention](linear_attention.py) | attention whose state is a matrix |
| [DeltaNet](delta_net.py) | a matrix that is corrected |
| [Gated DeltaNet](gated_delta_net.py) | a matrix that is corrected, and fades |
| [Mamba-2](mamba2.py) | a matrix that fades as fast as the input says |
| [Language model of recurrent layers](language_model.py) | the frame of newer models |
| [Backpropagation through time](elman/bptt.py) | its gradient, and how it vanishes |
| [Elman kernels](../kernels/elman.py) | fast implementations of the layer |

The alternative is a [transformer](../transformers/__init__.py). It stores every
position of the context, so nothing is overwritten, and training processes all positions
in parallel; but memory and the cost of a new token grow with the context. In a
recurrent network both are constant, and training is sequential.
"""
