"""Parameters of tests of which `make test` looks at a part, and `make soak PARTS=sweep` at all."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def swept(values: Iterable[Any], *few: Any) -> list[Any]:
    """All values, as parameters; `make test` takes those that are named as well."""
    found, sweep = list(values), pytest.mark.sweep
    assert set(few) <= set(found)
    return [value if value in few else pytest.param(value, marks=sweep) for value in found]


def in_turn(values: Iterable[Any], options: Sequence[Any]) -> list[ParameterSet]:
    """Each value with each option; `make test` takes it with one of them, in turn."""
    return [
        pytest.param(value, option, marks=() if at % len(options) == turn else pytest.mark.sweep)
        for at, value in enumerate(values)
        for turn, option in enumerate(options)
    ]
