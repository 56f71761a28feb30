r"""
---
title: The command attention
summary: A picture of what a trained model looks at while it reads your text.
---

```text
python -m labml_nn attention runs/feedback --text "To be, or not to be"
```

writes `attention.svg`, which any browser opens. It shows one layer, each head as a
square: rows are the letters that ask, columns those that are looked at, and ink is
weight. [What such a map tells and what not](../../attention_maps/__init__.py) is worth
reading first.

A model of replies looks in three ways: at what was said, at its own reply so far, and
from one to the other. Of these the last is drawn, unless you ask for another. The reply
may be given; otherwise the model writes it.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labml_nn.attention_maps import AttentionMap, attention_maps, save_picture
from labml_nn.checks import check_known
from labml_nn.experiments.command_line import program
from labml_nn.experiments.command_line.flags import Parser
from labml_nn.experiments.command_line.generate import (
    check_backslash,
    replies,
    run_in,
)
from labml_nn.experiments.training.folder import Run
from labml_nn.language_model import LanguageModel
from labml_nn.sampling import generate

# What tokens look like that stand for no letter of a reply.
SPECIAL = ("padding", "start", "end")

# The three ways to look, by the words with which the title of a map begins and ends.
PARTS = {
    "source": ("decoder", "source"),
    "encoder": ("encoder", "self"),
    "decoder": ("decoder", "self"),
}


def run(words: Sequence[str]) -> int:
    """
    ## The command

    * `words` are those behind `attention`
    """
    values = _parser().read(words)
    check_picture(values.out)
    trained = run_in(values.run)
    model = trained.model()
    inputs = texts(trained, model, values.text, values.reply)
    maps = attention_maps(model, *inputs, vocabulary=signs(trained))
    one = pick(maps, values.layer, values.part)
    if values.head is not None and not 0 <= values.head < one.sizes["head"]:
        raise ValueError(
            f"there is no head {values.head}; this model has {one.sizes['head']}, from "
            f"0 to {one.sizes['head'] - 1}"
        )
    heads = None if values.head is None else [values.head]
    save_picture(one, values.out, heads=heads)
    print(f"{values.out}: {one.title}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        "Draw what a trained model looks at while it reads a text.",
        f"{program()} attention",
    )
    parser.add_argument("run", metavar="RUN", help="the folder of a run: runs/feedback")
    parser.add_argument(
        "--text",
        required=True,
        metavar="TEXT",
        help="what the model reads, or what is said to it",
    )
    parser.add_argument(
        "--reply",
        metavar="TEXT",
        help="for a model of replies, what is replied; without it the model replies",
    )
    parser.add_argument(
        "--out",
        default="attention.svg",
        metavar="FILE",
        help="the picture (default: attention.svg)",
    )
    parser.add_argument(
        "--layer",
        type=_number,
        metavar="N",
        help="which layer, from 1 on (default: the last)",
    )
    parser.add_argument(
        "--head",
        type=_number,
        metavar="N",
        help="which head, from 0 on, as the picture numbers them (default: all)",
    )
    parser.add_argument(
        "--part",
        type=_part,
        metavar="WORD",
        help='for a model of replies, "source" for what a reply sees of what was said, '
        '"encoder" or "decoder" for what each sees of itself (default: source)',
    )
    return parser


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _part(text: str) -> str:
    try:
        check_known("such part", text, PARTS)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def check_picture(out: str) -> None:
    """
    ## Where the picture goes

    It is drawn in lines, and stays sharp at any size: SVG. In a file of another name no
    program would open it. Raises `ValueError` for such a name, and
    `FileNotFoundError` for a folder that is not there, before anything is computed.
    """
    path = Path(out)
    if path.suffix.lower() != ".svg":
        raise ValueError(
            f"the picture ({out}) is an SVG, which browsers open; try --out "
            f"{path.with_suffix('.svg') if path.name else 'attention.svg'}"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path.parent}; make it, or choose another (--out)"
        )


def texts(
    trained: Run, model: LanguageModel[Any], text: str, reply: str | None
) -> tuple[Tensor, ...]:
    """
    ## What the model reads

    * `text` is what was typed
    * `reply` is what was typed as a reply, if anything was

    Returns the tokens of the text, and of the reply if the model replies. Raises
    `ValueError` for a text that is empty, that the model cannot read, or that is longer
    than what it looks back on: then positions are not those of the text any more.
    """
    if not replies(trained) and reply is not None:
        raise ValueError("this model does not reply; leave --reply out")
    check_backslash(trained, text)
    tokens = trained.prompt(text)
    if not replies(trained):
        _check_length(model, text, len(tokens))
        return (tokens,)
    begin = torch.tensor([[model.config.start_token]])  # type: ignore[attr-defined]
    if reply is None:
        most = model.config.max_len - 1  # type: ignore[attr-defined]
        written = generate(model, tokens, min(most, 80))
        written = written[written[:, 0] != model.end_token]
    else:
        written = trained.prompt(reply)
        _check_length(model, reply, 1 + len(written))
    return tokens, torch.cat([begin, written])


def _check_length(model: LanguageModel[Any], text: str, length: int) -> None:
    longest: int | None = getattr(model.config, "max_len", None)
    if longest is not None and length > longest:
        raise ValueError(
            f"the text ({text[:20]!r}...) has {length} tokens, and this model looks "
            f"back on {longest}; give at most {longest}"
        )


def signs(trained: Run) -> list[str]:
    """What each token looks like in the picture."""
    return [*trained.vocabulary.characters, *(SPECIAL if replies(trained) else ())]


def pick(maps: list[AttentionMap], layer: int | None, part: str | None) -> AttentionMap:
    """
    ## Which of the maps?

    * `layer` counts from 1; `None` is the last
    * `part` is one of three for a model of replies, and `None` means its first

    Raises `ValueError` for a layer or a part that the model does not have.
    """
    of_replies = any(one.title.startswith("decoder") for one in maps)
    if part is not None and not of_replies:
        raise ValueError("--part is for models of replies; leave it out")
    if of_replies:
        begin, end = PARTS[part or "source"]
        maps = [m for m in maps if m.title.startswith(begin) and m.title.endswith(end)]
    if layer is None:
        return maps[-1]
    if not 1 <= layer <= len(maps):
        raise ValueError(f"there is no layer {layer}; expected 1 to {len(maps)}")
    return maps[layer - 1]
