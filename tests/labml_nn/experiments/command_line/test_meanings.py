"""The help of a flag is the note of its field, made plain."""

from dataclasses import dataclass, fields

import pytest

from labml_nn.experiments.command_line.meanings import meanings, plain
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.registry import models

CONFIGS = [entry.load_class().Config for entry in models()] + [TrainingConfig]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_field_of_every_configuration_is_explained(config):
    explained = meanings(config)
    assert list(explained) == [field.name for field in fields(config)]
    for name, meaning in explained.items():
        assert len(meaning) > 8, f"{config.__name__}.{name} has no point in its docstring"
        assert not set("$\\`@") & set(meaning), f"{name}: {meaning}"


@dataclass
class Parent:
    """
    Words before.

    * `size` is the size, $F$, and `later` is $4 C$ if not
      given
    * `one`, `two` and `three` are numbers
    """

    size: int = 1
    later: int = 2
    one: int = 3
    two: int = 4
    three: int = 5


@dataclass
class Child(Parent):
    r"""
    * `switch`: whether it is $\varepsilon$ ([@somebody2015title, §7])
    * `two` chooses `"a"`
    * `size`, and others, are those of the parent

    `bare` is in no point.
    """

    two: int = 6
    switch: bool = True
    bare: int = 0


def test_points_are_found_where_the_field_is_declared():
    assert meanings(Child) == {
        "size": "the size, F, and later is 4 C if not given",
        "later": "the size, F, and later is 4 C if not given",
        "one": "numbers",
        "two": 'chooses "a"',
        "three": "numbers",
        "switch": "whether it is ε",
        "bare": "",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"$\tau \times \sqrt{C}$", "τ × √C"),
        ("as [there](page.py#x) is said", "as there is said"),
        (r"$2 \cdot C$ or `None`", "2 · C or none"),
        ("smoothing (§5.4) of [@a2017b, eq. 1]", "smoothing of"),
        ("a list [0, 1] stays (and this)", "a list [0, 1] stays (and this)"),
    ],
)
def test_what_is_for_pages_becomes_plain(text, expected):
    assert plain(text) == expected
