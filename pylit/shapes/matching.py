"""Whether sizes are what was declared.

A letter in a signature is a letter of the site where the run gave it a size, and then the sizes
must be equal. The letter of a length, T or S, may stand for any length, but never for what is
another axis altogether. Any other name is the call's own: whatever it is, it stays the same.
"""

from collections.abc import Mapping, Sequence

from pylit.shapes.annotations import CATEGORIES, Many, Product, Tensor, Type, Union
from pylit.shapes.expressions import evaluate, names
from pylit.shapes.values import Value


class Matcher:
    """Compares with the sizes of one run; what names stand for lasts as long as a call.

    Args:
        sizes: The axes of the run.
        lengths: Letters that stand for any length.
        bound: Names that have got their sizes, for `names of the call's own`.
    """

    def __init__(self, sizes: Mapping[str, int], lengths: frozenset[str]) -> None:
        self._sizes = sizes
        self._lengths = lengths
        self._others = {size for axis, size in sizes.items() if axis not in lengths}
        self.bound: dict[str, int] = {}

    def fits(self, declared: Type, value: Value) -> bool:
        """Whether a value is what an annotation says; what it does not speak of fits."""
        match declared:
            case Union(members=members):
                return any(self._tried(member, value) for member in members)
            case Product(items=items):
                return all(self.fits(item, _item(value, i)) for i, item in enumerate(items))
            case Many(item=item):
                single = len(value) == 1 and value[0].times is not None
                return self.fits(item, (value[0]._replace(times=None),)) if single else True
            case Tensor(category=category, tokens=tokens):
                if len(value) != 1 or value[0].path or value[0].times is not None:
                    return True
                leaf = value[0]
                if leaf.dims is None:
                    return True
                kinds = CATEGORIES[category]
                return (not kinds or leaf.dtype.startswith(kinds)) and self.sizes_fit(
                    tokens, leaf.dims
                )
        return True

    def _tried(self, declared: Type, value: Value) -> bool:
        before = dict(self.bound)
        if self.fits(declared, value):
            return True
        self.bound = before
        return False

    def sizes_fit(self, tokens: Sequence[str], dims: Sequence[int]) -> bool:
        """Whether sizes are those of some axes; ``*name`` and ``...`` are any number of them."""
        tokens = [token.partition("=")[2] or token for token in tokens]
        many = [i for i, token in enumerate(tokens) if token.startswith("*") or token == "..."]
        if not many:
            return len(tokens) == len(dims) and self._all(tokens, dims)
        before, after = tokens[: many[0]], tokens[many[0] + 1 :]
        if len(before) + len(after) > len(dims):
            return False
        end = len(dims) - len(after)
        return self._all(before, dims) and self._all(after, dims[end:])

    def _all(self, tokens: Sequence[str], dims: Sequence[int]) -> bool:
        return all(self._axis(token, size) for token, size in zip(tokens, dims, strict=False))

    def _axis(self, token: str, size: int) -> bool:
        name = token.lstrip("#?")
        if name.startswith("_") or ("#" in token and size == 1):
            return True
        if not name.isidentifier():
            known = {**self._sizes, **self.bound}
            expected = evaluate(name, known)
            # Within a call, `T` may have become another length; then so has `T-1`.
            free = expected is None or names(name) & self._lengths
            return expected == size or bool(free and names(name))
        if name in self.bound:
            return self.bound[name] == size
        self.bound[name] = size
        if name in self._lengths:
            return size not in self._others or size == self._sizes.get(name)
        return name not in self._sizes or self._sizes[name] == size


def _item(value: Value, index: int) -> Value:
    """The part of a tuple's description that is about one of its items."""
    own = [leaf for leaf in value if leaf.path.split(".")[0] == str(index)]
    return tuple(leaf._replace(path=leaf.path.partition(".")[2]) for leaf in own)
