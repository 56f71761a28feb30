r"""
---
title: Optimizers
summary: Optimizers that PyTorch does not have in this form.
---

An optimizer computes the update of the parameters from the gradient. PyTorch has about
a dozen. Here is one more, for the weight matrices of a model:

* [Muon](muon.py) orthogonalises every update

[The trainer](../experiments/trainer.py) decides which parameters it gets,
and gives all others to AdamW.
"""
