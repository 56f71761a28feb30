"""What a model that replies refuses, and what it says then."""

import pytest
import torch

from labml_nn.transformers.encoder_decoder import EncoderDecoderConfig

MODULE = "labml_nn.transformers.encoder_decoder"
S, T, B, V = 7, 5, 2, 19
PAD, START, END = 0, 1, 2


def words(length: int, batch: int = B) -> torch.Tensor:
    return torch.randint(3, V, (length, batch))


def reply(length: int, batch: int = B) -> torch.Tensor:
    return torch.cat([torch.full((1, batch), START), words(length - 1, batch)])


def make(unhooked, **changes):
    module = unhooked(MODULE)
    fields = {"n_vocab": V, "d_model": 12, "heads": 3, "n_layers": 1, "max_len": 6}
    return module.EncoderDecoderLanguageModel(module.EncoderDecoderConfig(**fields | changes))


# Configurations.


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_vocab": 0}, ValueError, r"`n_vocab` \(0\) must be at least 1"),
        ({"heads": 5}, ValueError, r"`d_model` \(128\) must be divisible by `heads` \(5\)"),
        ({"n_layers": 0}, ValueError, r"`n_layers` \(0\) must be at least 1"),
        ({"n_decoder_layers": 0}, ValueError, r"`n_decoder_layers` \(0\) must be at least 1"),
        ({"n_encoder_layers": 1.5}, TypeError, r"`n_encoder_layers` \(1.5\) must be a whole"),
        ({"d_ff": 0}, ValueError, r"`d_ff` \(0\) must be at least 1"),
        ({"max_len": 0}, ValueError, r"`max_len` \(0\) must be at least 1"),
        ({"dropout_prob": 1.5}, ValueError, r"`dropout_prob` \(1.5\) must be from 0 to 1"),
        ({"label_smoothing": -0.1}, ValueError, r"`label_smoothing` \(-0.1\) must be"),
        ({"positions": "learnt"}, ValueError, "no kind of positions 'learnt'; did you mean 'lear"),
        ({"norm_first": "yes"}, TypeError, r"`norm_first` \('yes'\) must be True or False"),
        ({"tied": 1}, TypeError, r"`tied` \(1\) must be True or False, not a int"),
        ({"n_vocab": 2}, ValueError, r"`end_token` \(2\) must be from 0 to 1.*make it 3 more"),
        ({"start_token": 65}, ValueError, r"`start_token` \(65\) must be from 0 to 64"),
        ({"padding_token": -1}, ValueError, r"`padding_token` \(-1\) must be"),
        ({"padding_token": None}, TypeError, r"`padding_token` \(None\) must be a token"),
        ({"end_token": True}, TypeError, r"`end_token` \(True\) must be a token.*not a bool"),
        ({"end_token": 1}, ValueError, r"`start_token` \(1\), `end_token` \(1\) must be three"),
    ],
)
def test_what_a_configuration_refuses(unhooked, change, error, message):
    with pytest.raises(error, match=message):
        unhooked(MODULE).EncoderDecoderConfig(**{"n_vocab": 65, **change})


def test_special_tokens_may_come_after_those_of_the_text():
    config = EncoderDecoderConfig(n_vocab=68, padding_token=65, start_token=66, end_token=67)
    assert config.feed_forward_size == 4 * config.d_model
    assert EncoderDecoderConfig(n_vocab=3, d_ff=28).feed_forward_size == 28


# What was said.

