"""A flag for every field: its type, its default, and what is said about a bad value."""

from dataclasses import dataclass, field, fields
from typing import Literal

import pytest

from labml_nn.experiments.command_line.flags import (
    Parser,
    UsageError,
    add_flags,
    flags_of,
    given,
    spelt,
)
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.registry import models

CONFIGS = [entry.load_class().Config for entry in models()] + [TrainingConfig]


@dataclass
class Config:
    """
    * `width` is how wide it is, 100 % of it
    * `rate` is how fast
    * `is_open` is whether it is open
    * `norm` is the kind of norm
    * `limit` is where it ends
    * `share` is a number or nothing
    * `place` is a folder
    """

    width: int
    rate: float = 0.5
    is_open: bool = True
    norm: Literal["layer", "rms", "none"] = "layer"
    limit: int | None = None
    share: float | None = 0.25
    place: str | None = None


FLAGS = flags_of(Config, {"rate": 0.75})


def read(line):
    parser = Parser("about", "prog")
    add_flags(parser, "model", FLAGS)
    return given(parser.read(line.split()), FLAGS)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_each_field_has_a_flag_and_each_flag_its_help(config):
    flags = flags_of(config, {})
    assert [flag.field for flag in flags] == [one.name for one in fields(config)]
    parser = Parser("about")
    add_flags(parser, "model", flags)
    shown = " ".join(parser.format_help().split())
    for flag in flags:
        assert flag.name in shown
        assert len(flag.meaning) > 8
        assert " ".join(flag.help.split()[:3]) in shown


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_defaults_as_words_give_the_defaults(config):
    """What the help shows as the default can be typed, and means the default."""
    parser, flags = Parser("about"), flags_of(config, {"n_vocab": 65})
    add_flags(parser, "model", flags)
    words = []
    for flag in flags:
        default = str(flag.default).lower() if flag.default is None else str(flag.default)
        switch = "--" if flag.default else "--no-"
        words += [flag.name.replace("--", switch)] if flag.is_switch else [flag.name, default]
    assert given(parser.read(words), flags) == {flag.field: flag.default for flag in flags}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("", {}),
        ("--width 3 --rate 1e-3", {"width": 3, "rate": 0.001}),
        ("--no-is-open --norm rms", {"is_open": False, "norm": "rms"}),
        ("--is_open --limit=none", {"is_open": True, "limit": None}),
        ("--limit 7 --share None", {"limit": 7, "share": None}),
        ("--share -2 --place a_b", {"share": -2.0, "place": "a_b"}),
        ("--norm none --place none", {"norm": "none", "place": None}),
    ],
)
def test_words_become_values(line, values):
    got = read(line)
    assert got == values
    assert [type(value) for value in got.values()] == [type(v) for v in values.values()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--width four", "--width: 'four' is not a whole number, such as 64\n"),
        ("--width 1.5", "--width: '1.5' is not a whole number"),
        ("--rate fast", "--rate: 'fast' is not a number, such as 0.001\n"),
        ("--limit no", "--limit: 'no' is not a whole number, such as 64, and not \"none\"\n"),
        ("--norm rsm", "--norm: there is no such choice 'rsm'; did you mean 'rms'? known: layer"),
        ("--widht 3", "there is no flag --widht; did you mean --width?"),
        ("--wid 3", "there is no flag --wid; did you mean --width?"),
        ("--zzz=3", "there is no flag --zzz\n"),
        ("--width", "--width: a value must follow"),
        ("--width 3 4", "'4' is one word too many: nothing was expected there"),
        ("--rate none", "--rate: 'none' is not a number"),
    ],
)
def test_words_that_are_not_understood(line, message):
    with pytest.raises(UsageError) as caught:
        read(line)
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith("`prog --help` explains all flags")


def test_help_shows_what_a_flag_has_if_it_is_not_given():
    shown = {flag.field: flag.help for flag in FLAGS}
    assert shown["width"] == "how wide it is, 100 % of it"
    assert shown["rate"] == "how fast (default: 0.75)"
    assert shown["is_open"] == "whether it is open (default: --is-open)"
    assert shown["limit"] == "where it ends (default: none)"
    closed = flags_of(Config, {"is_open": False})[2]
    assert closed.help.endswith("(default: --no-is-open)")
    parser = Parser("about")
    add_flags(parser, "model", FLAGS)
    assert "100 % of it" in parser.format_help()


def test_fields_can_be_left_out():
    names = [flag.field for flag in flags_of(Config, {}, leave_out={"width", "place"})]
    assert names == ["rate", "is_open", "norm", "limit", "share"]


def test_a_kind_that_no_flag_can_have():
    @dataclass
    class Odd:
        layers: list[int] = field(default_factory=list)

    with pytest.raises(TypeError, match=r"`layers` of Odd is a list\[int\]; expected a number"):
        flags_of(Odd, {})


def test_names_may_have_underscores_and_values_keep_them():
    assert spelt("--d_model=a_b") == "--d-model=a_b"
    assert [spelt(word) for word in ("-a_b", "a_b", "--")] == ["-a_b", "a_b", "--"]
