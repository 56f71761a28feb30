"""What Python and PyTorch document, and where."""

import pytest

from pylit.source.inventories import documented

PYTHON = "https://docs.python.org/3/"
PYTORCH = "https://docs.pytorch.org/docs/stable/"
ADDRESSES = f"""
function builtins.len {PYTHON}builtins/functions.html#len
class builtins.dict {PYTHON}builtins/stdtypes.html#dict
module math {PYTHON}library/math.html#module-math
function os.path.join {PYTHON}library/os.path.html#os.path.join
module torch.nn.functional {PYTORCH}nn.functional.html#module-torch.nn.functional
class torch.nn.Linear {PYTORCH}generated/torch.nn.Linear.html
function torch.nn.Module.apply {PYTORCH}generated/torch.nn.Module.html#torch.nn.Module.apply
function torch.Tensor.view {PYTORCH}generated/torch.Tensor.view.html
function torch.float32 {PYTORCH}tensor_attributes.html#torch.dtype
class torch.nn.Buffer {PYTORCH}generated/torch.nn.parameter.Buffer.html#torch.nn.parameter.Buffer
class torch.distributions.Normal {PYTORCH}distributions.html#torch.distributions.normal.Normal
"""
ABSENT = """numpy numpy.array os.nonsense math.sqrt.x torch.nn.Nonsense torchvision
    torch.nn.Linear.nonsense torch.Tensor.nonsense labml.tracker x . a..b"""


@pytest.mark.parametrize("line", ADDRESSES.strip().splitlines())
def test_what_is_documented_has_a_link(line):
    kind, dotted, address = line.split()
    target = documented()[dotted]
    assert (target.definition.dotted, target.definition.kind) == (dotted, kind)
    assert target.url == address


def test_what_is_not_documented_has_no_link():
    assert [name for name in ["", *ABSENT.split()] if name in documented()] == []


def test_torch_has_what_its_table_names():
    torch = pytest.importorskip("torch")
    owners = {"torch": torch, "torch.nn": torch.nn, "torch.Tensor": torch.Tensor}
    owners |= {"torch.nn.functional": torch.nn.functional, "torch.optim": torch.optim}
    named = [name.rpartition(".") for name in documented()]
    known = [(owners[owner], name) for owner, _, name in named if owner in owners]
    assert len(known) > 500
    assert [name for owner, name in known if not hasattr(owner, name)] == []
