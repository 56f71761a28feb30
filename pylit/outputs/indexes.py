"""Files for programs: sitemap, ``robots.txt``, ``llms.txt``, inventory of names, archive."""

import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, select_autoescape

from pylit.addresses import CARDS, canonical, is_cpp, relative
from pylit.config import SiteConfig
from pylit.model import Draft, Module, PageGroup

_environment = Environment(
    loader=FileSystemLoader(Path(__file__).resolve().parents[1] / "theme"),
    autoescape=select_autoescape(["xml"]),
    trim_blocks=True,
    keep_trailing_newline=True,
)


def sitemap(base_url: str, urls: Iterable[str]) -> bytes:
    """``sitemap.xml``: the addresses of all pages, absolute, sorted.

    There is no ``lastmod``: a date from the clock or from the file system would give two builds of
    the same sources two different sites, and search engines ignore dates that are not trustworthy.
    """
    addresses = [canonical(base_url, url) for url in sorted(urls)]
    return _rendered("sitemap.xml", addresses=addresses)


def robots(base_url: str) -> bytes:
    """Everything may be read; where the sitemap is, if the site has an address."""
    return _rendered("robots.txt", base_url=base_url)


def _rendered(template: str, **values: object) -> bytes:
    return _environment.get_template(template).render(values).encode()


ARCHIVE = "site.zip"
#: All notes in one text, for language models.
FULL = "llms-full.txt"
_LINK = re.compile(r"\]\(([^()\s#:]+)")
_TABLE = re.compile(r"!\[((?:(?!!\[).)*?)\]\(table:([\w.]+)\)", re.DOTALL)


def page_text(
    draft: Draft,
    module: Module,
    texts: Mapping[str, str],
    tables: Mapping[str, str],
    *,
    code: bool = True,
) -> bytes:
    """The page as its author wrote it: notes, and code in fences.

    Links to sources become links to their texts; `texts` maps paths of sources to addresses.
    `tables` maps names to Markdown, which stands below the caption of its table.
    """

    def moved(link: re.Match[str]) -> str:
        for start in (draft.display, draft.url):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(start), link[1]))
            if path in texts:
                return f"]({relative(draft.url, texts[path])}"
        return link[0]

    def filled(link: re.Match[str]) -> str:
        return f"{link[1]}\n\n{tables[link[2]]}" if tables.get(link[2]) else link[0]

    source = module.source.lines
    language = "cpp" if is_cpp(module.source.display) else "python"
    titled = module.source.text.lstrip().startswith("# ") and not module.package
    blocks = [] if titled else [f"# {draft.title}"]
    if whose := module.package:
        blocks.append(f"Code: {whose.name} {whose.version}, {whose.license}.")
    blocks += [draft.front_matter["summary"]] if "summary" in draft.front_matter else []
    for section in module.sections:
        notes = (_LINK.sub(moved, note.text.strip()) for note in section.notes)
        blocks += [_TABLE.sub(filled, note) for note in notes]
        if section.code and code and not section.folded:
            lines = source[section.code.first - 1 : section.code.last]
            blocks.append("\n".join([f"```{language}", *lines, "```"]))
    return ("\n\n".join(filter(None, blocks)) + "\n").encode()


def llms(config: SiteConfig, groups: Iterable[PageGroup], texts: Mapping[str, str]) -> bytes:
    """``llms.txt``: what the site is, and where its pages are as Markdown, by their addresses."""
    return _rendered("llms.txt", site=config, groups=groups, texts=texts)


def archive(files: Mapping[str, bytes]) -> bytes:
    """A zip file of the site for readers offline; equal files give equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for path in sorted(path for path in files if not path.startswith((CARDS, FULL))):
            entry = zipfile.ZipInfo(f"site/{path}")
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, files[path], zipfile.ZIP_DEFLATED, 6)
    return out.getvalue()
