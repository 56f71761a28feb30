r"""
---
title: Generation
summary: >
  How a language model writes: read the prompt, pick a token, read that, and so on, at
  the same cost for the thousandth token as for the first.
---

To write, a language model reads its own words. It reads the prompt, bets on the next
token, somebody [picks one](__init__.py), the model reads the pick, bets again:

```text
read   what light thr   o   u   g
                    │   │   │   │
pick                o   u   g   h
```

What it reads again matters. The simplest program gives the model the whole text each
time, prompt and all, and throws away all logits but the last. Token number 1,000 then
costs a thousand times as much as the first. But a model here returns a **state** with
its logits: the keys and values of a transformer, the hidden vectors of an Elman net,
the memory of a feedback transformer. With the state it reads one token, and knows the
rest:

$$z_t, \; h_t = \operatorname{forward}(w_t, \; h_{t-1})$$

A state is a value, made anew for each token. Who writes one text to its end does not
need all of them, and so a model also has a [writer](../language_model.py), which keeps
the text to itself and goes on in place. `generate` reads the prompt with the one and
writes with the other. It works for every model with the doors of `LanguageModel`, and
knows none of them.

**Many at once.** A batch of $B$ prompts is written side by side, for little more than
the price of one. Prompts of different lengths are the difficulty: who has been read to
the end wants to write while others are still reading. Often the short ones are filled
up at the front, and masks and positions have to be told about it. Here nothing is
filled up. All prompts are read together as far as the shortest goes. From there on it
goes step by step, and each sequence reads a token at each step: its own, while it has
one, and then what was picked for it. They only begin to write at different times.

```text
read together   step by step
B   u   t       [,] [s] [o] [f]
R   o   m        e   o  [,] [w]
```

In brackets is what was picked. No model needs to know about it, and each sequence is
written as if it were alone.

| Symbol | Code | Shape | Meaning |
|:--|:--|:--|:--|
| $w$ | `prompt` | `[T, B]` | what to continue |
| | `lengths` | `[B]` | how many of its tokens are real |
| $z_t$ | `logits` | `[B, V]` | what may come next |
| $h_t$ | `state` | | what the model remembers |
| $N$ | `n` | | how many tokens to write |
"""

import math
from collections.abc import Callable, Collection
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from labml_nn.checks import check_integers, check_sizes
from labml_nn.evaluation import evaluating
from labml_nn.language_model import LanguageModel
from labml_nn.sampling.sampler import Greedy

# What picks the tokens: a `Sampler`, or any function of logits `[B, V]` and a generator
# that returns tokens `[B]`.
Picker = Callable[[Tensor, torch.Generator | None], Tensor]
Listener = Callable[[int, int], object]

GREEDY = Greedy()


def generate(
    model: LanguageModel[Any],
    prompt: Int[Tensor, "T B"],
    n: int,
    sampler: Picker = GREEDY,
    *,
    lengths: Int[Tensor, " B"] | None = None,
    seed: int | None = None,
    stop: int | Collection[int] | None = None,
    on_token: Listener | None = None,
) -> Int[Tensor, "N B"]:
    """
    ## Write

    * `model` is any language model of this library
    * `prompt` holds what to continue, or for an encoder–decoder what to reply to,
      `[T, B]`, on the device of the model
    * `n` is the number of tokens to write
    * `sampler` picks them
    * `lengths` says how many tokens of each prompt are real, `[B]`; the others stand at
      its end and are not looked at. `None`: all but padding at the end
    * `seed` makes the text repeatable, and leaves PyTorch's global generator alone;
      `None` draws from the global one
    * `stop` is a token, or several, at which a sequence is over. `None` asks the model,
      which may have an `end_token`; `()` goes on in any case
    * `on_token` is called with the number of a sequence and a token as soon as it is
      written, to show a text while it grows

    Returns what was written, without the prompt, `[N, B]`. A sequence that met a stop
    token ends with it, and the rest of its column is filled with it. $N$ is `n`, or
    less if all of them ended before. Padding is never written, unless it is a stop.

    Dropout is off meanwhile, and no gradients are kept. Afterwards every part of the
    model is in the mode in which it was, even if it was interrupted.

    Raises `ValueError` for an `n` below 1, an empty prompt, lengths that do not fit,
    and tokens outside the vocabulary; `TypeError` for other kinds of values.
    """
    check_sizes(n=n)
    check_integers("prompt", prompt, "T B")
    if prompt.shape[1] == 0:
        raise ValueError(
            f"`prompt` has shape {list(prompt.shape)}: the batch is empty; expected B "
            "to be at least 1"
        )
    stops = _stop_tokens(model, stop)
    pick = _picker(model, sampler, _generator(seed, prompt.device), stops)

    # Inference mode is `no_grad` and more: its tensors keep no record of changes, which
    # saves time, and can never meet a gradient. So the result leaves it as a copy: you
    # may want to train on it.
    with evaluating(model), torch.inference_mode():
        beginning = model.prepare_prompt(prompt, lengths)
        written = _write(model, beginning, n, pick, stops, on_token)
    return written.clone()


