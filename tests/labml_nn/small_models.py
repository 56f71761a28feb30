"""Sizes of small language models. A model of the table takes those that its configuration has.

So a new model takes part in every test that goes over `SMALL` or `labml_nn.models()`.
"""

import dataclasses
from typing import Any

import labml_nn

#: Each axis has another size, so that swapped axes fail.
SIZES = {"d_model": 12, "heads": 3, "d_hidden": 10, "n_layers": 2}


def small(name: str, **sizes: Any) -> dict[str, Any]:
    """The configuration of a model; what it has no field for is left out."""
    fields = {
        field.name for field in dataclasses.fields(labml_nn.models()[name].load_class().Config)
    }
    return {field: size for field, size in (SIZES | sizes).items() if field in fields}
