"""The site for readers without a browser: pages as Markdown, a list of them, all in one file."""

import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Mapping

from pylit.code.cpp import is_cpp
from pylit.model import Module
from pylit.page.cards import CARDS
from pylit.page.render import relative
from pylit.page.view import PageGroup
from pylit.site.config import SiteConfig
from pylit.site.drafts import Draft

ARCHIVE = "site.zip"
_LINK = re.compile(r"\]\(([^()\s#:]+)")
#: What is compressed already.
_PACKED = (".woff2", ".inv")


def text_url(draft: Draft) -> str:
    """Where the page is as Markdown; empty for one that is put together of others."""
    return f"{draft.url}.md" if draft.own and draft.display != draft.url else ""


def page_text(draft: Draft, module: Module, texts: Mapping[str, str]) -> bytes:
    """The page as its author wrote it: notes, and code in fences.

    Links to sources lead to their texts, which `texts` maps their paths to.
    """

    def moved(link: re.Match[str]) -> str:
        for start in (draft.display, draft.url):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(start), link[1]))
            if path in texts:
                return f"]({relative(draft.url, texts[path])}"
        return link[0]

    source = module.source.lines
    language = "cpp" if is_cpp(module.source.name) else "python"
    blocks = [] if module.source.text.lstrip().startswith("# ") else [f"# {draft.title}"]
    blocks += [draft.front_matter["summary"]] if "summary" in draft.front_matter else []
    for section in module.sections:
        blocks += [_LINK.sub(moved, note.text.strip()) for note in section.notes]
        if section.code:
            lines = source[section.code.first - 1 : section.code.last]
            blocks.append("\n".join([f"```{language}", *lines, "```"]))
    return ("\n\n".join(filter(None, blocks)) + "\n").encode()


def llms(config: SiteConfig, groups: Iterable[PageGroup], texts: Mapping[str, str]) -> bytes:
    """``llms.txt``: what the site is, and where its pages are as Markdown, by their addresses."""
    lines = [f"# {config.title}", "", f"> {config.summary}"]
    for group in groups:
        pages = [page for page in group.pages if page.url in texts]
        lines += ["", f"## {group.title}", ""] if pages else []
        for page in pages:
            about = f": {page.summary}" if page.summary else ""
            lines.append(f"- [{page.title}]({config.base_url}{texts[page.url]}){about}")
    return ("\n".join(lines) + "\n").encode()


def archive(files: Mapping[str, bytes]) -> bytes:
    """The files of the site that a reader offline needs: the same bytes for the same ones."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for path in sorted(files):
            if path.startswith(CARDS):
                continue
            entry = zipfile.ZipInfo(f"site/{path}")
            entry.external_attr = 0o644 << 16
            small = path.endswith(_PACKED)
            packed.writestr(
                entry, files[path], zipfile.ZIP_STORED if small else zipfile.ZIP_DEFLATED, 6
            )
    return out.getvalue()
