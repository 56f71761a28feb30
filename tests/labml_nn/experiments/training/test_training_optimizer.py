"""Who gets which optimizer, and that it is AdamW."""

import pytest
import torch
from small_runs import MODELS, model_for, settings

import labml_nn
from labml_nn.experiments.training.optimizer import Optimizers, roles
from labml_nn.optimizers.muon import Muon

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", MODELS)
def test_each_parameter_has_one_role(name):
    model = model_for(name)
    maps, tables, vectors = roles(model)
    assert len({id(p) for p in [*maps, *tables, *vectors]}) == len([*maps, *tables, *vectors])
    assert {id(p) for p in [*maps, *tables, *vectors]} == {id(p) for p in model.parameters()}
    assert all(p.dim() == 2 for p in maps)
    assert maps and tables and vectors


def test_roles_of_a_transformer():
    model = model_for("autoregressive", positions="learned", tied=False)
    names = {id(p): n for n, p in model.named_parameters()}
    maps, tables, vectors = ([names[id(p)] for p in part] for part in roles(model))
    assert len(maps) == 2 * 6  # four of attention, two of the feed-forward network
    assert sorted(tables) == [
        "embedding.table",
        "embedding.tokens.weight",
        "generator.projection.weight",
    ]
    assert "generator.projection.bias" in vectors


def test_biases_of_two_axes_are_vectors():
    model = model_for("feedback")
    names = {id(p): n for n, p in model.named_parameters()}
    vectors = {names[id(p)] for p in roles(model).vectors}
    assert "transformer.layers.0.attn.key_pos_bias" in vectors
    assert model.transformer.layers[0].attn.key_pos_bias.dim() == 2


def test_frozen_parameters_are_left_alone():
    model = model_for("elman")
    model.embedding.weight.requires_grad_(False)
    optimizers = Optimizers(model, settings(), CPU)
    assert id(model.embedding.weight) not in {id(p) for p in optimizers.parameters}


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_only_matrices_are_drawn_to_zero(kind):
    model = model_for("autoregressive")
    optimizers = Optimizers(model, settings(optimizer=kind, weight_decay=0.3), CPU)
    vectors = {id(p) for p in roles(model).vectors}
    for optimizer in optimizers.all:
        for group in optimizer.param_groups:
            decays = [id(p) not in vectors for p in group["params"]]
            assert len(set(decays)) == 1
            assert group["weight_decay"] == (0.3 if decays[0] else 0.0)


def test_muon_gets_the_maps_and_adamw_the_rest():
    model = model_for("autoregressive")
    optimizers = Optimizers(model, settings(optimizer="muon", muon_learning_rate=0.05), CPU)
    muon, adamw = optimizers.all
    assert isinstance(muon, Muon)
    taken = {id(p) for group in muon.param_groups for p in group["params"]}
    assert taken == {id(p) for p in roles(model).maps}
    assert muon.param_groups[0]["lr"] == 0.05
    others = {id(p) for group in adamw.param_groups for p in group["params"]}
    assert not others & taken
    assert len(others | taken) == len(list(model.parameters()))


def test_rates_follow_the_schedule():
    config = settings(optimizer="muon", learning_rate=0.01, muon_learning_rate=0.04)
    optimizers = Optimizers(model_for("autoregressive"), config, CPU)
    optimizers.follow(0.5)
    optimizers.follow(0.25)
    rates = [group["lr"] for each in optimizers.all for group in each.param_groups]
    assert rates == [0.01, 0.0025, 0.0025]
    assert optimizers.learning_rate == 0.0025


def test_the_update_is_that_of_adamw():
    """By hand, from the equation: a matrix decays and a vector does not."""
    model = model_for("elman").double()
    config = settings(weight_decay=0.2, beta1=0.8, beta2=0.9)
    optimizers = Optimizers(model, config, CPU)
    matrix, vector = model.output_projection.weight, model.output_bias
    before = {p: p.detach().clone() for p in (matrix, vector)}
    mean = {p: torch.zeros_like(p) for p in before}
    square = {p: torch.zeros_like(p) for p in before}
    torch.manual_seed(0)
    for t in (1, 2, 3):
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        optimizers.follow(0.5)
        for p, decay in ((matrix, 0.2), (vector, 0.0)):
            mean[p] = 0.8 * mean[p] + 0.2 * p.grad
            square[p] = 0.9 * square[p] + 0.1 * p.grad**2
            m, v = mean[p] / (1 - 0.8**t), square[p] / (1 - 0.9**t)
            before[p] -= 0.005 * (m / (v.sqrt() + 1e-8) + decay * before[p])
        for optimizer in optimizers.all:
            optimizer.step()
    for p, expected in before.items():
        torch.testing.assert_close(p.detach(), expected.detach(), atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("autoregressive", {"d_model": 12, "d_ff": 12}),
        ("encoder_decoder", {"d_model": 12, "d_ff": 12}),
        ("feedback", {"d_model": 12, "d_ff": 12, "tied": False}),
        ("elman", {"d_model": 10, "d_hidden": 12}),
    ],
)
def test_layers_as_wide_as_the_vocabulary_are_no_outputs(name, sizes):
    """A coincidence of two sizes must not decide who trains a matrix."""
    specials = {"padding_token": 0, "start_token": 1, "end_token": 2}
    fields = {**sizes, **(specials if name == "encoder_decoder" else {}), "n_layers": 2}
    if name != "elman":
        fields |= {"heads": 3, "max_len": 9}
    found = []
    for n_vocab in (12, 13):
        model = labml_nn.create(name, n_vocab=n_vocab, **fields)
        names = {id(p): n for n, p in model.named_parameters()}
        found.append([[names[id(p)] for p in part] for part in roles(model)])
    assert found[0] == found[1]
    assert "output.weight" not in found[0][0]
    assert not any("generator" in each for each in found[0][0])
