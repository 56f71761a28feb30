"""The figures of the site, each made once for all tests of a process."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from pylit.figures.draw import Figure, Table
from pylit.runs.figures import read_files

ROOT = Path(__file__).parents[2]
FILES = read_files(ROOT / "docs_src/figures", "docs_src/figures")
NAMES = [f"{name}.{function}" for name, file in FILES.items() for function in file.functions]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"drawn_{name}", FILES[name].path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_anew(name: str) -> Figure | Table:
    file, function = name.split(".")
    torch.manual_seed(0)
    made = getattr(load(file), function)()
    assert isinstance(made, Figure | Table)
    return made


#: Each figure is made once for all tests of a process.
run = cache(made_anew)


def draw(name: str) -> Figure:
    figure = run(name)
    assert isinstance(figure, Figure)
    return figure
