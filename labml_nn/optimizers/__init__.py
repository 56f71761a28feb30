r"""
---
title: Optimizers
summary: From a gradient to a step, where PyTorch's own optimizers are not enough.
---

A gradient says how the loss changes when a parameter does. It does not say how far to
go. That is the optimizer's business, and PyTorch has a dozen. Here is one more, which
treats the matrices of a model as matrices:

* [Muon](muon.py) makes every step turn all directions by the same amount

[The trainer](../experiments/update.py) says which parameters it is for, and
gives the others to AdamW.
"""
