"""Pages in another language: files of translations, what pages show of them, and their faults."""

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from site_tools import SITE, build, edit, make_site, pages, read, succeed, tree

from pylit.cli import main
from pylit.languages.blocks import read_blocks
from pylit.languages.translations import TranslatedTerms, missing, refreshed
from pylit.model import Module, Note, Section, SourceFile, Span
from pylit.notes.glossary import Term
from pylit.runs.shapes.replay import translated_script
from pylit.site.options import THEME
from pylit.source.pages import text_module
from pylit.words import Words

ONE = "docs_src/locale/zh/pkg/one.md"
NOTES = "docs_src/locale/zh/pages/notes.md"
WORDS = "docs_src/locale/zh/words.toml"


def translate(root, *names, language="zh"):
    return main(["translate", language, *names], root)


def begin(root, *names, files=None):
    """A site with files of translations that nobody has filled in."""
    assert translate(make_site(root, files), *names) == 0
    return root


def filled(text, texts):
    """A file of translations with those of some places."""
    for place, translation in texts.items():
        block = rf"(?m)(^# {re.escape(place)} · .*\n\n(?:>.*\n)+)"
        text, count = re.subn(block, lambda m, t=translation: f"{m[1]}\n{t}\n", text)
        assert count == 1, place
    return text


def fill(root, file, texts):
    """Write translations by their places."""
    path = root / file
    path.write_text(filled(path.read_text(encoding="utf-8"), texts), encoding="utf-8")


def blocks_of(root, file=ONE):
    return read_blocks((root / file).read_text())[1]


TEXTS = {
    "title": "第一",
    "summary": "一号。",
    "page, 1": "它有 $a + b$ 和 `One.say`。",
    "One, 1": "## 一是什么\n\n不止\n没有。",
    "One.say, 1": "正文的注释，有 $c$。",
}


def chinese(root, *others, files=None):
    """A site whose page `pkg.one` is translated."""
    fill(begin(root, "pkg.one", *others, files=files), ONE, TEXTS)
    return root


