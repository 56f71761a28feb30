"""What every language model of the table can do: one set of tests for all of them."""

import dataclasses

import pytest
import torch
from torch import nn

import labml_nn
from labml_nn.sampling import Chain, Greedy, Nucleus, Temperature, generate

V, SPECIAL = 13, 3
#: The context of the transformers, so that texts of the tests are longer.
MAX_LEN = 4
TRANSFORMER = {"d_model": 12, "heads": 3, "n_layers": 2, "max_len": MAX_LEN}
SMALL = {
    "autoregressive": TRANSFORMER,
    "encoder_decoder": TRANSFORMER,
    "feedback": TRANSFORMER,
    "elman": {"d_model": 12, "d_hidden": 10, "n_layers": 2},
}
#: Other ways to build them.
VARIANTS = {
    "autoregressive-sinusoidal-postnorm": {"positions": "sinusoidal", "norm_first": False},
    "autoregressive-padding": {"padding_token": 0, "d_k": 5, "d_v": 7},
    "encoder_decoder-learned": {"positions": "learned", "tied": False, "max_len": 10},
    "feedback-own": {"shared_kv": False, "tied": False},
    "feedback-padding": {"padding_token": 0},
    "elman-padding": {"padding_token": 0, "learn_h_0": True, "tied": False},
}
ALL = [*SMALL, *VARIANTS]


def make(which, **more):
    """A model in double precision, whose bets differ from token to token."""
    name = which.split("-")[0]
    torch.manual_seed(0)
    config = {"n_vocab": V} | SMALL[name] | VARIANTS.get(which, {}) | more
    model = labml_nn.create(name, **config).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def some(*shape):
    """Tokens of which none is special to any of the models."""
    return torch.randint(SPECIAL, V, shape)


def answers(model):
    return model.end_token is not None


def read(model, text, prompt):
    """Logits at all of `text`, at once. A model that answers has read `prompt` before."""
    state = model.prepare_prompt(prompt)[0]
    return model(text, state)[0]


def written_naively(model, prompt, n, sampler, seed):
    """Token by token, and everything from the beginning for each of them."""
    generator = torch.Generator().manual_seed(seed)
    model.eval()
    _, text, _ = model.prepare_prompt(prompt)
    begun = len(text)
    padding = model.config.padding_token
    for _ in range(n):
        logits = read(model, text, prompt)[-1].detach()
        if padding is not None:
            logits[:, padding] = -torch.inf
        text = torch.cat([text, sampler(logits, generator)[None]])
    model.train()
    return text[begun:]


