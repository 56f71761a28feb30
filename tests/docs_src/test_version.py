"""What is written down in several places: the version of the library, and who signs it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETUP, CITATION, LICENSE = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("setup.py", "CITATION.cff", "LICENSE")
)
SITE = tomllib.loads((ROOT / "docs_src/site.toml").read_text(encoding="utf-8"))


def test_the_site_and_the_citation_name_the_version_of_the_library() -> None:
    versions = re.findall(r'version="(.*?)"', SETUP) + re.findall(r"(?m)^version: (\S+)$", CITATION)
    assert versions == [SITE["version"]] * 2


def test_the_site_is_signed_as_the_package_is() -> None:
    assert f"- name: {SITE['authors']}" in CITATION
    assert f"Copyright (c) 2026 {SITE['authors']}" in LICENSE
    assert f'license="{SITE["license"]}"' in SETUP
