"""Section rules, case by case and on arbitrary Python, and the promise that nothing is lost."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pylit_sources import check_whole, listing, parse

from pylit.diagnostics import Report

GOLDEN = Path(__file__).parent / "golden" / "sections"


def golden_cases() -> Iterator[object]:
    """The cases of the golden files: a title, the source and its listing, each closed by a dot."""
    for path in sorted(GOLDEN.glob("*.txt")):
        parts = re.split(r"^\.\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert len(parts) % 3 == 1 and not parts[-1].strip(), path
        for title, text, expected in zip(parts[0::3], parts[1::3], parts[2::3], strict=False):
            yield pytest.param(text, expected, id=f"{path.stem}: {title.strip()}")


@pytest.mark.parametrize(("text", "expected"), list(golden_cases()))
def test_golden(text: str, expected: str) -> None:
    report = Report()
    module = parse(text, report=report)
    assert module.parsed and not len(report)
    assert listing(module) == expected.rstrip("\n")
    check_whole(module)


# --- arbitrary Python -----------------------------------------------------------------------------

WORDS = st.text(alphabet="ab #'$\\:é\t", max_size=12)
NAMES = st.sampled_from(["a", "b", "größe", "_c"])
INLINE = st.sampled_from(["", "  # trailing", "  # noqa", ";"])
BREAKS = st.sampled_from(["", "\n", "\n\n", "    \n", "\f\n"])
COMMENTS = st.lists(
    st.one_of(
        WORDS.map(lambda words: f"# {words}"),
        st.sampled_from(["#", "##", "#######", "# ====", "#: doc", "# noqa", "# fmt: off", "#x"]),
    ),
    min_size=1,
    max_size=4,
)
QUOTES = st.sampled_from(['"""', "'''"])


@st.composite
def comments(draw: st.DrawFn, indent: str) -> str:
    """Comment lines, most of them in the column of the code."""
    extra = draw(st.sampled_from(["", "", "", "  "]))
    return "".join(f"{indent}{extra}{line}\n" for line in draw(COMMENTS))


@st.composite
def docstrings(draw: st.DrawFn, indent: str) -> str:
    """A string of one or several lines, with or without something behind it."""
    quote = draw(QUOTES)
    lines = draw(st.lists(WORDS.map(lambda words: words.replace("\\", "").strip("'")), max_size=4))
    text = f"{quote}{f'{chr(10)}{indent}'.join(lines)} {quote}"
    prefix = draw(st.sampled_from(["", "r", "U", "b", "f"]))
    return f"{indent}{prefix}{text}{draw(INLINE)}\n"


@st.composite
def expressions(draw: st.DrawFn, indent: str) -> str:
    """A statement on one or several lines, with comments between its parts."""
    name = draw(NAMES)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return f"{indent}{name} = 1{draw(INLINE)}\n"
    if kind == 1:
        return f"{indent}{name} = f(\n{draw(comments(indent + '    '))}{indent}1,\n\n{indent})\n"
    if kind == 2:
        return f"{indent}{name} = {draw(docstrings('')).strip()}\n"
    if kind == 3:
        return f"{indent}{name} = [f'{{{name}}} # no', # yes\n # é\n{indent}]\n"
    return f"{indent}{name} = 1 + \\\n  2{draw(INLINE)}\n"


@st.composite
def blocks(draw: st.DrawFn, indent: str = "", depth: int = 0) -> str:
    """Several statements of one indentation, with what may stand between them."""
    parts: list[str] = [draw(docstrings(indent))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 4))):
        parts.append(draw(BREAKS))
        if draw(st.booleans()):
            parts.append(draw(comments(indent)))
        compound = depth < 3 and draw(st.booleans())
        parts.append(draw(compounds(indent, depth) if compound else expressions(indent)))
    return "".join(parts)


@st.composite
def compounds(draw: st.DrawFn, indent: str, depth: int) -> str:
    """A class, a function or a branch, with its body."""
    inner = indent + draw(st.sampled_from(["  ", "\t", "    "]))
    between = draw(comments(inner)) if draw(st.booleans()) else ""
    decorators = draw(st.sampled_from(["", "@a\n", "@(\na)\n", "@a\n# between\n@b(\n1)\n"]))
    decorators = "".join(f"{indent}{line}\n" for line in decorators.splitlines())
    name = draw(NAMES)
    header = draw(
        st.sampled_from(
            [
                f"{decorators}{indent}class {name}:",
                f"{decorators}{indent}class {name}(\n# base\nA):",
                f"{decorators}{indent}def {name}(x, *, y: int = 1) -> int:  # why",
                f"{decorators}{indent}async def {name}(\n{indent}# an é\n{indent}x='#',\n):",
                f"{indent}if {name}:",
                f"{indent}while (\n# until\n{name}\n):",
            ]
        )
    )
    if draw(st.integers(0, 5)) == 0:
        return f"{header.split('  #')[0]} pass\n"
    return f"{header}\n{between}{draw(blocks(inner, depth + 1))}"


@settings(deadline=None, max_examples=150)
@given(blocks())
def test_arbitrary_python_round_trips(text: str) -> None:
    try:
        ast.parse(text)
    except SyntaxError:
        assume(False)
    module = parse(text)
    assert module.parsed
    check_whole(module)
    names = [section.definition for section in module.sections if section.definition]
    assert len(names) == len(set(names))
    defined = {d.qualname for d in module.definitions if d.kind not in ("module", "constant")}
    assert set(names) == defined


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet=st.sampled_from("ab=()[]:\"'#\\\n\t \f\0é;@"), max_size=60) | st.text())
def test_any_text_is_shown_whole(text: str) -> None:
    text = text.replace("\r", "\n")
    report = Report()
    module = parse(text, report=report)
    check_whole(module)
    assert module.parsed == (not len(report))
    assert not report.failed
