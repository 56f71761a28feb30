"""Works, citations of them in notes, and the page that lists both."""

from pathlib import Path

import pytest
from note_tools import render
from site_tools import build, edit, faults, golden, listing, make_site, read, succeed

from pylit.diagnostics import Report
from pylit.notes.citations import Cited, Work, read_bibliography

BIB = r"""% What is cited.
@inproceedings{first2017,
  author = {First, Anna and Sec{\'o}nd, Bo and de la Third, Carl},
  title = {{A} Thing, of 5--7 Parts}, year = {2017}, eprint = {1706.00001},
  booktitle = {Venue}, volume = {3}, number = {1}, pages = {1--9},
}
@article{lone1990,
  author = {Lone, Jeffrey L.}, title = {Structure}, year = {1990}, doi = {10.1/2},
}
@misc{pair2000,
  author = {Pair, A. and {Company}},
  title = {Words & <signs>}, year = {2000}, url = {https://www.example.org/paper.pdf},
}
@misc{many2022,
  author = {Many, M. and others}, title = {Things}, year = {2022}, eprint = {2201.00001},
}
"""


def parsed(tmp_path: Path, text: str) -> tuple[dict[str, Work], Report]:
    path = tmp_path / "references.bib"
    path.write_text(text, encoding="utf-8")
    report = Report()
    return read_bibliography(path, "refs.bib", report), report


def cite(key: str) -> Cited | str:
    works = {"a2017": Cited("A et al.", "2017", "b.html#a2017"), "b1990": Cited("B", "1990", "b")}
    return works.get(key, "did you mean `a2017`?")


A = '<a class="x" href="b.html#a2017" data-x>'
B = '<a class="x" href="b" data-x>'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("[@a2017]", f"{A}A et al. 2017</a>"),
        ("([@a2017, §3.2.1, eq. 1]).", f"({A}A et al. 2017, §3.2.1, eq. 1</a>)."),
        ("Mr A ([-@a2017, §3])", f"Mr A ({A}2017, §3</a>)"),
        ("[@a2017,\n§3; @b1990]", f"{A}A et al. 2017, §3</a>; {B}B 1990</a>"),
        ('[@a2017, "<Memory> & you"]', f'{A}A et al. 2017, "&lt;Memory&gt; &amp; you"</a>'),
        # Of two links, the inner one is one.
        ("[see [@a2017]](x.html)", f"[see {A}A et al. 2017</a>](x.html)"),
        # None of these is one.
        ("`[@a2017]`", "<code>[@a2017]</code>"),
        ("[@a2017](x.html)", '<a href="x.html">@a2017</a>'),
        ("[@ a2017] and \\[@a2017]", "[@ a2017] and [@a2017]"),
    ],
)
def test_a_citation_is_a_link_to_its_work(text: str, html: str) -> None:
    assert render(text, cite=cite).html == f"<p>{html}</p>\n"


def test_it_is_words_in_headings_in_the_text_for_the_search_and_in_anothers_notes() -> None:
    assert render("[@a2017]", own=False, cite=cite).html == "<p>[@a2017]</p>\n"
    note = render("## As in [@a2017]\n\nSee [@b1990, p. 2].", first_line=7, cite=cite)
    assert note.headings[0].html == "As in A et al. 2017"
    assert note.text == "\f\nSee B 1990, p. 2."
    assert list(note.citations) == [("a2017", 7), ("b1990", 9)]


def test_works_are_named_as_texts_name_them(tmp_path: Path) -> None:
    works, report = parsed(tmp_path, BIB)
    assert not len(report)
    first, lone, pair, many = works.values()
    names = [work.name for work in (first, lone, pair, many)]
    assert names == ["First et al. 2017", "Lone 1990", "Pair and Company 2000", "Many et al. 2022"]
    assert first.authors == ("Anna First", "Bo Secónd", "Carl de la Third")
    assert (first.title, first.venue) == ("A Thing, of 5–7 Parts", "Venue 3(1), 1–9")
    assert first.links == (("arXiv:1706.00001", "https://arxiv.org/abs/1706.00001"),)
    assert lone.links == (("doi:10.1/2", "https://doi.org/10.1/2"),)
    assert pair.links == (("example.org", "https://www.example.org/paper.pdf"),)


def test_a_fault_of_the_file_has_its_line_and_the_work_is_known_all_the_same(tmp_path: Path):
    for text, line, message in (
        ("@misc{a,\n  title = {T}\n  year = 3\n}\n", 3, "is not BibTeX: '}' expected"),
        ("\n@misc{a, title = {T}, url = {u}}", 2, "`a` has no `author` and `year`"),
        ("@misc{a, author={A}, year=1, title={T}}", 1, "`a` has no address where it can be read"),
    ):
        works, (fault,) = parsed(tmp_path, text)
        assert (fault.code, fault.line, fault.message) == ("bibliography", line, message)
        # Citing it is no second fault.
        assert set(works) == {"a"}


SITE = {
    "docs_src/references.bib": BIB,
    "pkg/one.py": '''"""
---
title: The <first>
---

As [@first2017, §2] say.
"""

class One:
    """Says [@lone1990]."""

    def say(self) -> int:
        # ## How
        #
        # And again ([@first2017; @pair2000]).
        return 1
''',
}


def test_works_are_listed_with_who_cites_them_and_shown_before_links_are_followed(tmp_path: Path):
    succeed(make_site(tmp_path, SITE))
    assert listing(read(tmp_path, "bibliography.html")) == golden("bibliography")
    link = '<a class="x" href="../bibliography.html#first2017" data-x>First et al. 2017, §2</a>'
    assert link in read(tmp_path, "pkg/one.html")
    script = read(tmp_path, "assets/previews/bibliography.js")
    assert "<cite>Structure<\\/cite><p>Jeffrey L. Lone, 1990." in script
    assert 'tabindex=\\"-1\\"' in script
    # A title stands in the bibliography alone.
    edit(tmp_path, "docs_src/references.bib", "{Structure}", "{Form}")
    titled = succeed(tmp_path)
    assert (titled.drafted, titled.rendered) == (0, 1)
    assert "<cite>Form<\\/cite>" in read(tmp_path, "assets/previews/bibliography.js")
    # A year stands wherever the work is cited, and in the preview of a class that cites it.
    edit(tmp_path, "docs_src/references.bib", "{1990}", "{1991}")
    dated = succeed(tmp_path)
    assert (dated.drafted, dated.rendered) == (1, 2)
    assert "Says Lone 1991." in read(tmp_path, "assets/previews/pkg/one.js")
    edit(tmp_path, "pkg/one.py", "[@lone1990]", "[@lone1991]")
    assert faults(build(tmp_path)) == [("pkg/one.py", 10, "citation")]
    assert not build(tmp_path, sources=(tmp_path / "pkg",)).report.failed
    assert not (tmp_path / "site/bibliography.html").exists(), "another's package has none"
