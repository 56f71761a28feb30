"""What a build tells while it works."""

from typing import Protocol


class Watcher(Protocol):
    """Somebody who is told how far a build is."""

    def stage(self, title: str, total: int) -> None:
        """A new stage begins, of `total` steps."""

    def step(self) -> None:
        """One step of the stage is done."""


class Silent:
    """Nobody watches."""

    def stage(self, title: str, total: int) -> None:
        """Say nothing."""

    def step(self) -> None:
        """Say nothing."""
