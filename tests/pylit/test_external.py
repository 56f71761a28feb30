import pytest

from pylit.code.external import documented, external_kind, external_link

PYTHON = "https://docs.python.org/3/"
PYTORCH = "https://docs.pytorch.org/docs/stable/"


@pytest.mark.parametrize(
    ("dotted", "address"),
    [
        ("len", "builtins/functions.html#len"),
        ("builtins.dict", "builtins/stdtypes.html#dict"),
        ("ValueError", "builtins/exceptions.html#ValueError"),
        ("math", "library/math.html#module-math"),
        ("math.sqrt", "library/math.html#math.sqrt"),
        ("os.path.join", "library/os.path.html#os.path.join"),
        ("pathlib.Path.read_text", "library/pathlib.html#pathlib.Path.read_text"),
    ],
)
def test_python(dotted, address):
    link = external_link(dotted)
    assert link is not None and link.external
    assert link.url == PYTHON + address


@pytest.mark.parametrize(
    ("dotted", "address"),
    [
        ("torch", "torch.html#module-torch"),
        ("torch.nn.functional", "nn.functional.html#module-torch.nn.functional"),
        ("torch.nn.Linear", "generated/torch.nn.Linear.html"),
        (
            "torch.nn.Parameter",
            "generated/torch.nn.parameter.Parameter.html#torch.nn.parameter.Parameter",
        ),
        ("torch.nn.Module.apply", "generated/torch.nn.Module.html#torch.nn.Module.apply"),
        ("torch.nn.functional.softmax", "generated/torch.nn.functional.softmax.html"),
        ("torch.nn.init.xavier_uniform_", "nn.init.html#torch.nn.init.xavier_uniform_"),
        ("torch.Tensor", "tensors.html#torch.Tensor"),
        ("torch.Tensor.view", "generated/torch.Tensor.view.html"),
        ("torch.device", "tensor_attributes.html#torch.device"),
        ("torch.float32", "tensor_attributes.html#torch.dtype"),
        ("torch.Size", "size.html#torch.Size"),
        (
            "torch.distributions.Normal",
            "distributions.html#torch.distributions.normal.Normal",
        ),
        ("torch.optim.Adam.step", "generated/torch.optim.Adam.html#torch.optim.Adam.step"),
        ("torch.utils.data.DataLoader", "data.html#torch.utils.data.DataLoader"),
    ],
)
def test_pytorch(dotted, address):
    link = external_link(dotted)
    assert link is not None and link.external
    assert link.url == PYTORCH + address


@pytest.mark.parametrize(
    "dotted",
    ["", "numpy", "numpy.array", "os.nonsense", "math.sqrt.x", "torch.nn.Nonsense", "torchvision",
     "torch.nn.Linear.nonsense", "torch.Tensor.nonsense", "labml.tracker", "x", ".", "a..b"],
)  # fmt: skip
def test_what_is_not_known_to_be_documented_has_no_link(dotted):
    assert external_link(dotted) is None


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("class", "torch.nn.Linear torch.nn.Parameter builtins.dict collections.deque"),
        ("module", "torch.nn math"),
        ("", "torch.einsum len nonsense"),
    ],
)
def test_classes_and_modules_are_known(kind, names):
    assert {external_kind(name) for name in names.split()} == {kind}


def test_torch_has_what_its_table_names():
    torch = pytest.importorskip("torch")
    for name in ("torch.nn.Linear", "torch.einsum", "torch.Tensor.masked_fill"):
        assert name in documented()
    missing = []
    for name in documented():
        owner, _, attribute = name.rpartition(".")
        if owner in ("torch", "torch.nn", "torch.nn.functional", "torch.Tensor", "torch.optim"):
            thing = torch
            for part in owner.split(".")[1:]:
                thing = getattr(thing, part)
            if not hasattr(thing, attribute):
                missing.append(name)
    assert missing == []
