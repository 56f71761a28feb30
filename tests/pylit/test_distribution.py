"""The generator's own distribution: its wheel, unpacked, builds a site without the library."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling import build
from site_tools import REPOSITORY, cache, make_site, succeed, tree

import pylit

#: Neither the checkout nor the library may be found.
ALONE = """
import sys
sys.modules |= dict.fromkeys(("torch", "labml_nn", "jaxtyping"))
import pylit.__main__
assert pylit.__file__.startswith(sys.argv.pop(1)), pylit.__file__
sys.exit(pylit.__main__.main())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installation."""
    folder, old = tmp_path_factory.mktemp("installed"), Path.cwd()
    os.chdir(REPOSITORY / "pylit")
    try:
        wheel = build.build_wheel(str(folder))
    finally:
        os.chdir(old)
    assert wheel == f"pylit_site-{pylit.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(folder / wheel) as archive:
        archive.extractall(folder)
    return folder


def run(program: str, cwd: Path, *given: object, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", program, *map(str, given)]
    # The order of sets is another one than in this process.
    environment = os.environ | {"PYTHONPATH": str(path), "PYTHONHASHSEED": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def test_it_builds_the_same_site_as_the_checkout(installed: Path, tmp_path: Path) -> None:
    site = make_site(tmp_path)
    succeed(site)
    alone = tmp_path / "alone"
    alone.mkdir()
    given = ["build", "--out", alone / "site", "--cache", cache(alone)]
    done = run(ALONE, site, installed, *given, path=installed)
    assert done.returncode == 0, done.stderr
    made, same = tree(alone / "site"), tree(tmp_path / "site")
    assert made and made == same


def test_on_windows_it_says_where_it_runs(installed: Path, tmp_path: Path) -> None:
    windows = "import sys; sys.platform = 'win32'; sys.modules['fcntl'] = None\n"
    done = run(windows + ALONE, tmp_path, installed, "build", path=installed)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "on Windows" in done.stderr
