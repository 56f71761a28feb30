"""Pages of notes on packages that others have written, from `docs_src/notes` and what is installed.

The code of a package is read where it is installed, and never imported. A page without its package
is left out, and the build says so.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from pylit.addresses import module_url
from pylit.cache import CacheError, digest
from pylit.diagnostics import Diagnostic, Report, Severity, page_failed
from pylit.languages.annotations import FOLDER, annotated
from pylit.model import Package, ParsedPage, SourceFile
from pylit.site.inputs import Site
from pylit.source.discover import read_source
from pylit.source.installed import Installed, fits, installed, module_file
from pylit.source.names import targets
from pylit.source.pages import split_front_matter
from pylit.source.parse import parse_module


def annotated_pages(site: Site) -> Iterator[ParsedPage]:
    """The pages of all files of notes whose packages are installed."""
    for file in note_files(site.options.docs, site.report):
        if opened := open_notes(file, site.report):
            source, package = opened
            if site.claim(url := module_url(source), source):
                key = digest(site.generator, source.digest, file.digest, repr(package))
                make = partial(_parse, source, file, package, url, key)
                try:
                    yield site.cache.get(f"annotated {url}", key, make)
                except CacheError:
                    raise
                except Exception as error:
                    site.report.add(page_failed(file.display, error))


def note_files(docs: Path, report: Report) -> Iterator[SourceFile]:
    """The files of notes, sorted by path, each with the name of its module."""
    for path in sorted((docs / FOLDER).rglob("*.md")):
        place = path.relative_to(docs / FOLDER).with_suffix("").as_posix()
        name = place.removesuffix("/__init__").replace("/", ".")
        display = f"docs_src/{FOLDER}/{place}.md"
        if file := read_source(path, name=name, display=display, own=True, report=report):
            yield file


def open_notes(file: SourceFile, report: Report) -> tuple[SourceFile, Package] | None:
    """The module that notes are on, and its package; None, with a report, without them."""
    faults = Report()  # Those of the front matter are told with the page.
    values, *_ = split_front_matter(file.text, faults, (file.display, 1, 0))

    def fault(key: str, message: str, hint: str, *, harmless: bool = False) -> None:
        lines = [n for n, text in enumerate(file.lines, 1) if text.startswith(f"{key}:")]
        severity = Severity.WARNING if harmless else Severity.ERROR
        place = file.display, lines[0] if lines else 1, 0, "note-place", message, hint
        report.add(Diagnostic(*place, severity=severity))

    place = file.display.removeprefix(f"docs_src/{FOLDER}/").removesuffix(".md") + ".py"
    name, versions = values.get("package", place.partition("/")[0]), values.get("versions", "")
    found = installed(name)
    if found is None:
        hint = f"install it, `pip install {name}`; `package` in the front matter is its name there"
        fault("package", f"`{name}` is not installed: the page is left out", hint, harmless=True)
        return None
    matches = fits(found.version, versions) if versions else True
    if matches is None:
        fault("versions", f"`versions` is `{versions}`", "write a range, such as `>=2.13, <2.14`")
        return None
    path = module_file(place)
    if path is None:
        message = f"{name} {found.version} has no module `{place}`: the page is left out"
        hint = "the path of the notes is that of the module"
        fault("package", message, hint, harmless=not matches)
        return None
    license = values.get("license", found.license)
    if not license:
        fault("license", f"the licence of `{name}` is not known", "write it, `license: MIT`")
        return None
    source = read_source(path, name=file.name, display=place, own=True, report=report)
    package = _package(values, name, found, license, versions, matches, place)
    return (source, package) if source else None


def _package(
    values: Mapping[str, str],
    name: str,
    found: Installed,
    license: str,
    versions: str,
    matches: bool,
    place: str,
) -> Package:
    url = values.get("source", "").replace("{version}", found.version.partition("+")[0])
    url = url.replace("{path}", place)
    return Package(name, found.version, license, versions, matches, url=url)


def _parse(
    source: SourceFile, file: SourceFile, package: Package, url: str, key: str
) -> ParsedPage:
    report = Report()
    # Faults in the code of others are not for the author of notes on it.
    module = annotated(parse_module(source, Report()), file, package, report)
    return ParsedPage(module, url, False, key, targets(module, url), tuple(report))