HOLE = torch.tensor([[5, PAD, 6], [7, 8, 9]]).T
FIRST = torch.tensor([[PAD, 5, 6], [7, 8, 9]]).T


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ((torch.zeros(S, B),), TypeError, r"`source` has dtype torch.float32.*source\.long\(\)"),
        ((torch.zeros(S).long(),), ValueError, r"`source` has shape \[7\]; expected \[T, B\]"),
        ((torch.zeros(0, B).long(),), ValueError, "`source`.* the sequence is empty"),
        ((torch.full((S, B), V),), ValueError, "`source` holds 19; expected numbers from 0 to 18"),
        ((HOLE,), ValueError, "`source` have the padding token.* between other tokens, in .* 0;"),
        ((words(S), torch.tensor([7])), ValueError, "`lengths` are 1 numbers and `source` has 2"),
        ((words(S), torch.tensor([7, 8])), ValueError, r"`lengths` are \[7, 8\]; expected 0 to 7"),
        ((words(S), torch.tensor([7.0, 6.0])), TypeError, "`lengths` has dtype torch.float32"),
        ((FIRST, torch.tensor([2, 3])), ValueError, "first 2 tokens of sequence 0 real, and 1 of"),
    ],
)
def test_what_it_cannot_hear(unhooked, call, error, message):
    model = make(unhooked)
    for door in (model.encode, model.begin):
        with pytest.raises(error, match=message):
            door(*call)
    if len(call) == 1:
        with pytest.raises(error, match=message):
            model.loss(call[0], words(T))


def test_learned_positions_end_and_padding_needs_none(unhooked):
    model = make(unhooked, positions="learned").eval()
    with pytest.raises(ValueError, match=r"`source` has 7 tokens.*max_len = 6.*max_len=7.*sinus"):
        model.encode(words(S))
    source, tokens = words(5), reply(T)
    padded = torch.cat([source, torch.full((4, B), PAD)])
    expected, _ = model(tokens, model.encode(source))
    torch.testing.assert_close(model(tokens, model.encode(padded))[0], expected)


# Replies.


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (words(T), ValueError, r"`tokens` begin with \[.*; a reply begins with start_token \(1\)"),
        (reply(T, 3), ValueError, "`tokens` has 3 sequences.*in 2; expected one reply to each"),
        (torch.full((T, B), V), ValueError, "`tokens` holds 19"),
        (torch.zeros(T, B), TypeError, "`tokens` has dtype torch.float32"),
        (torch.zeros(0, B).long(), ValueError, "`tokens`.* the sequence is empty"),
    ],
)
def test_what_cannot_be_a_reply(unhooked, tokens, error, message):
    model = make(unhooked)
    with pytest.raises(error, match=message):
        model(tokens, model.encode(words(S)))


def test_without_a_state_there_is_nothing_to_reply_to(unhooked):
    with pytest.raises(ValueError, match=r"`state` is None.*state = model\.encode\(source\)"):
        make(unhooked)(reply(T))


def test_states_of_other_models_are_refused(unhooked):
    state = make(unhooked, n_decoder_layers=2).encode(words(S))
    with pytest.raises(ValueError, match=r"`sources` has keys and values for 2 layers.* has 1"):
        make(unhooked)(reply(T), state)
    with pytest.raises(TypeError, match="`state` is a tuple; expected the state of an empty reply"):
        make(unhooked)(reply(T), (state.sources, state.real))


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        (words(T, 3), ValueError, r"`tokens` has shape \[7, 2\] and `targets` \[5, 3\]"),
        (reply(T), ValueError, "`targets` hold 1, the start_token; give replies without it"),
        (torch.full((T, B), END), ValueError, "`targets` hold 2, the end_token"),
        (HOLE, ValueError, "`targets` have the padding token"),
        (torch.full((T, B), V), ValueError, "`targets` holds 19"),
        (torch.zeros(T, B), TypeError, "`targets` has dtype torch.float32"),
    ],
)
def test_what_the_loss_refuses(unhooked, targets, error, message):
    with pytest.raises(error, match=message):
        make(unhooked).loss(words(S), targets)


def test_the_loss_reads_what_was_said_by_itself(unhooked):
    model = make(unhooked)
    with pytest.raises(ValueError, match="`state` must be None: the loss reads what was said"):
        model.loss(words(S), words(T), model.encode(words(S)))
