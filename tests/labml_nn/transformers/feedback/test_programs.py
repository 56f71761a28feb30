"""The feedback transformer as programs of a GPU: against the form by hand, in the interpreter."""

import copy
import pickle
import sys

import pytest
import torch
from feedback_tools import build, tokens
from programs_tools import blocks, compile_only, interpret, launch, recurrence, resources
from torch import nn
from torch.nn import functional as F

from labml_nn.transformers.feedback import by_hand
from labml_nn.transformers.feedback.by_hand import form as forms
from labml_nn.transformers.feedback.by_hand.operation import go
from labml_nn.transformers.feedback.gpu import kernel

BLANK = torch.tensor([[True, False], [False, False]])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Spans of three steps: a text of four has two of them."""
    monkeypatch.setattr(forms, "STEPS", 3)


@pytest.fixture
def interpreted(monkeypatch):
    with interpret(monkeypatch):
        yield


def with_form(arguments, **changes):
    form, *others = arguments
    return forms.Form(**(vars(form) | changes)), *others


def everything(recur, arguments):
    """Results, and gradients of the text, of rows and of folded weights."""
    _, _, x_seq, keys, values, weights = arguments
    results = recur(*arguments)
    total = sum(
        (part * tokens(*part.shape, seed=i, dtype=part.dtype)).sum()
        for i, part in enumerate(results)
    )
    return [*results, *torch.autograd.grad(total, [x_seq, keys, values, *weights])]


def the_form_by_hand(form, blank, x_seq, keys, values, weights):
    return go(by_hand.BY_HAND, form, blank, x_seq, keys, values, weights)


def assert_alike(arguments, tolerance=1e-10):
    got = everything(kernel.recur, arguments)
    for mine, right in zip(got, everything(the_form_by_hand, arguments), strict=True):
        assert mine.dtype == right.dtype
        assert (mine - right).norm() <= tolerance * right.norm() + tolerance


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": torch.float32},
        {"horizon": 3, "norm_memory": True},
        {"blank": BLANK, "n_layers": 1},
        {"dropout": 0.3, "blank": BLANK, "n_layers": 1},
        {"dropout": 0.3, "horizon": 4, "n_layers": 1},
        {"d_model": 20, "heads": 5, "n_layers": 1, "before": 1},
        {"d_model": 8, "heads": 1, "max_distance": 2, "batch": 1},
        {"length": 1, "batch": 3},
    ],
    ids=str,
)
def test_equals_the_form_by_hand(options):
    single = options.get("dtype") == torch.float32
    assert_alike(recurrence(**options), 1e-5 if single else 1e-10)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("block", [64, 128])
def test_small_blocks(monkeypatch, block):
    """One head, or two of three, at a time; a few hidden features; two rows of memory."""
    monkeypatch.setattr(blocks, "BLOCK", block)
    monkeypatch.setattr(blocks, "ROWS", 2)
    assert_alike(recurrence(n_layers=1, batch=1))


def called(activation):
    """A name without an address in memory: it has to be the same in all processes."""
    return getattr(activation, "__name__", str(activation))


def gated(arguments):
    """As many gates as there were features, with weights of their own."""
    form, *others, weights = arguments
    weights = weights._replace(
        up=torch.cat([weights.up, weights.up.flip(1)], 1),
        up_bias=torch.cat([weights.up_bias, 1 - weights.up_bias], 1),
    )
    return with_form((form, *others, weights), is_gated=True)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("is_gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize(
    "activation", [F.gelu, nn.SiLU(), torch.sigmoid, nn.Identity(), F.relu], ids=called
)
def test_activations(activation, is_gated):
    arguments = recurrence(n_layers=1, length=2, batch=1)
    if is_gated:
        arguments = gated(arguments)
    assert_alike(with_form(arguments, activation=activation))


@pytest.mark.usefixtures("interpreted")
def test_two_texts_before_a_way_back():
    first, second = (recurrence(length=length, batch=2, n_layers=1) for length in (2, 3))
    tops = [kernel.recur(*arguments)[0] for arguments in (first, second)]
    for arguments, top in zip((first, second), tops, strict=True):
        (mine,) = torch.autograd.grad(top.sum(), arguments[2])
        right = the_form_by_hand(*arguments)[0].sum()
        torch.testing.assert_close(mine, *torch.autograd.grad(right, arguments[2]))


@pytest.mark.usefixtures("interpreted")
def test_a_model(monkeypatch):
    """As `backend` chooses it, copied and read back, with a memory that it goes on from."""
    monkeypatch.setattr(kernel, "unsuited", lambda *_: None)
    plain = build(True, n_layers=1).double()
    programs = pickle.loads(pickle.dumps(copy.deepcopy(plain)))
    plain.backend, programs.backend = "plain", "triton"
    found = []
    for model in (plain, programs):
        memory = model.scan(tokens(4, 1, 12, dtype=torch.float64))[1]
        y, memory = model.scan(tokens(5, 1, 12, dtype=torch.float64, seed=3), memory)
        total = y.pow(3).sum() + memory.keys.rows.pow(2).sum()
        gradients = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
        found.append([y, *(gradient for gradient in gradients if gradient is not None)])
    for right, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("interpreted")
def test_results_are_copies():
    """Who writes over a result does not change the way back."""
    arguments = recurrence(length=2, batch=1, n_layers=1)
    results = kernel.recur(*arguments)
    total = results[0].sum() + results[1].sum()
    with torch.no_grad():
        for result in results:
            result.zero_()
    (mine,) = torch.autograd.grad(total, arguments[2])
    right = the_form_by_hand(*arguments)
    (expected,) = torch.autograd.grad(right[0].sum() + right[1].sum(), arguments[2])
    torch.testing.assert_close(mine, expected)


@pytest.mark.usefixtures("interpreted")
def test_no_gradients_of_gradients():
    arguments = recurrence(length=2, batch=1, n_layers=1)
    top, *_ = kernel.recur(*arguments)
    with pytest.raises(RuntimeError, match="gradients of gradients"):
        torch.autograd.grad(top.sum(), arguments[2], create_graph=True)


@pytest.mark.usefixtures("interpreted")
def test_no_gradient_asked_for():
    arguments = recurrence(length=2, batch=1, n_layers=1)
    with torch.no_grad():
        top, keys, _ = kernel.recur(*arguments)
    assert not top.requires_grad
    assert keys.shape == (2, 1, 3, 4)


class TestCompiled:
    """For GPUs that are not there: what a launch there would run."""

    def run(self, arguments, d_ff=None):
        """There and back, with hidden features of another number."""
        *others, weights = arguments
        if d_ff is not None:
            layers, width, _ = weights.query.shape
            up, bias = (weights.up.new_zeros(layers, d_ff, *w) for w in ([width], []))
            weights = weights._replace(up=up, up_bias=bias, down=up)
        top, *_ = kernel.recur(*others, weights)
        torch.autograd.grad(top.sum(), arguments[2])

    @pytest.mark.parametrize("capability", [80, 90])
    def test_registers_and_shared_memory(self, monkeypatch, tmp_path, capability):
        """Four heads of 32, in which no number should leave the registers for want of room."""
        compiled = compile_only(monkeypatch, tmp_path, capability)
        sizes = {"d_model": 128, "heads": 4, "n_layers": 4, "length": 3, "batch": 1}
        self.run(recurrence(torch.float32, **sizes), 512)
        assert len(compiled) == 2
        for program in compiled:
            registers, stack, shared = resources(program, tmp_path)
            assert 64 < registers <= 255
            assert stack == 0
            assert shared < 99 * 1024  # as much as the smallest of these devices has

            # What a program writes and reads must not be taken for what never changes.
            assert "ld.global.nc" not in program.asm["ptx"]

    def test_all_branches(self, monkeypatch, tmp_path):
        compiled = compile_only(monkeypatch, tmp_path, 90)
        options = {"dropout": 0.2, "horizon": 2, "norm_memory": True, "length": 3}
        self.run(recurrence(blank=BLANK, **options))
        assert len(compiled) == 2  # there and back
        assert all(program.asm["cubin"] for program in compiled)

    def test_gates(self, monkeypatch, tmp_path):
        compiled = compile_only(monkeypatch, tmp_path, 90)
        arguments = recurrence(torch.float32, n_layers=1, length=2)
        self.run(with_form(gated(arguments), activation=nn.GELU()))
        assert all(program.asm["cubin"] for program in compiled)

    def test_one_for_many_lengths(self, monkeypatch, tmp_path):
        """Another text is another program only where a number is 1, or divisible by 16."""
        compiled = compile_only(monkeypatch, tmp_path, 90)
        for length, before in ((5, 2), (7, 3), (11, 4)):
            form, blank, *tensors = recurrence(length=length, before=before, n_layers=1)
            with torch.no_grad():
                kernel.recur(form, blank, *tensors)
        assert len({id(program) for program in compiled}) == 1


class TestUnsuited:
    FORM = forms.Form(3, 1e-5, None, True, nn.ReLU(), False)

    @pytest.fixture
    def on_a_gpu(self, monkeypatch):
        """Tensors that say that they are on a GPU."""
        monkeypatch.setattr(launch, "cannot_launch", lambda device: None)
        fake = pytest.importorskip("torch._subclasses.fake_tensor")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
        with fake.FakeTensorMode():
            yield lambda *shape, **options: torch.empty(shape, device="cuda:0", **options)

    def test_nothing_is_in_the_way(self, on_a_gpu):
        assert kernel.unsuited(self.FORM, on_a_gpu(2, 3, 12)) is None
        assert kernel.unsuited(self.FORM, on_a_gpu(2, 3, 510)) is not None
        assert kernel.unsuited(self.FORM, on_a_gpu(2, 3, 12, dtype=torch.float64)) is None

    def test_devices(self, on_a_gpu, monkeypatch):
        assert "on cpu" in kernel.unsuited(self.FORM, torch.empty(2, 3, 12, device="cpu"))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (7, 5))
        assert "7.5" in kernel.unsuited(self.FORM, on_a_gpu(2, 3, 12))
        monkeypatch.setattr(torch.version, "hip", "6.4")
        assert "NVIDIA" in kernel.unsuited(self.FORM, on_a_gpu(2, 3, 12))

    def test_tensors(self, on_a_gpu):
        assert "bfloat16" in kernel.unsuited(self.FORM, on_a_gpu(2, 3, 12, dtype=torch.bfloat16))
        assert "nothing" in kernel.unsuited(self.FORM, on_a_gpu(0, 3, 12))
        assert "no room for 1536" in kernel.unsuited(self.FORM, on_a_gpu(2, 3, 1536))

    @pytest.mark.parametrize("activation", [nn.Tanh(), nn.GELU("tanh"), torch.cos], ids=called)
    def test_activations(self, on_a_gpu, activation):
        form = with_form((self.FORM,), activation=activation)[0]
        assert "activation" in kernel.unsuited(form, on_a_gpu(2, 3, 12))

    def test_triton(self, on_a_gpu, monkeypatch):
        monkeypatch.setattr("triton.__version__", "3.2.0")
        assert "3.2.0 is too old" in kernel.unsuited(self.FORM, on_a_gpu(2, 3, 12))
        monkeypatch.setattr(kernel, "find_spec", lambda name: None)
        assert "not installed" in kernel.unsuited(self.FORM, on_a_gpu(2, 3, 12))


@pytest.mark.usefixtures("interpreted")
def test_the_smallest_program():
    numbers = torch.zeros(2, 3, 5, dtype=torch.int32)
    launch.launch(blocks.mark, numbers, numbers)
    assert numbers.flatten()[:4].tolist() == [0, 1, 2, 0]


def test_nothing_can_be_launched(monkeypatch):
    """No compiler of C, say."""

    def fail(*_):
        raise RuntimeError("Failed to find C compiler")

    launch.cannot_launch.cache_clear()
    monkeypatch.setattr(launch, "launch", fail)
    assert "C compiler" in launch.cannot_launch(torch.device("cpu"))
    launch.cannot_launch.cache_clear()
    monkeypatch.setattr(launch, "launch", lambda *_: None)
    assert launch.cannot_launch(torch.device("cpu")) is None
    launch.cannot_launch.cache_clear()


def test_nobody_else_needs_triton(monkeypatch, unhooked):
    monkeypatch.setitem(sys.modules, "triton", None)  # an import of it fails
    package = unhooked("labml_nn.transformers.feedback.gpu.kernel")
    x_seq = torch.empty(2, 3, 12)
    assert "on cpu" in package.unsuited(package.Form(3, 1e-5, None, True, nn.ReLU(), False), x_seq)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "options", [{}, {"dropout": 0.3, "horizon": 9}, {"dtype": torch.float32}], ids=str
)
@pytest.mark.parametrize("width_heads", [(12, 3), (128, 4), (96, 6)], ids=str)
def test_on_a_gpu(monkeypatch, options, width_heads):
    """What the interpreter cannot see: threads that read what others have not written yet."""
    monkeypatch.setattr(forms, "STEPS", 32)
    width, heads = width_heads
    sizes = {"d_model": width, "heads": heads, "length": 70, "batch": 37}
    form, blank, *tensors, weights = recurrence(**sizes, **options)
    tensors = [tensor.detach().cuda().requires_grad_() for tensor in tensors]
    weights = type(weights)(*(w.detach().cuda().requires_grad_() for w in weights))
    assert kernel.unsuited(form, tensors[0]) is None
    assert_alike((form, blank, *tensors, weights), 1e-3 if "dtype" in options else 1e-10)
