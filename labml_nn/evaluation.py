"""Evaluation mode is part of the [interface](language_model.py)."""

from labml_nn.language_model import at_ends, at_least_single, ends_of, evaluating

__all__ = ["at_ends", "at_least_single", "ends_of", "evaluating"]
