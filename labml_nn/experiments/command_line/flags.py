r"""
---
title: Flags from configurations
summary: >
  One flag for each field of a configuration, with its type, its default and its
  meaning, so that a command line can never know less than the program.
---

The program has configurations, frozen and checked. The command line needs flags. Who
writes both by hand writes everything twice, and will forget a flag, or keep a default
that has changed. A dataclass knows all that is needed:

| Field | Flag |
|:--|:--|
| `d_model: int = 128` | `--d-model N`, a whole number |
| `dropout_prob: float = 0.1` | `--dropout-prob X`, a number |
| `tied: bool = True` | `--tied` and `--no-tied` |
| `norm: Literal["layer", "rms"]` | `--norm WORD`, one of the two |
| `d_ff: int \| None = None` | `--d-ff N`, a number or `none` |

and the [meaning](meanings.py) stands in its docstring. What a flag checks is the kind
of a value. Whether the value can be is known to the configuration, and its own errors
are fit to be shown.

```python
from labml_nn.experiments.command_line.flags import Parser, add_flags, given
from labml_nn.experiments.command_line.flags import flags_of
from labml_nn.transformers.feedback.language_model import FeedbackConfig

parser = Parser("a model of your own")
flags = flags_of(FeedbackConfig, {"n_layers": 2})
add_flags(parser, "model", flags)
values = parser.read(["--d-model", "64", "--no-tied", "--d-ff", "none"])
assert given(values, flags) == {"d_model": 64, "d_ff": None, "tied": False}
```
"""

import argparse
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from labml_nn.checks import check_known
from labml_nn.experiments.command_line.meanings import meanings

METAVARS = {int: "N", float: "X", str: "TEXT"}
KINDS = {int: "a whole number", float: "a number"}
EXAMPLES = {int: "64", float: "0.001"}
WIDEST = 100

# What stands for "nothing was given", since `None` is a value that can be given; and
# for help that is not shown.
NOTHING = argparse.SUPPRESS


class UsageError(ValueError):
    """
    ## A command line that cannot be understood

    As other errors of a value its text is fit to be shown. It ends in a way out.
    """


