"""What a feedback model takes from an ordinary transformer, and which ones it refuses."""

import pytest
import torch

from labml_nn.transformers.autoregressive import AutoregressiveTransformer
from labml_nn.transformers.feedback.language_model import FeedbackLanguageModel
from labml_nn.transformers.feedback.warm_start import take_weights

V, T, B, C, H, F, L = 11, 7, 2, 12, 3, 20, 2
SIZES = {"n_vocab": V, "d_model": C, "heads": H, "d_ff": F, "n_layers": L, "max_len": T}
KINDS = pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])


def pair(shared=True, ordinary=AutoregressiveTransformer, own=FeedbackLanguageModel, **fields):
    """A trained ordinary model, that is to say one with numbers everywhere, and a new other."""
    torch.manual_seed(0)
    trained = ordinary.from_config(SIZES | fields).eval()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.normal_(std=0.3)
    known = {name: fields[name] for name in ("tied", "n_layers") if name in fields}
    return own.from_config(SIZES | known | {"shared_kv": shared}).eval(), trained


def parameters(model):
    return dict(model.named_parameters())


def same_places(new, old):
    """Parameters that have the same meaning on both sides, by their names there and here."""
    yield "embed.weight", "embedding.tokens.weight"
    for name, _ in new.named_parameters():
        there = name.replace("transformer.layers", "stack.layers")
        there = there.replace("transformer.norm.", "stack.norm.").replace(".attn.", ".self_attn.")
        if there in parameters(old) and not there.endswith(
            ("output.bias", "key.linear.weight", "value.linear.weight", "value.linear.bias")
        ):
            yield name, there


@KINDS
def test_what_means_the_same_is_the_same(shared):
    new, old = pair(shared)
    take_weights(new, old)
    here, there = parameters(new), parameters(old)
    places = list(same_places(new, old))
    assert len(places) == 1 + 2 + L * (4 + 4 + 2)  # table; norm; norms, network, W_Q and W_O
    for name, other in places:
        assert torch.equal(here[name], there[other]), name


@KINDS
def test_projections_carry_the_scale_of_the_norm_and_the_rest_is_in_the_bias(shared):
    new, old = pair(shared)
    take_weights(new, old)
    for number in range(L):
        layer, attn = old.stack.layers[number], new.transformer.layers[number].attn
        ours = layer.self_attn
        assert torch.equal(attn.query_pos_bias.flatten(), ours.query.linear.bias)
        shifted = ours.value.linear(layer.norm_self_attn.bias)
        torch.testing.assert_close(attn.output.bias, ours.output(shifted))
        if not shared:
            scaled = ours.key.linear.weight @ torch.diag(layer.norm_self_attn.weight)
            torch.testing.assert_close(attn.key.linear.weight, scaled)
    if shared:
        mean = sum(
            layer.self_attn.value.linear.weight @ torch.diag(layer.norm_self_attn.weight)
            for layer in old.stack.layers
        )
        torch.testing.assert_close(new.transformer.value.linear.weight, mean / L)


@KINDS
@pytest.mark.parametrize("tied", [True, False])
def test_what_is_left_is_named_and_as_it_was(shared, tied):
    new, old = pair(shared, tied=tied)
    before = {name: p.clone() for name, p in parameters(new).items()}
    left = take_weights(new, old)
    expected = {"transformer.weights", "transformer.norm_memory.weight"}
    expected.add("transformer.norm_memory.bias")
    for number in range(L):
        attn = f"transformer.layers.{number}.attn"
        expected |= {f"{attn}.key_pos_embeddings", f"{attn}.key_pos_bias"}
        if not shared:
            expected.add(f"{attn}.value.linear.bias")
    assert set(left) == expected
    for name, parameter in parameters(new).items():
        assert torch.equal(parameter, before[name]) == (name in left), name


