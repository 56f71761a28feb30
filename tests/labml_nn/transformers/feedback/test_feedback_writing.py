"""Writers of the feedback language model: each step gives what `forward` gives."""

import copy
import pickle

import pytest
import torch

from labml_nn.sampling import generate
from labml_nn.transformers.feedback import writing
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
from labml_nn.transformers.feedback.writing import FeedbackWriter, can_write
from labml_nn.transformers.feedback.writing.compiled import CompiledStep
from labml_nn.transformers.feedback.writing.step import Step

SIZES = {"n_vocab": 11, "d_model": 12, "heads": 3, "d_ff": 28, "n_layers": 2, "max_len": 7}
FORMS = pytest.mark.parametrize(
    ("backend", "step"), [("by_hand", Step), ("kernel", CompiledStep)], ids=["lean", "compiled"]
)
BATCHES = pytest.mark.parametrize("batch", [1, 3, 9])


def build(backend="auto", **options):
    torch.manual_seed(0)
    model = FeedbackLanguageModel.from_config({**SIZES, "dropout_prob": 0.0, **options}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    model.transformer.backend = backend
    return model


def text(length, batch, low=0):
    generator = torch.Generator().manual_seed(7)
    return torch.randint(low, SIZES["n_vocab"], (length, batch), generator=generator)


def written(model, state, tokens, kind=FeedbackWriter):
    writer = model.decoding_step(state)
    assert not kind or isinstance(writer, kind)
    return torch.stack([writer(row) for row in tokens])


@torch.no_grad()
def expected(model, state, tokens):
    """Token by token, in the plain form."""
    plain = copy.deepcopy(model)
    plain.transformer.backend = "plain"
    logits = []
    for row in tokens:
        step, state = plain(row[None], state)
        logits.append(step[0])
    return torch.stack(logits)


@FORMS
@BATCHES
@pytest.mark.parametrize(
    "options",
    [{}, {"norm_memory": False, "tied": False}, {"max_len": 1}, {"d_model": 36, "max_len": 40}],
    ids=str,
)
def test_a_writer_equals_forward(backend, step, batch, options):
    """Over a text that is several windows long, and with sizes that fill no vector."""
    model = build(backend, **options)
    tokens = text(30, batch)
    _, state = model(tokens[:4])
    assert isinstance(model.decoding_step(state).step, step)
    got = written(model, state, tokens[4:])
    torch.testing.assert_close(got, expected(model, state, tokens[4:]), rtol=1e-5, atol=1e-5)
    assert not got.requires_grad


@BATCHES
def test_exactly_in_double_precision(batch):
    model, tokens = build().double(), text(25, batch)
    _, state = model(tokens[:3])
    got = written(model, state, tokens[3:])
    torch.testing.assert_close(got, expected(model, state, tokens[3:]), rtol=1e-10, atol=1e-11)
    assert isinstance(model.decoding_step(state).step, Step)


@FORMS
def test_a_state_is_still_good_afterwards(backend, step):
    model, tokens = build(backend), text(20, 3)
    _, state = model(tokens[:9])
    before = state.keys.rows.clone()
    first = written(model, state, tokens[9:])
    torch.testing.assert_close(state.keys.rows, before, rtol=0, atol=0)
    for other in (state, copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        torch.testing.assert_close(written(model, other, tokens[9:]), first, rtol=0, atol=0)


@FORMS
def test_texts_of_different_lengths(backend, step):
    """Rows of padding are hidden until they have left the window."""
    model, tokens = build(backend, padding_token=0), text(24, 3, low=1)
    tokens[2:6, 0] = tokens[:3, 1] = 0
    _, state = model(tokens[:6])
    assert state.lengths is not None
    got = written(model, state, tokens[6:])
    torch.testing.assert_close(got, expected(model, state, tokens[6:]), rtol=1e-5, atol=1e-5)


@FORMS
def test_parameters_may_change_on_the_way(backend, step):
    model, tokens = build(backend), text(12, 3)
    _, state = model(tokens[:5])
    writer, (logits, plain) = model.decoding_step(state), model(tokens[5:6], state)
    torch.testing.assert_close(writer(tokens[5]), logits[0], rtol=1e-5, atol=1e-5)
    changed = [
        model.embed.weight,
        model.transformer.weights,
        model.transformer.key.linear.weight,
        model.transformer.layers[1].attn.key_pos_bias,
        model.transformer.layers[0].norm_ff.bias,
        model.transformer.norm.weight,
    ]
    for row, parameter in zip(tokens[6:], changed, strict=True):
        with torch.no_grad():
            parameter.mul_(1.5).add_(0.1)
        logits, plain = model(row[None], plain)
        got = writer(row)
        torch.testing.assert_close(got, logits[0], rtol=1e-5, atol=1e-5)


@FORMS
def test_another_default_precision(backend, step):
    """The precision is that of the model, whatever new tensors would have."""
    model, tokens = build(backend), text(9, 3)
    _, state = model(tokens[:4])
    want = expected(model, state, tokens[4:])
    torch.set_default_dtype(torch.float64)
    try:
        got = written(model, state, tokens[4:])
    finally:
        torch.set_default_dtype(torch.float32)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@FORMS
@pytest.mark.parametrize("made_in_inference", [False, True])
def test_in_and_out_of_inference_mode(backend, step, made_in_inference):
    model, tokens = build(backend), text(22, 1)
    with torch.inference_mode(made_in_inference):
        _, state = model(tokens[:4])
        writer = model.decoding_step(state)
    first = writer(tokens[4])
    with torch.inference_mode(not made_in_inference):
        rest = [writer(row).clone() for row in tokens[5:]]
    want = expected(model, state, tokens[4:])
    torch.testing.assert_close(torch.stack([first, *rest]), want, rtol=1e-5, atol=1e-5)


@FORMS
def test_padding_among_the_tokens(backend, step):
    """A writer gives up, and the text goes on as if nothing had happened."""
    model, tokens = build(backend, padding_token=0), text(16, 3, low=1)
    tokens[9, 1] = 0
    _, state = model(tokens[:3])
    got = written(model, state, tokens[3:])
    torch.testing.assert_close(got, expected(model, state, tokens[3:]), rtol=1e-5, atol=1e-5)


def test_tokens_that_cannot_be():
    model = build()
    _, state = model(text(3, 2))
    for wrong, error in (
        (torch.tensor([3, 11]), ValueError),
        (torch.tensor([-1, 3]), ValueError),
        (torch.tensor([3.0, 4.0]), TypeError),
        (torch.tensor([3]), ValueError),
    ):
        with pytest.raises(error):
            model.decoding_step(state)(wrong)


class Quieter(FeedbackLanguageModel):
    def forward(self, tokens, state=None):
        logits, state = super().forward(tokens, state)
        return logits / 2, state


def hooked(model):
    model.embed.register_forward_hook(lambda *_: None)


def hooked_within(model):
    model.transformer.layers[0].attn.register_forward_hook(lambda *_: None)


def dropping(model):
    model.config = type(model.config)(**{**vars(model.config), "dropout_prob": 0.5})
    model.train()


def plain(model):
    model.transformer.backend = "plain"


def quieter(model):
    model.__class__ = Quieter


def half(model):
    model.bfloat16()


@pytest.mark.parametrize("change", [hooked, hooked_within, dropping, plain, quieter, half])
def test_what_a_writer_does_not_know(change):
    model, tokens = build(), text(6, 2)
    change(model)
    _, state = model(tokens[:3])
    assert not isinstance(model.decoding_step(state), FeedbackWriter)
    assert written(model, state, tokens[3:], kind=None).shape == (3, 2, 11)


def test_other_models_and_states():
    tokens = text(6, 2)
    own = build(shared_kv=False)
    _, state = own(tokens[:3])
    torch.testing.assert_close(
        written(own, state, tokens[3:], kind=None), expected(own, state, tokens[3:])
    )
    model = build(padding_token=0)
    tokens[:3, 1] = 0  # the second text has no row yet
    _, state = model(tokens[:3])
    assert not can_write(model, state)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not can_write(model, model(text(3, 2, low=1))[1])


def test_without_kernels(monkeypatch):
    monkeypatch.setenv("LABML_NN_KERNEL", "0")
    monkeypatch.setattr(writing.compiled.KERNEL, "told", set())
    model = build()
    _, state = model(text(3, 2))
    assert isinstance(model.decoding_step(state).step, Step)
    model.transformer.backend = "kernel"
    with pytest.warns(RuntimeWarning, match=r"step of the feedback.*`LABML_NN_KERNEL` is 0"):
        assert isinstance(model.decoding_step(state).step, Step)


def test_memory_does_not_grow():
    model, tokens = build(), text(40, 2)
    _, state = model(tokens[:2])
    writer = model.decoding_step(state)
    places = {writer.rows.keys.data_ptr(), writer.rows.values.data_ptr()}
    for row in tokens:
        writer(row)
        assert (
            writer.rows.end <= writer.rows.keys.shape[-1] == 16 + 16
        )  # twice the window, and a line
    assert places == {writer.rows.keys.data_ptr(), writer.rows.values.data_ptr()}


@pytest.mark.parametrize("backend", ["by_hand", "kernel"])
def test_generation(backend):
    """The same text as of the plain form, with prompts of different lengths."""
    model = build(backend)
    prompt, lengths = text(5, 3), torch.tensor([5, 2, 3])
    got = generate(model, prompt, 20, lengths=lengths)
    model.transformer.backend = "plain"
    assert torch.equal(got, generate(model, prompt, 20, lengths=lengths))
