"""The lessons, by name: the pages of a reading path that have a notebook, which has the same name.

So a lesson is in everything that goes over all of them, tests above all, as soon as it has its
place in ``site.toml`` and a line ``notebook: notebooks/NAME.ipynb`` in its front matter.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _lessons() -> dict[str, Path]:
    settings = tomllib.loads((ROOT / "docs_src/site.toml").read_text(encoding="utf-8"))
    found = {}
    for page in (page for path in settings["path"] for page in path["pages"]):
        file = ROOT / page.replace(".", "/")
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if file.is_file():
            front, *_ = file.read_text(encoding="utf-8").split("\n---\n", 2)[1:]
            if name := re.search(r"(?m)^notebook: notebooks/(\w+)\.ipynb$", front):
                found[name[1]] = file
    return found


#: In the order of the reading paths: the name and the file of each.
LESSONS = _lessons()
#: The address of each in the site.
URLS = {
    name: file.relative_to(ROOT).as_posix().replace("__init__", "index").removesuffix("py") + "html"
    for name, file in LESSONS.items()
}