def _write(
    model: LanguageModel[Any],
    beginning: tuple[Any, Tensor, Tensor | None],
    n: int,
    pick: Callable[[Tensor], Tensor],
    stops: list[int],
    on_token: Listener | None,
) -> Tensor:
    """
    ### Read what all share, then step

    `beginning` is what `begin` returned: a state, a text to continue and where it ends.
    A model that continues has read nothing yet. One that answers has read the prompt,
    and continues an answer of one token.
    """
    state, text, lengths = beginning
    batch = text.shape[1]
    ends = text.new_full((batch,), len(text)) if lengths is None else lengths
    ends = ends.to(text.device)
    shared, longest = (int(end) for end in ends.aminmax())
    read, state = model(text[:shared], state)
    logits, write = read[-1], model.decoding_step(state)

    # A sequence writes from step `ends` on, and is done at step `done`: after $n$
    # tokens, or with a stop token.
    rows: list[Tensor] = []
    done = ends + n
    ending = torch.tensor(stops, device=text.device)
    last = longest + n - 1
    for t in range(shared, last + 1):
        picked = pick(logits)

        # The sampler picks for all. Who still has prompt to read reads that instead,
        # and who is done repeats its last token until the others are.
        if t < longest:
            picked = torch.where(t < ends, text[t], picked)
        if stops and rows:
            picked = torch.where(t < done, picked, rows[-1])
        rows.append(picked)
        if on_token is not None:
            writing = ((t >= ends) & (t < done)).tolist()
            for sequence, token in enumerate(picked.tolist()):
                if writing[sequence]:
                    on_token(sequence, token)

        # To ask whether all are done makes a GPU wait, so it is asked only where
        # something can end before its time. Nobody reads the last token of all.
        if stops:
            stopped = (t >= ends) & torch.isin(picked, ending)
            done = torch.where(stopped, done.clamp(max=t + 1), done)
            if bool((t + 1 >= done).all()):
                break
        if t < last:
            logits = write(picked)

    return _columns(torch.stack(rows), ends - shared, int((done - ends).max()))


def _columns(
    rows: Int[Tensor, "R B"], starts: Int[Tensor, " B"], n: int
) -> Int[Tensor, "N B"]:
    """
    ### Every text from its own start

    * `rows` are all tokens from the first step on, prompts among them
    * `starts` are the rows at which each sequence began to write
    * `n` is how much the longest wrote

    A sequence with fewer than `n` rows after its start is over, and the last row holds
    the token that ended it.
    """
    index = torch.arange(n, device=rows.device)[:, None] + starts
    return rows.gather(0, index.clamp(max=len(rows) - 1))


# ## Small pieces
#
# Who picks, what ends a sequence, and where randomness comes from.
def _picker(
    model: LanguageModel[Any],
    sampler: Picker,
    generator: torch.Generator | None,
    stops: list[int],
) -> Callable[[Tensor], Tensor]:
    padding = model.config.padding_token
    never = [] if padding is None or padding in stops else [padding]

    def pick(logits: Tensor) -> Tensor:
        for token in never:
            logits = logits.clone()
            logits[:, token] = -math.inf
        picked = sampler(logits, generator)
        if picked.shape != logits.shape[:1] or picked.is_floating_point():
            raise ValueError(
                f"`sampler` returned {picked.dtype} of shape {list(picked.shape)}; "
                f"expected a token for each of {logits.shape[0]} sequences, integers "
                "[B]"
            )
        return picked.long()

    return pick


