"""A package with everything that may not bring a build down, and what becomes of it."""

import os
import re
from pathlib import Path

from site_tools import build, make_site, pages

from pylit.diagnostics import Severity
from pylit.notes.markdown import MAX_CHARACTERS

LONG_NAME = "n" * 248
FILES = {
    "odd/__init__.py": """def f(x):
    \"\"\"
    Calls `kernel[grid](*args)`, kernel[grid](*args) and layers[0](x).

    $\\class{NCM-x}{x}$ and $\\toggle{a}{b}\\endtoggle$
    \"\"\"  # noqa: D205 & more
    return x
""",
    **dict.fromkeys([f"odd/{x}.py" for x in ("v1..2/inner", "a.b", "a/b", LONG_NAME)], "x = 1\n"),
    "odd/data.py": f'"""{"x" * (MAX_CHARACTERS + 1)}"""\n',
    "odd/same.py": '"""' + "# Same\n\n" * 1_000 + '"""\n',
    "odd/brackets.py": f'"""{"[" * 40_000}"""\n',
    "odd/folded.py": '"""\n' + "<details>\n\n" * 500 + '</details>\n"""\n',
}

#: Files as they lie on somebody's disk.
RAW = {
    "bom.py": b'\xef\xbb\xbf"""With a mark."""\nx = 1\n',
    "crlf.py": b'"""Two\r\nlines."""\r\nx = 1\r\n',
    "tabs.py": b"if True:\n\t# A note.\n\tx = 1\n",
    "formfeed.py": b"x = 1\n\x0c\n# A note.\ny = 2\n",
    "no_newline.py": b"x = 1",
    "empty.py": b"",
    "hex.py": b"# coding: hex\nx = 1\n",
    "zlib.py": b"# coding: zlib\nx = 1\n",
    "latin.py": b'# -*- coding: latin-1 -*-\nname = "\xe9t\xe9"\n',
    "long_line.py": b"data = '" + b"x" * 100_000 + b"'\n",
    "many_lines.py": b"# A note.\nx = 1\n\n" * 2000,
    "index.py": b'"""Not the package."""\n',
    "syntax.py": b"def f(:\n",
    "odd name.py": b'"""A name that no import takes."""\n',
    "umlaut_\xc3\xa4.py": b'"""A name in another alphabet."""\n',
}


def test_nothing_in_it_stops_the_build(tmp_path):
    make_site(tmp_path, FILES)
    decoded = {os.fsdecode(name.encode("latin-1")): data for name, data in RAW.items()}
    for name, data in decoded.items():
        (tmp_path / "odd" / name).write_bytes(data)
    (tmp_path / "odd/loop").symlink_to(tmp_path / "odd")
    (tmp_path / "secret.py").write_text("password = 1\n")
    (tmp_path / "odd/key.py").symlink_to("../secret.py")
    outcome = build(tmp_path, sources=(tmp_path / "odd",))
    assert {d.severity for d in outcome.report} == {Severity.WARNING}
    skipped = {d.path for d in outcome.report if d.code in ("page-collision", "source-link")}
    same = {"odd/a.b.py", "odd/a/b.py"}
    assert skipped & same
    assert skipped - same == {"odd/v1..2/inner.py", f"odd/{LONG_NAME}.py", "odd/key.py"}
    site = tmp_path / "site"
    found = {f"odd/{Path(name).stem}.html" for name in decoded} | {"odd/index.py.html"}
    found |= {f"odd/{name}.html" for name in ("index", "a/b", "data", "brackets", "same", "folded")}
    assert pages(site) == found | {"index.html", "404.html"}
    assert "été" in (site / "odd/latin.html").read_text(encoding="utf-8")
    assert 'id="L5999"' in (site / "odd/many_lines.html").read_text(encoding="utf-8")
    long = {d.path for d in outcome.report if d.code == "note-long"}
    assert long == {"odd/data.py", "odd/brackets.py"}
    assert [d.line for d in outcome.report if d.code == "tex"] == [5]

    words = re.sub(r"<[^>]*>", "", (site / "odd/index.html").read_text(encoding="utf-8"))
    assert "kernel[grid](*args) and layers[0](x)." in words
    assert "# noqa: D205 &amp; more" in words
