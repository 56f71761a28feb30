"""What the tests of the commands train: models so small that nobody waits."""

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
WIDTH = ("--d-model", "12", "--n-layers", "2")
SMALL = {
    "autoregressive": (*TRAINING, *WIDTH, "--heads", "3", "--d-ff", "20"),
    "encoder_decoder": (*TRAINING, *WIDTH, "--heads", "3", "--d-ff", "20"),
    "feedback": (*TRAINING, *WIDTH, "--heads", "3", "--initial-seq-len", "5", "--grow-steps", "3"),
    "elman": (*TRAINING, *WIDTH, "--d-hidden", "10"),
}


def write_text(path):
    path.write_text(SPEECHES * 12)
    return path