@dataclass(frozen=True)
class Flag:
    """
    ## A flag

    * `field` is the name of the field, `d_model`
    * `kind` is its annotation
    * `default` is what it has if the flag is not given, as it is to be shown
    * `meaning` is a sentence about it
    """

    field: str
    kind: Any
    default: Any
    meaning: str

    @property
    def name(self) -> str:
        """As it is written: `--d-model`."""
        return "--" + self.field.replace("_", "-")

    @property
    def kinds(self) -> tuple[Any, ...]:
        """What the annotation allows: `int | None` is two kinds."""
        several = get_origin(self.kind) in (Union, UnionType)
        return get_args(self.kind) if several else (self.kind,)

    @property
    def words(self) -> tuple[str, ...]:
        """The words between which one can choose, if it is such a choice."""
        return tuple(
            word
            for kind in self.kinds
            if get_origin(kind) is Literal
            for word in get_args(kind)
        )

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off, and has no value."""
        return bool in self.kinds

    def value(self, text: str) -> Any:
        """
        ### From words to a value

        Raises `argparse.ArgumentTypeError`, to which argparse adds the flag's name.
        """
        if text.lower() == "none" and NoneType in self.kinds:
            return None
        if self.words:
            try:
                check_known("such choice", text, self.words)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None
            return text
        if str in self.kinds:
            return text
        kind = int if int in self.kinds else float
        try:
            return kind(text)
        except ValueError:
            or_none = ', and not "none"' if NoneType in self.kinds else ""
            raise argparse.ArgumentTypeError(
                f"{text!r} is not {KINDS[kind]}, such as {EXAMPLES[kind]}{or_none}"
            ) from None

    @property
    def help(self) -> str:
        """The meaning, and the default behind it."""
        if self.default is MISSING:
            return self.meaning
        default = self.default
        if self.is_switch:
            default = self.name if default else self.name.replace("--", "--no-", 1)
        elif default is None:
            default = "none"
        return f"{self.meaning} (default: {default})"


def flags_of(
    config: type, defaults: Mapping[str, Any], leave_out: Iterable[str] = ()
) -> list[Flag]:
    """
    ## The flags of a configuration

    * `config` is its class
    * `defaults` are values that stand in for those of the class, those of a preset, say
    * `leave_out` are fields that are decided elsewhere

    Raises `TypeError` for a field of a kind that no flag can have.
    """
    kinds, meaning = get_type_hints(config), meanings(config)
    flags = []
    for field in fields(config):
        if field.name in leave_out:
            continue
        default = defaults.get(field.name, field.default)
        flag = Flag(field.name, kinds[field.name], default, meaning[field.name])
        simple = {int, float, str, bool, NoneType}
        if not all(
            get_origin(kind) is Literal or kind in simple for kind in flag.kinds
        ):
            raise TypeError(
                f"`{field.name}` of {config.__name__} is a {flag.kind}; expected a "
                "number, a text, True or False, a Literal, or one of these or None"
            )
        flags.append(flag)
    return flags


class Parser(argparse.ArgumentParser):
    """
    ## A parser that explains itself

    Of what is not known it says what was probably meant. Abbreviations are not taken:
    `--step` would work until somebody adds `--step-size`.
    """

    def __init__(self, about: str, prog: str = "python -m labml_nn") -> None:
        """`about` is the first sentence of the help; `prog` calls the program."""
        super().__init__(
            prog=prog,
            description=about,
            allow_abbrev=False,
            formatter_class=_Formatter,
        )

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """
        * `words` is the command line; `--d_model` is as good as `--d-model`

        Returns what was given. Raises `UsageError` for what cannot be understood.
        """
        values, rest = self.parse_known_args([spelt(word) for word in words])
        if rest:
            known = [name for name in self._option_string_actions if name != "-h"]
            self.error(_unknown(rest[0].partition("=")[0], known))
        return values

    def error(self, message: str) -> NoReturn:
        """What argparse would print before it ends the program, is raised instead."""
        message = message.removeprefix("argument ")
        message = message.replace("expected one argument", "a value must follow")
        raise UsageError(f"{message}\n`{self.prog} --help` explains all flags")


def spelt(word: str) -> str:
    """`--d_model=64` as `--d-model=64`; other words stay."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def _unknown(word: str, known: Sequence[str]) -> str:
    if not word.startswith("-"):
        return f"{word!r} is one word too many: nothing was expected there"
    close = get_close_matches(word, known, n=1)
    return f"there is no flag {word}" + (f"; did you mean {close[0]}?" if close else "")


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns, WIDEST) - 2
        super().__init__(prog, max_help_position=28, width=width)


def add_flags(parser: Parser, title: str, flags: Iterable[Flag]) -> None:
    """
    ## To the parser

    * `title` is the heading under which the help shows them

    They have no defaults there. What a user has not given is not in the result, and so
    a preset can decide it, or the run that goes on.
    """
    group = parser.add_argument_group(title)
    for flag in flags:
        shown = flag.help.replace("%", "%%")
        if flag.is_switch:
            group.add_argument(
                flag.name,
                action=argparse.BooleanOptionalAction,
                default=NOTHING,
                help=shown,
            )
            continue
        number = int if int in flag.kinds else float if float in flag.kinds else str
        group.add_argument(
            flag.name,
            type=flag.value,
            metavar="WORD" if flag.words else METAVARS[number],
            default=NOTHING,
            help=shown,
        )


def given(values: argparse.Namespace, flags: Iterable[Flag]) -> dict[str, Any]:
    """
    ## What was given

    * `values` is what the parser has read

    Returns values by field, of those `flags` that were on the command line.
    """
    return {
        flag.field: getattr(values, flag.field)
        for flag in flags
        if hasattr(values, flag.field)
    }
