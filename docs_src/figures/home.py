"""The picture of the home page: what the lit line of its excerpt computed in a trained model."""

from pathlib import Path

import torch

from labml_nn.experiments.checkpoint import load_run
from labml_nn.transformers.utils import subsequent_mask
from pylit.figures.draw import Figure, heat_map

RESULTS = Path(__file__).parents[1] / "results"
ASKED, SAID = "who sleeps?", "the dog sleeps"


@torch.no_grad()
def maps():
    """The weights of the last self-attention of the decoder, a map for each head."""
    run = load_run(RESULTS / "encoder_decoder")
    model, letters = run.model().eval(), run.vocabulary.texts
    source, target = (
        torch.tensor([letters.index(letter) for letter in text])[:, None] for text in (ASKED, SAID)
    )
    transformer = model.transformer
    memory = transformer.encode(source, None)
    transformer.decode(memory, None, target, subsequent_mask(len(SAID)))
    weights = transformer.decoder.layers[-1].self_attn.attn[:, :, 0]
    heads = weights.shape[-1]
    panels = [
        heat_map(weights[..., h].tolist(), title=f"head {h + 1}", cell=7.0, most=1.0, width=100)
        for h in range(heads)
    ]
    own = weights.diagonal().mean(-1)
    return Figure(
        panels,
        f"{heads} maps of {len(SAID)} queries by as many keys, empty above the diagonal. "
        f"Head {int(own.argmax()) + 1} gives the most weight to the letter itself, "
        f"{float(own.max()):.2f} on average.",
    )
