"""Where each source is written: its dotted name is its path."""

from urllib.parse import quote, unquote

from pylit.diagnostics import Diagnostic, Report, Severity
from pylit.model import SourceFile

HOME = "index.html"
MISSING = "404.html"


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
        """Give `url` to `source`, unless it is taken."""
        taken = self._exact.get(url)
        if taken is not None:
            self._complain(source, f"would be written to `{url}`, as `{taken}` is", own=True)
            return False
        self._exact[url] = source.display
        near = self._folded.setdefault(url.casefold(), source.display)
        if near != source.display:
            message = f"differs from `{near}` only in upper and lower case"
            self._complain(source, message, own=source.own)
        return True

    def _complain(self, source: SourceFile, message: str, *, own: bool) -> None:
        # On disks and servers that take `A.html` for `a.html` one of the two would be lost;
        # where the sources of somebody else's package stand, they evidently are kept apart.
        severity = Severity.ERROR if own else Severity.WARNING
        hint = "rename one of the two"
        self._report.add(
            Diagnostic(source.display, 0, 0, "page-collision", message, hint, severity=severity)
        )
