"""Pictures of what a model looks at: which layer, head and part, and of which text."""

import pytest

from labml_nn.experiments.command_line import main


@pytest.fixture
def draw(capsys, tmp_path, trained):
    """Run the command; its exit code, what it said, and the picture."""

    def command(name, *words):
        out = tmp_path / "picture.svg"
        folder = trained(name)
        capsys.readouterr()
        code = main(["attention", str(folder), "--out", str(out), *words])
        captured = capsys.readouterr()
        if code:
            assert captured.err.startswith("error: ") and not out.exists()
            return code, captured.err, ""
        return code, captured.out, out.read_text()

    return command


@pytest.mark.parametrize("name", ["autoregressive", "feedback"])
def test_the_last_layer_with_all_heads(draw, name):
    code, said, picture = draw(name, "--text", "Speak")
    assert code == 0 and "layer 2" in said
    assert picture.startswith("<svg") and all(f"head {i}" in picture for i in range(3))
    assert "layer 2" in picture


def test_one_head_of_one_layer(draw):
    code, said, picture = draw("autoregressive", "--text", "Speak", "--layer", "1", "--head", "2")
    assert code == 0 and "layer 1" in said
    assert "head 2" in picture and "head 0" not in picture


@pytest.mark.parametrize(
    ("part", "title"),
    [
        ((), "decoder layer 2, source"),
        (("--part", "source", "--layer", "1"), "decoder layer 1, source"),
        (("--part", "encoder"), "encoder layer 2, self"),
        (("--part", "decoder", "--layer", "1"), "decoder layer 1, self"),
    ],
)
def test_a_model_of_replies_looks_in_three_ways(draw, part, title):
    words = ("--text", "Speak", "--reply", "We know")
    code, said, picture = draw("encoder_decoder", *words, *part)
    assert code == 0 and said.endswith(f": {title}\n")
    assert title in picture
    assert ("start" in picture) == ("decoder" in title)  # of the reply, which starts with it


def test_without_a_reply_the_model_replies(draw):
    code, _, picture = draw("encoder_decoder", "--text", "Speak")
    assert code == 0 and "start" in picture


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("autoregressive", ["--text", ""], "the prompt is empty"),
        ("autoregressive", ["--text", "Zebra"], "'Z'"),
        ("autoregressive", ["--text", "Speak " * 3], "has 18 tokens, and this model looks back"),
        ("autoregressive", ["--text", "Speak", "--layer", "3"], "no layer 3; expected 1 to 2"),
        ("autoregressive", ["--text", "Speak", "--layer", "0"], "no layer 0; expected 1 to 2"),
        ("autoregressive", ["--text", "Speak", "--head", "3"], "no head 3; this model has 3, from"),
        ("autoregressive", ["--text", "Speak", "--head", "x"], "--head: 'x' is not a whole number"),
        ("autoregressive", ["--text", "Speak", "--part", "encoder"], "--part is for models of"),
        ("autoregressive", ["--text", "Speak", "--reply", "a"], "this model does not reply"),
        ("encoder_decoder", ["--text", "Speak", "--part", "middle"], "no such part 'middle'"),
        ("encoder_decoder", ["--text", "a", "--reply", "Speak " * 3], "has 19 tokens"),
        ("elman", ["--text", "Speak"], "has no attention to look at"),
        ("elman", [], "--text"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(draw, name, words, message):
    code, said, _ = draw(name, *words)
    assert code == 2 and message in said


def test_a_place_where_nothing_can_be_written(capsys, tmp_path, trained):
    folder = str(trained("autoregressive"))
    capsys.readouterr()
    words = ["--text", "Speak", "--out", str(tmp_path / "no" / "a.svg")]
    assert main(["attention", folder, *words]) == 2
    assert f"there is no folder {tmp_path / 'no'}; make it" in capsys.readouterr().err


def test_a_picture_that_no_program_would_open_is_not_made(capsys, tmp_path, trained):
    folder = str(trained("autoregressive"))
    capsys.readouterr()
    words = ["--text", "Speak", "--out", str(tmp_path / "a.png")]
    assert main(["attention", folder, *words]) == 2
    assert f"is an SVG, which browsers open; try --out {tmp_path / 'a.svg'}\n" in (
        capsys.readouterr().err
    )
    assert not list(tmp_path.iterdir())
