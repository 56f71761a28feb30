"""The version of the library, which is written down in three places."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_site_and_the_citation_name_the_version_of_the_library() -> None:
    found = {
        re.search(pattern, (ROOT / name).read_text()).group(1)  # type: ignore[union-attr]
        for name, pattern in {
            "setup.py": r'version="(.*?)"',
            "CITATION.cff": r"(?m)^version: (\S+)$",
        }.items()
    }
    found.add(tomllib.loads((ROOT / "docs_src/site.toml").read_text())["version"])
    assert len(found) == 1
