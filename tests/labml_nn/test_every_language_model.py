"""The interface of language models: one set of tests for every model of the table.

Texts are longer and shorter than the context, which is short here. Parameters are large, so that
predictions differ from token to token.
"""

import copy
import dataclasses
import pickle
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import small
from sweeps import in_turn
from torch import nn
from torch.func import functional_call, grad, vmap

import labml_nn
from labml_nn import kernels
from labml_nn.sampling import Greedy, Temperature, generate

V, SPECIAL = 13, 3
#: The context of the transformers.
MAX_LEN = 4
SMALL = {name: small(name, max_len=MAX_LEN) for name in labml_nn.models()}
VARIANTS = {
    "autoregressive-sinusoidal-postnorm": {"positions": "sinusoidal", "norm_first": False},
    "autoregressive-modern": {"positions": "rotary", "norm": "rms", "qk_norm": True}
    | {"activation": "silu", "bias": False, "heads": 2, "d_model": 8},
    "autoregressive-padding": {"padding_token": 0, "d_k": 5, "d_v": 7},
    "encoder_decoder-learned": {"positions": "learned", "tied": False, "max_len": 10},
    "feedback-own": {"shared_kv": False, "tied": False},
    "feedback-padding": {"padding_token": 0},
    "elman-padding": {"padding_token": 0, "learn_h_0": True, "tied": False},
    "lstm-normalised": {"padding_token": 0, "layer_norm": True},
    "gru-padding": {"padding_token": 0},
    "mamba2-padding": {"padding_token": 0, "d_k": 5, "d_v": 7, "groups": 3, "conv": 3},
    "linear_attention-padding": {"padding_token": 0, "conv": 1, "d_ff": 10},
    "delta_net-gated": {"padding_token": 0, "gated": True, "d_k": 5, "allow_neg_eigval": True},
}
ALL = [*SMALL, *VARIANTS]
every = pytest.mark.parametrize("which", ALL)
FEW = settings(deadline=None, max_examples=4)


def build(which, registry=labml_nn, **more):
    torch.manual_seed(0)
    name = which.split("-")[0]
    config = {"n_vocab": V, "dropout_prob": 0.1} | SMALL[name] | VARIANTS.get(which, {}) | more
    return registry.create(name, **config)


def make(which, **more):
    """In double precision, with large parameters."""
    model = build(which, **more).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def some(*shape):
    """Tokens that are not special to any of the models."""
    return torch.randint(SPECIAL, V, shape)


def start(model, prompt, length):
    """A state, and a text of at least this length that may follow it."""
    state, begin, _ = model.prepare_prompt(prompt)
    text = some(length, prompt.shape[1])
    return state, text if model.end_token is None else torch.cat([begin, text])


def run(model, text, prompt):
    """Logits at all of `text` in one call; a model that answers has read `prompt` before."""
    return model(text, model.prepare_prompt(prompt)[0])[0]


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    elif not isinstance(value, list | tuple):
        value = list(vars(value).values()) if hasattr(value, "__dict__") else []
    return [tensor for part in value for tensor in tensors_of(part)]


