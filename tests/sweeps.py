"""Parameters of tests of which `make test` looks at a part, and `make soak PARTS=sweep` at all."""

from collections.abc import Iterable
from typing import Any

import pytest


def swept(values: Iterable[Any], *few: Any) -> list[Any]:
    """All values, as parameters; `make test` takes those that are named as well."""
    found = list(values)
    assert set(few) <= set(found)
    return [
        value if value in few else pytest.param(value, marks=pytest.mark.sweep) for value in found
    ]