@pytest.fixture
def root(tmp_path):
    return chinese(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site with a translated page, built."""
    root = chinese(tmp_path_factory.mktemp("chinese"))
    succeed(root)
    return root


def left(page):
    """The numbers in the line that says how many passages are shown in English."""
    return set(re.findall(r"\d+", "".join(re.findall(r'class="warning"[^>]*>([^<]*)', page))))


def test_a_file_has_a_block_for_each_passage_with_its_english(tmp_path):
    blocks = blocks_of(begin(tmp_path, "pkg.one"))
    assert [block.place for block in blocks] == [*TEXTS]
    assert blocks[3].original == "## What is one\n\nMore than none."
    assert not any(block.text for block in blocks)
    # What is there already is left as it is.
    before = tree(tmp_path / "docs_src")
    assert translate(tmp_path) == 0
    assert tree(tmp_path / "docs_src") == before


def test_a_page_has_its_translation_with_the_same_code_and_anchors(built):
    page, english = read(built, "zh/pkg/one.html"), read(built, "pkg/one.html")
    assert "<h1>第一</h1>" in page and "一号。" in page and "不止没有。" in page
    assert "More than none" not in page and "<mjx-container" in page
    anchors = [set(re.findall(r' id="([\w.-]+)"', text)) for text in (page, english)]
    assert anchors[0] == anchors[1] > {"One", "One.say", "what-is-one"}
    code = re.compile(r'<div class="c".*?</div>', re.DOTALL)
    plain = [re.sub(r'href="[^"]*"', "", "".join(code.findall(text))) for text in (page, english)]
    assert plain[0] == plain[1]
    # It says where a reader may mend it.
    assert f'href="https://github.com/someone/small/edit/main/{ONE}"' in page


def test_pages_of_both_languages_lead_to_each_other(built):
    page, english = read(built, "zh/pkg/one.html"), read(built, "pkg/one.html")
    assert 'href="../../pkg/one.html" lang="en" hreflang="en"' in page
    assert re.search(r'href="../zh/pkg/one.html" lang="zh[^"]*" hreflang="zh', english)
    base = "https://example.org/small/"
    for text in (page, english):
        found = dict(re.findall(r'rel="alternate" hreflang="([^"]*)" href="([^"]*)"', text))
        assert found.pop("x-default") == found["en"] == f"{base}pkg/one.html"
        assert [*found.values()][1] == f"{base}zh/pkg/one.html"
    assert f'<link rel="canonical" href="{base}zh/pkg/one.html">' in page
    assert "small/zh/pkg/one.html" in read(built, "sitemap.xml")
    # A page without a translation has no such link.
    assert "hreflang" not in read(built, "pkg/two.html")
    assert "zh/pkg/two.html" not in pages(built / "site")


def test_the_search_of_a_language_finds_its_pages_and_what_it_lacks(built):
    texts = read(built, "assets/zh/search/texts-0.js")
    assert '"zh/pkg/one.html"' in texts and '"pkg/two.html"' in texts
    assert '"pkg/one.html"' not in texts
    assert "zh/pkg" not in read(built, "assets/search/texts-0.js")
    assert "不止" in read(built, "assets/zh/search/terms-0.js")


def test_links_stay_in_the_language_where_there_is_a_page(tmp_path):
    text = "# Notes\n\n`One`, [two](../../pkg/two.py), [one](pkg/one.html#One).\n"
    chinese(tmp_path, "notes", files={"docs_src/pages/notes.md": text})
    translation = "# 注\n\n`One`、[二](../../pkg/two.py)、[一](pkg/one.html#One)。"
    fill(tmp_path, NOTES, {"page, 1": translation})
    succeed(tmp_path)
    page, home = read(tmp_path, "zh/notes.html"), read(tmp_path, "zh/index.html")
    assert page.count('href="pkg/one.html#One"') == 2 and 'href="../pkg/two.html"' in page
    assert 'href="pkg/one.html"' in home and 'href="../pkg/two.html"' in home
    assert "第一" in home and "第一" in read(tmp_path, "zh/all.html")


def test_a_note_whose_english_has_changed_is_shown_in_english(root):
    edit(root, "pkg/one.py", "More than none.", "More than nothing.")
    succeed(root)
    page = read(root, "zh/pkg/one.html")
    assert '<div class="original" lang="en">' in page and "More than nothing." in page
    assert "不止没有" not in page and left(page) == {"1", "5"}
    assert translate(root) == 0
    text = (root / ONE).read_text()
    changed = r"# One, 1 · [0-9a-f]{8} → [0-9a-f]{8}\n\n> ## What is one\n>\n> More than noth"
    assert re.search(changed, text) and "不止\n没有。" in text
    # A refreshed file says the same; one whose translation was mended is shown again.
    succeed(root)
    assert left(read(root, "zh/pkg/one.html")) == {"1", "5"}
    (root / ONE).write_text(re.sub(r"[0-9a-f]{8} → ", "", text))
    succeed(root)
    page = read(root, "zh/pkg/one.html")
    assert "不止没有" in page and not left(page)


def test_a_note_that_moves_keeps_its_translation_on_another_page_too(root):
    note = "        # A note on"
    edit(root, "pkg/one.py", note, f"        # New.\n        x = 1\n{note}")
    edit(root, "pkg/two.py", "Twice one.", "\n    ## What is one\n\n    More than none.\n    ")
    succeed(root)
    assert "正文的注释" in read(root, "zh/pkg/one.html")
    assert translate(root, "pkg.two") == 0
    blocks = {block.place: block.text for block in blocks_of(root)}
    assert blocks["One.say, 2"] == TEXTS["One.say, 1"] and not blocks["One.say, 1"]
    two = blocks_of(root, "docs_src/locale/zh/pkg/two.md")
    assert [block.text for block in two] == ["", TEXTS["One, 1"]]


def test_what_is_no_longer_in_english_is_kept_at_the_end(root):
    note, place = "A note on the body, with $c$.", "One.say, 1"
    edit(root, "pkg/one.py", f"        # {note}\n", "")
    for _ in range(2):
        translate(root)
        title = f"# no longer in English: {place} · {blocks_of(root)[-1].hash}"
        assert (root / ONE).read_text().endswith(f"{title}\n\n> {note}\n\n{TEXTS[place]}\n")
    succeed(root)


def in_short(root, text="## 小结\n\n1. 一句话，有 $x^3$。"):
    """Add what the English has not, with the digest of the first reading."""
    path = root / ONE
    path.write_text(f"{path.read_text()}\n# in short · 00000000\n\n{text}\n")
    assert translate(root) == 0
    path.write_text(re.sub(r"(# in short · )[0-9a-f]{8} → ", r"\1", path.read_text()))


def test_a_page_may_say_in_short_what_its_first_reading_was_until_it_changes(root, capsys):
    in_short(root)
    places = ["title", "summary", "page, 1", "in short", "One, 1", "One.say, 1"]
    assert [block.place for block in blocks_of(root)] == places
    before = tree(root / "docs_src")
    assert translate(root) == 0
    assert tree(root / "docs_src") == before
    succeed(root)
    page, english = read(root, "zh/pkg/one.html"), read(root, "pkg/one.html")
    assert page.index("它有") < page.index("一句话") < page.index("不止没有")
    assert '<h2 id="小结">' in page and "小结" not in english and not left(page)
    assert "一句话" in read(root, "zh/pkg/one.html.md")
    edit(root, "pkg/one.py", "More than none.", "More than nothing.")
    succeed(root)
    assert "一句话" in read(root, "zh/pkg/one.html"), "it is no matter of other passages"
    edit(root, "pkg/one.py", "It has $a + b$", "It still has $a + b$")
    succeed(root)
    assert "一句话" not in read(root, "zh/pkg/one.html")
    capsys.readouterr()
    assert translate(root, "--missing") == 0
    assert "in short: the English has changed" in capsys.readouterr().out
    for _ in range(2):
        assert translate(root) == 0
        text = (root / ONE).read_text()
        assert len(re.findall(r"# in short · [0-9a-f]{8} → [0-9a-f]{8}\n\n## 小结", text)) == 1


WORK = "@misc{abel2001one, author={Abel, A.}, title={One}, year={2001}, eprint={2001.00001}}\n"
ENGLISH = "# Notes\n\n$a + b$, `One`: [two](../../pkg/two.py), see [@abel2001one].\n"
CHINESE = "# 注\n\n$a + b$，`One`：[二](../../pkg/two.py)，见 [@abel2001one]。"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("$a + b$", "", "lacks the formula `a+b`"),
        ("`One`", "", "lacks the code `One`"),
        ("见", "`One.say`", "has the code `One.say`"),
        ("# 注", "注", "lacks the heading `h1`"),
        ("[二](../../pkg/two.py)", "二", "lacks the link `../../pkg/two.py`"),
        ("[@abel2001one]", "", "lacks the citation `@abel2001one`"),
        ("见", "见**有。**的", "has signs that mark nothing `**`"),
    ],
)
def test_a_translation_has_the_formulas_and_links_of_its_note(tmp_path, old, new, message):
    files = {"docs_src/references.bib": WORK, "docs_src/pages/notes.md": ENGLISH}
    begin(tmp_path, "notes", files=files)
    text = CHINESE.replace(old, new)
    fill(tmp_path, NOTES, {"page, 1": text})
    (fault,) = build(tmp_path, check=True).report
    assert (fault.path, fault.code) == (NOTES, "translation")
    before = (tmp_path / NOTES).read_text().partition(text)[0]
    assert fault.line == before.count("\n") + 1, "it is told where the translation begins"
    assert fault.source_line.startswith("# page, 1 · ") and fault.message.startswith(message)


def test_faults_of_a_translation_are_told_where_it_is_written(tmp_path):
    begin(tmp_path, "pkg.one")
    fill(tmp_path, ONE, TEXTS | {"page, 1": "一行。\n\n它有 $a + b$ 和 `One.say`[^1]。"})
    (fault,) = build(tmp_path).report
    line = (tmp_path / ONE).read_text().split("\n").index("一行。") + 3
    assert (fault.path, fault.line, fault.code) == (ONE, line, "anchor-broken")


def test_terms_are_those_of_the_glossary(tmp_path):
    glossary = "state | state, states\n: What it hands on.\n\nkey |\n: See [one](../pkg/one.py).\n"
    english = "# Notes\n\nA state, and a key of [two](../../pkg/two.py).\n"
    files = {"docs_src/glossary.md": glossary, "docs_src/pages/notes.md": english}
    begin(tmp_path, "glossary", "notes", files=files)
    words = {
        "state": "状态 | 状态, 态\n: 交给下一步的东西。",
        "key": "键 |\n: 见[一](../pkg/one.py)。",
    }
    fill(tmp_path, "docs_src/locale/zh/glossary.md", words)
    fill(tmp_path, NOTES, {"page, 1": "# 笔记\n\n[二](../../pkg/two.py)的情形和钥匙。"})
    (fault,) = build(tmp_path).report
    assert "“state” in other words than the glossary, “状态”" in fault.message
    edit(tmp_path, NOTES, "情形", "状态")
    succeed(tmp_path)
    link = '<a class="x g" href="glossary.html#state" data-x>状态</a>'
    assert link in read(tmp_path, "zh/notes.html")
    assert 'id="state"' in read(tmp_path, "zh/glossary.html")
    assert "交给下一步" in read(tmp_path, "assets/previews/zh/glossary.js")


@pytest.mark.parametrize(
    ("term", "english", "chinese", "unused"),
    [
        ("门", "Gates and a gate.", "路。", ["Gates", "gate"]),
        ("门", "Gates and a gate.", "遗忘门。", []),
        ("门", "A gateway.", "路。", []),
        ("门", "A gate.", "一个 gate。", []),
        ("门（gate）", "A gate.", "遗忘门。", []),
    ],
)
def test_terms_are_found_as_whole_words(term, english, chinese, unused):
    terms = [Term("gate", ("gate", "gates"), "", 1, "gate")]
    known = TranslatedTerms(terms, [Term(term, ("门控",), "", 1, "gate")])
    assert [*known.unused(english, chinese)] == [(word, "门控") for word in unused]


def test_the_interface_has_words_of_the_language(tmp_path):
    chinese(tmp_path, files={WORDS: '"The path" = "路线"\n"Copy" = "复制"\n'})
    succeed(tmp_path)
    page = read(tmp_path, "zh/pkg/one.html")
    assert "路线" in page and "搜索" in page and ">English</a>" in page
    assert '"Copy": "复制"' in page or "\\u590d\\u5236" in page
    assert "搜索" not in read(tmp_path, "pkg/one.html")
    missing = '<a href="zh/index.html" hreflang="[^"]*">这个地址'
    assert re.search(missing, read(tmp_path, "404.html"))
    # Words that are needed and have none are listed.
    assert '\n"All" = ""\n' in (tmp_path / WORDS).read_text()
    assert '"Search" = ""' not in (tmp_path / WORDS).read_text()


def test_words_have_the_places_of_the_english(root):
    for words, said in (('"{0} minutes" = "几分钟"\n', "几分钟"), ("no = words = here", "")):
        (root / WORDS).write_text(words)
        (fault,) = build(root).report
        assert (fault.path, fault.code) == (WORDS, "translation") and said in fault.message


def test_an_edit_makes_the_pages_that_it_concerns(tmp_path):
    theme = shutil.copytree(THEME, tmp_path / "theme")
    succeed(chinese(tmp_path), theme=theme)
    edit(tmp_path, ONE, "正文的注释", "正文里的注释")
    outcome = succeed(tmp_path, theme=theme)
    assert (outcome.drafted, outcome.rendered) == (1, 1)
    assert "正文里的注释" in read(tmp_path, "zh/pkg/one.html")
    assert succeed(tmp_path, theme=theme).rendered == 0
    sheet = theme / "locale/type.css"
    sheet.write_text(sheet.read_text() + ".later { color: red }\n")
    succeed(tmp_path, theme=theme)
    assert ".later" in read(tmp_path, "zh/pkg/one.html")


def test_a_table_of_symbols_may_be_translated(tmp_path):
    table = "# T\n\n| Symbol | Code |\n|:--|:--|\n| $x$ | `x` of `f` |\n"
    module = f'"""\n{table}"""\n\n\ndef f(x):\n    """It takes $x$."""\n    return x\n'
    others = {"pkg/two.py": "x\n", "docs_src/pages/index.md": "", "docs_src/pages/notes.md": "x\n"}
    words = {WORDS: '"Code" = "代码"\n"Symbol" = "符号"\n'}
    begin(tmp_path, "pkg.one", files={"pkg/one.py": module} | others | words)
    chinese_table = "# 题\n\n| 符号 | 代码 |\n|:--|:--|\n| $x$ | `f` 的 `x` |"
    fill(tmp_path, ONE, {"page, 1": chinese_table, "f, 1": "它取 $x$。"})
    succeed(tmp_path)
    marks = [read(tmp_path, f"{at}pkg/one.html").count('class="y1"') for at in ("", "zh/")]
    assert marks[0] == marks[1] > 1


def test_commands_say_what_is_left_and_what_is_wrong(root, capsys):
    edit(root, "pkg/one.py", "More than none.", "More.")
    capsys.readouterr()
    assert translate(root, "--missing") == 0
    line = (root / ONE).read_text().split("\n").index("> ## What is one") - 1
    assert capsys.readouterr().out == f"{ONE}:{line}: One, 1: the English has changed\n"
    # Who reads no list to its end gets no traceback.
    command = f"{sys.executable} -m pylit translate zh --missing | true"
    run = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")

    def refused(*names, root=root, language="zh"):
        assert translate(root, *names, language=language) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return said

    assert "there is no page pkg.oen; did you mean `pkg.one`?" in refused("pkg.oen")
    assert "is no language" in refused(language="../zh")
    (root / "empty").mkdir()
    assert "there is no docs_src/site.toml" in refused(root=root / "empty")
    (root / ONE).write_bytes(b"\xff\xfe")
    for names in ((), ("--missing",)):
        said = refused(*names)
        assert f"{ONE} cannot be read" in said and "UTF-8" in said
    assert (root / ONE).read_bytes() == b"\xff\xfe"
    (root / ONE).unlink()
    (root / ONE).parent.rmdir()
    (root / ONE).parent.write_text("A file where a folder should be.")
    assert f"{ONE} cannot be written" in refused("pkg.one")


def test_replays_and_drawings_have_their_words_in_the_language():
    script = (
        'pylitReplay({"title":"A *run*","text":"<p>Two <em>words</em></p>","x":1,'
        '"stops":[{"step":3,"note":"<p>Now</p>"},{"step":4,"note":"<p>Then</p>"}]});\n'
    )
    texts = {"A *run*": "一次运行", "Two *words*": "*两*词", "Now": "现在"}
    assert translated_script(script, texts) == (
        'pylitReplay({"title":"一次运行","text":"<p><em>两</em>词</p>","x":1,'
        '"stops":[{"step":3,"note":"<p>现在</p>"},{"step":4,"note":"<p>Then</p>"}]});\n'
    )
    words = Words({"query": "查询", "a picture": "一幅图", "unused": ""})
    drawn = '<svg aria-label="{}"><text x="1"> {} </text><text>key</text></svg>'
    english = drawn.format("a picture", "query")
    assert words.drawing(english) == drawn.format("一幅图", "查询")
    assert Words().drawing(english) == english and words("unused") == "unused"


def _module(texts):
    source = SourceFile(Path("m.md"), "m", "m.md", False, True, "\n\n".join(texts), "")
    notes = [Note("comment", Span(i, i), text, i, 0) for i, text in enumerate(texts, 1)]
    module = text_module(source, {}, "", 1)
    return Module(source, {}, module.definitions, tuple(Section((note,), None) for note in notes))


def test_no_edit_loses_a_translation():
    """Notes are moved, edited, added and removed at random; the file is refreshed after each."""
    chance = random.Random(4)
    for _ in range(30):
        texts = [f"Note {n}.\n\n> quoted\n\n```\n# code · {n:08x}x\n```" for n in range(8)]
        file = refreshed(_module(texts), "", "<!-- x -->")
        first = [*texts]
        places = [block.place for block in read_blocks(file)[1]]
        file = filled(file, {place: f"> 引\n\n译文 {n}" for n, place in enumerate(places)})
        assert not [*missing(_module(texts), file)]
        for _ in range(6):
            change = chance.choice(("move", "edit", "add", "remove"))
            at = chance.randrange(len(texts))
            if change == "move":
                texts.insert(chance.randrange(len(texts)), texts.pop(at))
            elif change == "edit":
                texts[at] += " Edited."
            elif change == "add":
                texts.insert(at, f"New {chance.random()}.")
            elif len(texts) > 2:
                texts.pop(at)
            file = refreshed(_module(texts), file, "never")
            assert refreshed(_module(texts), file, "never") == file
            kept = {block.text for block in read_blocks(file)[1] if block.text}
            assert kept == {f"> 引\n\n译文 {number}" for number in range(8)}
            left = {passage.text for passage, *_ in missing(_module(texts), file)}
            assert left == {text for text in texts if text not in first}


def test_a_site_may_have_several_languages(tmp_path):
    settings = SITE.replace("docstrings", 'language = "de"\ndocstrings')
    chinese(tmp_path, "notes", "pkg.two", files={"docs_src/site.toml": settings})
    assert translate(tmp_path, "pkg.one", "notes", language="pt-BR") == 0
    succeed(tmp_path)
    for page in ("pkg/one.html", "zh/pkg/one.html", "pt-BR/pkg/one.html"):
        found = re.findall(r'<a class="tool" href="[^"]*" lang="([^"]*)"', read(tmp_path, page))
        assert len(found) == 2 and len({"de", "zh-Hans", "pt-BR"} - {*found}) == 1
    page = read(tmp_path, "pt-BR/pkg/one.html")
    assert page.startswith('<!doctype html>\n<html lang="pt-BR"')
    assert '<div class="original" lang="de">' in page and "5 of 5 passages" in page
    # Markdown leads to pages of its language, or of the site's own.
    for page, link in (("notes", "pkg/"), ("zh/notes", "pkg/"), ("pt-BR/notes", "../pkg/")):
        assert f"({link}two.html.md)" in read(tmp_path, f"{page}.html.md")


def test_a_translation_that_raises_leaves_its_page_in_the_language_of_the_site(root, monkeypatch):
    def fails(*_):
        raise LookupError("lost")

    monkeypatch.setattr("pylit.site.translated.translated", fails)
    assert [(d.path, d.code) for d in build(root).report] == [(ONE, "page-failed")]
    assert "zh/pkg/one.html" not in pages(root / "site")
    assert "More than none" in read(root, "pkg/one.html")