def tensors_of(value):
    """All tensors in a state, whatever it is made of."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_of(part)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))
    elif dataclasses.is_dataclass(value):
        yield from tensors_of([getattr(value, f.name) for f in dataclasses.fields(value)])
    elif hasattr(value, "rows"):
        yield value.rows


def test_every_model_of_the_table_is_tested():
    assert list(SMALL) == [entry.name for entry in labml_nn.models()]


@pytest.mark.parametrize("which", ALL)
def test_logits_and_state(which):
    model = make(which)
    prompt, text = some(4, 3), some(5, 3)
    state, begun, _ = model.prepare_prompt(prompt)
    text = torch.cat([begun, text]) if answers(model) else text
    logits, state = model(text, state)
    assert logits.shape == (len(text), 3, V)
    assert logits.dtype == torch.float64 and logits.requires_grad
    tensors = list(tensors_of(state))
    assert tensors
    assert not any(tensor.requires_grad for tensor in tensors)


@pytest.mark.parametrize("which", ALL)
def test_it_does_not_matter_how_a_text_is_cut(which):
    model = make(which).eval()
    prompt, text = some(4, 3), some(2 * MAX_LEN + 5, 3)
    state, begun, _ = model.prepare_prompt(prompt)
    text = torch.cat([begun, text]) if answers(model) else text
    whole, _ = model(text, state)
    parts = []
    for piece in text.split([1, 5, 1, 1, len(text) - 8]):
        logits, state = model(piece, state)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("which", ALL)
def test_a_state_is_a_value(which):
    model = make(which).eval()
    prompt, text = some(4, 3), some(MAX_LEN + 3, 3)
    state, begun, _ = model.prepare_prompt(prompt)
    _, state = model(torch.cat([begun, text]) if answers(model) else text, state)
    before = [tensor.clone() for tensor in tensors_of(state)]
    one, two = some(4, 3), some(4, 3)
    first, _ = model(one, state)
    model(two, state)
    again, _ = model(one, state)
    assert torch.equal(again, first)
    assert all(map(torch.equal, tensors_of(state), before))


@pytest.mark.parametrize("which", ALL)
def test_no_position_sees_the_future(which):
    model = make(which).eval()
    prompt, text = some(4, 3), some(3 * MAX_LEN, 3)
    begun = model.prepare_prompt(prompt)[1]
    text = torch.cat([begun, text]) if answers(model) else text
    other = text.clone()
    other[8:] = SPECIAL + (other[8:] - SPECIAL + 1) % (V - SPECIAL)
    one, two = read(model, text, prompt), read(model, other, prompt)
    torch.testing.assert_close(one[:8], two[:8], rtol=1e-12, atol=1e-12)
    assert ((one[8:] - two[8:]).abs().amax((0, 2)) > 1e-6).all()


@pytest.mark.parametrize("which", ALL)
def test_predict_is_the_softmax_of_the_last_logits(which):
    model = make(which)
    prompt = some(4, 3)
    inside = torch.is_grad_enabled()
    p = model.predict(prompt)
    assert p.shape == (3, V) and not p.requires_grad
    assert model.training and torch.is_grad_enabled() == inside
    logits = read(model.eval(), model.prepare_prompt(prompt)[1], prompt)
    torch.testing.assert_close(p, logits[-1].softmax(-1))
    torch.testing.assert_close(p.sum(-1), torch.ones(3, dtype=p.dtype))


@pytest.mark.parametrize("which", ALL)
def test_a_few_steps_lower_the_loss(which):
    name = which.split("-")[0]
    torch.manual_seed(0)
    config = {"n_vocab": V, "dropout_prob": 0.0} | SMALL[name] | VARIANTS.get(which, {})
    model = labml_nn.create(name, **config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    pattern = (torch.arange(10)[:, None] + torch.tensor([0, 2, 5])) % (V - SPECIAL) + SPECIAL
    losses = []
    for _ in range(15):
        loss = model.loss(pattern[:-1], pattern[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0], losses


@pytest.mark.parametrize("which", ALL)
def test_smoothing_raises_the_loss_in_training_only(which):
    model, smoothed = (make(which, dropout_prob=0.0, label_smoothing=x) for x in (0.0, 0.3))
    tokens, targets = some(4, 3), some(4, 3)
    assert not torch.isclose(model.loss(tokens, targets), smoothed.loss(tokens, targets))
    torch.testing.assert_close(
        model.eval().loss(tokens, targets), smoothed.eval().loss(tokens, targets)
    )


# Files.
@pytest.mark.parametrize("which", ALL)
def test_saved_and_loaded_it_is_the_same_bit_for_bit(which, tmp_path):
    model = make(which, label_smoothing=0.1)
    model.save(tmp_path)
    other = labml_nn.load(tmp_path)
    assert type(other) is type(model) and other.config == model.config
    mine, theirs = model.state_dict(), other.state_dict()
    assert list(mine) == list(theirs)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    tied = len({id(tensor) for tensor in model.parameters()})
    assert len({id(tensor) for tensor in other.parameters()}) == tied
    prompt = some(4, 3)
    assert torch.equal(model.predict(prompt), other.predict(prompt))
    assert torch.equal(generate(model, prompt, 9, stop=()), generate(other, prompt, 9, stop=()))


@pytest.mark.parametrize("which", SMALL)
def test_files_of_a_larger_model_are_refused_by_name(which, tmp_path):
    make(which).save(tmp_path / "small")
    make(which, n_layers=3).save(tmp_path / "large")
    (tmp_path / "small/model.safetensors").replace(tmp_path / "large/model.safetensors")
    with pytest.raises(ValueError, match="n_layers: 3 and 2"):
        labml_nn.load(tmp_path / "large")


# Writing.
@pytest.mark.parametrize("which", ALL)
@pytest.mark.parametrize("length", [1, 2 * MAX_LEN + 1])
@pytest.mark.parametrize("sampler", [Greedy(), Temperature(4.0)], ids=["greedy", "hot"])
def test_it_writes_what_full_recomputation_writes(which, length, sampler):
    """Hot, so that texts differ from token to token, and their states do."""
    model = make(which)
    prompt, n = some(length, 3), 2 * MAX_LEN + 3
    text = generate(model, prompt, n, sampler, seed=1, stop=())
    assert torch.equal(text, written_naively(model, prompt, n, sampler, seed=1))
    if not isinstance(sampler, Greedy):
        assert len(text.unique()) > 5


@pytest.mark.parametrize("which", ALL)
def test_logits_on_the_way_are_those_of_full_recomputation(which):
    model = make(which)
    prompt, seen = some(MAX_LEN + 2, 3), []

    def watching(logits, generator):
        seen.append(logits.clone())
        return logits.argmax(-1)

    text = generate(model, prompt, 2 * MAX_LEN, watching, stop=())
    _, begun, _ = model.prepare_prompt(prompt)
    whole = read(model.eval(), torch.cat([begun, text[:-1]]), prompt)[len(begun) - 1 :].detach()
    if model.config.padding_token is not None:
        whole[..., model.config.padding_token] = -torch.inf
    torch.testing.assert_close(torch.stack(seen), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("which", ALL)
def test_work_per_token_is_constant(which):
    """The rows that go through a linear map, at each step: one, unless a window slides."""
    model = make(which)
    steps, batch, n = [], 3, 6 * MAX_LEN

    def begin(_, inputs):
        steps.append(0)
        assert steps[1:] == [] or len(inputs[0]) == 1  # a step reads a token

    def count(_, inputs):
        if steps:  # not before writing, when the prompt of an encoder–decoder is read
            steps[-1] = max(steps[-1], inputs[0].numel() // inputs[0].shape[-1] // batch)

    model.register_forward_pre_hook(begin)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(count)
    generate(model, some(MAX_LEN - 2, batch), n, stop=())
    assert len(steps) == n
    slides = [rows for rows in steps[1:] if rows != 1]
    if which.startswith(("elman", "feedback")):
        assert slides == []
    else:
        window = model.config.max_len
        assert all(rows <= window for rows in slides)
        assert 0 < len(slides) <= n // (window // 2)


@pytest.mark.parametrize("which", ALL)
@pytest.mark.parametrize("stop", [(), [5, 8]])
def test_a_batch_is_written_like_one_after_the_other(which, stop):
    model = make(which)
    prompt = some(5, 3)
    together = generate(model, prompt, 2 * MAX_LEN, stop=stop)
    for column in range(3):
        alone = generate(model, prompt[:, column : column + 1], 2 * MAX_LEN, stop=stop)[:, 0]
        assert torch.equal(together[: len(alone), column], alone)
        assert (together[len(alone) :, column] == alone[-1]).all()


@pytest.mark.parametrize("which", ALL)
def test_ragged_prompts_are_written_as_if_alone(which):
    model = make(which)
    lengths = torch.tensor([1, 9, 6])
    prompt = some(9, 3)
    together = generate(model, prompt, 2 * MAX_LEN, lengths=lengths, stop=())
    for column, length in enumerate(lengths.tolist()):
        alone = generate(model, prompt[:length, column : column + 1], 2 * MAX_LEN, stop=())
        assert torch.equal(together[:, column], alone[:, 0])


@pytest.mark.parametrize("which", ["autoregressive", "encoder_decoder", "feedback", "elman"])
def test_padding_behind_a_prompt_changes_nothing(which):
    """What follows is said at the last token, not at the padding behind it."""
    model = make(which, padding_token=0)
    long, short = some(7, 1), some(4, 1)
    prompt = torch.cat([long, torch.cat([short, torch.zeros(3, 1).long()])], dim=1)
    likely, written = model.predict(prompt), generate(model, prompt, 5, stop=())
    for b, alone in enumerate([long, short]):
        torch.testing.assert_close(likely[b : b + 1], model.predict(alone), rtol=0, atol=1e-10)
        assert torch.equal(written[:, b : b + 1], generate(model, alone, 5, stop=()))


@pytest.mark.parametrize("which", ["autoregressive", "feedback", "elman"])
def test_padding_behind_what_goes_on_changes_nothing(which):
    model = make(which, padding_token=0).eval()
    _, state = model(some(5, 2))
    piece = some(3, 2)
    padded = torch.cat([piece, torch.zeros(2, 2).long()])
    expected = model.predict(piece, state)
    torch.testing.assert_close(model.predict(padded, state), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("which", ["autoregressive", "feedback", "elman"])
def test_nothing_but_padding_is_no_prompt(which):
    model = make(which, padding_token=0)
    prompt = some(5, 3)
    prompt[:, 1] = 0
    for ask in (model.predict, lambda prompt: generate(model, prompt, 2)):
        with pytest.raises(ValueError, match="sequence 1 is nothing but padding"):
            ask(prompt)


@pytest.mark.parametrize("which", ALL)
def test_seeds_reproduce_and_modes_come_back(which):
    model = make(which)
    model.get_submodule(next(name for name, _ in model.named_children())).eval()
    before = [module.training for module in model.modules()]
    prompt, sampler = some(4, 3), Chain(Temperature(1.5), Nucleus(0.95))
    state = torch.get_rng_state()
    one, two, other = (generate(model, prompt, 9, sampler, seed=i, stop=()) for i in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == before


@pytest.mark.parametrize("which", ALL)
def test_training_goes_on_after_writing(which):
    """Nothing that was made without gradients is left in the model."""
    model = make(which)
    generate(model, some(4, 3), MAX_LEN + 2, stop=())
    model.loss(some(4, 3), some(4, 3)).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_an_encoder_decoder_ends_by_itself():
    model = make("encoder_decoder")
    end = model.config.end_token
    model.transformer.generator.projection.bias.data[end] = 1e6
    assert generate(model, some(4, 3), 9).tolist() == [[end] * 3]
    assert len(generate(model, some(4, 3), 9, stop=())) == 9


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("which", ALL)
def test_on_a_gpu(which, tmp_path):
    model = make(which)
    prompt, lengths = some(9, 4), torch.tensor([2, 9, 5, 9])
    expected = generate(model, prompt, 2 * MAX_LEN, lengths=lengths, stop=5)
    model.save(tmp_path)
    model = labml_nn.load(tmp_path, device="cuda")
    prompt, lengths = prompt.cuda(), lengths.cuda()
    text = generate(model, prompt, 2 * MAX_LEN, lengths=lengths, stop=5)
    assert text.is_cuda and torch.equal(text.cpu(), expected)
    one, two = (generate(model, prompt, 9, Nucleus(0.9), seed=1) for _ in range(2))
    assert torch.equal(one, two)
