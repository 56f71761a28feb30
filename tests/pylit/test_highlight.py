import html
import re

from pylit.highlight import highlight, highlight_block
from pylit.model import Link


def shown(lines):
    return html.unescape(re.sub(r"<[^>]*>", "", "\n".join(lines)))


def test_marks_the_kinds_of_tokens_and_nothing_else():
    assert highlight('def f(x):  # why\n    return self.g("a", 1)', {}, str) == (
        '<span class="hk">def</span> <span class="hd">f</span>(x):  <span class="hc"># why</span>',
        '    <span class="hk">return</span> <span class="hb">self</span>.g('
        '<span class="hs">&quot;a&quot;</span>, <span class="hn">1</span>)'.replace("&quot;", '"'),
    )


def test_links_identifiers_by_position():
    links = {
        (1, 4): Link("b.html#Linear", "b.Linear"),
        (2, 0): Link("https://example.org/?a&b", "nn.Linear", external=True),
    }
    assert highlight("x = Linear\nLinear()", links, lambda link: link.url) == (
        'x = <a class="x" href="b.html#Linear" data-x="b.Linear">Linear</a>',
        '<a class="x e" href="https://example.org/?a&amp;b" title="nn.Linear">Linear</a>()',
    )


def test_text_is_the_source():
    source = 'a = """<b>\n\t\x0c\n  &amp;"""\r\x0b\n' + "x" * 100_000 + "\nclass ("
    assert shown(highlight(source, {}, str)) == source


def test_block_in_an_unknown_language_is_text():
    assert highlight_block("a < b", "klingon") == "a &lt; b"
    assert highlight_block("import a\n", "python") == '<span class="hk">import</span> a\n'
