"""The child process that draws: ``python -P -m pylit.figures.child``, see `pylit.confined`."""

from collections.abc import Callable
from typing import Any

from pylit.confined import Within, serve
from pylit.figures.draw import Figure, Table


def _draw(function: Callable[[], object], task: dict[str, Any], within: Within) -> dict[str, Any]:
    """What pages show of what a function returned."""
    with within() as watch, watch.calls():
        figure = function()
    if isinstance(figure, Figure):
        alt = figure.alt.strip()
        shown = {"kind": "figure", "picture": figure.picture(), "below": figure.below(), "alt": alt}
    elif isinstance(figure, Table):
        # A table needs no words beside it: it is made of words.
        shown = {"kind": "table", "picture": figure.cells(), "below": figure.below(), "alt": ""}
    else:
        kind = type(figure).__name__
        raise TypeError(f"`{task['function']}` returns a {kind}, expected a Figure or a Table")
    # A lone half of a character cannot be written: better said here than by the build.
    "".join(shown.values()).encode()
    return shown


if __name__ == "__main__":
    serve(_draw)
