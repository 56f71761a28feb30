"""Where each source is written: its dotted name is its path."""

from urllib.parse import quote, unquote

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import SourceFile

HOME = "index.html"
MISSING = "404.html"
#: Lists of the pages, beside the home page of a site with lessons.
ALL, HOOD = "all.html", "under-the-hood.html"
#: Bytes of a file's name: file systems take 255, and a cache or an editor may append to it.
LONGEST = 240


def module_url(source: SourceFile) -> str:
    """``pkg/mha.html`` for ``pkg.mha``, ``pkg/index.html`` for the package ``pkg`` itself.

    A module called ``index`` would take its package's place, and ``404`` that of the page which
    servers show when there is none; they keep their ``.py``.
    """
    path = "/".join(quote(part, safe="") for part in source.name.split("."))
    if source.is_package:
        return f"{path}/index.html"
    reserved = path.rpartition("/")[2].lower() == "index" or path == "404"
    return f"{path}.py.html" if reserved else f"{path}.html"


def prose_url(name: str) -> str:
    """``guide/start.html`` for ``docs_src/pages/guide/start.md``."""
    return quote(name) + ".html"


def file_path(url: str) -> str:
    """The file that an address from the site's root names."""
    return unquote(url)


class Addresses:
    """The pages of a site by address, and the faults of those that want the same one."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._exact: dict[str, str] = {}
        self._folded: dict[str, str] = {}

    def claim(self, url: str, source: SourceFile) -> bool:
        """Give `url` to `source`, unless it is taken, or no file can have it."""
        parts = file_path(url).split("/")
        if any(not part.strip(".") or len(part.encode()) > LONGEST for part in parts):
            self._complain(
                source, "has a name that no page can have", "give it a shorter, plain one"
            )
            return False
        taken = self._exact.get(url)
        if taken is not None:
            self._complain(source, f"would be written to `{url}`, as `{taken}` is")
            return False
        self._exact[url] = source.display
        near = self._folded.setdefault(url.casefold(), source.display)
        if near != source.display:
            # Disks and servers that take `A.html` for `a.html` lose one of the two. Where the
            # sources of another package stand, they evidently are kept apart.
            self._complain(source, f"differs from `{near}` only in upper and lower case")
        return True

    def _complain(
        self, source: SourceFile, message: str, hint: str = "rename one of the two"
    ) -> None:
        severity = Severity.ERROR if source.own else Severity.WARNING
        self._report.add(
            Diagnostic(source.display, 0, 0, "page-collision", message, hint, severity=severity)
        )
