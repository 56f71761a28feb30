r"""
---
title: Sampling and generation
summary: >
  Generating text with a language model at constant cost per token, and the samplers
  that choose each token: greedy, temperature, top-k and nucleus sampling.
paper: https://arxiv.org/abs/1904.09751
---

To generate text, a language model predicts a distribution over the next token, a
**sampler** chooses a token from it, and the token becomes the model's next input:

| Input | `what light thr` | `o` | `u` | `g` |
|:--|:--|:--|:--|:--|
| Sampled next token | `o` | `u` | `g` | `h` |

This is *autoregressive* generation. In training the model is given the true previous
token everywhere (teacher forcing). Here it is given its own, so an unlikely choice
changes all predictions after it, and errors accumulate. The sampler matters as much as
the model.

**Greedy decoding**, always the most probable token, does not give a typical text. It
ends in loops such as *I don't know. I don't know.* Human text has an unlikely word
every few words ([@holtzman2019curious, Figure 2]), and each repetition of a phrase
makes the next one more probable (Figure 4).

**Ancestral sampling**, from the whole distribution, reaches its long tail: if each of
10,000 implausible tokens has probability 0.00001, ten in a text of 100 tokens are among
them. So samplers change the distribution a little before they draw from it:

| Sampler | Change |
|:--|:--|
| `Greedy` | keeps the most probable token only |
| `Temperature` | sharpens the distribution (below 1) or flattens it (above 1) |
| `TopK` | keeps the $k$ most probable tokens |
| `Nucleus` | keeps the smallest set of tokens with probability $p$ |
| `Chain` | applies several, one after the other |

```python
import torch
from labml_nn.sampling import Chain, Nucleus, Temperature, TopK

logits = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()  # [B, V]
print(Temperature(0.5).distribution(logits))  # 0.72, 0.18, 0.07, 0.03
print(TopK(2).distribution(logits))  # 0.67, 0.33, 0, 0
print(Nucleus(0.8).distribution(logits))  # 0.56, 0.28, 0.17, 0
sampler = Chain(Temperature(0.8), Nucleus(0.95))
token = sampler(logits)  # [B]
```

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $z$ | `logits` | `[B, V]` | logits of the next token; $-\infty$ if impossible |
| $q$ | | `[B, V]` | the distribution that is sampled, $\sum_v q_{bv} = 1$ |
| $\tau$ | `temperature` | | temperature |
| $k$ | `k` | | number of tokens that `TopK` keeps |
| $p$ | `p` | | probability that `Nucleus` keeps |
| $w$ | `prompt` | `[T, B]` | the text to continue |
| $n$ | `n` | | number of tokens to generate |
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from labml_nn.checks import (
    check_integer,
    check_integers,
    check_number,
    check_sizes,
    has_values,
)
from labml_nn.language_model import LanguageModel, at_least_single, evaluating

__all__ = ["Chain", "Greedy", "Nucleus", "Sampler", "Temperature", "TopK", "generate"]

# Version 0.5.1 had a module for each sampler. The [error](moved.py) of an old import
# says what to write instead.
__path__: list[str] = []

# Any function of logits `[B, V]` and a random generator to tokens `[B]`.
Picker = Callable[[Tensor, torch.Generator | None], Tensor]


def check_logits(logits: Tensor) -> None:
    """The logits of a batch are `[B, V]`."""
    if logits.dim() != 2:
        raise ValueError(
            f"`logits` has shape {list(logits.shape)}; expected [B, V], the logits of "
            "one position: logits[-1] of a forward pass, logits[None] for one sequence"
        )


def check_finite(logits: Tensor) -> None:
    """Not a number is no logit, and no sampler can choose."""
    if has_values(logits) and bool(logits.isnan().any()):
        raise ValueError(
            "`logits` holds NaN; expected numbers: has training diverged, or does the "
            "model hold NaN? Check torch.isnan of its parameters"
        )


class Sampler:
    r"""
    ## Sampler

    `Sampler()` itself draws from the predicted distribution,
    $q = \operatorname{softmax}(z)$. Subclasses override `adjust`. They change logits,
    because the softmax normalises again whatever was removed.
    """

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """Returns the logits of the distribution to sample; here they are unchanged."""
        return logits

    def distribution(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """The probabilities $q$ of the tokens, in single precision at least."""
        return self.adjust(at_least_single(logits)).softmax(-1)

    def __call__(
        self, logits: Float[Tensor, "B V"], generator: torch.Generator | None = None
    ) -> Int[Tensor, " B"]:
        r"""
        Returns a token for each sequence, `[B]`, drawn with `generator` (`None` is
        PyTorch's global one).
        """
        check_logits(logits)
        probabilities = self.distribution(logits)
        try:
            drawn = torch.multinomial(probabilities, 1, generator=generator)
        except RuntimeError:
            check_finite(probabilities)
            raise
        return drawn.squeeze(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Greedy(Sampler):
    """
    ## Greedy

    The most probable token, for questions with one right answer, and for tests. Of
    equally probable tokens it is the one with the lowest number.
    """

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """All other tokens become impossible."""
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, -math.inf).scatter_(-1, best, 0.0)

    def __call__(
        self, logits: Float[Tensor, "B V"], generator: torch.Generator | None = None
    ) -> Int[Tensor, " B"]:
        """Needs no softmax and no random number."""
        check_logits(logits)
        return logits.argmax(-1)


@dataclass(frozen=True)
class Temperature(Sampler):
    r"""
    ## Temperature

    $$q_v = \frac{e^{z_v / \tau}}{\sum_u e^{z_u / \tau}} \propto p_v^{1 / \tau}$$

    $\tau = 1$ changes nothing. Below 1 probable tokens become more probable: at
    $\tau = 1/2$ a token that was ten times as probable as another is a hundred times as
    probable. Above 1 the distribution becomes flatter. The limit $\tau \to 0$ is greedy
    choice, and for $\tau \to \infty$ all tokens are equally probable.

    ![What follows a "t" in the introduction of this page.](figure:sampling.temperature)
    """

    temperature: float

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature)
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"`temperature` ({self.temperature}) must be above 0 and finite; use "
                "Greedy() for the limit 0"
            )

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        r"""
        Subtracting the largest logit does not change the softmax, but without it a
        tiny $\tau$ would send that logit to infinity. A $\tau$ that the dtype would
        round to zero is replaced by its smallest number.
        """
        temperature = max(self.temperature, torch.finfo(logits.dtype).tiny)
        return (logits - logits.amax(-1, keepdim=True)) / temperature


@dataclass(frozen=True)
class TopK(Sampler):
    r"""
    ## Top-k

    Keeps exactly the $k$ most probable tokens ([@fan2018hierarchical] generated stories
    with $k = 10$). Of equally probable ones at the border, those with lower numbers are
    kept. A vocabulary of at most $k$ tokens is unchanged.
    """

    k: int

    def __post_init__(self) -> None:
        check_sizes(k=self.k)

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """
        `topk` gives the border; all logits above it are kept, and the first of those
        equal to it while there is room. A stable sort takes ten times as long.
        """
        if self.k >= logits.shape[-1]:
            return logits
        border = logits.topk(self.k).values[:, -1:]
        above, equal = logits > border, logits == border
        room = self.k - above.sum(-1, keepdim=True)
        kept = above | (equal & (equal.cumsum(-1) <= room))
        return logits.masked_fill(~kept, -math.inf)


@dataclass(frozen=True)
class Nucleus(Sampler):
    r"""
    ## Nucleus (top-p)

    After *to be or not to* one token is plausible, after *my name is* thousands are. No
    $k$ suits both. The nucleus ([@holtzman2019curious, §3.1, eq. 2]) fixes the
    probability and not the number: it is the smallest set $V^{(p)}$ of tokens with

    $$\sum_{v \in V^{(p)}} P(v \mid w_0, \dots, w_t) \ge p$$

    Of equally probable tokens lower numbers come first. The paper uses $p = 0.95$;
    $p = 1$ keeps everything.
    """

    p: float

    def __post_init__(self) -> None:
        check_number("p", self.p)
        if not 0 < self.p <= 1:
            raise ValueError(
                f"`p` ({self.p}) must be above 0 and at most 1; 0.95 is usual, and "
                "Greedy() keeps the most probable token only"
            )

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """
        A token is kept if the more probable ones before it sum to less than `p`. For
        the first the sum is 0, so at least one is kept.
        """
        if self.p == 1:
            return logits
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        before = ordered.softmax(-1).cumsum(-1).roll(1, dims=-1)
        before[:, 0] = 0
        kept = torch.zeros_like(logits, dtype=torch.bool)
        kept.scatter_(-1, order, before < self.p)
        return logits.masked_fill(~kept, -math.inf)


class Chain(Sampler):
    """
    ## Chain

    `Chain(Temperature(0.8), Nucleus(0.95))` applies samplers from left to right; none
    at all draw from the predicted distribution.
    """

    def __init__(self, *samplers: Sampler) -> None:
        for sampler in samplers:
            if not isinstance(sampler, Sampler):
                raise _no_sampler("samplers", sampler)
        self.samplers = samplers

    def adjust(self, logits: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
        """Each sampler changes the logits that the one before it returned."""
        for sampler in self.samplers:
            logits = sampler.adjust(logits)
        return logits

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.samplers))})"


GREEDY = Greedy()


def generate(
    model: LanguageModel[Any] | nn.Module,
    prompt: Int[Tensor, "T B"],
    n: int,
    sampler: Picker = GREEDY,
    *,
    lengths: Int[Tensor, " B"] | None = None,
    seed: int | None = None,
    stop: int | Collection[int] | None = None,
    on_token: Callable[[int, int], object] | None = None,
) -> Int[Tensor, "N B"]:
    r"""
    ## Generation

    The simplest program passes the whole text to the model for each new token. With
    the [state](language_model.py) that a model returns, a KV cache or a hidden state,
    one token is one step of constant cost:

    $$z_t, \; h_t = \operatorname{forward}(w_t, \; h_{t-1})$$

    * `model` is any language model of this library, also inside `torch.compile` or
      DistributedDataParallel
    * `prompt` is the text to continue, or the source of an encoder–decoder, `[T, B]`,
      on the device of the model
    * `n` is the number of tokens to generate
    * `sampler` is a `Sampler`, or any function of logits `[B, V]` and a
      `torch.Generator` (or `None`) to tokens `[B]`
    * `lengths` are the numbers of tokens of the prompts, `[B]`; the rest of each column
      is ignored. `None`: all but padding at the end
    * `seed` makes the result repeatable and leaves PyTorch's global generator alone;
      `None` draws from the global one
    * `stop` is a token, or several, that ends a sequence. `None` takes the model's
      `end_token`, if it has one; `()` stops nowhere
    * `on_token` is called with the index of a sequence and a token as soon as it is
      generated, to show a text while it grows

    Returns the generated tokens without the prompt, `[N, B]`. A sequence that met a
    stop token ends with it, and the rest of its column repeats it. $N$ is `n`, or less
    if all sequences ended before. Padding is never generated unless it is in `stop`.
    """
    inner = unwrapped(model)
    check_sizes(n=n)
    check_integers("prompt", prompt, "T B")
    if prompt.shape[1] == 0:
        raise ValueError("`prompt` is an empty batch; expected B to be at least 1")
    if isinstance(sampler, type) or not callable(sampler):
        raise _no_sampler("sampler", sampler)
    stops = _stop_tokens(inner, stop)
    generator = None
    if seed is not None:
        check_integer("seed", seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"`seed` ({seed}) must fit into 64 bits; try seed % 2**64")
        generator = torch.Generator(prompt.device).manual_seed(int(seed))

    padding = inner.config.padding_token
    banned = None if padding in stops else padding

    def pick(logits: Tensor) -> Tensor:
        if banned is not None:
            logits = logits.clone()
            logits[:, banned] = -math.inf
        tokens = sampler(logits, generator)
        if tokens.shape != logits.shape[:1]:
            raise ValueError(
                f"`sampler` returned the shape {list(tokens.shape)}; expected a token "
                f"for each sequence, {list(logits.shape[:1])}"
            )
        return tokens.long()

    # **Prompts of different lengths.** One forward pass reads the prompts up to the
    # length of the shortest. After that, each step takes one token of every sequence:
    # the next token of its prompt, if there is one, otherwise the token that was
    # sampled for it (in brackets). Each sequence is generated as if it were alone.
    #
    # ```text
    # one pass    one step each
    # B   u   t   [,] [s] [o] [f]
    # R   o   m    e   o  [,] [w]
    # ```
    #
    # A sequence is generated from position `ends` on, and is complete at `done`: after
    # $n$ tokens, or after a stop token. Inference mode saves the bookkeeping of
    # autograd; the copy that is returned may be trained on.
    with evaluating(inner), torch.inference_mode():
        state, text, given = inner.prepare_prompt(prompt, lengths)
        ends = torch.full_like(text[0], len(text)) if given is None else given
        ends = ends.to(text.device)
        shared, longest = (int(end) for end in ends.aminmax())
        logits, state = inner(text[:shared], state)
        logits, step = logits[-1], inner.decoding_step(state)
        check_finite(logits)

        rows: list[Tensor] = []
        done = ends + n
        ending = torch.tensor(stops, device=text.device)
        last = longest + n - 1
        for t in range(shared, last + 1):
            tokens = pick(logits)
            if t < longest:
                tokens = torch.where(t < ends, text[t], tokens)
            if stops and rows:
                tokens = torch.where(t < done, tokens, rows[-1])
            rows.append(tokens)
            if on_token is not None:
                for sequence in ((t >= ends) & (t < done)).nonzero().flatten().tolist():
                    on_token(sequence, int(tokens[sequence]))

            if stops:
                stopped = (t >= ends) & torch.isin(tokens, ending)
                done = torch.where(stopped, done.clamp(max=t + 1), done)
                if bool((t + 1 >= done).all()):
                    break
            if t < last:
                logits = step(tokens)

        # The rows contain the rest of longer prompts, so each column starts at a row of
        # its own. A column that ended early repeats the last row, its stop token.
        length = int((done - ends).max())
        index = torch.arange(length, device=text.device)[:, None] + (ends - shared)
        generated = torch.stack(rows).gather(0, index.clamp(max=len(rows) - 1))
    return generated.clone()


def unwrapped(model: nn.Module) -> LanguageModel[Any]:
    """
    `torch.compile`, DistributedDataParallel and DataParallel wrap a model. Generation
    runs without them: one token at a time there is nothing to distribute. Raises
    `TypeError` if there is no language model inside.
    """
    inner: Any = model
    while not isinstance(inner, LanguageModel):
        names = [name for name in ("_orig_mod", "module") if hasattr(inner, name)]
        if not names:
            raise TypeError(
                f"`model` is a {type(inner).__name__}; expected a language model, such "
                "as labml_nn.create(...) returns"
            )
        inner = getattr(inner, names[0])
    return inner


def _stop_tokens(
    model: LanguageModel[Any], stop: int | Collection[int] | None
) -> list[int]:
    if stop is None:
        stop = () if model.end_token is None else model.end_token
    tokens = list(stop) if isinstance(stop, Collection) else [stop]
    for token in tokens:
        check_integer("stop", token)
        if not 0 <= token < model.config.n_vocab:
            raise ValueError(
                f"`stop` holds {token}; expected tokens from 0 to "
                f"{model.config.n_vocab - 1}"
            )
    return tokens


def _no_sampler(name: str, given: object) -> TypeError:
    return TypeError(
        f"`{name}` ({given!r}) must be an instance of a sampler, such as Greedy(), "
        "TopK(10) or Nucleus(0.95)"
    )
