"""Models in files: what comes back, what is refused, and what a failure leaves behind."""

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from labml_nn.language_model import LanguageModel, LanguageModelConfig
from labml_nn.saving import files

MODULE = "labml_nn.saving"


@dataclass(frozen=True, kw_only=True)
class TiedConfig(LanguageModelConfig):
    d_model: int = 5
    heads: int = 1
    scales: tuple[float, ...] = (0.5, 2.0)


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


class Plain(LanguageModel[None]):
    """A model that says nothing of a name."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.n_vocab, config.n_vocab)

    def forward(self, tokens, state=None):
        return self.table(tokens), None


def make(cls=Tied, **config):
    torch.manual_seed(0)
    return cls.from_config({"n_vocab": 7} | config)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "models" / "one"
    make().save(path)
    return path


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


def edit(folder, **changes):
    """Change what `config.json` says."""
    path = folder / "config.json"
    document = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(document))


def rewrite(folder, change):
    """Change tensors of the other file, which keeps its description."""
    path = folder / "model.safetensors"
    tensors, metadata = files.unpack(path.read_bytes(), path)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors)
    path.write_bytes(files.pack(tensors, metadata))


# What comes back.
def assert_same(one, other):
    assert type(one) is type(other) and one.config == other.config
    mine, theirs = one.state_dict(), other.state_dict()
    assert list(mine) == list(theirs)
    for name, tensor in mine.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("kind", [str, Path])
def test_a_model_comes_back_bit_for_bit(tmp_path, kind):
    model = make(padding_token=2, label_smoothing=0.1, scales=(1.0, 3.0))
    model.steps += 4
    path = kind(tmp_path / "a" / "b")
    model.save(path)
    assert listed(Path(path)) == ["config.json", "model.safetensors"]
    other = Tied.load(path)
    assert_same(model, other)
    assert other.output.weight is other.embed.weight
    assert other.training
    tokens = torch.randint(7, (4, 2))
    assert torch.equal(other(tokens)[0], model(tokens)[0])


def test_the_description_is_for_people_too(folder):
    assert json.loads((folder / "config.json").read_text()) == {
        "format": 1,
        "model": "tied",
        "class": f"{Tied.__module__}.Tied",
        "config": {
            "n_vocab": 7,
            "padding_token": None,
            "label_smoothing": 0.0,
            "d_model": 5,
            "heads": 1,
            "scales": [0.5, 2.0],
        },
    }


def test_tied_parameters_are_written_once(folder):
    path = folder / "model.safetensors"
    tensors, _ = files.unpack(path.read_bytes(), path)
    assert sorted(tensors) == ["embed.weight", "output.bias", "steps"]


def test_the_same_model_makes_the_same_files(folder, tmp_path):
    Tied.load(folder).save(tmp_path / "two")
    for name in listed(folder):
        assert (folder / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_precisions_come_back_as_they_were(tmp_path, dtype):
    model = make().to(dtype)
    model.save(tmp_path)
    other = Tied.load(tmp_path)
    assert_same(model, other)
    assert other.waves.dtype == dtype and torch.equal(other.waves, model.waves)
    tokens = torch.randint(7, (4, 2))
    assert torch.equal(other(tokens)[0], model(tokens)[0])


def test_mixed_precisions_come_back_as_they_were(tmp_path):
    model = make()
    model.output.bias.data = model.output.bias.data.double()
    model.save(tmp_path)
    assert_same(model, Tied.load(tmp_path))


def test_tensors_that_lie_oddly_in_memory(tmp_path):
    model = make(Plain)
    model.table.weight = nn.Parameter(torch.randn(7, 14).T[::2])
    assert not model.table.weight.is_contiguous()
    model.save(tmp_path)
    assert_same(model, Plain.load(tmp_path))


def test_what_comes_back_can_be_trained(folder):
    model = Tied.load(folder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randint(7, (4, 2))
    before = (folder / "model.safetensors").read_bytes()
    model.loss(tokens, tokens).backward()
    optimizer.step()
    assert model.output.weight is model.embed.weight
    assert not torch.equal(model.embed.weight, make().embed.weight)
    assert (folder / "model.safetensors").read_bytes() == before


def test_loading_leaves_the_random_state_alone(folder):
    before = torch.get_rng_state()
    Tied.load(folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_devices(folder):
    model = Tied.load(folder, device="meta")
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"meta"}
    with torch.device("meta"):
        assert Tied.load(folder).embed.weight.device.type == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_from_a_gpu_and_back(tmp_path):
    model = make().cuda()
    model.save(tmp_path)
    other = Tied.load(tmp_path, device="cuda")
    assert other.embed.weight.is_cuda
    assert_same(model, other)


def test_a_model_without_a_name_is_known_by_its_class(tmp_path):
    model = make(Plain)
    model.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model"] == "Plain"
    assert_same(model, Plain.load(tmp_path))


def test_numbers_of_numpy(unhooked, tmp_path):
    base = unhooked("labml_nn.language_model")

    class Model(base.LanguageModel):
        def __init__(self, config):
            super().__init__(config)
            self.bias = nn.Parameter(torch.randn(3))

    config = base.LanguageModelConfig(n_vocab=np.int64(7), label_smoothing=np.float32(0.5))
    Model(config).save(tmp_path)
    assert Model.load(tmp_path).config == base.LanguageModelConfig(n_vocab=7, label_smoothing=0.5)


def test_files_of_other_programs_can_be_read(folder):
    """Without our description and checksum in the header."""
    from safetensors.torch import save_file

    tensors = {name: t for name, t in make().state_dict().items() if name != "output.weight"}
    save_file(tensors, folder / "model.safetensors")
    assert_same(make(), Tied.load(folder))


# What is refused.
def refuses(folder, *words, error=ValueError, cls=Tied):
    with pytest.raises(error) as caught:
        cls.load(folder)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"
    assert str(folder) in str(caught.value) or "the folder" in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_is_missing(folder, name):
    (folder / name).unlink()
    refuses(folder, f"there is no {folder / name}", "`save` writes it", error=FileNotFoundError)


def test_a_folder_that_is_none(folder):
    refuses(folder / "nowhere", "there is no", error=FileNotFoundError)
    refuses(folder / "config.json", "there is no", error=FileNotFoundError)


@pytest.mark.parametrize("text", ["", "{", '{"format": 1', "\xff\xfe", "[" * 50])
def test_a_description_that_is_damaged(folder, text):
    (folder / "config.json").write_text(text, encoding="latin-1")
    refuses(folder, "config.json is damaged, it is not JSON", "save the model again")


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"format": 1}'])
def test_a_description_of_something_else(folder, text):
    (folder / "config.json").write_text(text)
    refuses(folder, "does not describe a model of this library", "was it written by `save`?")


def test_a_format_of_the_future(folder):
    edit(folder, format=2)
    refuses(folder, "has format 2", "reads up to 1", "pip install --upgrade labml-nn")


def test_another_model(folder):
    refuses(folder, "'tied'", "not 'Plain'", "labml_nn.load(folder)", cls=Plain)


def test_a_configuration_that_cannot_be(folder):
    with pytest.raises(ValueError, match="no field of TiedConfig 'head'; did you mean 'heads'"):
        edit(folder, config={"n_vocab": 7, "head": 4})
        Tied.load(folder)
    with pytest.raises(ValueError, match="TiedConfig needs `n_vocab`"):
        edit(folder, config={})
        Tied.load(folder)


def test_files_of_two_models_in_one_folder(folder, tmp_path):
    """Shapes are the same, and the numbers would mean something else."""
    make(heads=5).save(tmp_path / "two")
    (tmp_path / "two/model.safetensors").replace(folder / "model.safetensors")
    refuses(folder, "was not saved together with", "heads: 1 and 5")


def drop_description(folder):
    """So that nothing but names and shapes can tell."""
    path = folder / "model.safetensors"
    tensors, _ = files.unpack(path.read_bytes(), path)
    path.write_bytes(files.pack(tensors, {}))


def test_shapes_that_do_not_fit(folder):
    drop_description(folder)
    config = json.loads((folder / "config.json").read_text())["config"]
    edit(folder, config=config | {"n_vocab": 9})
    refuses(
        folder,
        "does not fit the model that config.json describes",
        "`embed.weight` has shape [7, 5] in the file, and [9, 5] in the model",
        "`output.bias` has shape [7] in the file, and [9] in the model",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("output.bias"), "`output.bias` [7] is missing in the file"),
        (lambda t: t.update(more=torch.zeros(2, 3)), "`more` [2, 3] is not in the model"),
        (
            lambda t: t.update(steps=torch.tensor(3.5)),
            "`steps` holds fractions (torch.float32) in the file, and whole numbers (torch.int64)",
        ),
        (
            lambda t: t.update({"output.bias": torch.ones(7, dtype=torch.bool)}),
            "`output.bias` holds truth values (torch.bool) in the file, and fractions",
        ),
        (
            lambda t: t.update({"output.bias": torch.ones(7, dtype=torch.complex64)}),
            "`output.bias` holds complex numbers",
        ),
    ],
)
def test_tensors_that_do_not_fit(folder, change, message):
    rewrite(folder, change)
    refuses(folder, message, "was it saved by another version of the model?")


def test_many_faults_are_counted(folder):
    rewrite(folder, lambda t: t.update({f"more{i}": torch.zeros(1) for i in range(20)}))
    refuses(folder, "`more0`", "and 12 more")


def test_what_is_refused_leaves_the_model_as_it_was(folder):
    from labml_nn.saving import load_parameters, read_description

    rewrite(folder, lambda t: t.pop("output.bias"))
    torch.manual_seed(5)
    model = Tied(TiedConfig(n_vocab=7))
    before = model.embed.weight.clone()
    with pytest.raises(ValueError, match="is missing"):
        load_parameters(model, read_description(folder), folder)
    assert torch.equal(model.embed.weight, before)


@pytest.mark.parametrize("keep", [0, 3, 8, 30, -1])
def test_half_a_file(folder, keep):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    refuses(folder, "model.safetensors is damaged, or no safetensors file")


def test_any_bit_that_fell_over_is_noticed(folder):
    """In the length, the header, or the numbers: loading says so, and never anything else."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    chance = random.Random(0)
    places = [chance.randrange(len(data)) for _ in range(150)] + [start, len(data) - 1]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            model = Tied.load(folder)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            # A bit of the padding between header and numbers, or of the text of our own.
            assert place < start
            assert_same(model, make())


