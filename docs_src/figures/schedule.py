"""Figures of `labml_nn.experiments.presets`."""

from labml_nn.experiments.presets import TrainingConfig, learning_rate_share, seq_len_at
from pylit.figures.draw import Figure, Plot, Table

STEPS, WARMUP, FINAL = 500, 50, 0.1


def shares():
    """The share of the highest learning rate in each update of a short training."""
    config = TrainingConfig(steps=STEPS, warmup_steps=WARMUP, final_learning_rate=FINAL)
    made = [learning_rate_share(step, config) for step in range(STEPS)]
    plot = Plot((0, STEPS), (0, 1), x_label="update", y_label="share", height=110)
    plot.line(range(STEPS), made, 0)
    middle = made[(STEPS + WARMUP) // 2]
    return Figure(
        [plot.panel()],
        f"The share rises in a straight line to 1 in {WARMUP} updates, stays high, is {middle:.2f} "
        f"half of the way down, and ends flat at {made[-1]:.1f}.",
        Table(
            ["update", "share"],
            [
                [str(step), f"{made[step]:.3f}"]
                for step in (0, 24, 49, 100, 200, 300, 400, STEPS - 1)
            ],
        ),
    )


def lengths():
    """How long sequences are that grow from 8 letters to 32."""
    config = TrainingConfig(steps=750, seq_len=32, initial_seq_len=8, grow_steps=300)
    made = [seq_len_at(step, config) for step in range(config.steps)]
    plot = Plot((0, config.steps), (0, 32), x_label="update", y_label="letters", height=90)
    plot.line(range(config.steps), made, 1)
    return Figure(
        [plot.panel()],
        "Windows have 8 letters at first, one more every dozen updates, and 32 from update 300 on.",
        Table(
            ["update", "letters"],
            [[str(step), str(made[step])] for step in (0, 75, 150, 225, 300, 749)],
        ),
    )
