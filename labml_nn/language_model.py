r"""
---
title: Language-model interface
summary: >
  The methods and configuration that all language models of this library share:
  forward pass, loss, prediction, initialisation, decoding, saving and loading.
---

A **language model** reads a sequence of tokens (characters here, pieces of words
elsewhere) and predicts the token that follows: after *But, soft! what light through
yonder win* a good one gives *d* a high probability and *x* nearly none.

Predicting one token is enough to model whole texts. By the chain rule the likelihood of
a text is the product of the probabilities of its tokens, each given those before it:

$$p(w_0, w_1, \dots, w_{T-1}) = \prod_{t=0}^{T-1} p(w_t \mid w_0, \dots, w_{t-1})$$

So a model is **trained** by maximising the probability of each next token, which is the
same as minimising the cross entropy, and it **generates** by
[sampling](sampling.py) a token, appending it and predicting the next. A model that
predicts the next token from the tokens before it, its own among them, is called
*autoregressive*.

The architectures of this library differ in how they represent the earlier tokens: a
hidden state, a cache of keys and values, a memory, an encoded source. Training,
evaluation and generation do not depend on it, because all models share this interface.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `tokens` | `[T, B]` | the text, integers from 0 to $V - 1$ |
| $y$ | `targets` | `[T, B]` | the next tokens: $y_t = w_{t+1}$ |
| $z$ | `logits` | `[T, B, V]` | $p(w_{t+1} = v) = e^{z_{tv}} / \sum_u e^{z_{tu}}$ |
| $\mathcal{L}$ | `loss` | | cross entropy per token, in nats |
| $\varepsilon$ | `label_smoothing` | | probability mass moved off the right token |
| | `state` | | what the model has computed from earlier tokens |
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from labml_nn.checks import (
    check_bool,
    check_integer,
    check_known,
    check_lengths,
    check_number,
    check_probability,
    check_sizes,
    check_tokens,
    has_values,
    wrong_type,
)
from labml_nn.reference import reference
from labml_nn.saving import Folder, load_parameters, read_description, save_model

__all__ = ["DecodingStep", "LanguageModel", "LanguageModelConfig", "evaluating"]

State = TypeVar("State")
Config = TypeVar("Config", bound="LanguageModelConfig")
Model = TypeVar("Model", bound="LanguageModel[Any]")

# Tokens `[B]` go in, logits of the tokens that follow come out, `[B, V]`.
DecodingStep: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    r"""
    ## Configuration

    The hyperparameters of a model are one frozen dataclass, saved beside the
    parameters. Each model adds its own fields, and checks their ranges after
    `super().__post_init__()`; the types of all fields are checked here, against their
    annotations.

    * `n_vocab` is the number of tokens, $V$
    * `padding_token` fills up short sequences. It is masked in attention and left out
      of the loss, so its embedding has no influence on other tokens, and `padding_idx`
      of `nn.Embedding` would change nothing there. `None`: no token is padding
    * `label_smoothing` is the probability, from 0 to 1, that the target distribution
      takes from the right token in training and spreads evenly over all tokens
      ([@szegedy2015rethinking, §7]): $1 - \varepsilon$ on the right token plus
      $\varepsilon / V$ on every token, as in PyTorch's `cross_entropy`. With 1 all
      targets are uniform.
      [`LabelSmoothingLoss`](transformers/label_smoothing_loss.py) is another convention
    * `init_lower` is the lower bound of the uniform distribution that initial weight
      matrices and embeddings are drawn from; needs `init_upper`. Without both, a model
      is initialised as its own page describes
    * `init_upper` is the upper bound of that distribution; the same number as
      `init_lower` makes all weights equal to it
    * `init_biases` is whether biases of linear maps and convolutions are drawn from the
      range of `init_lower` and `init_upper`, too
    """

    n_vocab: int
    padding_token: int | None = None
    label_smoothing: float = 0.0
    init_lower: float | None = None
    init_upper: float | None = None
    init_biases: bool = False

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            if hasattr(self, name):
                _check_type(name, getattr(self, name), hint)
        check_sizes(n_vocab=self.n_vocab)
        check_probability(label_smoothing=self.label_smoothing)
        token = self.padding_token
        if token is not None and not 0 <= token < self.n_vocab:
            raise ValueError(
                f"`padding_token` ({token}) must be None or from 0 to n_vocab - 1 = "
                f"{self.n_vocab - 1}; for a separate padding token raise `n_vocab`"
            )
        lower, upper = self.init_bounds or (-1.0, 1.0)
        one_given = (self.init_lower is None) != (self.init_upper is None)
        if one_given or not -math.inf < lower <= upper < math.inf:
            raise ValueError(
                f"`init_lower` ({self.init_lower}) must be at most `init_upper` "
                f"({self.init_upper}), and both finite, such as -0.1 and 0.1; or "
                "neither given"
            )
        if self.init_biases and self.init_bounds is None:
            raise ValueError(
                "`init_biases` (True) needs a range to draw biases from; pass "
                "`init_lower` and `init_upper` as well, or leave it False"
            )

    @property
    def init_bounds(self) -> tuple[float, float] | None:
        """The range of the uniform initialisation, or `None`."""
        if self.init_lower is None or self.init_upper is None:
            return None
        return self.init_lower, self.init_upper

    @classmethod
    def of(cls: type[Config], values: Mapping[str, Any]) -> Config:
        """Returns a configuration with the fields `values`."""
        known = [field.name for field in fields(cls)]
        for name in values:
            check_known(f"field of {cls.__name__}", name, known)
        return cls(**values)


class LanguageModel(nn.Module, Generic[State]):
    r"""
    ## Language model

    A subclass has a name and a configuration class, and implements `forward`. Training,
    saving and [generation](sampling.py) work for it without further code.
    """

    name: ClassVar[str] = ""
    Config: ClassVar[type[LanguageModelConfig]] = LanguageModelConfig

    def __init__(self, config: LanguageModelConfig) -> None:
        """`config` is an instance of the class attribute `Config`."""
        super().__init__()
        self.config = config

    @classmethod
    def from_config(
        cls: type[Model], config: LanguageModelConfig | Mapping[str, Any]
    ) -> Model:
        """
        Returns a new model with random parameters; `config` is an instance of `Config`,
        or its fields by name.
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
        """The configuration, which `print(model)` shows before the submodules."""
        names = (field.name for field in fields(self.config))
        return ", ".join(f"{name}={getattr(self.config, name)!r}" for name in names)

    @torch.no_grad()
    def init_uniform(self) -> None:
        r"""
        ### Uniform initialisation

        Draws every matrix and embedding from $U(\text{lower}, \text{upper})$ if the
        configuration has bounds, and with `init_biases` the biases beside a matrix,
        too. Other vectors, such as the gains and biases of normalisation layers, are
        unchanged. A model calls it at the end of its constructor.
        """
        if self.config.init_bounds is None:
            return
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.uniform_(parameter, *self.config.init_bounds)
        for module in self.modules() if self.config.init_biases else ():
            own = dict(module.named_parameters(recurse=False))
            if "bias" in own and own.get("weight", own["bias"]).dim() > 1:
                nn.init.uniform_(own["bias"], *self.config.init_bounds)

    @contextmanager
    def _kept_whole(self) -> Iterator[None]:
        """
        ### Tied weights and tables

        `model.to("meta")`, `to_empty` and `load_state_dict(assign=True)` create a
        parameter for each name. After the block the second name of a parameter is bound
        to the first again. And a table that checkpoints do not contain, such as that of
        the sinusoids, is computed again once the model has left the device `meta`.
        """
        tables: list[Any] = [
            module
            for module in self.modules()
            if hasattr(module, "reset_tables")
            and any(buffer.is_meta for buffer in module.buffers(recurse=False))
        ]
        every = list(self.named_parameters(remove_duplicate=False))
        first = {id(parameter): name for name, parameter in reversed(every)}
        yield
        for name, parameter in every:
            if (owner := first[id(parameter)]) != name:
                parent, _, attribute = name.rpartition(".")
                tied = self.get_parameter(owner)
                setattr(self.get_submodule(parent), attribute, tied)
        device = next(self.parameters()).device
        for module in tables if device.type != "meta" else ():
            for name, buffer in module.named_buffers(recurse=False):
                if buffer.is_meta:
                    module._buffers[name] = torch.empty_like(buffer, device=device)
            module.reset_tables()

    def _apply(
        self: Model, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> Model:
        """Moves and converts all tensors."""
        with self._kept_whole():
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Loads the tensors of a checkpoint, as `torch.nn.Module` does."""
        with self._kept_whole():
            return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def forward(
        self, tokens: Int[Tensor, "T B"], state: State | None = None
    ) -> tuple[Float[Tensor, "T B V"], State]:
        r"""
        ### Forward pass

        * `tokens` is a batch of texts, or of their next chunks, `[T, B]`
        * `state` is what the call for the previous chunk returned; `None` at the start

        Returns logits of the token after each position, `[T, B, V]`, and the state
        after the last position. Splitting a text into chunks does not change the
        result: two calls with 50 tokens give the logits of one call with 100.

        A state is a value: `forward` never modifies the state that it takes, so that
        you can continue from the same state twice. It is detached from the graph;
        otherwise the backward pass of a chunk would go through all earlier chunks.
        """
        raise NotImplementedError

    def loss(
        self,
        tokens: Int[Tensor, "T B"],
        targets: Int[Tensor, "T B"],
        state: State | None = None,
        *,
        return_state: bool = False,
    ) -> Tensor | Any:
        """
        ### Loss

        * `tokens` is the input, `[T, B]`, and `state` the state before it
        * `targets` are the next tokens, `[T, B]`: the same text, one position later
        * `return_state`: return `(loss, state)`, to train on the next chunk

        Returns the mean cross entropy, a scalar, with the true tokens as input at
        all positions (*teacher forcing*).
        """
        check_tokens(tokens, self.config.n_vocab)
        logits, after = self(tokens, state)
        loss = self.loss_of(logits, targets)
        return (loss, after) if return_state else loss

    def loss_of(
        self, logits: Float[Tensor, "T B V"], targets: Int[Tensor, "T B"]
    ) -> Float[Tensor, ""]:
        r"""
        ### Cross entropy

        $$\mathcal{L} = -\frac{1}{n} \sum_{y_{tb} \ne \text{padding}}
            \log p(y_{tb} \mid w_{0b}, \dots, w_{tb})$$

        is the negative log-likelihood per token, over the $n$ targets that are not
        padding. A uniform prediction over 65 characters costs $\log 65 = 4.17$ nats.
        The **perplexity** is $e^\mathcal{L}$: the number of equally likely tokens that
        would be as hard to predict.

        * `logits` is what `forward` returned, `[T, B, V]`
        * `targets` are the tokens that follow, `[T, B]`

        Returns the mean, in nats per token.
        """
        check_tokens(targets, self.config.n_vocab, name="targets")
        if targets.shape != logits.shape[:2]:
            raise ValueError(
                f"`targets` has shape {list(targets.shape)} and the logits "
                f"{list(logits.shape)}; expected one target for each position"
            )

        # Label smoothing is regularisation and, like dropout, off in evaluation: losses
        # of different $\varepsilon$ could not be compared.
        smoothing = self.config.label_smoothing if self.training else 0.0

        # The mean over a batch of nothing but padding would be $0 / 0$. So we take the
        # sum and divide by at least 1: such a batch has loss 0 and gradient 0.
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
    def pred(
        self, tokens: Int[Tensor, "T B"], state: State | None = None
    ) -> tuple[Float[Tensor, "T B V"], State]:
        """
        ### Probabilities at all positions

        As `forward`, with probabilities in place of logits, `[T, B, V]`, in evaluation
        mode and without gradients.
        """
        check_tokens(tokens, self.config.n_vocab)
        with evaluating(self):
            logits, after = self(tokens, state)
        return at_least_single(logits).softmax(-1), after

    @torch.no_grad()
    def predict(
        self, tokens: Int[Tensor, "T B"], state: State | None = None
    ) -> Float[Tensor, "B V"]:
        """
        ### Probabilities of the next token

        * `tokens` is a text, or the source of an encoder–decoder, `[T, B]`
        * `state` is the state before it; with one, `tokens` is always a continuation

        Returns the probabilities of the token after the last one of each sequence,
        `[B, V]`; padding at the end is ignored. Evaluation mode, no gradients.
        """
        with evaluating(self):
            if state is None:
                state, tokens, ends = self.prepare_prompt(tokens)
            else:
                check_tokens(tokens, self.config.n_vocab)
                ends = ends_of(tokens, self.config.padding_token)
            logits, _ = self(tokens, state)
        last = logits[-1]
        if ends is not None:
            last = logits[ends - 1, torch.arange(len(ends), device=ends.device)]
        return at_least_single(last).softmax(-1)

    def prepare_prompt(
        self, prompt: Int[Tensor, "S B"], lengths: Int[Tensor, " B"] | None = None
    ) -> tuple[State | None, Int[Tensor, "T B"], Int[Tensor, " B"] | None]:
        """
        ### Start of generation

        Most models continue the prompt. An encoder–decoder encodes it, and generates
        the target sequence from a start token.

        * `prompt` is the text to continue, or the source, `[S, B]`
        * `lengths` are their numbers of tokens, `[B]`; the rest of each column is
          ignored. `None`: all but padding at the end

        Returns a state, the tokens to continue from, `[T, B]`, and their lengths.
        """
        check_tokens(prompt, self.config.n_vocab, name="prompt")
        if lengths is None:
            return None, prompt, ends_of(prompt, self.config.padding_token)
        check_lengths(lengths, len(prompt), shortest=1, count=prompt.shape[1])
        return None, prompt, lengths

    @reference
    def decoding_step(self, state: State) -> DecodingStep:
        r"""
        ### Decoding

        * `state` is the state after the text so far

        Returns a function from the next token of each sequence, `[B]`, to the logits of
        the token after it, `[B, V]`, which stores the state and computes no gradients.
        A [kernel](kernels/__init__.py) prepares it for the model as it is now, and may
        work in place. So after you changed the model, make a new step.
        """

        @torch.no_grad()
        def step(tokens: Tensor) -> Tensor:
            nonlocal state
            logits, state = self(tokens.unsqueeze(0), state)
            last: Tensor = logits[-1]
            return last

        return step

    @property
    def end_token(self) -> int | None:
        """The token that ends a sequence; a field of some configurations."""
        token: int | None = getattr(self.config, "end_token", None)
        return token

    def save(self, folder: Folder) -> None:
        """
        ### Saving and loading

        Writes `config.json` and `model.safetensors` into `folder`, see
        [saving](saving.py).
        """
        save_model(self, self.name or type(self).__qualname__, self.config, folder)

    @classmethod
    def load(
        cls: type[Model], folder: Folder, *, device: torch.device | str | None = None
    ) -> Model:
        """
        Returns the same model, bit for bit, in evaluation mode, on `device` (`None` is
        the CPU). To train it further, call `model.train()`.
        """
        description = read_description(folder)
        if description["model"] != (expected := cls.name or cls.__qualname__):
            raise ValueError(
                f"{folder} holds the model {description['model']!r} "
                f"({description['class']}), not {expected!r}; use "
                "labml_nn.load(folder), or `load` of its class"
            )
        # Random parameters are drawn and then replaced; the generator does not change.
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            model = cls.from_config(description["config"])
        load_parameters(model, description, folder)
        model.eval()
        return model if device is None else model.to(device)


# The models that are being evaluated: in how many blocks, and the modes of their
# submodules before the first.
_evaluated: dict[int, tuple[int, list[tuple[nn.Module, bool]]]] = {}
_lock = threading.Lock()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """
    ## Evaluation mode

    `with evaluating(model):` switches dropout off in the block. Afterwards each
    submodule has its own mode again, also after an exception. Several threads may
    generate with one model: the last one to leave restores the modes. A thread that
    *trains* the model at the same time would train without dropout meanwhile, so
    generate from a `copy.deepcopy` of it there.
    """
    with _lock:
        inside, modes = _evaluated.get(id(model), (0, []))
        if not inside:
            modes = [(module, module.training) for module in model.modules()]
            if any(training for _, training in modes):
                model.eval()
        _evaluated[id(model)] = inside + 1, modes
    try:
        yield
    finally:
        with _lock:
            inside, modes = _evaluated.pop(id(model))
            if inside > 1:
                _evaluated[id(model)] = inside - 1, modes
            else:
                for module, training in modes:
                    module.training = training


def at_least_single(x: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
    """bfloat16 has 8 significant bits, and float16 ends at 65,504."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def ends_of(
    tokens: Int[Tensor, "T B"], padding_token: int | None
) -> Int[Tensor, " B"] | None:
    """
    ## Ends of sequences

    Returns the length of each sequence up to its last token that is not padding, `[B]`,
    or `None` without a padding token.
    """
    if padding_token is None:
        return None
    is_token = tokens != padding_token
    counts = torch.arange(1, len(tokens) + 1, device=tokens.device)
    ends = (is_token * counts[:, None]).amax(0)
    if has_values(tokens) and not bool(is_token.any(0).all()):
        raise ValueError(
            f"sequence {int(ends.argmin())} is nothing but padding ({padding_token}); "
            "expected a token to continue from"
        )
    return ends


def _check_type(name: str, value: Any, hint: Any) -> None:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and NoneType in options:
        return
    for expected in options:
        if get_origin(expected) is Literal:
            check_known(f"`{name}`", value, get_args(expected))
        elif expected is int:
            check_integer(name, value)
        elif expected is float:
            check_number(name, value)
        elif expected is bool:
            check_bool(**{name: value})
        elif expected is str and not isinstance(value, str):
            raise wrong_type(name, value, "a string")
