"""Replays: one run of a module, step by step, for a reader who looks at the numbers.

A replay is a function of a file of traces whose name begins with ``replay``. What stands before its
`yield` prepares; it yields the texts along axes, by their letters, and what follows is recorded::

    def replay_attention():
        '''The trained model reads “ROMEO:”

        One layer of it, with all four heads.

        * Scale, `self.scale`: now the scores are smaller.
        * Mask, `masked_fill` (2): …
        '''
        ...
        yield {"T": list(text)}
        attention(query=x, key=x, value=x)

The docstring has a title, a text, and the stops: names and notes at the step whose line contains
the code, or at the second such step. A reader goes from stop to stop, or from line to line. A file
may have several replays; the first is shown first. The page asks for their script when its reader
does.
See decisions 039 and 050.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from pylit.diagnostics import Diagnostic, Report
from pylit.notes.markdown import parser
from pylit.runs.shapes.plan import Plan, read_plan
from pylit.runs.shapes.sizes import Parts
from pylit.runs.shapes.tracer import Key

#: A stop: its name, code, which of the steps with it, and the note.
_STOP = re.compile(
    r"(?:(?P<name>[^`]+), )?`(?P<code>[^`]+)`(?: \((?P<turn>\d+)\))?:\s+(?P<note>.*)", re.DOTALL
)
#: What a replay and its stops tell a reader.
_TOLD = ("title", "text", "name", "note")
_ITEM = re.compile(r"^\* ", re.MULTILINE)


class Stop(NamedTuple):
    """A name and a note at a step. Without a name it is called by its code."""

    name: str
    code: str
    turn: int
    note: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay as its function declares it."""

    name: str
    line: int
    title: str
    text: str
    stops: tuple[Stop, ...]


def read_replay(node: ast.FunctionDef, shown: str, report: Report) -> Replay | None:
    """A replay out of its function; None, and a fault, if it is none."""
    yields = [one for one in ast.walk(node) if isinstance(one, ast.Yield)]
    doc = inspect.cleandoc(ast.get_docstring(node) or "")
    opening, *items = _ITEM.split(doc)
    title, _, text = opening.partition("\n\n")
    stops = [_STOP.fullmatch(item.strip()) for item in items]
    message = ""
    if len(yields) != 1 or yields[0].value is None:
        message = "must `yield` once, the texts along its axes, such as `{'T': list(text)}`"
    elif not title:
        message = "needs a docstring, whose first line is its title"
    elif None in stops:
        message = "has a stop without its code; write '* Scale, `self.scale`: the note'"
    elif node.args.args or node.args.kwonlyargs:
        message = "takes no arguments, for it chooses a text itself"
    if message:
        report.add(Diagnostic(shown, node.lineno, 1, "replay", f"`{node.name}` {message}"))
        return None
    found = [
        Stop(one["name"] or one["code"], one["code"], int(one["turn"] or 1), one["note"])
        for one in stops
        if one
    ]
    return Replay(node.name, node.lineno, title.strip(), text.strip(), tuple(found))


def replays_of(text: str) -> Iterator[Replay]:
    """The replays that a file of traces declares, without what is faulty."""
    with suppress(SyntaxError):
        for node in ast.parse(text).body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("replay"):
                continue
            if replay := read_replay(node, "", Report()):
                yield replay


def translated_script(script: str, texts: Mapping[str, str]) -> str:
    """The script of replays with their texts in another language, by what they are in their own."""
    written = {
        shown: note
        for text, translation in texts.items()
        for shown, note in ((text, translation), (_html(text), _html(translation)))
    }
    translated = []
    for line in script.splitlines():
        start, end = line.index("(") + 1, line.rindex(")")
        data = json.loads(line[start:end])
        for part in (data, *data["stops"]):
            part |= {key: written.get(part[key], part[key]) for key in _TOLD if key in part}
        translated.append(f"{line[:start]}{_json(data)}{line[end:]}\n")
    return "".join(translated)


