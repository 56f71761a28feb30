"""The compiled decoding step: what `forward` computes, in place, and only where it may run."""

import pytest
import torch
from sweeps import in_turn

from labml_nn.kernels import decoding, disabled
from labml_nn.kernels.decoding import CompiledStep
from labml_nn.sampling import Temperature, generate
from labml_nn.transformers.autoregressive import AutoregressiveConfig, AutoregressiveTransformer
from labml_nn.transformers.encoder_decoder import EncoderDecoderConfig, EncoderDecoderLanguageModel

C, H, F, V, L, W, PAD = 12, 3, 29, 19, 2, 7, 0

#: Every choice of the configuration at least once, with sizes that fit no vector.
CHOICES = {
    "default": {},
    "learned": {"positions": "learned", "norm_first": False, "activation": "gelu", "tied": False},
    "rotary": {"positions": "rotary", "heads": 2, "activation": "silu", "embedding_norm": True},
    "modern": {"positions": "rotary", "d_k": 6, "norm": "rms", "qk_norm": True, "bias": False}
    | {"activation": "squared_relu"},
    "none": {"positions": "none", "d_k": 3, "d_v": 5, "qk_norm": True},
    "wide": {"d_model": 48, "d_ff": 100, "max_len": 40},
    "one": {"max_len": 1},
    "two": {"max_len": 2, "padding_token": PAD},
}
SIZES = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "n_layers": L, "max_len": W}


@pytest.fixture(autouse=True)
def compiler():
    if decoding.EXTENSION.find() is None:
        pytest.skip("no C++ compiler")


def shaken(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def gpt(**changes) -> AutoregressiveTransformer:
    torch.manual_seed(3)
    return shaken(AutoregressiveTransformer(AutoregressiveConfig(**SIZES | changes)))


def read(model, length=3, batch=2):
    """A state, and tokens to continue with, until the context has slid several times."""
    tokens = torch.randint(1, V, (length + 3 * min(model.config.max_len, 9) + 2, batch))
    with torch.no_grad():
        return model(tokens[:length])[1], tokens[length:]


@torch.no_grad()
def compare(model, state, tokens, compiled=True) -> None:
    step = model.decoding_step(state)
    assert isinstance(step, CompiledStep) is compiled
    for token in tokens:
        logits, state = model(token[None], state)
        got = step(token)
        assert got.shape == logits[0].shape and got.dtype == logits.dtype
        torch.testing.assert_close(got, logits[0], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(("choice", "batch"), in_turn(CHOICES, [1, 2, 7]))
def test_logits_are_those_of_forward(choice, batch):
    model = gpt(**CHOICES[choice])
    for length in (1, W, W + 2):
        compare(model, *read(model, length, batch))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("changes", [{}, {"positions": "learned", "norm_first": False}])
def test_targets_are_those_of_forward(changes):
    """Four sources of different lengths; one is padding alone."""
    model = shaken(EncoderDecoderLanguageModel(EncoderDecoderConfig(**SIZES | changes)))
    source = torch.randint(3, V, (5, 4))
    source[3:, 1], source[:, 2], source[1:, 3] = PAD, PAD, PAD
    with torch.no_grad():
        state, start, _ = model.prepare_prompt(source)
        compare(model, state, start, compiled=False)  # the source is not projected yet
        _, state = model(start, state)
    compare(model, state, torch.randint(3, V, (2 * W + 1, 4)))


def test_padding_is_left_to_the_reference():
    model = gpt(padding_token=PAD)
    state, tokens = read(model)
    tokens[5, 1] = tokens[12, 0] = PAD
    compare(model, state, tokens)
    _, state = model(tokens[5:6])
    compare(model, state, tokens[:3], compiled=False)


def test_in_and_out_of_inference_mode():
    model = gpt()
    state, tokens = read(model)
    with torch.inference_mode():
        inside = model.decoding_step(state)
    outside = model.decoding_step(state)
    for token in tokens:
        logits = inside(token)
        with torch.inference_mode():
            torch.testing.assert_close(outside(token), logits)


def test_other_calls_run_the_reference(monkeypatch):
    model = gpt()
    state, tokens = read(model)
    _, empty = model(tokens[:1, :0], None)
    compare(model, empty, tokens[:2, :0], compiled=False)
    with disabled():
        compare(model, state, tokens, compiled=False)
    with torch.autocast("cpu", torch.bfloat16):
        assert not isinstance(model.decoding_step(state), CompiledStep)
    monkeypatch.setattr(decoding, "MAX_ELEMENTS", 100)
    compare(model, state, tokens, compiled=False)


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ([3, V], ValueError, "holds 19; expected numbers from 0 to 18"),
        ([-1, 3], ValueError, "holds -1"),
        ([3], ValueError, r"shape \[1\]; expected one token for each sequence, \[2\]"),
        ([0.5, 1.0], TypeError, "dtype torch.float32"),
    ],
)
def test_invalid_tokens_raise_the_errors_of_forward(unhooked, tokens, error, message):
    module = unhooked("labml_nn.transformers.autoregressive")
    config = module.AutoregressiveConfig(n_vocab=V, d_model=12, heads=3, n_layers=1)
    model = module.AutoregressiveTransformer(config).eval()
    _, state = model(torch.randint(V, (4, 2)))
    with pytest.raises(error, match=message):
        model.decoding_step(state)(torch.tensor(tokens))


def test_generation_uses_it(monkeypatch):
    """It is compiled before the first token, so that its messages do not stand inside a text."""
    model, prompt, seen = gpt(), torch.randint(V, (4, 3)), []
    find = decoding.EXTENSION.find
    monkeypatch.setattr(decoding.EXTENSION, "find", lambda: [seen.append("found"), find()][1])
    told = {"seed": 5, "on_token": lambda *_: seen.append("token")}
    text = generate(model, prompt.int(), 3 * W, Temperature(2.0), **told)
    assert seen == ["found"] + ["token"] * 9 * W
    with disabled():
        assert torch.equal(generate(model, prompt, 3 * W, Temperature(2.0), **told), text)
    assert seen.count("found") == 1
