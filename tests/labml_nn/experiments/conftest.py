"""A small text, and small runs on it that are trained once."""

import pytest
from small_commands import SMALL, SPEECHES

from labml_nn.experiments.command_line import main


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """Speeches enough for a model of replies."""
    path = tmp_path_factory.mktemp("text") / "small.txt"
    path.write_text(SPEECHES * 12)
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory, text_file):
    """The folder of a finished run of an experiment."""
    folder, known = tmp_path_factory.mktemp("runs"), {}

    def run(name):
        if name not in known:
            words = ["train", name, *SMALL[name], "--text", text_file, "--out", folder / name]
            assert main([*map(str, words), "--quiet"]) == 0
            known[name] = folder / name
        return known[name]

    return run