# What a failure leaves behind.
def test_saving_again_replaces(folder):
    model = make()
    nn.init.zeros_(model.embed.weight)
    model.save(folder)
    assert (Tied.load(folder).embed.weight == 0).all()
    assert listed(folder) == ["config.json", "model.safetensors"]


def test_other_files_of_the_folder_stay(folder):
    (folder / "notes.txt").write_text("mine")
    make().save(folder)
    assert (folder / "notes.txt").read_text() == "mine"


class Full(OSError):
    """There is no room on the disk."""


@pytest.mark.parametrize("call", ["fsync", "first write", "second write", "rename"])
def test_a_save_that_fails_leaves_the_old_files(folder, monkeypatch, call):
    before = {name: (folder / name).read_bytes() for name in listed(folder)}
    opened, real_open, real_replace = [], Path.open, Path.replace

    def failing_open(path, mode="r", *args, **kwargs):
        if "x" in mode:
            opened.append(path)
            if call == f"{['first', 'second'][len(opened) - 1]} write":
                raise Full(28, "No space left on device")
        return real_open(path, mode, *args, **kwargs)

    def failing_replace(path, target):
        if call == "rename":
            raise Full(13, "Permission denied")
        return real_replace(path, target)

    def failing_sync(descriptor):
        if call == "fsync":
            raise Full(5, "Input/output error")

    monkeypatch.setattr(Path, "open", failing_open)
    monkeypatch.setattr(Path, "replace", failing_replace)
    monkeypatch.setattr(os, "fsync", failing_sync)
    model = make()
    nn.init.zeros_(model.embed.weight)
    with pytest.raises(Full):
        model.save(folder)
    monkeypatch.undo()
    assert {name: (folder / name).read_bytes() for name in listed(folder)} == before


