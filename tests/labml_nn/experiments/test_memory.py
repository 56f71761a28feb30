"""The memory tasks: what a sequence asks, that answers are right, and training on them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import labml_nn
from labml_nn.experiments.command_line import main
from labml_nn.experiments.memory import OverwriteTask, ParityTask, RecallTask
from labml_nn.experiments.presets import experiments
from labml_nn.experiments.trainer import Trainer
from labml_nn.language_model import LanguageModel, LanguageModelConfig

KEYED = (RecallTask, OverwriteTask)


def questions(task, batch, column):
    """The words that are read, and the pairs (key, answer) that are asked."""
    tokens, targets = batch.tokens[:, column].tolist(), batch.targets[:, column].tolist()
    words = task.vocabulary
    asked = [(words[k], words[v]) for k, v in zip(tokens, targets, strict=True) if v < len(words)]
    return [words[k] for k in tokens[: len(tokens) - len(asked)]], asked


@pytest.mark.parametrize("kind", KEYED)
@given(n=st.integers(1, 64), seed=st.integers(0, 99))
def test_each_key_is_asked_once_for_its_last_value(kind, n, seed):
    length = n * (2 * kind.times + 1)
    task = kind(batch_size=2, seq_len=length, seed=seed)
    batch = task.batch(3)
    assert batch.tokens.shape == batch.targets.shape == (length, 2)
    assert batch.count == 2 * n
    for column in range(2):
        read, asked = questions(task, batch, column)
        keys, values = read[::2], read[1::2]
        assert len(read) == 2 * n * kind.times
        assert {k[0] for k in keys} == {"k"} and {v[0] for v in values} == {"v"}
        assert all(keys.count(key) == kind.times for key in keys)
        # A dictionary forgets the earlier of two values.
        assert sorted(asked) == sorted(dict(zip(keys, values, strict=True)).items())


@given(length=st.integers(1, 40), seed=st.integers(0, 99))
def test_parity_counts_ones(length, seed):
    batch = ParityTask(batch_size=3, seq_len=length, seed=seed).batch(0)
    assert batch.count == 3 * length
    for t in range(length):
        assert torch.equal(batch.targets[t], batch.tokens[: t + 1].sum(0) % 2)


@pytest.mark.parametrize("kind", [*KEYED, ParityTask])
def test_batches_depend_on_seed_and_step_and_validation_on_neither(kind):
    def task(seed):
        return kind(batch_size=4, seq_len=10, seed=seed)

    assert torch.equal(task(1).batch(5).tokens, task(1).batch(5).tokens)
    for other in (task(1).batch(6), task(2).batch(5), next(task(1).validation())):
        assert not torch.equal(task(1).batch(5).tokens, other.tokens)
    for one, other in zip(task(1).validation(), task(2).validation(), strict=True):
        assert torch.equal(one.tokens, other.tokens)
    shorter = task(1).batch(5, seq_len=5)
    assert len(shorter.tokens) == len(shorter.targets) <= 5


@pytest.mark.parametrize("kind", [*KEYED, ParityTask])
def test_accuracy_is_the_share_of_right_answers(kind):
    task = kind(batch_size=5, seq_len=15, seed=0)

    class Oracle(LanguageModel):
        """Knows the answers of the validation batches; those of `wrong` columns are wrong."""

        def __init__(self, wrong):
            super().__init__(LanguageModelConfig(n_vocab=task.model_fields["n_vocab"]))
            self.batches, self.wrong = iter(list(task.validation())), wrong

        def forward(self, tokens, state=None):
            batch, n_vocab = next(self.batches), self.config.n_vocab
            assert torch.equal(batch.tokens, tokens)
            answers = batch.targets.clone()
            answers[:, : self.wrong] = (answers[:, : self.wrong] + 1) % n_vocab
            return nn.functional.one_hot(answers, n_vocab).float(), None

    assert task.accuracy(Oracle(wrong=0), "cpu") == 1
    assert task.accuracy(Oracle(wrong=2), "cpu") == 3 / 5


@pytest.mark.parametrize("kind", [*KEYED, ParityTask])
def test_a_prompt_is_words_of_the_task(kind):
    task = kind(batch_size=2, seq_len=20, seed=0)
    prompt = task.prompt(task.sample_prompt)
    assert task.decode(prompt[:, 0]) == task.sample_prompt
    # Commands for trained models make the task from its words alone.
    again = kind(None, vocabulary=task.vocabulary)
    assert torch.equal(again.prompt(task.sample_prompt), prompt)


@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize("n", [0, 65])
def test_lengths_that_do_not_fit(kind, n):
    length = max(1, n * (2 * kind.times + 1))
    with pytest.raises(ValueError, match=rf"`seq_len` \({length}\) must be .* for all 64 keys"):
        kind(batch_size=2, seq_len=length).batch(0)


def test_experiments_that_do_not_fit():
    with pytest.raises(ValueError, match=r"does not fit encoder_decoder, .* trained on replies"):
        experiments()["encoder_decoder"].build("tiny", task="recall")
    with pytest.raises(ValueError, match="trained on text, recall, overwrite, parity"):
        experiments()["elman"].build("tiny", task="replies")


def test_an_elman_network_learns_parity():
    sizes = {"d_model": 8, "d_hidden": 12, "n_layers": 1, "dropout_prob": 0.0}
    few = {"steps": 40, "batch_size": 32, "seq_len": 4, "learning_rate": 0.03, "warmup_steps": 4}
    experiment = experiments()["elman"]
    model, task, config = experiment.build("tiny", task="parity", model=sizes, training=few)
    result = Trainer(model, task, config).train()
    assert result.accuracy == task.accuracy(model, "cpu") > 0.9
    assert (model(task.prompt("0110"))[0].argmax(-1)[:, 0]).tolist() == [0, 1, 0, 0]


def test_the_command_line_trains_evaluates_and_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABML_NN_DATA", str(tmp_path / "no text is read"))
    run = str(tmp_path / "run")
    train = ["train", "elman", "--task", "recall", "--out", run]
    sizes = "--d-model 8 --d-hidden 12 --n-layers 1 --batch-size 4 --seq-len 9 --steps 3"
    assert main([*train, *sizes.split(), "--device", "cpu"]) == 0
    assert "of the answers are right" in capsys.readouterr().out
    assert main([*train, "--resume"]) == 0
    assert "resuming after 3 updates" in capsys.readouterr().out
    assert main(["evaluate", run]) == 0
    assert "task        recall\naccuracy    " in capsys.readouterr().out
    assert main(["generate", run, "--prompt", "k3 v5 k8 v1 k3", "--tokens", "1"]) == 0
    assert capsys.readouterr().out.startswith("k3 v5 k8 v1 k3 ")
    assert labml_nn.load(f"{run}/model").config.n_vocab == 130