@KINDS
def test_one_layer_that_remembers_embeddings_is_an_ordinary_layer(shared):
    """All of the mapping at once: the same logits wherever the two have the same to look at."""
    new, old = pair(shared, n_layers=1, positions="none")
    with torch.no_grad():
        old.generator.projection.bias.zero_()
        take_weights(new, old)
        new.transformer.weights[0] = 100
        text = torch.randint(V, (T, B))
        past = torch.ones(T, T).tril(-1).bool()[..., None]
        embedded = old.embedding(text, torch.arange(T)[:, None])
        expected = old.generator(old.stack(embedded, past))
        logits, _ = new(text)
    torch.testing.assert_close(logits[1:], expected[1:], rtol=1e-3, atol=1e-4)


def test_the_trained_model_stays_as_it_is_and_shares_nothing():
    new, old = pair()
    before = {name: p.clone() for name, p in parameters(old).items()}
    take_weights(new, old)
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.add_(1)
    assert all(torch.equal(p, before[name]) for name, p in parameters(old).items())


def test_it_trains_on():
    new, old = pair()
    take_weights(new, old)
    text = torch.randint(V, (T, B))
    optimizer = torch.optim.Adam(new.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = new.loss(text[:-1], text[1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3
    assert all(parameter.grad is not None for parameter in new.parameters())


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({"d_model": 24}, "`d_model` is 24 there and 12 here; `d_k` is 8 there and 4 here"),
        ({"n_layers": 3}, "`n_layers` is 3 there and 2 here"),
        ({"heads": 4}, "`heads` is 4 there and 3 here"),
        ({"d_ff": 48}, "`d_ff` is 48 there and 20 here"),
        ({"n_vocab": 13}, "`n_vocab` is 13 there and 11 here"),
        ({"d_v": 5}, "`d_v` is 5 there and 4 here"),
        ({"tied": False}, "`tied` is False there and True here"),
        ({"norm_first": False}, "`norm_first` is False there and True here"),
        ({"norm": "rms"}, "`norm` is 'rms' there and 'layer' here"),
        ({"qk_norm": True}, "`qk_norm` is True there and False here"),
        ({"activation": "gelu"}, "`activation` is 'gelu' there and 'relu' here"),
        ({"bias": False}, "`bias` is False there and True here"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_changes(unhooked, there, message):
    """All that differs at once; and the new model is as new as before."""
    autoregressive = unhooked("labml_nn.transformers.autoregressive")
    feedback = unhooked("labml_nn.transformers.feedback.language_model")
    start = unhooked("labml_nn.transformers.feedback.warm_start")
    old = autoregressive.AutoregressiveTransformer.from_config(SIZES | there)
    new = feedback.FeedbackLanguageModel.from_config(SIZES)
    before = {name: p.clone() for name, p in parameters(new).items()}
    with pytest.raises(ValueError) as error:
        start.take_weights(new, old)
    assert message in str(error.value)
    assert "does not fit" in str(error.value)
    assert all(torch.equal(p, before[name]) for name, p in parameters(new).items())


def test_memory_must_be_normalised(unhooked):
    autoregressive = unhooked("labml_nn.transformers.autoregressive")
    feedback = unhooked("labml_nn.transformers.feedback.language_model")
    start = unhooked("labml_nn.transformers.feedback.warm_start")
    old = autoregressive.AutoregressiveTransformer.from_config(SIZES)
    new = feedback.FeedbackLanguageModel.from_config(SIZES | {"norm_memory": False})
    with pytest.raises(ValueError, match="`norm_memory` is False here"):
        start.take_weights(new, old)


def test_another_model_is_refused(unhooked):
    elman = unhooked("labml_nn.recurrent.elman.language_model")
    feedback = unhooked("labml_nn.transformers.feedback.language_model")
    start = unhooked("labml_nn.transformers.feedback.warm_start")
    old = elman.ElmanLanguageModel.from_config({"n_vocab": V})
    new = feedback.FeedbackLanguageModel.from_config(SIZES)
    with pytest.raises(ValueError, match=r"cannot start from 'elman' .ElmanLanguageModel.; it"):
        start.take_weights(new, old)