def test_a_process_that_dies_between_the_renamings_is_noticed(folder, monkeypatch):
    real_replace, calls = Path.replace, []

    def dying(path, target):
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real_replace(path, target)

    # With the configuration it had, the folder then holds the new numbers, in order.
    model = make()
    nn.init.zeros_(model.embed.weight)
    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        model.save(folder)
    assert_same(Tied.load(folder), model)

    # With another one, the two files contradict each other.
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        make(heads=5).save(folder)
    refuses(folder, "was not saved together with", "heads: 1 and 5")
    assert listed(folder) == ["config.json", "model.safetensors"]


def test_a_model_without_numbers(folder):
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(ValueError, match=r"` is on the device `meta`.*to_empty"):
        make().to("meta").save(folder)
    assert (folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("value", [print, {1, 2}, 1j, float("nan"), torch.float32])
def test_a_configuration_that_json_cannot_hold(tmp_path, value):
    @dataclass(frozen=True, kw_only=True)
    class Odd(LanguageModelConfig):
        odd: object = None

    class Model(Plain):
        Config = Odd

    model = Model(Odd(n_vocab=7, odd=value))
    with pytest.raises(TypeError, match=r"the field `odd` \(.*\) cannot be written to config.json"):
        model.save(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_safetensors_is_imported_when_a_file_is():
    code = (
        "import sys; import labml_nn.language_model, labml_nn.saving.files; "
        "assert 'safetensors' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
