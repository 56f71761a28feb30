"""The stages of a page that several processes share: parse, then draft.

Each takes all that it depends on as a value, and leaves its result in the cache under a digest of
that, with the faults that it found: a build that reuses the result reports them again.

The cache is also where a page waits for its next stage. A `Leaf` is what a build keeps of it in
memory, a few kilobytes; its notes and lines are with one process at a time. Pages of the site's own
are few, and every one of them is asked for exercises and citations: they stay whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pylit.cache import Cache, digest
from pylit.code.cpp import is_cpp
from pylit.code.values import targets
from pylit.diagnostics import Diagnostic, Report
from pylit.model import Module, SourceFile, Target
from pylit.pipeline.outcome import Outcome, Progress
from pylit.pipeline.pool import run
from pylit.site.addresses import module_url, prose_url
from pylit.site.drafts import Draft, Drafter, DraftSection, Order, prose_target
from pylit.source.discover import read_source
from pylit.source.parse import parse_module
from pylit.tex.maths import MathRenderer

Item = TypeVar("Item")
Known = TypeVar("Known")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A source after parsing, with what others may link to."""

    module: Module
    targets: Mapping[str, Target]
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A page on its way through the stages: what a build keeps of it in memory."""

    url: str
    prose: bool
    #: Digest of everything that it was parsed from.
    key: str
    #: All of it, if it is the site's own, or if the cache could not take it. Else it has no text,
    #: and names that others may link to are without what only previews tell of them.
    parsed: Parsed
    whole: bool = True

    @property
    def source(self) -> SourceFile:
        """Its source, which has its text if it is the site's own."""
        return self.parsed.module.source

    def read(self, cache: Cache) -> Parsed:
        """All of it; parsed again if somebody has emptied the cache meanwhile."""
        found = self.parsed if self.whole else cache.load(f"parsed {self.url}", self.key)
        if found is None:
            old, report = self.source, Report()
            names = {"name": old.name, "display": old.display}
            found = _parsed(read_source(old.path, **names, own=old.own, report=report) or old)
        return found


#: The pages of a build, each with its draft.
Pairs = Sequence[tuple[Leaf, Draft]]


class Stages:
    """The stages of one build, over one cache; `generator` is a digest of the generator's code."""

    def __init__(
        self, cache: Cache, generator: str, jobs: int, progress: Progress, outcome: Outcome
    ) -> None:
        self.cache, self.generator, self.progress, self.outcome = (
            cache,
            generator,
            progress,
            outcome,
        )
        self._jobs = jobs

    def parse(self, sources: Iterable[SourceFile], prose: Iterable[Module]) -> list[Leaf]:
        """Modules and Markdown pages, parsed, in the order given."""

        def known(source: SourceFile) -> Leaf | None:
            key = _key(self.generator, source)
            parsed = self.cache.load(f"parsed {module_url(source)}", key)
            return parsed and _leaf(key, parsed, kept=True)

        found: dict[int, Leaf] = {}
        work = partial(_parse, self.cache, self.generator)
        found.update(self._each("Reading", sources, known, work, found))
        leaves = [found[number] for number in range(len(found))]
        for page in prose:
            url = prose_url(page.source.name)
            targets_of = targets(page, url) if is_cpp(page.source.name) else {}
            key = _key(self.generator, page.source)
            leaves.append(Leaf(url, True, key, Parsed(page, targets_of)))
        return leaves

    def draft(
        self, leaves: Sequence[Leaf], maths: MathRenderer, around: Mapping[str, Target]
    ) -> Pairs:
        """Drafts in the order of the leaves; formulas go to Node as they turn up.

        `around` is what they may ask for beside the definitions of the modules.
        """
        index = {dotted: t for leaf in leaves for dotted, t in leaf.parsed.targets.items()}
        # Links name Markdown pages by their file, or as if they lay where the page will lie.
        for leaf in leaves:
            if leaf.prose and not leaf.parsed.targets:
                target = prose_target(leaf.source, leaf.url)
                index |= {leaf.source.display: target, f"{leaf.source.name}.md": target}
        drafter = Drafter({**index, **around})

        def known(leaf: Leaf) -> Draft | None:
            draft: Draft | None = self.cache.load(f"draft {leaf.url}", leaf.key)
            return _slim(draft) if draft and drafter.answers.hold(draft.answers) else None

        found: dict[int, Draft] = {}
        work = partial(_annotate, self.cache, drafter)
        made = self._each("Annotating", leaves, known, work, found)
        for number, (draft, formulas) in made:
            found[number] = draft
            maths.submit(formulas)
            self.outcome.drafted += 1
        return [(leaf, found[number]) for number, leaf in enumerate(leaves)]

    def _each(
        self,
        title: str,
        items: Iterable[Item],
        known: Callable[[Item], Known | None],
        work: Callable[[Item], Made],
        found: dict[int, Known],
    ) -> Iterator[tuple[int, Made]]:
        """What `work` makes of items, by their numbers; `found` takes what is known of others."""
        missing: list[int] = []

        def unknown() -> Iterator[Item]:
            for number, item in enumerate(items):
                if (value := known(item)) is None:
                    missing.append(number)
                    yield item
                else:
                    found[number] = value

        for turn, made in self.progress.of(title, run(work, unknown(), self._jobs)):
            yield missing[turn], made


