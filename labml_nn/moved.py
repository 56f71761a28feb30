"""
---
title: Names of version 0.5.1
summary: >
  What replaces modules and classes of `labml-nn` 0.5.1 that are not here: the error of
  an old import names it.
---

Old code that imports what is here runs unchanged. Some modules of version 0.5.1 are not
here, because another interface took their place. Python would only say that there is no
module of that name. So the import says what to write instead:

```text
>>> from labml_nn.sampling.temperature import TemperatureSampler
ModuleNotFoundError: `labml_nn.sampling.temperature` of labml-nn 0.5.1 is not here;
use labml_nn.sampling.Temperature(temperature)
```
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

CONFIGS = (
    'labml_nn.create("encoder_decoder", n_vocab=...), whose hyperparameters are the '
    "fields of labml_nn.transformers.encoder_decoder.EncoderDecoderConfig"
)
RELATIVE = (
    'labml_nn.create("autoregressive", n_vocab=..., positions="rotary"), whose scores '
    "depend on relative positions too; its checkpoints are others"
)
GPT = "labml_nn.transformers.autoregressive.AutoregressiveTransformer"

# The old module, and what to use in its place.
MODULES = {
    "labml_nn.experiments.nlp_autoregression": "python -m labml_nn train",
    "labml_nn.sampling.greedy": "labml_nn.sampling.Greedy()",
    "labml_nn.sampling.nucleus": "labml_nn.sampling.Chain(sampler, Nucleus(p))",
    "labml_nn.sampling.temperature": "labml_nn.sampling.Temperature(temperature)",
    "labml_nn.sampling.top_k": "labml_nn.sampling.Chain(TopK(k), sampler)",
    "labml_nn.transformers.basic": GPT,
    "labml_nn.transformers.configs": CONFIGS,
    "labml_nn.transformers.feedback.experiment": "python -m labml_nn train feedback",
    "labml_nn.transformers.gpt": GPT,
    "labml_nn.transformers.relative_mha": RELATIVE,
    "labml_nn.transformers.rope": "labml_nn.transformers.modern",
    "labml_nn.transformers.xl": RELATIVE,
}

# Names that `labml_nn.transformers` exported.
NAMES = {
    "RelativeMultiHeadAttention": RELATIVE,
    "TransformerConfigs": CONFIGS,
}


def message(name: str, instead: str) -> str:
    """The sentence of an error."""
    return f"`{name}` of labml-nn 0.5.1 is not here; use {instead}"


class MovedFinder(MetaPathFinder):
    """
    Python asks the finders of `sys.meta_path` in turn for a module. This one is the
    last: it is asked only for what no other finder has found, and never finds anything.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> None:
        if fullname in MODULES:
            said = message(fullname, MODULES[fullname])
            raise ModuleNotFoundError(said, name=fullname)


sys.meta_path.append(MovedFinder())
