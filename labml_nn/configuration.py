r"""
---
title: Configurations
summary: >
  What a model is built from: a value with a name for everything, in which what cannot
  be is refused when it is written down.
---

A model of twenty arguments is easily built wrong. Here all of them stand in one frozen
dataclass. It has a name and a default for each, can be compared and printed, and goes
into a file as it is. And it is checked as soon as it exists, before a single parameter
is drawn, so that a model either is what its configuration says or is not there at all.

Each model adds its fields to the three of `LanguageModelConfig`, and its checks behind
`super().__post_init__()`. The words are the same everywhere:

| Field | Meaning |
|:--|:--|
| `n_vocab` | tokens in the vocabulary, $V$ |
| `d_model` | features of a position, $C$ |
| `heads`, `d_k` | attention heads, $H$, and features of each, $d_k$ |
| `d_ff` | features inside the feed-forward network, $F$ |
| `n_layers` | layers of the stack, $L$ |
| `dropout_prob` | probability of dropping a feature in training |
| `max_len` | how far back a model looks |
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from numbers import Integral, Real
from typing import Any, TypeVar

from labml_nn.checks import check_known, check_sizes

Config = TypeVar("Config", bound="LanguageModelConfig")


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    r"""
    ## What every configuration says

    * `n_vocab` is the number of tokens, $V$
    * `padding_token` fills up short sequences. Nobody attends to it or is asked for it.
      `None` means that no token is padding
    * `label_smoothing` is $\varepsilon$, from 0 up to, but not including, 1: in
      training the right token is asked for with probability $1 - \varepsilon$, and
      $\varepsilon$ is spread evenly over the vocabulary ([@szegedy2015rethinking, §7])

    Raises `ValueError` for a value outside its range, `TypeError` for another kind.
    """

    n_vocab: int
    padding_token: int | None = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_sizes(n_vocab=self.n_vocab)
        _check_padding_token(self.padding_token, self.n_vocab)
        _check_label_smoothing(self.label_smoothing)

    @classmethod
    def of(cls: type[Config], values: Mapping[str, Any]) -> Config:
        """
        * `values` are the fields by name, from a file or a command line

        Python would call a field that it does not know an unexpected keyword argument.
        This says which one was meant, and is a `ValueError`; so is a field that is
        missing.
        """
        known = [field.name for field in fields(cls) if field.init]
        for name in values:
            check_known(f"field of {cls.__name__}", name, known)
        for field in fields(cls):
            needed = field.default is MISSING and field.default_factory is MISSING
            if field.init and needed and field.name not in values:
                raise ValueError(
                    f"{cls.__name__} needs `{field.name}`, which has no default; "
                    f"known: {', '.join(known)}"
                )
        return cls(**values)


def _check_padding_token(token: int | None, n_vocab: int) -> None:
    if token is None:
        return
    if isinstance(token, bool) or not isinstance(token, Integral):
        raise TypeError(
            f"`padding_token` ({token!r}) must be a token, a whole number, or None, "
            f"not a {type(token).__name__}"
        )
    if not 0 <= token < n_vocab:
        raise ValueError(
            f"`padding_token` ({token}) must be a token, from 0 to n_vocab - 1 = "
            f"{n_vocab - 1}, or None; for a token of its own raise `n_vocab` to "
            f"{max(token, n_vocab) + 1}"
        )


def _check_label_smoothing(smoothing: float) -> None:
    if isinstance(smoothing, bool) or not isinstance(smoothing, Real):
        raise TypeError(
            f"`label_smoothing` ({smoothing!r}) must be a number from 0 up to 1, not a "
            f"{type(smoothing).__name__}"
        )
    if not 0 <= smoothing < 1:
        raise ValueError(
            f"`label_smoothing` ({smoothing}) must be at least 0 and less than 1; "
            "0.1 is usual, 0 switches it off"
        )


# ## Exercises
#
# **1.** Make a configuration like another but for one field.
#
# <details><summary>Answer</summary>
#
# A frozen value cannot be changed, and need not be: others are made from it. The copy
# is checked like any other.
#
# ```python
# from dataclasses import replace
# from labml_nn.configuration import LanguageModelConfig
#
# config = LanguageModelConfig(n_vocab=65)
# smoothed = replace(config, label_smoothing=0.1)
# assert config.label_smoothing == 0 and smoothed.n_vocab == 65
# ```
#
# </details>
#
# **2.** Try several configurations and note the result of each, by configuration.
#
# <details><summary>Answer</summary>
#
# A frozen value can be the key of a dictionary, and equal ones are the same key.
#
# ```python
# import math
# import torch
# import labml_nn
# from labml_nn.recurrent.elman.language_model import ElmanConfig
#
# text = torch.randint(65, (9, 2))
# results = {}
# for d_hidden in (16, 32, 16):
#     config = ElmanConfig(n_vocab=65, d_hidden=d_hidden)
#     if config not in results:
#         model = labml_nn.models()["elman"].load_class().from_config(config)
#         results[config] = model.loss(text[:-1], text[1:]).item()
# assert len(results) == 2
# ```
#
# </details>
#
# **3.** Write the configuration of a model that needs an even number of layers.
#
# <details><summary>Answer</summary>
#
# The checks of the parent come first, so that the child's can rely on them.
#
# ```python
# from dataclasses import dataclass
# from labml_nn.configuration import LanguageModelConfig
#
# @dataclass(frozen=True, kw_only=True)
# class PairsConfig(LanguageModelConfig):
#     n_layers: int = 4
#
#     def __post_init__(self):
#         super().__post_init__()
#         if self.n_layers % 2:
#             raise ValueError(
#                 f"`n_layers` ({self.n_layers}) must be even; try {self.n_layers + 1}"
#             )
#
# try:
#     PairsConfig(n_vocab=65, n_layers=3)
# except ValueError as error:
#     assert str(error) == "`n_layers` (3) must be even; try 4"
# else:
#     raise AssertionError("three layers were accepted")
# ```
#
# </details>
