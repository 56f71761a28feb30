"""Exercises of all pages on one page, in the order of the reading paths."""

from itertools import product
from pathlib import Path

from note_tools import render
from site_tools import SITE, golden, listing, make_site, read, succeed

TEXT = """\
## Exercises

**1.** Why is $a = b$ here?

And in a second paragraph?

<details><summary>Hint</summary>

Think of $c$.

</details>

<details><summary>Answer</summary>

**9.** Because.

</details>

**2.** No answer.

## After

**3.** No exercise.
"""


def test_each_exercise_has_an_anchor_question_hint_and_answer() -> None:
    assert not render(TEXT, own=False).exercises
    for text in ("**1.** A step.", "## Exercises\n\n- **1.** In a list.\n\n> **2.** Quoted."):
        assert not render(text).exercises
    (first, why, answered), second = render(TEXT).exercises
    assert why.startswith('<p id="exercise-1"><strong>1.</strong> Why')
    assert "<p>And in a second paragraph?</p>" in why
    assert "Think of" in why and why.endswith("</details>\n")
    assert "Because" not in why
    assert (first, answered) == ("1", True)
    assert second == ("2", '<p id="exercise-2"><strong>2.</strong> No answer.</p>\n', False)


def test_an_answer_is_never_part_of_an_exercise() -> None:
    for between, around in product(["\n\n", "\n", ""], ["\n\n", "\n"]):
        hint, answer = (
            f"<details><summary>{title}</summary>{around}{title} text{around}</details>"
            for title in ("Hint", "Answer")
        )
        text = f"## Exercises\n\n**1.** Why?\n\n{hint}{between}{answer}\n\n**2.** How?\n"
        first, second = render(text).exercises
        assert [answered for _, _, answered in (first, second)] == [True, False]
        assert "Answer" not in first[1] and second[1].endswith("How?</p>\n")


def asks(title: str, question: str) -> str:
    """A module whose exercise asks a question, which has an answer."""
    answer = "# <details><summary>Answer</summary>\n#\n# Yes.\n#\n# </details>\n"
    start = f'"""\n---\ntitle: {title}\n---\n\nIt has {title}.\n"""\n\nx = 1\n\n'
    return f"{start}# ## Exercises\n#\n# **1.** {question}\n#\n{answer}"


HINT = (
    "Up [to one](../one.py#L9)?\n#\n# <details><summary>Hint</summary>\n#\n# $w$\n#\n# </details>"
)
PATHS = (
    '["pkg.two", "pkg.b.c"]\n\n[[path]]\ntitle = "Another & path"\npages = ["pkg.b.c", "pkg.one"]'
)
FILES = {
    "docs_src/site.toml": SITE.replace('["pkg.one", "pkg.two", "notes"]', PATHS),
    "pkg/one.py": asks("One & all", "Is $x$ as $y$, `pkg.two`?"),
    "pkg/two.py": asks("Two", "See [one](one.py), [here](#exercises), [out](https://a.b/c), $z$."),
    "pkg/b/__init__.py": asks("Beside", "On no path?"),
    "pkg/b/c.py": asks("Deep", HINT),
}


def test_the_page_follows_the_paths_and_has_each_exercise_once(tmp_path: Path) -> None:
    succeed(make_site(tmp_path, FILES))
    page = read(tmp_path, "exercises.html")
    assert listing(page) == golden("exercises")
    assert 'aria-label="Answer to exercise 1 of One &amp; all">Answer</a>' in page
    assert "<details><summary>Hint</summary>" in page
