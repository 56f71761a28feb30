"""Modules of packages that others have written, where they are installed. Nothing is imported."""

import platform
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
)
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Installed:
    """A package that is installed: its version, and the licence that it names."""

    version: str
    license: str


def installed(package: str) -> Installed | None:
    """What is installed under the name of a distribution; Python itself has its own modules."""
    if package == "python":
        return Installed(platform.python_version(), "PSF-2.0")
    try:
        found: Distribution = distribution(package)
    except (PackageNotFoundError, ValueError):
        return None
    about = found.metadata
    named = about["License-Expression"] or about["License"] or ""
    # Some packages have the whole text of their licence there.
    return Installed(found.version, named if "\n" not in named else "")


def package_of(module: str) -> str:
    """The distribution that a module is installed by: ``PyYAML`` has ``yaml``."""
    top = module.partition(".")[0]
    usual = "python" if top in sys.stdlib_module_names else top
    return next(iter(packages_distributions().get(top, ())), usual)


def module_file(place: str) -> Path | None:
    """The file of a module by its path below where packages are installed, ``torch/nn/init.py``.

    Packages that are put together of several folders are found as well, and modules of Python.
    """
    top, *inside = place.removesuffix(".py").split("/")
    spec = PathFinder.find_spec(top, [path or "." for path in sys.path])
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return Path(spec.origin) if spec.origin and not inside and spec.has_location else None
    folders = [Path(folder, *inside[:-1]) for folder in spec.submodule_search_locations]
    paths = (folder / f"{inside[-1]}.py" for folder in folders if inside)
    return next((path for path in paths if path.is_file()), None)


def fits(version: str, bounds: str) -> bool | None:
    """Whether a version is in a range such as ``>=2.13, <2.14``; None if that is no range.

    ``2.13.0+cpu`` is 2.13, and a version before it is released counts, too.
    """
    # Only pages of notes on other code have versions, and this is slow to import.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(bounds).contains(version, prereleases=True)
    except InvalidSpecifier:
        return None
