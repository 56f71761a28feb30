r"""
---
title: The doors of a language model
summary: >
  What all language models here have in common: how they are called, trained, asked,
  saved and loaded.
---

*But, soft! what light through yonder win* — what is the next letter? You would put most
of your money on *d*, some on *e*, and nothing on *x*. A **language model** does the
same. It reads a row of tokens (letters here, pieces of words elsewhere) and bets on the
one that follows, with probabilities that sum to one.

That sounds like a parlour game, and it is a model of whole texts. The probability of a
text is the product of all the bets along the way, each made with what came before it in
view:

$$p(w_0, w_1, \dots, w_{T-1}) = \prod_{t=0}^{T-1} p(w_t \mid w_0, \dots, w_{t-1})$$

Nothing was left out: it is the chain rule of probability. So a model that bets well
knows which texts are likely, and by betting, drawing a token and going on from there it
[writes texts](sampling/generation.py) of its own.

The models of this library read in very different ways. An Elman net keeps one vector in
mind, a transformer looks back at everything, an encoder–decoder answers. Whoever
trains, judges or samples them should not have to care. So all of them have these doors:

| Door | Question |
|:--|:--|
| `forward` | What may follow each position? Where do I go on reading? |
| `loss` | How surprised were you by this text? |
| `predict` | What may come next? |
| `prepare_prompt` | What do you need before you can go on writing? |
| `decoding_step` | What may follow this token, and this one, and this one? |
| `save`, `load` | [Files](saving/__init__.py) |

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | the text, numbers from 0 to $V - 1$ |
| $y$ | `targets` | `[T, B]` | what follows: $y_t = w_{t+1}$ |
| $z$ | `logits` | `[T, B, V]` | $p(w_{t+1} = v) = e^{z_{tv}} / \sum_u e^{z_{tu}}$ |
| $L$ | `loss` | | surprise per token, in nats |
| $\varepsilon$ | `smoothing` | | what is taken from the right token in training |
| | `state` | | what the model remembers of the text so far |
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import check_prompt_lengths, check_tokens
from labml_nn.configuration import LanguageModelConfig
from labml_nn.evaluation import at_ends, at_least_single, ends_of, evaluating
from labml_nn.saving import (
    Description,
    Folder,
    load_parameters,
    read_description,
    same_random_state,
    save_model,
)

__all__ = ["LanguageModel", "LanguageModelConfig", "evaluating"]

State = TypeVar("State")
Model = TypeVar("Model", bound="LanguageModel[Any]")

# What goes on with texts: tokens `[B]` become logits of what may follow them, `[B, V]`.
DecodingStep: TypeAlias = Callable[[Tensor], Tensor]


class LanguageModel(nn.Module, Generic[State]):
    r"""
    ## A language model

    A subclass says what it is called and how it is configured, and writes `forward`:

    ```python
    import torch
    from torch import nn
    from labml_nn.language_model import LanguageModel, LanguageModelConfig

    class Bigrams(LanguageModel[None]):
        "Bets with only the last token in view."

        name = "bigrams"

        def __init__(self, config):
            super().__init__(config)
            size = config.n_vocab
            self.table = nn.Embedding(size, size)

        def forward(self, tokens, state=None):
            return self.table(tokens), None

    model = Bigrams.from_config({"n_vocab": 65})
    text = torch.randint(65, (11, 2))  # [T, B]
    model.loss(text[:-1], text[1:]).backward()
    assert model.predict(text).shape == (2, 65)  # [B, V]
    ```

    Everything else works for it: training, saving, [writing](sampling/generation.py).
    """

    name: ClassVar[str] = ""
    Config: ClassVar[type[LanguageModelConfig]] = LanguageModelConfig

    def __init__(self, config: LanguageModelConfig) -> None:
        """`config` is a value of the class `Config`."""
        super().__init__()
        self.config = config

    @classmethod
    def from_config(
        cls: type[Model], config: LanguageModelConfig | Mapping[str, Any]
    ) -> Model:
        """
        * `config` is a value of the class `Config`, or its fields by name

        Returns a new model with random parameters. Raises `ValueError` for a field that
        does not exist, is missing or holds what cannot be, and `TypeError` for the
        configuration of another model.
        """
        if isinstance(config, Mapping):
            config = cls.Config.of(config)
        if not isinstance(config, cls.Config):
            raise TypeError(
                f"`config` is a {type(config).__name__}; {cls.__name__} needs a "
                f"{cls.Config.__name__}, or its fields by name"
            )
        return cls(config)

    def extra_repr(self) -> str:
        """The configuration, which `print(model)` shows before the parts."""
        names = (field.name for field in fields(self.config))
        return ", ".join(f"{name}={getattr(self.config, name)!r}" for name in names)

    def forward(
        self, tokens: Int[Tensor, "T B"], state: State | None = None
    ) -> tuple[Float[Tensor, "T B V"], State]:
        r"""
        ### Read on

        * `tokens` is a batch of texts, or of the next pieces of them, `[T, B]`
        * `state` is what was returned with the pieces before; `None` at the beginning

        Returns the logits of what follows each position, `[T, B, V]`, and the state
        after the last. It does not matter how a text is cut into calls: twice 50 tokens
        give the logits of 100.

        A state is a value. Reading makes a new one and leaves the old as it was, so
        that you can go on from it twice, with two different endings. It also comes
        without its history of gradients: otherwise training on a long text, piece after
        piece, would keep every activation since the first one in memory.
        """
        raise NotImplementedError

    def loss(
        self,
        tokens: Int[Tensor, "T B"],
        targets: Int[Tensor, "T B"],
        state: State | None = None,
    ) -> Float[Tensor, ""]:
        """
        ### How surprising was it?

        * `tokens` is what the model reads, `[T, B]`; `state` is what it read before
        * `targets` is what follows each of them, `[T, B]`: the same text, one later

        Returns what `loss_of` does. Training piece after piece needs the state as well;
        take both from `forward`, and give the logits to `loss_of`.
        """
        logits, _ = self(tokens, state)
        return self.loss_of(logits, targets)

    def loss_of(
        self, logits: Float[Tensor, "T B V"], targets: Int[Tensor, "T B"]
    ) -> Float[Tensor, ""]:
        r"""
        ### The same, of logits at hand

        $$L = -\frac{1}{n} \sum_{y_{tb} \ne \text{padding}}
            \log p(y_{tb} \mid w_{0b}, \dots, w_{tb})$$

        $n$ is the number of targets that are not padding. A token that was given
        probability 1 costs nothing, one that was given $1/2$ costs $\log 2 = 0.69$
        nats. An even bet on all of 65 characters costs $\log 65 = 4.17$.

        * `logits` is what `forward` returned, `[T, B, V]`
        * `targets` are the tokens that did follow, `[T, B]`

        Returns a mean in nats per token. Raises `ValueError` for shapes that do not fit
        or targets outside the vocabulary, `TypeError` for targets that are no integers.
        """
        check_tokens(targets, self.config.n_vocab, name="targets")
        if targets.shape != logits.shape[:2]:
            raise ValueError(
                f"`targets` has shape {list(targets.shape)} and the logits "
                f"{list(logits.shape)}; expected one target for each position, "
                f"{list(logits.shape[:2])}"
            )

        # Smoothing is a handicap for training and, like dropout, off in evaluation. The
        # best smoothed loss is the entropy of what is asked for, which grows with
        # $\varepsilon$: models trained with different ones could not be compared.
        smoothing = self.config.label_smoothing if self.training else 0.0

        # A batch of nothing but padding has a mean of $0 / 0$, which would put NaN into
        # every parameter. We sum and divide ourselves, and it costs and moves nothing.
        padding = self.config.padding_token
        total = F.cross_entropy(
            at_least_single(logits).flatten(0, 1),
            targets.flatten().long(),
            ignore_index=-100 if padding is None else padding,
            label_smoothing=smoothing,
            reduction="sum",
        )
        if padding is None:
            return total / max(targets.numel(), 1)
        return total / (targets != padding).sum().clamp(min=1)

    @torch.no_grad()
    def predict(
        self, tokens: Int[Tensor, "T B"], state: State | None = None
    ) -> Float[Tensor, "B V"]:
        """
        ### What may come next?

        * `tokens` is what was read, or what a model that answers shall answer, `[T, B]`
        * `state` is what was read before; with it, `tokens` go on in any model

        Returns the probabilities of what follows the last token of each, `[B, V]`;
        padding behind it is ignored. Dropout is off meanwhile, no gradients are kept.
        """
        with evaluating(self):
            if state is None:
                state, tokens, ends = self.prepare_prompt(tokens)
            else:
                ends = ends_of(tokens, self.config.padding_token)
            logits, _ = self(tokens, state)
        return at_least_single(at_ends(logits, ends)).softmax(-1)

    def prepare_prompt(
        self, prompt: Int[Tensor, "S B"], lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[State | None, Int[Tensor, "T B"], Int[Tensor, " B"] | None]:
        """
        ### Before writing

        Most models *continue* a prompt: what they write stands behind it. An
        encoder–decoder *answers*: it reads the prompt, and writes from nothing.

        * `prompt` is what to continue, or to answer, `[S, B]`
        * `lengths` says how many tokens of each prompt are real, `[B]`, the others
          stand at its end and mean nothing; `None`: all but padding at the end

        Returns a state, the text to go on from, `[T, B]`, and its lengths: the prompt
        itself, or a state that knows it, and the token with which answers start.
        Raises `ValueError` and `TypeError` for a prompt that cannot be.
        """
        check_tokens(prompt, self.config.n_vocab, name="prompt")
        if lengths is None:
            return None, prompt, ends_of(prompt, self.config.padding_token)
        check_prompt_lengths(lengths, prompt)
        return None, prompt, lengths

    def decoding_step(self, state: State) -> DecodingStep:
        r"""
        ### Write on

        * `state` is what was returned with the text so far

        Returns a function of the next token of each text, `[B]`, to logits of what may
        follow, `[B, V]`: those of `forward`, without gradients. Make one for each text,
        in evaluation. It keeps the text to itself and may work in place, which makes
        that of [decoders](transformers/writing/__init__.py) fast; here it is `forward`.
        """

        def read(tokens: Tensor) -> Tensor:
            nonlocal state
            logits, state = self(tokens.unsqueeze(0), state)
            last: Tensor = logits[-1]
            return last

        return read

    @property
    def end_token(self) -> int | None:
        """The token that ends a text, or `None`; a field of some configurations."""
        token: int | None = getattr(self.config, "end_token", None)
        return token

    def save(self, folder: Folder) -> None:
        """
        ### To files

        `config.json` and `model.safetensors`, by [`save_model`](saving/__init__.py).
        """
        save_model(self, Description.of(type(self), self.config), folder)

    @classmethod
    def load(
        cls: type[Model], folder: Folder, *, device: torch.device | str | None = None
    ) -> Model:
        """
        ### From files

        * `folder` is where `save` wrote
        * `device` is where the model shall live; `None` means the CPU

        Returns the same model, bit for bit, in training mode like any new one. Raises
        `FileNotFoundError`, and `ValueError` for damaged files or another model's.
        """
        description = read_description(folder)
        description.check_class(cls)
        with same_random_state(), torch.device("cpu"):
            model = cls.from_config(description.config)
        load_parameters(model, description, folder)
        return model if device is None else model.to(device)


# ## Exercises
#
# **1.** The simplest model that learns from a text counts: after each token, how often
# did each other follow? Build it as a `LanguageModel`. How low is its loss on the text
# that it counted?
#
# <details><summary>Answer</summary>
#
# Logits are the logarithms of the counts. The loss is the *conditional entropy* of the
# text: what is still unknown about a letter when the one before it is known. No model
# that looks at one letter only can do better on this text.
#
# ```python
# import torch
# from torch import nn
# from labml_nn.language_model import LanguageModel, LanguageModelConfig
#
# class Counts(LanguageModel[None]):
#     def __init__(self, config):
#         super().__init__(config)
#         self.table = torch.zeros(config.n_vocab, config.n_vocab)
#
#     def forward(self, tokens, state=None):
#         return self.table.log()[tokens], None
#
# text = "she sells sea shells by the sea shore " * 20
# letters = sorted(set(text))
# w = torch.tensor([letters.index(letter) for letter in text])[:, None]
# model = Counts(LanguageModelConfig(n_vocab=len(letters)))
# model.table.index_put_((w[:-1, 0], w[1:, 0]), torch.tensor(1.0), accumulate=True)
#
# p = model.table / model.table.sum()  # pairs
# entropy = -torch.xlogy(p, p / p.sum(1, keepdim=True)).nansum()
# loss = model.loss(w[:-1], w[1:])
# torch.testing.assert_close(loss, entropy)
# assert 0.7 < loss < 0.8  # where 11 letters at random would cost log(11) = 2.4
# ```
#
# </details>
#
# **2.** How probable does a model think a whole text is, its first token given?
#
# <details><summary>Answer</summary>
#
# The loss is the mean of $-\log p$ over $n$ bets, so $p$ is $e^{-n L}$.
#
# ```python
# import torch
# import labml_nn
#
# model = labml_nn.create("elman", n_vocab=5).eval()
# w = torch.tensor([3, 1, 4])[:, None]
# p = model.predict(w[:1])[0, 1] * model.predict(w[:2])[0, 4]
# torch.testing.assert_close(p, torch.exp(-2 * model.loss(w[:-1], w[1:])))
# ```
#
# </details>
#
# **3.** What does a model bet on that has learned nothing, and what is its loss?
#
# <details><summary>Answer</summary>
#
# On all $V$ tokens alike, and each of them costs $\log V$.
#
# ```python
# import math
# import torch
# from labml_nn.language_model import LanguageModel, LanguageModelConfig
#
# model = LanguageModel(LanguageModelConfig(n_vocab=65))
# loss = model.loss_of(torch.zeros(3, 1, 65), torch.tensor([[3], [1], [4]]))
# assert math.isclose(loss, math.log(65), rel_tol=1e-6)
# ```
#
# </details>
