r"""
---
title: From an order to a run
summary: >
  What `train` does with what was typed: build or go on, alone or with others, once or
  once for each variant, and say how it ended.
---

A command line that trains has little to do. An experiment builds the model, a trainer
trains it. In between are the questions that only a command has: is there a run in that
folder already, who is allowed to print, and what does one tell somebody who has just
waited for an hour?

**Many processes** run this program at once, each with the same words. They meet before
the model is built. From then on the first one talks, and all of them compute.
"""

import os
import shlex
import sys
from pathlib import Path

from labml_nn.experiments.command_line import program
from labml_nn.experiments.command_line.failures import INTERRUPTED
from labml_nn.experiments.command_line.train import Order
from labml_nn.experiments.data import read_corpus
from labml_nn.experiments.distributed import World
from labml_nn.experiments.errors import RunError
from labml_nn.experiments.training.config import TrainingConfig
from labml_nn.experiments.training.curve import curve_svg, lines_of
from labml_nn.experiments.training.devices import pick_device
from labml_nn.experiments.training.folder import Run, RunFolder, load_run
from labml_nn.experiments.training.labml_record import LabmlRecord
from labml_nn.experiments.training.progress import Progress
from labml_nn.experiments.training.reporters import Reporter
from labml_nn.experiments.training.result import Result
from labml_nn.experiments.training.task import Task
from labml_nn.experiments.training.trainer import Trainer

Variant = str | None


def carry_out(order: Order) -> int:
    """
    ## All of it

    * `order` is what was typed

    What can be known to be wrong is refused before anything begins: of two processes
    none should wait for the other, and of four variants the fourth should not fail
    after an hour because its folder is taken.

    Returns the exit code, and raises what a run raises.
    """
    config = _config(order)
    World.announced().share(config.batch_size, config.accumulate)
    world = World.join(pick_device(config.device))
    if world.main and not order.resume:
        for variant in order.variants:
            RunFolder(order.folder(variant)).check_new()
    for variant in order.variants:
        result = one_run(order, variant, world)
        if result is not None and result.stopped == "interrupted":
            world.leave()
            return INTERRUPTED
    if world.main and len(order.variants) > 1:
        print(compared(order))
    world.leave()
    return 0


def _config(order: Order) -> TrainingConfig:
    # Where something goes on, its own numbers count.
    for variant in order.variants if order.resume else []:
        if RunFolder(folder := order.folder(variant)).run_file.is_file():
            there = load_run(folder).training.values()
            return TrainingConfig.of({**there, **order.training})
    return order.experiment.training(order.preset, order.training)


def one_run(order: Order, variant: Variant, world: World) -> Result | None:
    """
    ## One training

    * `variant` is which, if there are some

    Returns what came out, and `None` for a variant that was finished before. Raises
    `RunError` for numbers that became infinite, and what a run raises.
    """
    folder = order.folder(variant)
    several = len(order.variants) > 1
    going_on = order.resume and (not several or RunFolder(folder).run_file.is_file())
    if several and going_on and is_finished(folder):
        if world.main:
            print(f"{folder} is finished")
        return None
    trainer = resumed(order, variant, world) if going_on else new(order, variant, world)
    if world.main and not order.quiet:
        print(heading(trainer))
    result = trainer.train()
    if result.stopped == "not finite":
        raise RunError(
            f"the run in {folder} has ended after {result.step:,} of "
            f"{trainer.config.steps:,} updates; begin a new one (--out), with what the "
            "warning says"
        )
    if world.main:
        print(ending(order, folder, trainer, result))
    return result


def new(order: Order, variant: Variant, world: World) -> Trainer:
    """
    ## A new run
    """
    corpus = read_corpus(order.text)
    model, task, config = order.experiment.build(
        order.preset,
        corpus=corpus,
        variant=variant,
        model=order.model,
        training=order.training,
    )
    return Trainer(
        model,
        task,
        config,
        order.folder(variant),
        world=world,
        reporters=reporters(order, variant),
        about={
            "experiment": order.experiment.name,
            "variant": variant,
            "preset": order.preset,
        },
    )


def resumed(order: Order, variant: Variant, world: World) -> Trainer:
    """
    ## A run that goes on

    Everything is what it was, and what was typed is compared with it. Numbers that
    change nothing in what is learned, such as the device, may be others than before;
    the [checkpoint](../training/checkpoint.py) knows which.

    Raises `RunError` for a run of another experiment or of another model.
    """
    folder = order.folder(variant)
    if not RunFolder(folder).run_file.is_file():
        raise RunError(
            f"there is no run in {folder} to go on with; say where it is (--out), or "
            "leave out --resume to begin one"
        )
    run = load_run(folder)
    _check_same(order, variant, run)
    config = TrainingConfig.of({**run.training.values(), **order.training})
    trainer = Trainer(
        run.new_model(),
        run.task(order.text),
        config,
        folder,
        world=world,
        reporters=reporters(order, variant),
    )
    trainer.resume()
    return trainer


