import pytest

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.outputs.links import AuditedPage, audit, links_and_anchors


def page(url: str, html: str, own: bool = True, **written: tuple[int, str]) -> AuditedPage:
    return AuditedPage(url, *links_and_anchors(html), url.replace(".html", ".py"), written, own)


def check(*pages: AuditedPage, files: tuple[str, ...] = ()) -> list[Diagnostic]:
    report = Report()
    audit(pages, files, report)
    return list(report)


def test_facts_are_read_off_tags_and_nothing_else() -> None:
    anchors, hrefs = links_and_anchors(
        """<!doctype html><h1 id="top">T</h1><!-- <a href="comment"> -->
        <script src="s.js">var x = '<a href="script">';</script><style>a{b:url("style")}</style>
        <a  href='one' id=bare>"href="text" &lt;a href="escaped"&gt;</a>
        <img alt="" src="i.png" srcset="i2.png 2x, i3.png 3x"><p data-href="no" title="a=b">
        <a href="?a&amp;b">x</a><a href="one">again</a>
        <meta content="It reads src=logo.png and href='next.html' and id=none"><p hidden id="p">"""
    )
    assert anchors.split("\0") == ["top", "bare", "p"]
    assert hrefs.split("\0") == ["s.js", "one", "i.png", "i2.png", "i3.png", "?a&b"]


def test_links_that_lead_somewhere_are_silent() -> None:
    html = """<a id="L3" href="#L3"></a><a href="../index.html#Über">u</a><a href="#">top</a>
        <a href="../index.html#%C3%9Cber">u</a><a href="b%20c.html">b</a>
        <a href="https://example.org/none">e</a><a href="mailto:a@b.c">m</a>
        <a href="../assets/site.css#x">f</a><a href="#:~:text=word">t</a>"""
    pages = (page("a/x.html", html), page("index.html", '<h1 id="Über">'), page("a/b c.html", ""))
    assert check(*pages, files=("assets/site.css",)) == []


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("href", "code", "hint"),
    [
        ("mhaa.html", "link-broken", "a/mha.html"),
        ("../mha.html", "link-broken", "a/mha.html"),
        ("mha.html#MultiHead", "anchor-broken", "MultiHeadAttention"),
        ("#nowhere", "anchor-broken", "spelling"),
        ("/a/mha.html", "link-broken", "relative"),
        ("./", "link-broken", "index.html"),
        ("http://[bad", "link-broken", "RFC"),
        ("../../outside.html", "link-broken", "spelling"),
    ],
)
def test_a_link_that_leads_nowhere_names_the_line_where_it_was_written(href, code, hint, own):
    written = {"other": (3, "# [o](other)"), href: (14, href)}
    (fault,) = check(
        page("a/x.html", f'<a href="{href}">', own, **written),
        page("a/mha.html", '<h2 id="MultiHeadAttention"></h2><i id="L1"></i>'),
    )
    assert (fault.path, fault.line, fault.column, fault.code) == ("a/x.py", 14, 1, code)
    assert fault.severity is (Severity.ERROR if own else Severity.WARNING)
    assert hint in fault.hint
    (unwritten,) = check(page("x.html", f'<a href="{href}">', own))
    assert unwritten.line == 0
