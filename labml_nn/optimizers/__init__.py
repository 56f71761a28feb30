r"""
---
title: Optimizers
summary: Optimizers that PyTorch does not have in this form.
---

An optimizer computes the update of the parameters from the gradient. PyTorch has about
a dozen, and [Muon](muon.py) is one more, for the weight matrices inside a model. [The
trainer](../experiments/trainer.py) gives it those, and all other parameters to AdamW.
"""
