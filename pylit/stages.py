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

from pylit.addresses import module_url, prose_url
from pylit.cache import Cache, digest
from pylit.cpp import is_cpp
from pylit.diagnostics import Report
from pylit.discover import read_source
from pylit.drafts import Drafter, prose_target
from pylit.model import Draft, DraftSection, Leaf, Module, SourceFile, Target
from pylit.names import targets
from pylit.outcome import Outcome, Progress
from pylit.parse import parse_module
from pylit.pool import run
from pylit.tex import MathRenderer

Item = TypeVar("Item")
Known = TypeVar("Known")
Made = TypeVar("Made")

#: The pages of a build, each with its draft.
Pairs = Sequence[tuple[Leaf, Draft]]


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of one build, over one cache; `generator` is a digest of the generator's code."""

    cache: Cache
    generator: str
    jobs: int
    progress: Progress
    outcome: Outcome

    def parse(self, sources: Iterable[SourceFile], prose: Iterable[Module]) -> list[Leaf]:
        """Modules and Markdown pages, parsed, in the order given."""

        def known(source: SourceFile) -> Leaf | None:
            key = _key(self.generator, source)
            leaf: Leaf | None = self.cache.load(f"parsed {module_url(source)}", key)
            return leaf and _slim_leaf(leaf)

        found: dict[int, Leaf] = {}
        work = partial(_parse, self.cache, self.generator)
        found.update(self._each("Reading", sources, known, work, found))
        leaves = [found[number] for number in range(len(found))]
        for page in prose:
            url = prose_url(page.source.name)
            named = targets(page, url) if is_cpp(page.source.name) else {}
            leaves.append(Leaf(page, url, True, _key(self.generator, page.source), named))
        return leaves

    def draft(
        self, leaves: Sequence[Leaf], maths: MathRenderer, around: Mapping[str, Target]
    ) -> Pairs:
        """Drafts in the order of the leaves; formulas go to Node as they turn up.

        `around` is what they may ask for beside the definitions of the modules.
        """
        index = {dotted: t for leaf in leaves for dotted, t in leaf.targets.items()}
        # Links name Markdown pages by their file, or as if they lay where the page will lie.
        for leaf in leaves:
            if leaf.prose and not leaf.targets:
                target = prose_target(leaf.source, leaf.url)
                index |= {leaf.source.display: target, f"{leaf.source.name}.md": target}
        drafter = Drafter({**index, **around})

        def known(leaf: Leaf) -> Draft | None:
            draft: Draft | None = self.cache.load(f"draft {leaf.url}", leaf.key)
            return _slim(draft) if draft and drafter.answers.hold(draft.answers) else None

        found: dict[int, Draft] = {}
        work = partial(_annotate, self.cache, drafter)
        for number, (draft, formulas) in self._each("Annotating", leaves, known, work, found):
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

        for turn, made in self.progress.of(title, run(work, unknown(), self.jobs)):
            yield missing[turn], made


def _key(generator: str, source: SourceFile) -> str:
    kind = f"{source.is_package} {source.own}"
    return digest(generator, source.digest, source.name, source.display, kind)


def _parse(cache: Cache, generator: str, source: SourceFile) -> Leaf:
    leaf = _parsed(source, _key(generator, source))
    return _slim_leaf(leaf) if cache.store(f"parsed {leaf.url}", leaf.key, leaf) else leaf


def _parsed(source: SourceFile, key: str) -> Leaf:
    report, url = Report(), module_url(source)
    module = parse_module(source, report)
    return Leaf(module, url, False, key, targets(module, url), tuple(report))


def read(leaf: Leaf, cache: Cache) -> Leaf:
    """All of a leaf; parsed again if somebody has emptied the cache meanwhile."""
    found: Leaf | None = leaf if leaf.whole else cache.load(f"parsed {leaf.url}", leaf.key)
    if found is None:
        old, report = leaf.source, Report()
        again = read_source(old.path, name=old.name, display=old.display, own=False, report=report)
        found = _parsed(again or old, leaf.key)
    return found


def _slim_leaf(leaf: Leaf) -> Leaf:
    """What a build keeps in memory of a module that the cache has kept."""
    if leaf.source.own:
        return leaf
    module = Module(replace(leaf.source, text=""), {}, (), ())
    bare = {dotted: _bare(target) for dotted, target in leaf.targets.items()}
    return replace(leaf, module=module, targets=bare, whole=False)


def _bare(target: Target) -> Target:
    """A target without what only previews show of it."""
    definition = target.definition
    # Relations leave out what returns nothing.
    signature = "-> None" if definition.signature.endswith("-> None") else ""
    bare = replace(definition, line=0, signature=signature, summary="")
    return replace(target, definition=bare)


def _annotate(cache: Cache, drafter: Drafter, leaf: Leaf) -> tuple[Draft, list[tuple[str, bool]]]:
    draft = drafter(read(leaf, cache))
    kept = cache.store(f"draft {leaf.url}", leaf.key, draft)
    return _slim(draft) if kept else draft, draft.formulas()


def _slim(draft: Draft) -> Draft:
    """What a build keeps of a draft in memory."""
    if draft.own:
        return draft
    # Whether there is anything to read decides what lists of pages show.
    return replace(draft, sections=(DraftSection("", (), ()),) * bool(draft.sections), answers={})
