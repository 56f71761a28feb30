"""Generation with models made for the purpose: what is read, written, stopped, and restored."""

import pytest
import torch
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.sampling import Greedy, Nucleus, Sampler, Temperature, generate

MODULE = "labml_nn.sampling"
V = 11


class Counter(LanguageModel[torch.Tensor]):
    """The token after `a` is certainly `a + (how many were read so far)`, round and round."""

    def __init__(self, config):
        super().__init__(config)
        self.anything = nn.Parameter(torch.zeros(1))
        self.read = []

    def forward(self, tokens, state=None):
        self.read.append(tuple(tokens.shape))
        before = torch.zeros(1, dtype=torch.long) if state is None else state
        count = before + torch.arange(1, len(tokens) + 1)
        target = (tokens + count[:, None]) % self.config.n_vocab
        return 50 * nn.functional.one_hot(target, self.config.n_vocab).float(), count[-1:]


class Noise(LanguageModel[None]):
    """A table of bigrams with dropout: random, differentiable, and it remembers nothing."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)
        self.dropout = nn.Dropout(0.5)

    def forward(self, tokens, state=None):
        return self.dropout(self.table(tokens)), None


class Echo(Counter):
    """Answers its prompt instead of continuing it: counts on from its length, and ends with 0."""

    end_token = 0

    def prepare_prompt(self, prompt, lengths=None):
        self.heard = prompt, lengths
        return torch.tensor([0]), torch.full((1, prompt.shape[1]), 3), None


def make(cls=Counter, n_vocab=V):
    torch.manual_seed(0)
    return cls(LanguageModelConfig(n_vocab=n_vocab))


def counted(prompt, n):
    """What `Counter` continues `prompt` with, by hand."""
    text = list(prompt)
    for _ in range(n):
        text.append((text[-1] + len(text)) % V)
    return text[len(prompt) :]


def test_by_hand():
    assert counted([5], 3) == [6, 8, 0]
    text = generate(make(), torch.tensor([[5]]), 3)
    assert text.tolist() == [[6], [8], [0]]
    assert text.dtype == torch.int64


def test_reads_the_prompt_once_and_then_a_token_at_a_time():
    model = make()
    generate(model, torch.randint(V, (4, 3)), 6)
    assert model.read == [(4, 3)] + [(1, 3)] * 5  # nobody needs to read the last token


def test_one_token():
    model = make()
    assert generate(model, torch.tensor([[2, 3]]), 1).tolist() == [[3, 4]]
    assert model.read == [(1, 2)]


def test_ragged_prompts_are_written_as_if_alone():
    prompts = [[4, 1, 7], [9], [2, 2, 8, 3, 6], [5, 0, 1]]
    padded = torch.zeros(5, 4, dtype=torch.long)
    for column, prompt in enumerate(prompts):
        padded[: len(prompt), column] = torch.tensor(prompt)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    model = make()
    text = generate(model, padded, 6, lengths=lengths)
    assert text.T.tolist() == [counted(prompt, 6) for prompt in prompts]
    assert model.read == [(1, 4)] * (1 + 4 + 5)
    # What stands behind the end of a prompt is not looked at.
    padded[padded == 0] = 10
    padded[1, 3] = 0
    assert torch.equal(generate(make(), padded, 6, lengths=lengths), text)


def test_lengths_that_are_full_change_nothing():
    prompt = torch.randint(V, (4, 3))
    text = generate(make(), prompt, 5, lengths=torch.tensor([4, 4, 4]))
    assert torch.equal(text, generate(make(), prompt, 5))


def test_all_shorter_than_the_tensor():
    prompt = torch.randint(V, (6, 2))
    text = generate(make(), prompt, 5, lengths=torch.tensor([2, 3]))
    expected = [counted(prompt[:2, 0].tolist(), 5), counted(prompt[:3, 1].tolist(), 5)]
    assert text.T.tolist() == expected


# Where a text ends.
def test_a_stop_token_fills_the_rest():
    assert counted([1], 4) == [2, 4, 7, 0] and counted([3], 4) == [4, 6, 9, 2]
    text = generate(make(), torch.tensor([[1, 3]]), 4, stop=[4, 9])
    assert text.T.tolist() == [[2, 4], [4, 4]]


def test_others_go_on_when_one_is_over():
    text = generate(make(), torch.tensor([[1, 3]]), 4, stop=[7, 5])
    assert text.T.tolist() == [[2, 4, 7, 7], [4, 6, 9, 2]]


def test_all_over_ends_early():
    model = make()
    text = generate(model, torch.tensor([[1, 3]]), 100, stop={4, 6})
    assert text.T.tolist() == [[2, 4], [4, 4]]
    assert model.read == [(1, 2)] * 2


def test_stop_in_the_prompt_or_in_what_was_not_picked_does_not_count():
    # For column 0, which still reads, 2 and 9 are picked and thrown away.
    assert counted([1], 1) == [2] and counted([1, 7], 1) == [9]
    prompt = torch.tensor([[1, 3], [7, 0], [5, 0]])
    text = generate(make(), prompt, 2, lengths=torch.tensor([3, 1]), stop=[1, 2, 7, 9])
    assert text.T.tolist() == [[8, 1], [4, 6]]


def test_a_late_starter_that_ends_with_the_others():
    """The last row is the end of a text that began later than the longest one."""
    prompts = torch.tensor([[1, 6], [0, 6], [0, 6], [0, 6]])
    lengths = torch.tensor([1, 4])
    assert counted([1], 5) == [2, 4, 7, 0, 5] and counted([6, 6, 6, 6], 1) == [10]
    text = generate(make(), prompts, 9, lengths=lengths, stop=[0, 10])
    assert text.T.tolist() == [[2, 4, 7, 0], [10, 10, 10, 10]]


def test_a_model_with_an_end_token_stops_there_unless_told_otherwise():
    prompt, lengths = torch.tensor([[1, 2], [5, 5]]), torch.tensor([2, 1])
    assert counted([3], 9) == [4, 6, 9, 2, 7, 2, 9, 6, 4]
    model = make(Echo)
    model.end_token = 9
    assert generate(model, prompt, 8, lengths=lengths).tolist() == [[4, 4], [6, 6], [9, 9]]
    assert model.heard == (prompt, lengths)
    assert len(generate(model, prompt, 8, stop=())) == 8
    assert len(generate(model, prompt, 8, stop=7)) == 5


def test_answers_begin_after_their_first_token():
    model = make(Echo)
    generate(model, torch.tensor([[1, 2], [5, 5]]), 3, stop=())
    assert model.read == [(1, 2)] * 3


def test_padding_is_never_written_unless_it_ends_the_text():
    torch.manual_seed(0)
    model = Noise(LanguageModelConfig(n_vocab=3, padding_token=1))
    prompt = torch.zeros(2, 40, dtype=torch.long)
    text = generate(model, prompt, 20, Sampler(), seed=0)
    assert set(text.unique().tolist()) == {0, 2}
    text = generate(model, prompt, 20, Sampler(), seed=0, stop=1)
    assert (text == 1).any(0).sum() > 20


# Watching, seeds, samplers.
def test_tokens_are_shown_as_they_are_written():
    seen = []
    prompt = torch.tensor([[1, 3], [7, 0], [5, 0]])
    text = generate(
        make(),
        prompt,
        4,
        lengths=torch.tensor([3, 1]),
        stop=9,
        on_token=lambda sequence, token: seen.append((sequence, token)),
    )
    assert text.T.tolist() == [counted([1, 7, 5], 4), [4, 6, 9, 9]]
    assert seen[:3] == [(1, 4), (1, 6), (0, 8)]  # column 0 reads two tokens more
    assert [token for sequence, token in seen if sequence == 0] == text[:, 0].tolist()
    assert [token for sequence, token in seen if sequence == 1] == [4, 6, 9]


def test_no_more_than_n_are_shown_where_one_began_earlier():
    seen = []
    prompt = torch.tensor([[1, 3], [7, 0], [5, 0]])
    generate(
        make(), prompt, 2, lengths=torch.tensor([3, 1]), on_token=lambda *pair: seen.append(pair)
    )
    assert seen == [(1, 4), (1, 6), (0, 8), (0, 1)]


def test_a_seed_repeats_the_text_and_leaves_the_global_generator_alone():
    model, prompt = make(Noise), torch.randint(V, (4, 3))
    before = torch.get_rng_state()
    one, two, other = (
        generate(model, prompt, 20, Temperature(2.0), seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_seed_the_global_generator_draws():
    model, prompt = make(Noise), torch.randint(V, (4, 3))
    torch.manual_seed(7)
    one = generate(model, prompt, 20, Sampler())
    torch.manual_seed(7)
    assert torch.equal(generate(model, prompt, 20, Sampler()), one)
    assert not torch.equal(generate(model, prompt, 20, Sampler()), one)


def test_the_sampler_gets_logits_and_the_generator():
    calls = []

    def sampler(logits, generator):
        calls.append((logits.shape, generator.initial_seed()))
        return torch.full((3,), 2)

    text = generate(make(), torch.randint(V, (4, 3)), 2, sampler, seed=5)
    assert text.tolist() == [[2, 2, 2]] * 2
    assert calls == [((3, V), 5)] * 2


# What the model is like afterwards.
def partly_asleep():
    model = make(Noise)
    model.table.eval()
    return model


def modes(model):
    return [module.training for module in model.modules()]


def test_dropout_is_off_and_every_mode_comes_back():
    model, inside = partly_asleep(), []
    before = modes(model)
    assert before == [True, False, True]
    model.dropout.register_forward_hook(lambda *_: inside.append(modes(model)))
    prompt = torch.randint(V, (4, 3))
    assert torch.equal(generate(model, prompt, 5), generate(model, prompt, 5))
    assert inside == [[False, False, False]] * 10
    assert modes(model) == before


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_modes_come_back_when_it_is_interrupted(error):
    model = partly_asleep()
    before = modes(model)

    def interrupt(sequence, token):
        raise error("enough")

    with pytest.raises(error, match="enough"):
        generate(model, torch.randint(V, (4, 3)), 5, on_token=interrupt)
    assert modes(model) == before
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_no_gradients_and_a_text_to_train_on():
    model, grads = make(Noise), []
    model.table.register_forward_hook(lambda _, __, y: grads.append(y.requires_grad))
    text = generate(model, torch.randint(V, (4, 3)), 5)
    assert not any(grads)
    assert not text.is_inference()
    text[0] = 1  # ours to change
    model.loss(text[:-1], text[1:]).backward()
    assert model.table.weight.grad.abs().sum() > 0


def test_prompt_is_not_changed():
    prompt = torch.randint(V, (4, 3))
    before = prompt.clone()
    generate(make(), prompt, 5, lengths=torch.tensor([1, 4, 2]), stop=3)
    assert torch.equal(prompt, before)


def test_tokens_of_32_bits():
    prompt = torch.randint(V, (4, 3))
    lengths = torch.tensor([1, 4, 2])
    text = generate(make(), prompt.int(), 5, lengths=lengths.int())
    assert torch.equal(text, generate(make(), prompt, 5, lengths=lengths))


# What cannot be.
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n": 0}, ValueError, r"`n` \(0\) must be at least 1"),
        ({"n": 2.0}, TypeError, r"`n` \(2.0\) must be a whole number"),
        ({"prompt": torch.zeros(0, 2).long()}, ValueError, r"`prompt` .* sequence is empty"),
        ({"prompt": torch.zeros(4, 0).long()}, ValueError, r"`prompt` .*\[4, 0\]: the batch is"),
        ({"prompt": [[3], [2]]}, TypeError, r"`prompt` is a list; .* torch.as_tensor\(prompt\)"),
        ({"prompt": torch.zeros(4).long()}, ValueError, r"`prompt` .*\[4\]; expected \[T, B\]"),
        ({"prompt": torch.zeros(4, 2)}, TypeError, r"`prompt` has dtype torch.float32"),
        ({"prompt": torch.full((4, 2), V)}, ValueError, f"`prompt` holds {V}; .* 0 to {V - 1}"),
        ({"lengths": torch.tensor([0, 3])}, ValueError, "`lengths` holds 0: a prompt is empty"),
        ({"lengths": torch.tensor([5, 3])}, ValueError, r"`lengths` go from 3 to 5; .*\(4\)"),
        ({"lengths": torch.tensor([3])}, ValueError, "`lengths` has 1 numbers for 2 prompts"),
        ({"lengths": torch.tensor([3.0, 2.0])}, TypeError, "`lengths` has dtype torch.float32"),
        ({"stop": V}, ValueError, f"`stop` holds {V}; expected tokens from 0 to {V - 1}"),
        ({"stop": [2, -1]}, ValueError, "`stop` holds -1"),
        ({"stop": "ab"}, TypeError, "`stop` holds 'a', a str"),
        ({"stop": 2.0}, TypeError, "`stop` holds 2.0, a float"),
        ({"stop": True}, TypeError, "`stop` holds True, a bool"),
        ({"seed": 1.5}, TypeError, r"`seed` \(1.5\) must be a whole number or None"),
        (
            {"sampler": lambda logits, _: logits},
            ValueError,
            rf"`sampler` returned torch.float32 of shape \[2, {V}\]; expected .* 2 sequences",
        ),
    ],
)
def test_what_cannot_be_written(unhooked, change, error, message):
    base = unhooked("labml_nn.language_model")

    class Table(base.LanguageModel):
        def __init__(self, config):
            super().__init__(config)
            self.table = nn.Embedding(V, V)

        def forward(self, tokens, state=None):
            return self.table(tokens), None

    model = Table(base.LanguageModelConfig(n_vocab=V))
    arguments = {"prompt": torch.zeros(4, 2).long(), "n": 3} | change
    with pytest.raises(error, match=message):
        unhooked(MODULE).generate(model, **arguments)
    assert model.training


def test_defaults():
    model, prompt = make(Noise), torch.randint(V, (4, 3))
    assert torch.equal(generate(model, prompt, 5), generate(model, prompt, 5, Greedy()))
    assert generate(model, prompt, 5, Nucleus(0.9), seed=0).shape == (5, 3)
