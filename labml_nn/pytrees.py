r"""
---
title: States as pytrees
summary: >
  `torch.export` and other tools of PyTorch look into tuples, lists and dictionaries.
  This page tells them how to look into the memory of a Feedback Transformer.
---

A language model takes a state and returns the next one. `torch.export` writes both down
as flat lists of tensors, so it must know how to take a state apart and how to put it
together again. PyTorch knows that for tuples, and so for the
[context](transformers/sliding_window.py) of a transformer. A class of one's own is
registered once:
"""

from torch.export import register_dataclass

from labml_nn.transformers.feedback import FeedbackMemory

register_dataclass(FeedbackMemory, serialized_type_name="labml_nn.FeedbackMemory")
