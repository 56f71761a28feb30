"""What one page raises is told of that page; the site has its source, and all other pages."""

import pytest
from site_tools import build, edit, faults, make_site, pages, read, succeed
from sweeps import in_turn

from pylit.model import SourceFile
from pylit.pages.draft import Drafter
from pylit.site import publish, stages

#: Where a page may fail: parsing, its draft, and its HTML.
STAGES = [(stages, "parse_module"), (Drafter, "__call__"), (publish, "_page")]


def broken(stage):
    """A stage that fails for one page."""

    def run(*given):
        for each in given:
            source = each if isinstance(each, SourceFile) else getattr(each, "source", None)
            if isinstance(source, SourceFile) and source.name == "pkg.two":
                raise LookupError("the lost <thing>")
        return stage(*given)

    return run


@pytest.mark.parametrize(("stage", "own"), in_turn(STAGES, [True, False]))
def test_one_page_that_fails_is_a_diagnostic_with_its_path(stage, own, tmp_path, monkeypatch):
    make_site(tmp_path)
    given = {} if own else {"sources": (tmp_path / "pkg",)}
    succeed(tmp_path, **given)
    whole = pages(tmp_path / "site")
    with monkeypatch.context() as patched:
        patched.setattr(*stage, broken(getattr(*stage)))
        edit(tmp_path, "pkg/two.py", "Twice one.", "Two & <two>.")
        outcome = build(tmp_path, **given)
    assert ("pkg/two.py", 0, "page-failed") in faults(outcome)
    (fault,) = (d for d in outcome.report if d.code == "page-failed")
    assert "LookupError" in fault.message and "the lost <thing>" in fault.message
    assert not outcome.report.failed and pages(tmp_path / "site") == whole
    page = read(tmp_path, "pkg/two.html")
    assert "Two &amp; &lt;two&gt;." in page and "<two>" not in page
    assert "lost <thing>" not in page
    assert "More than none." in read(tmp_path, "pkg/one.html")
