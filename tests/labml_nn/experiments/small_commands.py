"""What the tests of the commands train: models so small that nobody waits."""

from small_models import small

import labml_nn

SPEECHES = """\
First Citizen:
Before we proceed any further, hear me speak.

All:
Speak, speak.

MENENIUS:
What work's, my countrymen, in hand? where go you
With bats and clubs?

Second Citizen:
We know't, we know't.

"""
TRAINING = (
    *("--steps", "6", "--batch-size", "6", "--seq-len", "13", "--evaluate-every", "3"),
    *("--save-every", "2", "--sample-tokens", "7", "--device", "cpu"),
)
SMALL = {
    name: (
        *TRAINING,
        *(f"--{field}={size}".replace("_", "-") for field, size in small(name, d_ff=20).items()),
    )
    for name in labml_nn.models()
}
SMALL["feedback"] += ("--initial-seq-len", "5", "--grow-steps", "3")
