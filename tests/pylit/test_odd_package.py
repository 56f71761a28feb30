"""A package with everything that may not bring a build down, and what becomes of it."""

import re
from pathlib import Path

from site_tools import build, make_site, pages

from pylit.diagnostics import Severity
from pylit.prose.markdown import LONGEST

LONG_NAME = "n" * 248
FILES = {
    "odd/__init__.py": """def f(x):
    \"\"\"
    Calls `kernel[grid](*args)`, kernel[grid](*args) and layers[0](x).

    $\\class{NCM-x}{x}$ and $\\toggle{a}{b}\\endtoggle$
    \"\"\"  # noqa: D205 & more
    return x
""",
    "odd/v1..2/inner.py": "x = 1\n",
    "odd/a.b.py": "x = 1\n",
    "odd/a/b.py": "x = 1\n",
    f"odd/{LONG_NAME}.py": "x = 1\n",
    "odd/data.py": f'"""{"[" * (LONGEST + 1)}"""\n',
    "odd/same.py": '"""' + "# Same\n\n" * 20_000 + '"""\n',
    "odd/folded.py": '"""\n' + "<details>\n\n" * 4000 + '</details>\n"""\n',
}


def test_nothing_in_it_stops_the_build(tmp_path: Path) -> None:
    make_site(tmp_path, FILES)
    (tmp_path / "secret.py").write_text("password = 1\n")
    (tmp_path / "odd/key.py").symlink_to("../secret.py")
    outcome = build(tmp_path, sources=(tmp_path / "odd",))
    assert {d.severity for d in outcome.report} == {Severity.WARNING}
    skipped = {d.path for d in outcome.report if d.code in ("page-collision", "source-link")}
    assert skipped & {"odd/a.b.py", "odd/a/b.py"}
    assert skipped - {"odd/a.b.py", "odd/a/b.py"} == {
        "odd/v1..2/inner.py",
        f"odd/{LONG_NAME}.py",
        "odd/key.py",
    }
    assert {"odd/index.html", "odd/a/b.html", "odd/data.html"} <= pages(tmp_path / "site")
    assert {d.path for d in outcome.report if d.code == "note-long"} == {"odd/data.py"}
    assert [d.line for d in outcome.report if d.code == "tex"] == [5]

    shown = (tmp_path / "site/odd/index.html").read_text(encoding="utf-8")
    words = re.sub(r"<[^>]*>", "", shown)
    assert "kernel[grid](*args) and layers[0](x)." in words
    assert "# noqa: D205 &amp; more" in words