def _check_same(order: Order, variant: Variant, run: Run) -> None:
    typed = {"experiment": order.experiment.name, "variant": variant, **order.model}
    there = {
        "experiment": run.experiment,
        "variant": run.variant,
        **{name: run.model_config.get(name) for name in order.model},
    }
    faults = [
        f"{name}: {there[name]} there, {value} here"
        for name, value in typed.items()
        if there[name] != value
    ]
    if faults:
        listed = "\n  ".join(faults)
        raise RunError(
            f"the run in {run.folder.path} is another one:\n  {listed}\n"
            "leave out what differs, or begin a new run in another folder (--out)"
        )


def is_finished(folder: Path) -> bool:
    """Whether the run there has come to its end."""
    path = RunFolder(folder).result
    if not path.is_file():
        return False
    result = load_run(folder).result()["result"]
    return bool(result["stopped"] == "finished")


# ## What is told
#
# A bar while it trains, unless nobody wants to see it. What goes wrong is told anyway.
def reporters(order: Order, variant: Variant) -> list[Reporter]:
    """Who looks on. labml keeps a record in its own format, for its own tools."""
    shown = Warnings() if order.quiet else Progress()
    return [shown, LabmlRecord(order.folder(variant) / "labml")]


class Warnings(Reporter):
    """Only what goes wrong."""

    def warned(self, text: str) -> None:
        """To the standard error, where errors are."""
        print(f"warning: {text}", file=sys.stderr)


def heading(trainer: Trainer) -> str:
    """
    ## What begins

    What somebody would like to know before the wait: how large, on what text, where.
    """
    count = sum(parameter.numel() for parameter in trainer.model.parameters())
    corpus = trainer.task.corpus
    about = trainer.about
    named = [about[part] for part in ("experiment", "variant", "preset")]
    where = str(trainer.device)
    if trainer.world.size > 1:
        where = f"{trainer.world.size} x {where}"
    learned, judged = len(corpus.train_text), len(corpus.validation_text)
    begun = trainer.history.step
    return (
        f"{', '.join(str(name) for name in named if name)}: a model of {count:,} "
        f"parameters on {where}\n"
        f"{corpus.name}: {learned:,} characters to learn from, {judged:,} to be judged "
        f"by" + (f"\ngoing on after {begun:,} updates" if begun else "")
    )


def ending(order: Order, folder: Path, trainer: Trainer, result: Result) -> str:
    """
    ## How it ended

    And what one can do now, as a line that can be copied.
    """
    if result.stopped == "interrupted":
        chosen = [] if order.variant is None else ["--variant", order.variant]
        words = ["train", order.experiment.name, *chosen, "--out", str(order.out)]
        return (
            f"interrupted after {result.step:,} updates, and saved; go on with\n"
            f"  {_program(trainer.world)} {shlex.join(words)} --resume"
        )
    best = result.best_validation_loss
    which = f"{folder.name}: " if len(order.variants) > 1 else ""
    lines = [
        f"{which}{result.step:,} updates in {_time(result.seconds)}; loss on new text "
        f"{result.validation_loss:.4f} nats per letter"
        + (f", at best {best:.4f}" if best != result.validation_loss else "")
    ]
    if len(order.variants) == 1:
        command = ["generate", str(folder), *_prompt(trainer.task)]
        lines += ["let it write:", f"  {program()} {shlex.join(command)}"]
    return "\n".join(lines)


def _program(world: World) -> str:
    if world.size == 1:
        return program()
    here = os.environ.get("LOCAL_WORLD_SIZE", str(world.size))
    return f"torchrun --nproc-per-node {here} -m labml_nn"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _prompt(task: Task) -> list[str]:
    # One that the model can read, whatever its text was.
    replies = "end_token" in task.model_fields
    usual = "Where is the king?" if replies else "ROMEO:"
    if set(usual) <= set(task.vocabulary.characters):
        return ["--prompt", usual]
    return ["--prompt", task.sample_prompt.splitlines()[0]] if replies else []


def compared(order: Order) -> str:
    """
    ## Variants beside each other

    Writes a picture of all curves into the folder above them. Returns a table, the
    lowest loss first.
    """
    results = {v: load_run(order.folder(v)).result() for v in order.variants}
    lines = [
        line
        for i, (variant, result) in enumerate(results.items())
        for line in lines_of(result, variant, colour=i, train=False)
    ]
    picture = order.out / "curves.svg"
    drawn = curve_svg(lines, title=order.experiment.title)
    picture.write_text(drawn + "\n", encoding="utf-8", newline="\n")
    best = {str(v): r["result"]["best_validation_loss"] for v, r in results.items()}
    width = max(map(len, best)) + 2
    table = [
        f"  {variant:<{width}}{loss:.4f}"
        for variant, loss in sorted(best.items(), key=lambda item: item[1])
    ]
    return "\n".join(["loss on new text, at best:", *table, f"curves: {picture}"])
