"""What a module defines: for each definition its line, kind, name, and signature on one line."""

import pytest
from pylit_sources import golden_cases, parse


@pytest.mark.parametrize(("code", "expected"), golden_cases("definitions"))
def test_golden(code: str, expected: str) -> None:
    parsed = parse(code)
    module, *found = parsed.definitions
    assert (module.kind, module.qualname, module.line) == ("module", "", 1)
    assert all(d.dotted == f"pkg.mod.{d.qualname}" for d in found)
    shown = [f"{d.line} {d.kind} {d.qualname}: {d.signature}" for d in found]
    assert shown == expected.splitlines()
    # Classes and functions open sections.
    opened = [section.definition for section in parsed.sections if section.definition]
    assert opened == [d.qualname for d in found if d.kind != "constant"]