def _key(generator: str, source: SourceFile) -> str:
    kind = f"{source.is_package} {source.own}"
    return digest(generator, source.digest, source.name, source.display, kind)


def _parse(cache: Cache, generator: str, source: SourceFile) -> Leaf:
    """Parses a source, in this process or in another."""
    key, parsed = _key(generator, source), _parsed(source)
    return _leaf(key, parsed, kept=cache.store(f"parsed {module_url(source)}", key, parsed))


def _parsed(source: SourceFile) -> Parsed:
    report = Report()
    module = parse_module(source, report)
    return Parsed(module, targets(module, module_url(source)), tuple(report))


def _leaf(key: str, parsed: Parsed, *, kept: bool) -> Leaf:
    """What a build keeps in memory of a module that the cache has kept, or not."""
    source = parsed.module.source
    url, whole = module_url(source), source.own or not kept
    if not whole:
        module = Module(replace(source, text=""), {}, (), ())
        bare = {dotted: _bare(target) for dotted, target in parsed.targets.items()}
        parsed = Parsed(module, bare, parsed.diagnostics)
    return Leaf(url, False, key, parsed, whole)


def _bare(target: Target) -> Target:
    """A target without what only previews show of it."""
    definition = target.definition
    # Relations leave out what returns nothing.
    signature = "-> None" if definition.signature.endswith("-> None") else ""
    bare = replace(definition, line=0, signature=signature, summary="")
    return replace(target, definition=bare)


def _annotate(cache: Cache, drafter: Drafter, leaf: Leaf) -> tuple[Draft, list[tuple[str, bool]]]:
    """Makes a draft, in this process or in another; its formulas with it."""
    module, warning = leaf.read(cache).module, ""
    if not (module.parsed or leaf.prose):
        # A page without notes says why, in the words of the parser's complaint.
        why = next(d for d in leaf.parsed.diagnostics if d.code == "syntax")
        place = f"line {why.line}: " if why.line else ""
        reason = f"({place}{why.message})"
        warning = f"Python cannot parse this file {reason}, so its source is shown as it stands."
    draft = drafter(Order(module, leaf.url, leaf.prose, leaf.key, warning))
    kept = cache.store(f"draft {leaf.url}", leaf.key, draft)
    return _slim(draft) if kept else draft, draft.formulas()


def _slim(draft: Draft) -> Draft:
    """What a build keeps of a draft in memory."""
    if draft.own:
        return draft
    # Whether there is anything to read decides what lists of pages show.
    return replace(draft, sections=(DraftSection("", (), ()),) * bool(draft.sections), answers={})
