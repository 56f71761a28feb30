"""Learning rates and lengths, step by step."""

import pytest

from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.schedule import seq_len_at, share_at


def test_the_rate_rises_and_falls():
    config = TrainingConfig(steps=9, warmup_steps=4, final_learning_rate=0.2)
    shares = [share_at(step, config) for step in range(9)]
    assert shares[:4] == [0.25, 0.5, 0.75, 1.0]
    assert shares[4:] == pytest.approx([0.92361, 0.72361, 0.47639, 0.27639, 0.2], abs=1e-5)


def test_without_a_warm_up_it_falls_at_once():
    config = TrainingConfig(steps=3, warmup_steps=0, final_learning_rate=0.0)
    assert [share_at(step, config) for step in range(3)] == pytest.approx([0.75, 0.25, 0.0])


def test_a_final_share_of_one_is_constant():
    config = TrainingConfig(steps=5, warmup_steps=1, final_learning_rate=1.0)
    assert {share_at(step, config) for step in range(5)} == {1.0}


@pytest.mark.parametrize("warmup", [7, 20])
def test_a_training_may_be_all_warm_up(warmup):
    config = TrainingConfig(steps=7, warmup_steps=warmup)
    shares = [share_at(step, config) for step in range(7)]
    assert shares == [(step + 1) / warmup for step in range(7)]


def test_lengths_grow_in_whole_tokens():
    config = TrainingConfig(steps=9, seq_len=8, initial_seq_len=3, grow_steps=6)
    assert [seq_len_at(step, config) for step in range(9)] == [3, 3, 4, 5, 6, 7, 8, 8, 8]


def test_without_growth_all_are_equal():
    assert {seq_len_at(step, TrainingConfig(seq_len=11)) for step in range(30)} == {11}
