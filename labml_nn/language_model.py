r"""
---
title: The doors of a language model
summary: >
  What all language models here have in common: how they are called, trained, asked,
  saved and loaded.
---

A language model reads tokens and says, at every position, which token may come next.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_sizes, check_tokens

State = TypeVar("State")


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """
    ## What every configuration says

    * `n_vocab` is the number of tokens, $V$
    * `padding_token` fills up short sequences, is never attended to and never asked
      for; `None` means that there is none
    * `label_smoothing` is the probability taken from the right token in training
    """

    n_vocab: int
    padding_token: int | None = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_sizes(n_vocab=self.n_vocab)


class LanguageModel(nn.Module, Generic[State]):
    """
    ## A language model

    A subclass sets `Config` and writes `forward`; the other doors are the same for all.
    """

    Config: ClassVar[type[LanguageModelConfig]] = LanguageModelConfig

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def from_config(cls, config: LanguageModelConfig | Mapping[str, Any]) -> Self:
        """A new model of a configuration, or of its fields."""
        if isinstance(config, Mapping):
            config = cls.Config(**config)
        return cls(config)

    def forward(
        self, tokens: Int[Tensor, "T B"], state: State | None = None
    ) -> tuple[Float[Tensor, "T B V"], State]:
        """
        Logits for what follows each position, and the state after the last one, without
        its gradient history. Give the state back to go on reading.
        """
        raise NotImplementedError

    def loss(
        self,
        tokens: Int[Tensor, "T B"],
        targets: Int[Tensor, "T B"],
        state: State | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross entropy in nats per token of `targets` that is not padding."""
        logits, _ = self(tokens, state)
        return self.loss_of(logits, targets)

    def loss_of(
        self, logits: Float[Tensor, "T B V"], targets: Int[Tensor, "T B"]
    ) -> Float[Tensor, ""]:
        """The same of logits at hand. Smoothed in training only, like dropout."""
        check_tokens(targets, self.config.n_vocab, name="targets")
        padding = self.config.padding_token
        return F.cross_entropy(
            logits.flatten(0, 1),
            targets.flatten().long(),
            ignore_index=-100 if padding is None else padding,
            label_smoothing=self.config.label_smoothing if self.training else 0.0,
        )

    @torch.no_grad()
    def predict(
        self, tokens: Int[Tensor, "T B"], state: State | None = None
    ) -> Float[Tensor, "B V"]:
        """Probabilities of the token that follows `tokens`, without dropout."""
        raise NotImplementedError

    def begin(
        self, prompt: Int[Tensor, "S B"], lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[State | None, Int[Tensor, "T B"], Int[Tensor, " B"] | None]:
        """
        What `generate` goes on from: a state, the text to continue, and its lengths.

        A model that continues its prompt returns `(None, prompt, lengths)`; one that
        answers it reads the prompt into a state, and continues an empty reply.
        """
        return None, prompt, lengths

    def save(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into `folder`."""
        raise NotImplementedError

    @classmethod
    def load(
        cls, folder: str | Path, *, device: torch.device | str | None = None
    ) -> Self:
        """The model that `save` wrote."""
        raise NotImplementedError