def replay_script(
    replay: Replay,
    answer: Mapping[str, Any],
    now: Mapping[int, int],
    forms: Sequence[Mapping[Key, Sequence[Parts]]],
    text: str,
) -> tuple[str, list[str]]:
    """The script of a replay, and what is wrong with it.

    Args:
        replay: What its function declares.
        answer: What `pylit.runs.shapes.recorder` recorded.
        now: The lines at the time of the run, and the present ones.
        forms: What each trace calls the axes of the names of each line.
        text: The module.
    """
    problems = list(_unusable(answer["texts"]))
    if problems:
        return "", problems
    plan, source = read_plan(text), text.split("\n")
    texts = {axis: [str(token) for token in tokens] for axis, tokens in answer["texts"].items()}
    tensors: list[dict[str, Any]] = [dict(one) for one in answer["tensors"]]
    steps = []
    for step in answer["steps"]:
        values = []
        for line, kind, name, path, number in step["values"]:
            shown = ".".join(filter(None, (name or "returns", path)))
            values.append([shown, number])
            if number >= 0 and not any(tensors[number].get("axes", ())):
                key, shape = (now.get(line, 0), kind, name), tensors[number]["shape"]
                found = [form for one in forms for form in one.get(key, ())]
                tensors[number] |= _axes(shape, _letters(found, path, shape, texts), texts)
        first = now[step["line"]]
        last = _last(step, first, plan, source)
        steps.append({**step, "line": first, "last": last, "values": values})
    stops: list[tuple[int, str, str]] = []
    for name, code, turn, note in replay.stops:
        places = [i for i, step in enumerate(steps) if _contains(step, code, source)]
        if len(places) < turn:
            problem = f"there are {len(places)} steps at a line with `{code}`, and the note is"
            problems.append(f"{problem} for step {turn}")
        else:
            stops.append((places[turn - 1], name, _html(note)))
    data = {
        "title": replay.title,
        "text": _html(replay.text),
        "texts": texts,
        "tensors": tensors,
        "steps": steps,
        "stops": [{"step": step, "name": name, "note": note} for step, name, note in sorted(stops)],
    }
    return f"pylitReplay({_json(data)});\n", problems


def _contains(step: Mapping[str, Any], code: str, source: Sequence[str]) -> bool:
    lines = "\n".join(source[step["line"] - 1 : step["last"]])
    return step["event"] != "call" and code in lines


def _unusable(texts: Any) -> Iterator[str]:
    """What is wrong with the texts that a replay yields."""
    if not isinstance(texts, Mapping):
        yield f"yields {texts!r}, and not the texts along its axes, such as {{'T': list(text)}}"
        return
    for axis, tokens in texts.items():
        if not isinstance(tokens, str | list):
            yield f"yields {tokens!r} for the axis `{axis}`, and not a list of its tokens"


def _last(step: Mapping[str, Any], first: int, plan: Plan, source: Sequence[str]) -> int:
    """The last line of a statement, or of a signature."""
    if step["event"] != "call":
        # A lambda is a part of a statement.
        return first if step["stack"][-1] == "lambda" else plan.statements[first].last
    node = next(one.node for one in plan.functions.values() if one.node.lineno == first)
    last = max(first, node.body[0].lineno - 1)
    while last > first and source[last - 1].strip()[:1] in ("", "#"):
        last -= 1
    return last


def _letters(
    forms: Iterable[Parts], path: str, shape: Sequence[int], texts: Mapping[str, Sequence[str]]
) -> list[str]:
    """The letters of the axes of a tensor, as a chip has them: those that suit its texts best."""
    found = [
        written.rpartition("[")[2][:-1].split(", ")
        for form in forms
        for place, written, _ in form
        if place == path and written.endswith("]")
    ]

    def suits(letters: Sequence[str]) -> int:
        pairs = zip(map(_axis, letters), shape, strict=True)
        known = [(size, len(texts[name])) for name, size in pairs if name in texts]
        return sum(2 * (size == length) - (size > length) for size, length in known)

    fitting = [letters for letters in found if len(letters) == len(shape)]
    return max(fitting, key=suits, default=[""] * len(shape))


def _axis(letter: str) -> str:
    """An axis that grows is as long as its last length: ``1…T``."""
    name = letter.rpartition("…")[2]
    return name if name.isidentifier() else ""


def _axes(
    shape: Sequence[int], letters: Sequence[str], texts: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """The letter of each axis, and the text that stands along it.

    An axis without a letter has that of the text that is as long as it is.
    """
    names = [_axis(letter) for letter in letters]
    along = [next(_texts(*pair, texts), "") for pair in zip(names, shape, strict=True)]
    pairs = zip(names, along, strict=True)
    axes = [name or (text if len(text) == 1 else "") for name, text in pairs]
    return {"axes": axes, "along": along}


def _texts(name: str, size: int, texts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The texts that may stand along an axis, the likeliest first."""
    if size <= len(texts.get(name, ())) and size > 1:
        yield name
    # One that is called by a letter belongs to another axis.
    fitting = (text for text, tokens in texts.items() if size == len(tokens))
    yield from (text for text in fitting if not name or len(text) > 1)


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _html(text: str) -> str:
    html: str = parser(own=True).render(text)
    return html.strip()
