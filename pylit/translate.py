"""``pylit translate zh``: the files of a language, written for the first time or refreshed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pylit.config import SiteConfig
from pylit.diagnostics import Report, counted, nearest
from pylit.languages.blocks import Block, read_blocks, save
from pylit.languages.language import WORDS, Language, file_of, read_language
from pylit.languages.translations import missing, refreshed
from pylit.model import Module
from pylit.site.inputs import Site
from pylit.site.options import Options
from pylit.words import OF_PAGES, drawn, refreshed_words, scripts, spoken

_OPENING = (
    "<!-- {language}: {page}. A block for each passage; write the translation below the English, "
    "and leave the rest to `pylit translate {language}`. -->"
)
_WORDS = "# What is not in a note: titles of lists, words of drawings and of panels.\n\n"


class TranslationError(Exception):
    """A language that cannot be written: the reason and a way out."""


def translate(
    site: Site, modules: Sequence[Module], code: str, names: Sequence[str]
) -> Iterator[str]:
    """Write or refresh the files of a language, and say of each what is left to translate.

    Args:
        site: The site.
        modules: All its pages, as they are written.
        code: The language.
        names: Pages to begin with, ``package.module`` or ``notation``. Without any, the files that
            are there are refreshed; if there are none, those of the listed pages are begun.
    """
    language, docs = _language(site, code), site.options.docs
    known = {module.source.name: module for module in modules}
    if unknown := [name for name in names if name not in known]:
        hint = nearest(unknown[0], known, "name a module, or a page of docs_src/pages")
        raise TranslationError(f"there is no page {', '.join(unknown)}; {hint}")
    begun = [m.source.name for m in modules if (language.folder / file_of(m.source)).is_file()]
    listed = [p.name for group in (*site.config.paths, *site.config.groups) for p in group.pages]
    written = [block for path in sorted(language.folder.rglob("*.md")) for block in _blocks(path)]
    elsewhere = {block.hash: block.text for block in written if block.text}
    for name in dict.fromkeys([*begun, *(names or (() if begun else ["index", *listed]))]):
        if name in known:
            module = known[name]
            path = language.folder / file_of(module.source)
            old = _read(path) if path.is_file() else ""
            opening = _OPENING.format(language=code, page=module.source.display)
            text = refreshed(module, old, opening, elsewhere)
            if text != old:
                _write(path, text)
            yield _left(path, module, text, docs)
    path = language.folder / WORDS
    old = _read(path) if path.is_file() else _WORDS
    text = refreshed_words(old, _needed(site.config, site.options), language.words)
    if text != old:
        _write(path, text)
    left = text.count(' = ""\n')
    yield f"{path.relative_to(docs.parent)}: {counted(left, 'word')} to translate"


def list_missing(site: Site, modules: Sequence[Module], code: str) -> Iterator[str]:
    """Every passage that a page shows in English, with its place in the file of translations."""
    language, docs = _language(site, code), site.options.docs
    for module in modules:
        path = language.folder / file_of(module.source)
        if path.is_file():
            shown = path.relative_to(docs.parent)
            for passage, line, old in missing(module, _read(path)):
                why = "the English has changed" if old else "not translated"
                yield f"{shown}:{line or 1}: {passage.place}: {why}"


def _language(site: Site, code: str) -> Language:
    return read_language(code, site.options.docs, site.options.theme, Report())


def _blocks(path: Path) -> list[Block]:
    return read_blocks(_read(path))[1]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TranslationError(f"{path} cannot be read ({error}); save it as UTF-8") from None


def _left(path: Path, module: Module, text: str, docs: Path) -> str:
    left = [old for *_, old in missing(module, text)]
    changed = f", of which {sum(left)} changed in English" if any(left) else ""
    total = text.count("\n# ")
    return f"{path.relative_to(docs.parent)}: {len(left)} of {total} passages to translate{changed}"


def _needed(config: SiteConfig, options: Options) -> Iterator[str]:
    """All words that are in no note."""
    lists = (*config.paths, *config.groups)
    signed = (config.about, config.authors)
    yield from (config.title, config.summary, *filter(None, signed))
    yield from (text for one in lists for text in (one.title, one.summary, one.needs) if text)
    yield from (words for r in config.relations for words in (r.on_function, r.on_argument))
    for card in sorted((options.docs / "cards").rglob("*.html")):
        yield from drawn(card.read_text(encoding="utf-8"))
    yield from OF_PAGES
    theme = options.theme
    yield from spoken([*sorted(theme.rglob("*.html")), *scripts(theme, options.docs)])


def _write(path: Path, text: str) -> None:
    try:
        save(path, text)
    except OSError as error:
        reason = error.strerror or error
        raise TranslationError(f"{path} cannot be written ({reason}); make it writable") from None
