r"""
---
title: The command line
summary: >
  Train a model, let it write, judge it, and see what it looks at, each with one
  command.
---

To train a model, and to see what it has learned, nobody should have to write a program
first. From a name to a text in four commands:

```text
python -m labml_nn train feedback --preset tiny
python -m labml_nn generate runs/feedback --prompt "ROMEO:"
python -m labml_nn evaluate runs/feedback
python -m labml_nn attention runs/feedback --text "To be, or not to be"
```

| Command | What it does |
|:--|:--|
| [`train`](train.py) | trains a model, or goes on with one (`--resume`) |
| [`generate`](generate.py) | lets a trained model write, or reply |
| [`evaluate`](evaluate.py) | says how surprised it is by a text |
| [`attention`](attention.py) | draws what it looks at |
| `list` | shows the experiments that `train` knows |

`--help` behind any of them explains its flags. Where `labml-nn` is installed, it is
also called `labml-nn train feedback`.

A command is a function of its words. It is imported when it is called, prints what it
has to say, and returns an exit code. Whatever goes wrong in it is an exception, which
comes out here and [becomes a sentence](failures.py).
"""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from labml_nn.checks import check_known

__all__ = ["main"]

HERE = "labml_nn.experiments.command_line"
COMMANDS = {
    "train": "train a model, or go on with a training (--resume)",
    "generate": "let a trained model write, or reply",
    "evaluate": "say how surprised a trained model is by a text",
    "attention": "draw what a trained model looks at",
    "list": "show the experiments that can be trained",
}


def main(words: Sequence[str] | None = None) -> int:
    """
    ## One command

    * `words` is the command line behind the name of the program; `None` takes that of
      the process

    Returns the exit code. Nothing is raised.
    """
    words = sys.argv[1:] if words is None else list(words)
    debug = "--debug" in words or bool(os.environ.get("LABML_NN_DEBUG"))
    try:
        return run([word for word in words if word != "--debug"])
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    except BrokenPipeError:
        # Who reads what we print has seen enough, as in `generate ... | head`. Python
        # would complain when it empties its buffers at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        if debug:
            traceback.print_exc()
        return explain(error)


def run(words: list[str]) -> int:
    """
    ## Which command?

    * `words` is the command line without `--debug`

    Returns its exit code, and raises what it raises.
    """
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"labml-nn {version('labml-nn')}")
        return 0
    check_known("command", words[0], COMMANDS)
    if words[0] == "list":
        from labml_nn.experiments.experiment import experiments

        print(experiments())
        return 0
    code: int = import_module(f"{HERE}.{words[0]}").run(words[1:])
    return code


def explain(error: BaseException) -> int:
    """
    ## What went wrong

    Prints it to the standard error and returns the exit code. Of many processes all see
    a wrong flag, and the first one says so; what happens later, each says for itself.
    """
    from labml_nn.experiments.command_line.failures import told
    from labml_nn.experiments.distributed import World

    code, text = told(error)
    try:
        world = World.announced()
    except ValueError:
        world = World()
    who = f"process {world.rank}: " if world.size > 1 else ""
    if world.main or code not in (2, 130):
        print(f"{who}error: {text}" if code != 130 else text, file=sys.stderr)
    return code


def program() -> str:
    """How this program was called, as the help shows it."""
    name = os.path.basename(sys.argv[0])  # noqa: PTH119
    return "labml-nn" if name.startswith("labml-nn") else "python -m labml_nn"


def overview() -> str:
    """The help without a command."""
    commands = "\n".join(f"  {name:<11}{about}" for name, about in COMMANDS.items())
    return (
        f"usage: {program()} COMMAND ...\n\n"
        "Train the models of this library, and see what they have learned.\n\n"
        f"{commands}\n\n"
        f"`{program()} COMMAND --help` explains a command."
    )
