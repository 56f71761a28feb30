"""Saved models: what comes back, what is refused, and what a failure leaves behind."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig


@dataclass(frozen=True, kw_only=True)
class TiedConfig(LanguageModelConfig):
    d_model: int = 5
    heads: int = 1
    scales: tuple[float, ...] = (0.5, 2.0)
    extra: object = None


class Tied(LanguageModel[None]):
    """One matrix under two names, a buffer that is saved, and one that is not."""

    name = "tied"
    Config = TiedConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.n_vocab, config.d_model)
        self.output = nn.Linear(config.d_model, config.n_vocab)
        self.output.weight = self.embed.weight
        self.register_buffer("steps", torch.tensor(3))
        self.register_buffer("waves", torch.linspace(0, 1, config.d_model), persistent=False)

    def forward(self, tokens, state=None):
        return self.output(self.embed(tokens) + self.waves), None


def make(cls=Tied, **config):
    torch.manual_seed(0)
    return cls.from_config({"n_vocab": 7} | config)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "models" / "one"
    make().save(path)
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_same(one, other):
    assert type(one) is type(other) and one.config == other.config
    mine, theirs = one.state_dict(), other.state_dict()
    assert list(mine) == list(theirs)
    for name, tensor in mine.items():
        assert tensor.dtype == theirs[name].dtype and torch.equal(tensor, theirs[name]), name


# What comes back.
def test_a_model_comes_back_bit_for_bit(tmp_path):
    model = make(padding_token=2, label_smoothing=0.1, scales=(1.0, 3.0))
    model.steps += 4
    path = str(tmp_path / "a" / "b")
    model.save(path)
    before = torch.get_rng_state()
    other = Tied.load(path)
    assert torch.equal(torch.get_rng_state(), before)
    assert_same(model, other)
    assert other.output.weight is other.embed.weight and not other.training
    tokens = torch.randint(7, (4, 2))
    other.loss(tokens, tokens).backward()
    assert torch.equal(other(tokens)[0], model(tokens)[0])
    other.save(tmp_path / "again")
    assert contents(Path(path)) == contents(tmp_path / "again")


def test_the_files_can_be_read_without_the_library(folder):
    document = json.loads((folder / "config.json").read_text())
    assert document["format"] == 1 and document["model"] == "tied"
    assert document["class"] == f"{Tied.__module__}.Tied"
    assert document["config"]["n_vocab"] == 7 and document["config"]["scales"] == [0.5, 2.0]
    tensors = load_file(folder / "model.safetensors")
    assert sorted(tensors) == ["embed.weight", "output.bias", "steps"]  # tied ones once
    save_file(tensors, folder / "model.safetensors")  # without our metadata
    assert_same(make(), Tied.load(folder))


def test_other_dtypes_come_back(tmp_path):
    model = make().to(torch.bfloat16)
    model.save(tmp_path)
    other = Tied.load(tmp_path)
    assert_same(model, other)
    assert other.waves.dtype == torch.bfloat16 and torch.equal(other.waves, model.waves)
    model.output.bias.data = torch.randn(14)[::2]  # mixed dtypes, and strides
    model.save(tmp_path)
    assert_same(model, Tied.load(tmp_path))


def test_devices(folder):
    model = Tied.load(folder, device="meta")
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"meta"}
    with torch.device("meta"):
        assert Tied.load(folder).embed.weight.device.type == "cpu"
    with pytest.raises(NotImplementedError, match="meta"):
        model.save(folder)
    assert_same(make(), Tied.load(folder))


def test_numpy_numbers(unhooked, tmp_path):
    base = unhooked("labml_nn.language_model")
    config = base.LanguageModelConfig(n_vocab=np.int64(7), label_smoothing=np.float32(0.5))
    base.LanguageModel(config).save(tmp_path)
    saved = base.LanguageModel.load(tmp_path).config
    assert saved == base.LanguageModelConfig(n_vocab=7, label_smoothing=0.5)


# What is refused.
def refuses(folder, match, error=ValueError):
    with pytest.raises(error, match=match) as caught:
        Tied.load(folder)
    assert str(folder) in str(caught.value)


def test_missing_files(folder):
    for name in ("model.safetensors", "config.json"):
        (folder / name).unlink()
        refuses(folder, f"there is no .*{name}", FileNotFoundError)
    refuses(folder / "none", "there is no .* expected a folder", FileNotFoundError)


DESCRIBED = {"format": 1, "model": "tied", "class": "Tied", "config": {"n_vocab": 7}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "config.json does not describe a model"),
        (b"\xff\xfe", "config.json does not describe a model"),
        ({"format": 1}, "config.json does not describe a model"),
        (DESCRIBED | {"config": 3}, "config.json does not describe a model"),
        (DESCRIBED | {"format": 2}, "has format 2.*reads up to 1; install"),
        (DESCRIBED | {"model": "other"}, r"holds the model 'other' \(Tied\), not 'tied'; use"),
    ],
)
def test_a_damaged_description(folder, document, message):
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    (folder / "config.json").write_bytes(data)
    refuses(folder, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output.bias": None}, r"`output.bias` is missing, not float \[7\]"),
        ({"more": torch.zeros(2, 3)}, r"`more` is float \[2, 3\], not missing"),
        ({"steps": torch.tensor(3.5)}, r"`steps` is float \[\], not torch.int64 \[\]"),
        ({"output.bias": torch.ones(9)}, r"is float \[9\], not float \[7\]"),
    ],
)
def test_tensors_that_do_not_match(folder, change, message):
    path = folder / "model.safetensors"
    tensors = load_file(path) | change
    save_file({name: x for name, x in tensors.items() if x is not None}, path)
    refuses(folder, f"{message}.*was it saved by another version")


def test_a_truncated_file(folder):
    path = folder / "model.safetensors"
    for keep in (-1, 30, 3, 0):
        path.write_bytes(path.read_bytes()[:keep])
        refuses(folder, "model.safetensors is damaged, incomplete or no safetensors file; copy")


# What a failure leaves behind.
def test_other_files_are_left_alone(folder):
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is a file, and a model is saved as two files"):
        make(heads=5).save(folder / "notes.txt")
    make(heads=5).save(folder)
    assert_same(make(heads=5), Tied.load(folder))
    assert sorted(contents(folder)) == ["config.json", "model.safetensors", "notes.txt"]


@pytest.mark.parametrize("place", [(os, "fsync"), (Path, "replace"), (Path, "open")])
def test_a_save_that_fails_leaves_the_old_files(folder, monkeypatch, place):
    before = contents(folder)
    monkeypatch.setattr(*place, Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        make(heads=5).save(folder)
    monkeypatch.undo()
    assert contents(folder) == before


def test_a_process_that_dies_between_the_renamings_is_noticed(folder, monkeypatch):
    real_replace, calls = Path.replace, []

    def dying(path, target):
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real_replace(path, target)

    monkeypatch.setattr(Path, "replace", dying)
    model = make()
    nn.init.zeros_(model.embed.weight)
    with pytest.raises(KeyboardInterrupt):
        model.save(folder)
    assert_same(Tied.load(folder), model)  # with an unchanged configuration all is well

    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        make(heads=5).save(folder)
    refuses(folder, "was not saved together with.* `heads` is 5, not 1")
    assert sorted(contents(folder)) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("value", [print, {1, 2}, float("nan")])
def test_a_configuration_that_json_cannot_express(tmp_path, value):
    with pytest.raises((ValueError, AttributeError)):
        make(extra=value).save(tmp_path / "none")
    assert not (tmp_path / "none").exists()
