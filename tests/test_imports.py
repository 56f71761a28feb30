"""What the contracts of `lint-imports` in pyproject.toml cannot say: no circles among modules.

The graph contains imports inside functions, which only postpone a circle, and those of exercises
and type checking do not count.
"""

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", ["labml_nn", "pylit"])
def test_no_modules_import_each_other(package, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imports) > 20
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_importing_the_library_needs_torch_and_jaxtyping_only():
    """safetensors is imported when a file is read or written."""
    code = "import sys, torch, jaxtyping; before = set(sys.modules); import labml_nn; "
    code += "print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-W", "error", "-c", code]
    child = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    packages = {name.split(".")[0] for name in child.stdout.split()}
    assert "labml_nn" in packages
    assert packages <= {"labml_nn", "torch", "jaxtyping", *sys.stdlib_module_names}
