"""Old imports say what to write instead."""

import importlib
import inspect
import re

import pytest

import labml_nn
from labml_nn import moved, transformers


@pytest.mark.parametrize("name", moved.MODULES)
def test_the_error_of_an_old_import_names_a_replacement_that_exists(name):
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"`{name}` of labml-nn 0.5.1")) as got:
        importlib.import_module(name)
    assert got.value.name == name
    instead = str(got.value).partition("use ")[2]
    if create := re.search(r'create\("(\w+)".*?\)', instead):
        options = dict(re.findall(r'(\w+)="(\w+)"', create[0]))
        labml_nn.models()[create[1]].load_class().Config(n_vocab=5, **options)
    for path in re.findall(r"labml_nn(?:\.\w+)+", instead):
        parent, _, attribute = path.rpartition(".")
        assert hasattr(importlib.import_module(parent), attribute) or importlib.import_module(path)
    if name.startswith("labml_nn.sampling."):
        module = importlib.import_module("labml_nn.sampling")
        assert all(inspect.isclass(getattr(module, one)) for one in re.findall(r"(\w+)\(", instead))


@pytest.mark.parametrize("name", moved.NAMES)
def test_old_names_of_the_transformers(name):
    with pytest.raises(ImportError, match=f"{name}` of labml-nn 0.5.1 is not here; use"):
        exec(f"from labml_nn.transformers import {name}")
    assert name not in dir(transformers)


def test_unknown_names_fail_as_ever():
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("labml_nn.transformers.nothing")
    assert not hasattr(transformers, "Nothing")
