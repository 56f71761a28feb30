r"""
---
title: The command evaluate
summary: How surprised is a model by a text? In nats, bits, and a number of choices.
---

```text
python -m labml_nn evaluate runs/feedback
python -m labml_nn evaluate runs/feedback --text sonnets.txt
```

The loss of a language model is a mean over letters, in **nats**. The same number has
two other faces:

| Unit | Formula | What it says |
|:--|:--|:--|
| nats | $L$ | what training lowers |
| bits | $L / \ln 2$ | the length of the text, if the model compressed it |
| perplexity | $e^L$ | as unsure as between so many letters that are equally likely |

A model that guesses blindly among 65 letters has a perplexity of 65. One of 1.5 nats
has 4.5, and could store a text in 2.2 bits a letter.

A number is worth nothing without its text. It is the validation split of the text on
which the model was trained, all of it. Another text, or another edition, can be given
with `--text`; its last tenth is read, with the characters of the model, and the command
says that it is another one.
"""

import math
from collections.abc import Sequence

from labml_nn.experiments.command_line import program
from labml_nn.experiments.command_line.flags import Parser
from labml_nn.experiments.command_line.generate import device_of, replies, run_in
from labml_nn.experiments.data import Corpus
from labml_nn.experiments.training.folder import Run
from labml_nn.experiments.training.validation import validation_loss


def run(words: Sequence[str]) -> int:
    """
    ## The command

    * `words` are those behind `evaluate`
    """
    parser = Parser(
        "Say how surprised a trained model is by a text that it has not learned from.",
        f"{program()} evaluate",
    )
    parser.add_argument("run", metavar="RUN", help="the folder of a run: runs/feedback")
    parser.add_argument(
        "--text",
        metavar="FILE",
        help="a file of UTF-8 text, whose last tenth is read; without it, the text on "
        "which the model was trained",
    )
    parser.add_argument(
        "--device",
        default="auto",
        metavar="TEXT",
        help="cpu, cuda, cuda:1, mps, or auto for the fastest that there is "
        "(default: auto)",
    )
    values = parser.read(words)
    device = device_of(values.device)
    trained = run_in(values.run)
    task = trained.task(values.text)
    loss = validation_loss(trained.model(device), task, device)
    print(report(trained, task.corpus, loss))
    return 0


def report(trained: Run, corpus: Corpus, loss: float) -> str:
    """
    ## In words

    * `corpus` is the text whose end was read
    * `loss` is in nats

    Returns a few lines.
    """
    letter = "letter of a reply, or end of one" if replies(trained) else "letter"
    said, whole = len(corpus.validation_text), len(corpus.text)
    lines = [
        f"run         {trained.folder.path}{_which(trained)}",
        f"text        {corpus.name}, the last {said:,} of {whole:,} characters",
        f"loss        {loss:.4f} nats per {letter}",
        f"            {loss / math.log(2):.4f} bits",
        f"perplexity  {math.exp(min(loss, 700)):.2f}",
    ]
    if corpus.sha256 != trained.corpus["sha256"]:
        lines.append(
            f"The model was trained on another text: {trained.corpus['name']}."
        )
    return "\n".join(lines)


def _which(trained: Run) -> str:
    named = (trained.experiment, trained.variant, trained.preset)
    words = ", ".join(name for name in named if name)
    return f" ({words})" if words else ""