class Loss(nn.Module):
    """The loss as a forward pass, for `functional_call`."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        return self.model.loss(tokens, targets)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


# Forward pass and state.
@every
@FEW
@given(seed=st.integers(0, 99), length=st.integers(2, 11), cuts=st.sets(st.integers(1, 11)))
def test_chunks_give_the_logits_of_one_call(which, seed, length, cuts):
    model = make(which).eval()
    torch.manual_seed(seed)
    state, text = start(model, some(4, 3), length)
    whole, end = model(text, state)
    assert whole.shape == (len(text), 3, V) and whole.requires_grad
    assert tensors_of(end) and not any(tensor.requires_grad for tensor in tensors_of(end))
    parts, cuts = [], sorted(cut for cut in cuts if cut < len(text))
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        logits, state = model(text[first:last], state)
        parts.append(logits)
    close(torch.cat(parts), whole)


@every
def test_a_state_is_a_value(which):
    model = make(which).eval()
    state, text = start(model, some(4, 3), MAX_LEN + 3)
    _, state = model(text, state)
    before = [tensor.clone() for tensor in tensors_of(state)]
    one, two = some(4, 3), some(4, 3)
    first, _ = model(one, state)
    model(two, state)
    for tokens in two:
        model.decoding_step(state)(tokens)
    assert torch.equal(model(one, state)[0], first)
    assert all(map(torch.equal, tensors_of(state), before))


@pytest.mark.usefixtures("shapes_unchecked")
@every
@FEW
@given(seed=st.integers(0, 99), t=st.integers(1, 11))
def test_no_position_depends_on_later_tokens(which, seed, t):
    model = make(which).eval()
    torch.manual_seed(seed)
    prompt = some(4, 3)
    _, text = start(model, prompt, 12)
    other = text.clone()
    other[t:] = SPECIAL + (other[t:] - SPECIAL + 1) % (V - SPECIAL)
    one, two = run(model, text, prompt), run(model, other, prompt)
    close(one[:t], two[:t])
    assert ((one[t:] - two[t:]).abs().amax((0, 2)) > 1e-6).all()


@pytest.mark.parametrize("which", SMALL)
@FEW
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3), first=st.booleans())
def test_padding_has_no_influence(which, lengths, first):
    """Before a text or after it: each is read and continued as if it were alone."""
    model, B = make(which, padding_token=0, **small(which, max_len=16)).eval(), len(lengths)
    torch.manual_seed(sum(lengths))
    prompt, more = some(4, B), some(2, B)
    _, text = start(model, prompt, 10)
    padded, places = torch.zeros_like(text), []
    for b, length in enumerate(lengths):
        places.append(slice(len(text) - length, None) if first else slice(length))
        padded[places[b], b] = text[:length, b]
    together, state = model(padded, model.prepare_prompt(prompt)[0])
    after, _ = model(more, state)
    assert together.isfinite().all()
    for b, place in enumerate(places):
        alone, state = model(padded[place, [b]], model.prepare_prompt(prompt[:, [b]])[0])
        close(together[place, [b]], alone)
        close(after[:, [b]], model(more[:, [b]], state)[0])


# Loss and probabilities.
@every
def test_probabilities_are_softmax_of_logits(which):
    model, prompt = make(which), some(4, 3)
    state, text = start(model, prompt, 5)
    p, end = model.pred(text, state)
    next_one = model.predict(prompt)
    assert model.training and not p.requires_grad and not next_one.requires_grad
    logits, expected = model.eval()(text, state)
    close(p, logits.softmax(-1))
    assert all(map(torch.equal, tensors_of(end), tensors_of(expected)))
    begin = model.prepare_prompt(prompt)[1]
    close(next_one, run(model, begin, prompt)[-1].softmax(-1))
    close(model.predict(some(1, 3).expand(2, 3), end).sum(-1), torch.ones(3).double())


@every
def test_loss_returns_the_state_on_request(which):
    model, tokens, targets = make(which).eval(), some(4, 3), some(4, 3)
    assert model.loss(some(4, 0), some(4, 0)) == 0
    loss, state = model.loss(tokens, targets, return_state=True)
    assert torch.equal(loss, model.loss(tokens, targets)) and loss.requires_grad
    assert not any(tensor.requires_grad for tensor in tensors_of(state))
    if model.end_token is None:
        assert all(map(torch.equal, tensors_of(state), tensors_of(model(tokens)[1])))


@every
@pytest.mark.parametrize("biases", [False, True])
def test_uniform_initialisation(which, biases):
    """Of matrices and, on request, of the biases beside them."""
    model, drawn = build(which, init_lower=-0.25, init_upper=-0.125, init_biases=biases), []
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        if "weight" in own and own["weight"].dim() > 1:
            drawn += own.values() if biases else [own["weight"]]
    assert len(drawn) > 4
    for parameter in drawn:
        assert -0.25 <= parameter.min() <= parameter.max() <= -0.125
        assert parameter.numel() < 50 or (parameter.min() < -0.22 and parameter.max() > -0.155)


@every
def test_tokens_are_checked_when_they_enter_the_loss(which, unhooked):
    model = build(which, unhooked("labml_nn.registry"))
    with pytest.raises(ValueError, match=f"holds {V}; expected numbers from 0"):
        model.loss(torch.full((4, 3), V), some(4, 3))
    with pytest.raises(ValueError, match=f"`targets` holds {V}"):
        model.loss(some(4, 3), torch.full((4, 3), V))
    with pytest.raises(TypeError, match="has dtype"):
        model.loss(some(4, 3).float(), some(4, 3))


# Generation.
def recomputed(model, prompt, n, sampler, seed):
    """Token by token, with the whole text processed for each."""
    generator, banned = torch.Generator().manual_seed(seed), model.config.padding_token
    model.eval()
    _, text, _ = model.prepare_prompt(prompt)
    seen = []
    for _ in range(n):
        logits = run(model, text, prompt)[-1].detach()
        if banned is not None:
            logits[:, banned] = -torch.inf
        seen.append(logits)
        text = torch.cat([text, sampler(logits, generator)[None]])
    model.train()
    return text[-n:], torch.stack(seen)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("which", "start_of"), in_turn(ALL, [(1, Temperature(4.0)), (2 * MAX_LEN + 1, Greedy())])
)
def test_generation_equals_full_recomputation(which, start_of):
    length, sampler = start_of
    model, seen = make(which), []
    prompt, n = some(length, 3), 2 * MAX_LEN + 3

    def recording(logits, generator):
        seen.append(logits.clone())
        return sampler(logits, generator)

    expected, logits = recomputed(model, prompt, n, sampler, seed=1)
    assert torch.equal(generate(model, prompt, n, recording, seed=1, stop=()), expected)
    close(torch.stack(seen), logits)

    # Kernels for decoding compute in single precision: logits may differ by rounding.
    model, seen = model.float(), []
    expected, logits = recomputed(model, prompt, n, Greedy(), seed=1)
    for switch in (nullcontext(), kernels.disabled()):
        seen.clear()
        sampler = Greedy()
        with switch:
            text = generate(model, prompt, n, recording, stop=())
        same = (text == expected).all(1).long().cumprod(0).sum()  # until a near tie
        assert same > 0
        torch.testing.assert_close(torch.stack(seen[:same]), logits[:same], rtol=1e-4, atol=1e-4)


@every
def test_work_per_token_is_constant(which):
    """The rows that pass a linear map at each step: one, unless a window slides."""
    model, steps, batch, n = make(which), [], 3, 6 * MAX_LEN

    def begin(_, inputs):
        assert not steps or len(inputs[0]) == 1
        steps.append(0)

    def count(_, inputs):
        if steps:  # not while the source of an encoder–decoder is encoded
            steps[-1] = max(steps[-1], inputs[0].numel() // inputs[0].shape[-1] // batch)

    model.register_forward_pre_hook(begin)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(count)
    generate(model, some(MAX_LEN - 2, batch), n, stop=())
    assert len(steps) == n
    window = getattr(model.config, "max_len", 1)
    slides = [rows for rows in steps[1:] if rows > 1]
    assert all(rows <= window for rows in slides)
    if which != "feedback-own":  # each of its layers projects the whole memory at each step
        assert len(slides) <= (0 if which.startswith("feedback") else n // max(window // 2, 1))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(("which", "stop"), in_turn(ALL, [[5, 8], ()]))
def test_a_batch_is_generated_like_its_sequences(which, stop):
    model, prompt, lengths = make(which), some(9, 3), torch.tensor([1, 9, 6])
    together = generate(model, prompt, 2 * MAX_LEN, lengths=lengths, stop=stop)
    for b, length in enumerate(lengths.tolist()):
        alone = generate(model, prompt[:length, b : b + 1], 2 * MAX_LEN, stop=stop)[:, 0]
        assert torch.equal(together[: len(alone), b], alone)
        assert (together[len(alone) :, b] == alone[-1]).all()


@pytest.mark.parametrize("which", SMALL)
def test_padding_after_a_prompt_is_ignored(which):
    model, long, short = make(which, padding_token=0), some(7, 1), some(4, 1)
    prompt = torch.cat([long, torch.cat([short, torch.zeros(3, 1).long()])], dim=1)
    p, text = model.predict(prompt), generate(model, prompt, 5, stop=())
    for b, alone in enumerate([long, short]):
        close(p[b : b + 1], model.predict(alone))
        assert torch.equal(text[:, b : b + 1], generate(model, alone, 5, stop=()))


# What users do with modules.
@every
def test_saved_and_loaded_it_is_the_same(which, tmp_path):
    model = make(which, label_smoothing=0.1)
    model.save(tmp_path / "one")
    other = labml_nn.load(tmp_path / "one")
    assert type(other) is type(model) and other.config == model.config
    mine, theirs = model.state_dict(), other.state_dict()
    assert list(mine) == list(theirs)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert len(list(other.parameters())) == len(list(model.parameters()))  # tied as before
    prompt = some(4, 3)
    assert torch.equal(model.predict(prompt), other.predict(prompt))


@pytest.mark.usefixtures("shapes_unchecked")
@every
def test_copies_and_pickles_compute_the_same_and_share_nothing(which):
    model, tokens, targets = make(which), some(5, 3), some(5, 3)
    generate(model, tokens, 3)
    model.eval().loss(tokens, targets).backward()
    loss = model.loss(tokens, targets)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.loss(tokens, targets), loss)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(1.5)
        assert not torch.isclose(other.loss(tokens, targets), loss)
    assert torch.equal(model.loss(tokens, targets), loss)
    torch.testing.assert_close(model.float().loss(tokens, targets), loss.float())
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model.loss(tokens, targets), loss.float(), rtol=0.1, atol=0.1)


@every
def test_training_on_the_meta_device(which):
    """A tensor made on the CPU by mistake would be an error."""
    with torch.device("meta"):
        model = build(which, init_lower=-0.1, init_upper=0.1)
    tokens = some(MAX_LEN - 1, 2).to("meta")
    loss, state = model.loss(tokens, tokens, return_state=True)
    loss.backward()
    assert loss.is_meta and all(tensor.is_meta for tensor in tensors_of(state))
    assert all(parameter.grad is not None for parameter in model.parameters())


@every
def test_per_sequence_losses_and_gradients(which):
    """With `vmap` over the sequences of a batch, which do not depend on each other."""
    model, tokens, targets = make(which).eval(), some(3, 5), some(3, 5)
    parameters = dict(model.named_parameters())

    def loss(tokens, targets, parameters=parameters):
        given = {f"model.{name}": parameter for name, parameter in parameters.items()}
        return functional_call(Loss(model), given, (tokens[:, None], targets[:, None]))

    losses = vmap(loss, in_dims=1)(tokens, targets)
    gradients = vmap(grad(loss, argnums=2), in_dims=(1, 1, None))(tokens, targets, parameters)
    for b in range(5):
        alone = model.loss(tokens[:, [b]], targets[:, [b]])
        close(losses[b], alone)
        expected = torch.autograd.grad(alone, list(parameters.values()))
        close([gradient[b] for gradient in gradients.values()], list(expected))


@pytest.mark.parametrize(
    ("which", "dtype"), in_turn(ALL, [torch.bfloat16, torch.float16, torch.float64])
)
def test_a_default_dtype_is_that_of_the_whole_model(which, dtype):
    """It learns, generates beyond its context, and has the tables of 32 bits, rounded."""
    wide, tokens = build(which), some(5, 2)
    torch.set_default_dtype(dtype)
    try:
        model = build(which)
        assert {x.dtype for x in model.state_dict().values() if x.is_floating_point()} == {dtype}
        loss = model.loss(tokens, tokens)
        loss.backward()
        assert loss.isfinite() and loss.dtype in (torch.float32, torch.float64)
        assert generate(model, tokens, 2 * MAX_LEN).shape[1] == 2
        assert model.predict(tokens).shape == (2, V)
    finally:
        torch.set_default_dtype(torch.float32)
    tables = dict(wide.named_buffers())
    for name, table in model.named_buffers():
        if table.is_floating_point():
            torch.testing.assert_close(table, tables[name].to(dtype), rtol=0, atol=1e-6)
