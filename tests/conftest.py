"""What all tests share: shapes checked at every call, and few threads.

Nothing here imports torch, so that tests of the generator start quickly.
"""

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

# Before torch is imported anywhere: the suite runs in several processes, one per core, and
# tensors of a dozen numbers gain nothing from threads. Child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
# No test reaches for the network: whoever needs a text has the plays of a package, or none.
os.environ.setdefault("LABML_NN_OFFLINE", "1")

import jaxtyping
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from pylit.site.pool import cores

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# No test is timed: on a busy machine a short example takes long.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# From here on, importing labml_nn decorates every annotated function: each call in each test
# compares real shapes and dtypes with the declared ones, unless it takes `shapes_unchecked`.
HOOK = install_import_hook("labml_nn", "beartype.beartype")

_UNHOOKED: dict[str, ModuleType] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Keep the compiler's debug log, hundreds of lines a graph, out of reports of failures."""
    if config.option.log_level is None:
        config.option.log_level = "WARNING"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: tests wait, for a browser or for their children."""
    return cores() + 1


def _take_out() -> dict[str, ModuleType]:
    """Remove the library from ``sys.modules`` and return what was there."""
    names = [name for name in sys.modules if name.split(".")[0] == "labml_nn"]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture
def unhooked() -> Iterator[Callable[[str], ModuleType]]:
    """Import the library as users do, without shape checks, for as long as one test runs.

    For messages of our own errors (the hook would be first to object), for arguments that are
    accepted although the signature does not advertise them, and for ``torch.compile``::

        def test_it(unhooked):
            mha = unhooked("labml_nn.transformers.mha")
            with pytest.raises(ValueError, match="divisible"):
                mha.MultiHeadAttention(4, 10)

    Classes of this copy are not those imported at the head of a test file.
    """
    global HOOK
    hooked = _take_out()
    HOOK.uninstall()
    sys.modules.update(_UNHOOKED)
    try:
        yield importlib.import_module
    finally:
        if "torch._dynamo" in sys.modules:  # what one test compiled must not count for the next
            sys.modules["torch._dynamo"].reset()
        _UNHOOKED.update(_take_out())
        sys.modules.update(hooked)
        HOOK = install_import_hook("labml_nn", "beartype.beartype")


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """Leave out the comparison of shapes, which is half the time of a test of thousands of calls.

    For comparisons of two ways to compute what other tests compute with the shapes checked.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def required() -> Callable[..., str]:
    """Find a program; skip where it is missing. In CI that is a failure, or nobody would notice."""

    def find(*names: str) -> str:
        if found := next(filter(None, map(shutil.which, names)), None):
            return found
        if os.environ.get("CI") == "true":
            pytest.fail(f"{names[0]} is missing, and CI must not skip these tests")
        pytest.skip(f"{names[0]} is missing")

    return find


@pytest.fixture(scope="session")
def browser(required: Callable[..., str]) -> "Iterator[Browser]":
    """Chromium, as Debian, Ubuntu and Google name it; without a window it takes a fifth less."""
    from playwright.sync_api import sync_playwright

    found = required("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    flags = ["no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"]
    flags += ["disable-background-networking", "disable-component-update"]
    # Letters as wide as they are in a window: the shell, unlike it, moves them onto pixels.
    flags += ["font-render-hinting=none"]
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=found, args=[f"--{flag}" for flag in flags]
        )
