"""What a run printed and drew, made small: the last state of a progress bar, no colours of a
terminal, nothing twice.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Of one output, the first of these that it has is kept. A drawing comes as HTML as well, which
#: follows the theme of a live notebook; of a saved one GitHub shows the drawing alone.
KEPT = ("image/svg+xml", "image/png", "text/html", "text/plain")
#: Lines of a text that are kept, from its beginning and from its end.
FIRST, LAST = 60, 20

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def tidied(outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outputs of a cell as a notebook keeps them."""
    result: list[dict[str, Any]] = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            text = "".join(output["text"])
            if result and result[-1].get("name") == output["name"]:
                text = "".join(result.pop()["text"]) + text
            result.append({"name": output["name"], "output_type": "stream", "text": text})
        elif kind in ("display_data", "execute_result"):
            shown = _shown(output)
            if shown["data"]:
                result.append(shown)
        else:
            result.append(dict(output))
    return [output for output in map(_with_lines, result) if output is not None]


def as_seen(text: str) -> str:
    """Text as a terminal shows it in the end: of what was written over, the last."""
    return "\n".join(_overwritten(_ESCAPE.sub("", text)))


def _overwritten(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        yield states[-1].rstrip() if states else ""


def _with_lines(output: dict[str, Any]) -> dict[str, Any] | None:
    if output["output_type"] != "stream":
        return output
    text = as_seen(output["text"])
    lines = text.splitlines(keepends=True)
    if len(lines) > FIRST + LAST + 1:
        left_out = f"… {len(lines) - FIRST - LAST} lines …\n"
        lines = [*lines[:FIRST], left_out, *lines[-LAST:]]
    return {**output, "text": lines} if text.strip() else None


def _shown(output: Mapping[str, Any]) -> dict[str, Any]:
    kept = [kind for kind in KEPT if kind in output["data"]][:1]
    data = {kind: _lines(output["data"][kind]) for kind in kept}
    shown = {"data": data, "metadata": {}, "output_type": output["output_type"]}
    if "execution_count" in output:
        shown["execution_count"] = output["execution_count"]
    return shown


def _lines(value: Any) -> Any:
    return value.strip("\n").splitlines(keepends=True) if isinstance(value, str) else value
