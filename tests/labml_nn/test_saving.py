"""Saved models: what comes back, what is refused, and what a failure leaves behind."""

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.saving import load_parameters, pack, read_description, unpack


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


class Unnamed(Tied):
    name = ""


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


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def rewrite(folder, change, **metadata):
    """Change tensors of the file; its metadata stays or is replaced."""
    path = folder / "model.safetensors"
    tensors, found = unpack(path.read_bytes(), path)
    change(tensors)
    path.write_bytes(pack(tensors, metadata or found))


def assert_same(one, other):
    assert type(one) is type(other) and one.config == other.config
    mine, theirs = one.state_dict(), other.state_dict()
    assert list(mine) == list(theirs)
    for name, tensor in mine.items():
        assert tensor.dtype == theirs[name].dtype and torch.equal(tensor, theirs[name]), name


# What comes back.
@pytest.mark.parametrize("kind", [str, Path])
def test_a_model_comes_back_bit_for_bit(tmp_path, kind):
    model = make(padding_token=2, label_smoothing=0.1, scales=(1.0, 3.0))
    model.steps += 4
    path = kind(tmp_path / "a" / "b")
    model.save(path)
    before = torch.get_rng_state()
    other = Tied.load(path)
    assert torch.equal(torch.get_rng_state(), before)
    assert_same(model, other)
    assert other.output.weight is other.embed.weight and other.training
    tokens = torch.randint(7, (4, 2))
    other.loss(tokens, tokens).backward()
    assert torch.equal(other(tokens)[0], model(tokens)[0])
    other.save(tmp_path / "again")
    assert contents(Path(path)) == contents(tmp_path / "again")


def test_the_files_can_be_read_without_the_library(folder):
    from safetensors.torch import load_file, save_file

    document = json.loads((folder / "config.json").read_text())
    assert document["format"] == 1 and document["model"] == "tied"
    assert document["class"] == f"{Tied.__module__}.Tied"
    assert document["config"]["n_vocab"] == 7 and document["config"]["scales"] == [0.5, 2.0]
    tensors = load_file(folder / "model.safetensors")
    assert sorted(tensors) == ["embed.weight", "output.bias", "steps"]  # tied ones once
    save_file(tensors, folder / "model.safetensors")  # without our metadata
    assert_same(make(), Tied.load(folder))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_come_back(tmp_path, dtype):
    model = make().to(dtype)
    model.save(tmp_path)
    other = Tied.load(tmp_path)
    assert_same(model, other)
    assert other.waves.dtype == dtype and torch.equal(other.waves, model.waves)
    model.output.bias.data = torch.randn(14)[::2]  # mixed dtypes, and strides
    model.save(tmp_path)
    assert_same(model, Tied.load(tmp_path))


def test_devices(folder):
    model = Tied.load(folder, device="meta")
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"meta"}
    with torch.device("meta"):
        assert Tied.load(folder).embed.weight.device.type == "cpu"
    with pytest.raises(ValueError, match=r"on the device `meta`.*to_empty"):
        model.save(folder)
    assert_same(make(), Tied.load(folder))


def test_numpy_numbers_and_unnamed_models(unhooked, tmp_path):
    base = unhooked("labml_nn.language_model")

    class Model(base.LanguageModel):
        def __init__(self, config):
            super().__init__(config)
            self.bias = nn.Parameter(torch.randn(3))

    config = base.LanguageModelConfig(n_vocab=np.int64(7), label_smoothing=np.float32(0.5))
    Model(config).save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model"] == Model.__qualname__
    assert Model.load(tmp_path).config == base.LanguageModelConfig(n_vocab=7, label_smoothing=0.5)


# What is refused.
def refuses(folder, match, error=ValueError, cls=Tied):
    with pytest.raises(error, match=match) as caught:
        cls.load(folder)
    assert str(folder) in str(caught.value) or "the folder" in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_files(folder, name):
    (folder / name).unlink()
    refuses(folder, f"there is no .*{name}", FileNotFoundError)
    refuses(folder / "none", "there is no", FileNotFoundError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "config.json is damaged, it is not JSON"),
        ("\xff\xfe", "config.json is damaged, it is not JSON"),
        ("[]", "does not describe a model of this library"),
        ('{"format": 1}', "does not describe a model of this library"),
    ],
)
def test_a_damaged_description(folder, text, message):
    (folder / "config.json").write_text(text, encoding="latin-1")
    refuses(folder, message)