def _stop_tokens(
    model: LanguageModel[Any], stop: int | Collection[int] | None
) -> list[int]:
    if stop is None:
        stop = () if model.end_token is None else model.end_token
    tokens = list(stop) if isinstance(stop, Collection) else [stop]
    n_vocab = model.config.n_vocab
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, Integral):
            raise TypeError(
                f"`stop` holds {token!r}, a {type(token).__name__}; expected a token "
                "or a collection of tokens, whole numbers"
            )
        if not 0 <= int(token) < n_vocab:
            raise ValueError(
                f"`stop` holds {token}; expected tokens from 0 to {n_vocab - 1}, "
                f"below n_vocab ({n_vocab})"
            )
    return [int(token) for token in tokens]


def _generator(seed: int | None, device: torch.device) -> torch.Generator | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(
            f"`seed` ({seed!r}) must be a whole number or None, not a "
            f"{type(seed).__name__}"
        )
    return torch.Generator(device).manual_seed(int(seed))


# ## Exercises
#
# **1.** Write the simplest generator, which reads the whole text again for each token.
# Does it write the same? How many tokens does each of the two read?
#
# <details><summary>Answer</summary>
#
# It writes the same. For a prompt of $T$ tokens and $N$ new ones it reads
# $T + (T + 1) + \dots + (T + N - 1)$ tokens, the other one $T + N - 1$: here 330 and
# 26, and for a page of 2,000 letters two million and two thousand.
#
# ```python
# import torch
# import labml_nn
# from labml_nn.sampling import generate
#
# model = labml_nn.create("elman", n_vocab=65).double().eval()
# read = []
# model.register_forward_pre_hook(lambda _, inputs: read.append(len(inputs[0])))
#
# prompt = torch.randint(65, (7, 2))
# text = prompt
# for _ in range(20):
#     logits, _ = model(text)
#     text = torch.cat([text, logits[-1:].argmax(-1)])
# assert sum(read) == 330
#
# read.clear()
# assert torch.equal(generate(model, prompt, 20), text[7:])
# assert sum(read) == 26
# ```
#
# </details>
#
# **2.** A function will do as a sampler. Write one that never picks the token that was
# picked last.
#
# <details><summary>Answer</summary>
#
# A sampler sees logits and nothing else, so this one has to remember. That makes it
# good for one text only, which is why the samplers of this library remember nothing.
#
# ```python
# import torch
# import labml_nn
# from labml_nn.sampling import Temperature, generate
#
# def without_repetition(sampler):
#     last = None
#
#     def pick(logits, generator):
#         nonlocal last
#         if last is not None:
#             logits = logits.scatter(-1, last[:, None], float("-inf"))
#         last = sampler(logits, generator)
#         return last
#
#     return pick
#
# model = labml_nn.create("elman", n_vocab=3)
# prompt = torch.zeros(1, 2, dtype=torch.long)
# text = generate(model, prompt, 50, without_repetition(Temperature(0.5)), seed=1)
# assert (text[1:] != text[:-1]).all()
# ```
#
# </details>
#
# **3.** Write eight continuations of the same prompt, and keep the one that the model
# finds most probable.
#
# <details><summary>Answer</summary>
#
# The batch is the prompt eight times. `loss` would be the mean over all of them, so
# take the logits and add up the log-probabilities of each.
#
# ```python
# import torch
# import labml_nn
# from labml_nn.evaluation import evaluating
# from labml_nn.sampling import Nucleus, generate
#
# model = labml_nn.create("elman", n_vocab=65)
# prompt = torch.randint(65, (7, 1)).expand(-1, 8)
# text = torch.cat([prompt, generate(model, prompt, 20, Nucleus(0.9), seed=1)])
# with evaluating(model), torch.no_grad():
#     logits, _ = model(text[:-1])
# steps = logits.log_softmax(-1).gather(-1, text[1:, :, None])[6:, :, 0]  # [20, 8]
# score = steps.sum(0)
# best = text[:, score.argmax()]
# assert len(best) == 27 and score.max() > score.mean()
# ```
#
# </details>
