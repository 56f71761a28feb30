"""Layers of the delta rule have their parts; the rule itself is tested with the page's example."""

import pytest
import torch
from torch import nn

from labml_nn.recurrent.delta_net import (
    DeltaNet,
    DeltaNetConfig,
    DeltaNetLanguageModel,
    delta_rule_chunks,
)
from labml_nn.recurrent.gated_delta_net import GatedDeltaNet, gated_delta_rule_chunks


def test_a_language_model_has_the_layers_that_its_configuration_says():
    for gated, kind in ((False, DeltaNet), (True, GatedDeltaNet)):
        config = DeltaNetConfig(n_vocab=7, d_model=12, heads=3, d_k=5, gated=gated)
        layers = DeltaNetLanguageModel(config).layers
        assert {type(layer.mixer) for layer in layers} == {kind}
        assert layers[0].mixer.d_k == 5


@pytest.mark.parametrize(
    ("kind", "chunks"), [(DeltaNet, delta_rule_chunks), (GatedDeltaNet, gated_delta_rule_chunks)]
)
@pytest.mark.parametrize(("allowed", "most"), [(False, 1.0), (True, 2.0)])
def test_rates_reach_two_only_where_they_may(monkeypatch, kind, chunks, allowed, most):
    rates = []

    def recording(q, k, v, beta, *rest):
        rates.append(beta)
        return chunks(q, k, v, beta, *rest)

    monkeypatch.setattr(f"{chunks.__module__}.{chunks.__name__}", recording)
    layer = kind(11, 3, d_k=5, d_v=7, allow_neg_eigval=allowed)
    nn.init.constant_(layer.beta.weight, 50.0)
    layer(torch.rand(9, 2, 11))
    torch.testing.assert_close(rates[0].max().item(), most)