def test_a_description_that_does_not_fit(folder):
    refuses(folder, "holds the model 'tied'.*not 'Unnamed'", cls=Unnamed)
    edit(folder, format=2)
    refuses(folder, "has format 2.*reads up to 1")
    edit(folder, format=1, config={"n_vocab": 7, "head": 4})
    with pytest.raises(ValueError, match="no field of TiedConfig 'head'; did you mean 'heads'"):
        Tied.load(folder)


def test_files_of_two_models_in_one_folder(folder, tmp_path):
    """The shapes are equal, so only the copy of the description can tell."""
    make(heads=5).save(tmp_path / "two")
    (tmp_path / "two/model.safetensors").replace(folder / "model.safetensors")
    refuses(folder, "was not saved together with.*heads: 1 and 5")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("output.bias"), r"`output.bias` \[7\] is missing in the file"),
        (lambda t: t.update(more=torch.zeros(2, 3)), r"`more` \[2, 3\] is not in the model"),
        (lambda t: t.update(steps=torch.tensor(3.5)), "float32 in the file, .* torch.int64"),
        (
            lambda t: t.update({"output.bias": torch.ones(7, dtype=torch.bool)}),
            "bool in the file, .* torch.float32",
        ),
        (
            lambda t: t.update({"output.bias": torch.ones(7, dtype=torch.complex64)}),
            "complex64 in the file, .* torch.float32",
        ),
        (
            lambda t: t.update({"output.bias": torch.ones(9)}),
            r"`output.bias` has shape \[9\] .* in the file, and shape \[7\]",
        ),
        (
            lambda t: t.update({f"more{i}": torch.zeros(1) for i in range(20)}),
            r"`more0`[^$]*and 12 more",
        ),
    ],
)
def test_tensors_that_do_not_match(folder, change, message):
    rewrite(folder, change)
    refuses(folder, message)
    model = Tied(TiedConfig(n_vocab=7))
    before = model.embed.weight.clone()
    with pytest.raises(ValueError, match="was it saved by another version"):
        load_parameters(model, read_description(folder), folder)
    assert torch.equal(model.embed.weight, before)


@pytest.mark.parametrize("keep", [0, 3, 8, 30, -1])
def test_a_truncated_file(folder, keep):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    refuses(folder, "model.safetensors is damaged, or no safetensors file")


def test_any_flipped_bit_of_a_tensor_is_detected(folder):
    """Anywhere else it is detected, or changes nothing that is loaded."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    chance = random.Random(0)
    for place in [chance.randrange(len(data)) for _ in range(120)] + [start, len(data) - 1]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            model = Tied.load(folder)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            assert place < start
            assert_same(model, make())


# What a failure leaves behind.
def test_saving_again_replaces_and_leaves_other_files(folder):
    (folder / "notes.txt").write_text("mine")
    model = make()
    nn.init.zeros_(model.embed.weight)
    model.save(folder)
    assert (Tied.load(folder).embed.weight == 0).all()
    assert sorted(contents(folder)) == ["config.json", "model.safetensors", "notes.txt"]


def test_a_file_is_no_folder(folder):
    for path in (folder / "config.json", folder / "config.json" / "below"):
        with pytest.raises(NotADirectoryError, match=r"`folder` \(.*\) is a file or lies below"):
            make().save(path)
    assert_same(make(), Tied.load(folder))


@pytest.mark.parametrize("call", ["fsync", "first write", "second write", "rename"])
def test_a_save_that_fails_leaves_the_old_files(folder, monkeypatch, call):
    before, opened, real_open = contents(folder), [], Path.open

    def fail(*_):
        raise OSError(28, "No space left on device")

    def failing_open(path, mode="r", *args, **kwargs):
        opened.extend([path] if "x" in mode else [])
        if "x" in mode and call == f"{['first', 'second'][len(opened) - 1]} write":
            fail()
        return real_open(path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", failing_open)
    if call == "rename":
        monkeypatch.setattr(Path, "replace", fail)
    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    model = make()
    nn.init.zeros_(model.embed.weight)
    with pytest.raises(OSError, match="No space left"):
        model.save(folder)
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
    refuses(folder, "was not saved together with.*heads: 1 and 5")
    assert sorted(contents(folder)) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("value", [print, {1, 2}, 1j, float("nan")])
def test_a_configuration_that_json_cannot_express(tmp_path, value):
    with pytest.raises(TypeError, match=r"the configuration .*'extra': .* cannot be written"):
        make(extra=value).save(tmp_path / "none")
    assert not (tmp_path / "none").exists()
