"""What runs, figures, works, terms and symbols make of a site does not depend on earlier builds.

`make soak PARTS=edits` tries 200 edits.
"""

import random
import shutil
from pathlib import Path

from site_tools import FILES, SITE, build, edit, figures, make_site, options, succeed, tree

from pylit.build import Builder

ONE, TWO = FILES["pkg/one.py"], FILES["pkg/two.py"]
THREE = '''"""
Thrice, as a gain.

| Symbol | Code | Meaning |
|:--|:--|:--|
| $n$ | `thrice.n` | a number, $n$ |

## Exercises

**1.** What is $n$? More than one.

<details><summary>Answer</summary>

Three.

</details>
"""

from pkg.two import two

def thrice(n: int) -> int:
    """Takes $n$."""
    return 3 * n
'''
TRACE = """\
import numpy as np
from pkg.three import thrice

def trace_it(T):
    thrice(np.ones(T, dtype="float32"))
"""
FIGURE = "from pkg.two import two\n" + figures(one="It is.").replace(
    "'It is.'", "f'It is {two()}.'"
)
WORK = """\
@misc{abel2001one, author = {Abel, A.}, title = {A Gain}, year = {2001}, eprint = {2001.00001}}
"""
WORDS = "---\ntitle: Words\nsummary: What they mean.\n---\n\n"

VARIANTS: dict[str, list[str]] = {
    "docs_src/site.toml": [SITE, SITE.replace("Small", "Tall"), SITE.replace('"pkg.one", ', "")],
    "pkg/__init__.py": ['"""The package."""\n', "from pkg.one import One\n"],
    "pkg/one.py": [ONE, ONE.replace("return 1", "return 3"), ONE.replace("What is", "# What is")],
    "pkg/two.py": [TWO, TWO.replace("Twice", "\n    Two times"), TWO.replace("2 * One", "One")],
    "pkg/three.py": [
        THREE,
        THREE.replace("Thrice", "Three times"),
        THREE.replace("3 * n", "two() + n"),
        THREE.replace("`thrice.n`", "`two`"),
    ],
    "docs_src/traces/pkg/three.py": ["", TRACE, TRACE.replace("(T,", "((T, T),")],
    "docs_src/traces/axes.toml": ["", 'page = "notes.html"\n'],
    "docs_src/figures/growth.py": [
        FIGURE,
        FIGURE.replace("two()", "1 + two()"),
        FIGURE.replace("two()", "two.__doc__"),
    ],
    "docs_src/pages/drawn.md": [
        "# Drawn\n\nA gain is [@abel2001one].\n\n![One.](figure:growth.one)\n",
        "# Drawn\n\nTwo gains, [@abel2001one, §2] and [@abel2001one].\n",
    ],
    "docs_src/references.bib": [WORK, WORK.replace("Abel", "Kain"), WORK.replace("Gain", "Loss")],
    "docs_src/glossary.md": [
        "",
        f"{WORDS}gain | gain\n: More. See [drawn](pages/drawn.md).\n",
        f"{WORDS}more | gains, more\n: See [one](../pkg/one.py).\n",
    ],
}


def write(root: Path, name: str, text: str) -> None:
    """Give a file a text; without one, it goes."""
    (root / name).unlink(missing_ok=True)
    if text:
        edit(root, name, "", text)


def test_whatever_was_edited_before_the_site_is_that_of_a_clean_build(tmp_path: Path):
    choose = random.Random(0)
    root = make_site(tmp_path / "root", {name: texts[0] for name, texts in VARIANTS.items()})
    warm = Builder(options(root))
    with warm:
        for turn in range(6):
            for name in choose.sample(sorted(VARIANTS), k=3):
                write(root, name, choose.choice(VARIANTS[name]))
            if turn % 2:
                warm.build(quick=turn % 4 == 1)
            else:
                build(root)
        # One of its variants is a fault, which is mended in the end.
        write(root, "pkg/three.py", THREE)
        outcome = warm.build()
    assert not len(outcome.report), "\n".join(map(str, outcome.report))
    clean = tmp_path / "clean"
    shutil.copytree(root, clean, ignore=shutil.ignore_patterns("site", ".cache"))
    succeed(clean)
    assert tree(root / "site") == tree(clean / "site")
