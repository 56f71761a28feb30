"""What one page raises is told of that page; the site has its source, and all other pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from site_tools import build, edit, faults, make_site, pages, read, succeed
from sweeps import in_turn

from pylit.model import SourceFile
from pylit.pages.draft import Drafter


def broken(stage: Callable[..., Any]) -> Callable[..., Any]:
    """A stage that fails for one page."""

    def run(*given: Any) -> Any:
        for each in given:
            source = each if isinstance(each, SourceFile) else getattr(each, "source", None)
            if isinstance(source, SourceFile) and source.name == "pkg.two":
                raise LookupError("the lost <thing>")
        return stage(*given)

    return run


def break_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    import pylit.site.stages as stages

    monkeypatch.setattr(stages, "parse_module", broken(stages.parse_module))


def break_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drafter, "__call__", broken(Drafter.__call__))


def break_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    import pylit.site.publish as publish

    monkeypatch.setattr(publish, "_page", broken(publish._page))


STAGES = [break_parsing, break_drafts, break_pages]


@pytest.mark.parametrize(("stop", "own"), in_turn(STAGES, [True, False]))
def test_one_page_that_fails_is_a_diagnostic_with_its_path(
    stop: Callable[[pytest.MonkeyPatch], None],
    own: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_site(tmp_path)
    given: dict[str, Any] = {} if own else {"sources": (tmp_path / "pkg",)}
    succeed(tmp_path, **given)
    whole = pages(tmp_path / "site")
    with monkeypatch.context() as patched:
        stop(patched)
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
