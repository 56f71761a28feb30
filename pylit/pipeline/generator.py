"""The version of the generator: a digest of everything but its input that pages depend on."""

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pylit.cache import digest
from pylit.tex.maths import versions

_PYLIT = Path(__file__).resolve().parents[1]
#: What pages are made with: the code, and the names that it links to.
_CODE = {".py", ".txt"}
#: The packages whose version can change a page.
_PACKAGES = ("markdown-it-py", "mdit-py-plugins", "linkify-it-py", "Pygments", "Jinja2", "pybtex")


def generator_digest() -> str:
    """Changes with every edit to this package, to the Node scripts, and with every new version."""
    code = [path.read_bytes() for path in sorted(_PYLIT.rglob("*")) if path.suffix in _CODE]
    return digest(sys.version, *_versions(), versions({}), *code)


@cache
def _versions() -> tuple[str, ...]:
    return tuple(_version(package) for package in _PACKAGES)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
