"""The configuration is part of the [interface](language_model.py)."""

from labml_nn.language_model import LanguageModelConfig

__all__ = ["LanguageModelConfig"]
