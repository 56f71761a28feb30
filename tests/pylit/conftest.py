"""What tests of the generator share: cards that are drawn once, and what a child process ran."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pylit.outputs.cards import Cards
from pylit.runs.tasks import Order, Run, Worker


@pytest.fixture(scope="session", autouse=True)
def _cards_are_drawn_once() -> Iterator[None]:
    """Drawing takes half the time of a small site, and most of these have the same pages."""
    draw = Cards.png
    drawn: dict[str, bytes] = {}

    def png(self: Cards, svg: str) -> bytes:
        if svg not in drawn:
            drawn[svg] = draw(self, svg)
        return drawn[svg]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cards, "png", png)
        yield


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The tasks of each order for a child process, by the names of owner and function."""
    orders: list[list[str]] = []
    begin = Order.__init__

    def counted(self: Order, worker: Worker, given: Mapping[str, Any], runs: Sequence[Run]) -> None:
        orders.append([f"{run.task.owner}.{run.task.function}" for run in runs])
        begin(self, worker, given, runs)

    monkeypatch.setattr(Order, "__init__", counted)
    return orders
