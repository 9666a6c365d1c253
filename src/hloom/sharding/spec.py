"""How an array lies on a mesh: which axes split which dimension, and over which axes it is a partial result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hloom.text import HloomError

Axes = tuple[str, ...]
"""Mesh axes, major to minor: the order says which device holds which part."""

REDUCERS: tuple[str, ...] = ("add", "maximum", "minimum", "multiply", "and", "or")
"""By which ops partial results are combined."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Per dimension the axes that split it, major to minor; and the axes over which the value is a partial result.

    An axis that stands nowhere holds copies. `partial` pairs axes with the op that combines them, sorted by axis.

    >>> print(Spec((("data",), (), ("model", "expert"))), Spec(((), ()), (("model", "add"),)))
    [data,-,model.expert] [-,-]+model
    """

    dims: tuple[Axes, ...] = ()
    partial: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        used = [*self.axes, *(axis for axis, _ in self.partial)]
        if len(set(used)) < len(used):
            twice = next(axis for axis in used if used.count(axis) > 1)
            raise HloomError(f"axis {twice} stands twice in {self}")

    @classmethod
    def replicated(cls, rank: int) -> Spec:
        """Every device holds the whole array."""
        return cls(((),) * rank)

    @property
    def rank(self) -> int:
        """How many dimensions the array has."""
        return len(self.dims)

    @property
    def axes(self) -> Axes:
        """The axes that split it, dimension by dimension."""
        return tuple(axis for axes in self.dims for axis in axes)

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array, complete."""
        return not self.axes and not self.partial

    def dimension_of(self, axis: str) -> int | None:
        """The dimension that an axis splits; None where it splits none."""
        return next((place for place, axes in enumerate(self.dims) if axis in axes), None)

    def split(self, dimension: int, axes: Iterable[str]) -> Spec:
        """The same, further split: the axes come behind those that split the dimension already."""
        dims = list(self.dims)
        dims[dimension] = (*dims[dimension], *axes)
        return replace(self, dims=tuple(dims))

    def without(self, axes: Iterable[str]) -> Spec:
        """The same, not split by these axes, nor partial over them."""
        gone = set(axes)
        dims = tuple(tuple(axis for axis in each if axis not in gone) for each in self.dims)
        return Spec(dims, tuple(pair for pair in self.partial if pair[0] not in gone))

    def complete(self) -> Spec:
        """The same, with the partial results combined."""
        return replace(self, partial=())

    def __str__(self) -> str:
        dims = ",".join(".".join(axes) or "-" for axes in self.dims)
        tails = (f"+{axis}" if reducer == "add" else f"+{axis}:{reducer}" for axis, reducer in self.partial)
        return f"[{dims}]" + "".join(tails)


def spec_of(dims: Sequence[str | Sequence[str] | None], partial: Iterable[tuple[str, str]] = ()) -> Spec:
    """A spec from JSON's form: per dimension None, an axis, or a list of axes.

    >>> print(spec_of([None, "x", ["y", "z"]]))
    [-,x,y.z]
    """
    axes = tuple(() if each is None else (each,) if isinstance(each, str) else tuple(each) for each in dims)
    return Spec(axes, tuple(sorted(partial)))


def parse_spec(text: str) -> Spec:
    """A spec from its text; raises HloomError for anything else.

    >>> parse_spec("[data,-,model.expert]+other") == spec_of(["data", None, ["model", "expert"]], [("other", "add")])
    True
    """
    inside, closing, tail = text.strip().removeprefix("[").partition("]")
    if not text.strip().startswith("[") or not closing:
        raise HloomError(f"'{text}' is no spec", hint="write one entry per dimension, as in [data,-,model.expert]")
    dims = [each.strip() for each in inside.split(",")] if inside.strip() else []
    partial = []
    for each in tail.split("+")[1:]:
        axis, _, reducer = each.strip().partition(":")
        if (reducer or "add") not in REDUCERS or not axis:
            raise HloomError(f"'{text}' is no spec: '+{each}' names no axis, or no op of {', '.join(REDUCERS)}")
        partial.append((axis, reducer or "add"))
    return spec_of([None if each in ("-", "") else each.split(".") for each in dims], partial)
