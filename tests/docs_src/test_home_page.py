"""The lines of the home page that install and import, run as they stand there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs_src/pages/index.md").read_text(encoding="utf-8")


def test_the_lines_that_install_and_import_run(tmp_path: Path) -> None:
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("setuptools is older than pyproject.toml asks for")
    shown = re.findall(r"(?s)```bash\n(.*?)```", PAGE)[0].strip().split("\n")
    assert len(shown) == 2
    # A copy, for setuptools leaves files beside the sources.
    project, target = tmp_path / "project", tmp_path / "installed"
    shutil.copytree(ROOT / "labml_nn", project / "labml_nn")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    # What it needs is there already; nothing is fetched.
    kept = ["--no-deps", "--no-build-isolation", "--quiet", "--target", str(target)]
    install, use = map(shlex.split, shown)
    assert install[0] == "pip" and use[0] == "python"
    subprocess.run([sys.executable, "-m", *install, *kept], cwd=project, check=True)
    command = [sys.executable, *use[1:-1], use[-1] + "; import labml_nn; print(labml_nn.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(target)}
    told = subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert Path(told.stdout.strip()).is_relative_to(target)
