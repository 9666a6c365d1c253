"""How an array lies on a mesh: which axes split which dimension, and over which axes it is a partial result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hloom.text import HloomError

Axes = tuple[str, ...]
"""Mesh axes, major to minor: the order says which device holds which part."""

REDUCERS: tuple[str, ...] = ("add", "maximum", "minimum", "multiply", "and", "or")
"""By which ops partial results are combined."""

_TAIL = re.compile(r"\s*([+@])\s*([^\s+@:]+)\s*(?::\s*(\w+)\s*)?")


@dataclass(frozen=True, slots=True)
class Spec:
    """Per dimension the axes that split it, major to minor; and the axes over which the value is a partial result.

    An axis that stands nowhere holds copies. `partial` pairs axes with the op that combines them, sorted by axis.
    Over `manual` axes, sorted, each device has a value of its own, which the program itself keeps track of
    (`shard_map`): the dimensions are those of that value.

    >>> print(Spec((("data",), (), ("model", "expert"))), Spec(((), ()), (("model", "add"),)))
    [data,-,model.expert] [-,-]+model
    """

    dims: tuple[Axes, ...] = ()
    partial: tuple[tuple[str, str], ...] = ()
    manual: Axes = ()

    def __post_init__(self) -> None:
        used = [*self.axes, *(axis for axis, _ in self.partial), *self.manual]
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
        return not self.axes and not self.partial and not self.manual

    def dimension_of(self, axis: str) -> int | None:
        """The dimension that an axis splits; None where it splits none."""
        return next((place for place, axes in enumerate(self.dims) if axis in axes), None)

    def split(self, dimension: int, axes: Iterable[str]) -> Spec:
        """The same, further split: the axes come behind those that split the dimension already."""
        dims = list(self.dims)
        dims[dimension] = (*dims[dimension], *axes)
        return replace(self, dims=tuple(dims))

    def without(self, axes: Iterable[str]) -> Spec:
        """The same, not split by these axes, nor partial over them, nor manual."""
        gone = set(axes)
        dims = tuple(tuple(axis for axis in each if axis not in gone) for each in self.dims)
        partial = tuple(pair for pair in self.partial if pair[0] not in gone)
        return Spec(dims, partial, tuple(axis for axis in self.manual if axis not in gone))

    def complete(self) -> Spec:
        """The same, with the partial results combined."""
        return replace(self, partial=())

    def refined(self, parts: Mapping[str, Sequence[int]]) -> Spec:
        """The same on a mesh whose axes are cut into parts: see `Mesh.refined`.

        >>> print(spec_of([["x", "y"], None]).refined({"x": (2, 3)}))
        [x_0.x_1.y,-]
        """
        named = {axis: part_names(axis, len(sizes)) for axis, sizes in parts.items()}
        dims = [[part for axis in axes for part in named.get(axis, (axis,))] for axes in self.dims]
        partial = [(part, reducer) for axis, reducer in self.partial for part in named.get(axis, (axis,))]
        return spec_of(dims, partial, [part for axis in self.manual for part in named.get(axis, (axis,))])

    def __str__(self) -> str:
        dims = ",".join(".".join(axes) or "-" for axes in self.dims)
        tails = (f"+{axis}" if reducer == "add" else f"+{axis}:{reducer}" for axis, reducer in self.partial)
        return f"[{dims}]" + "".join(tails) + "".join(f"@{axis}" for axis in self.manual)


def part_names(axis: str, count: int) -> Axes:
    """What the parts of an axis are called, major to minor.

    >>> part_names("data", 2)
    ('data_0', 'data_1')
    """
    return tuple(f"{axis}_{number}" for number in range(count))


def spec_of(
    dims: Sequence[str | Sequence[str] | None], partial: Iterable[tuple[str, str]] = (), manual: Iterable[str] = ()
) -> Spec:
    """A spec from JSON's form: per dimension None, an axis, or a list of axes.

    >>> print(spec_of([None, "x", ["y", "z"]]))
    [-,x,y.z]
    """
    axes = tuple(() if each is None else (each,) if isinstance(each, str) else tuple(each) for each in dims)
    return Spec(axes, tuple(sorted(partial)), tuple(sorted(manual)))


def parse_spec(text: str) -> Spec:
    """A spec from its text; raises HloomError for anything else.

    >>> parse_spec("[data,-,model.expert]+other") == spec_of(["data", None, ["model", "expert"]], [("other", "add")])
    True
    >>> parse_spec("[-]+x:maximum@y") == spec_of([None], [("x", "maximum")], ["y"])
    True
    """
    inside, closing, tail = text.strip().removeprefix("[").partition("]")
    if not text.strip().startswith("[") or not closing:
        raise HloomError(f"'{text}' is no spec", hint="write one entry per dimension, as in [data,-,model.expert]")
    dims = [each.strip() for each in inside.split(",")] if inside.strip() else []
    partial, manual, position = [], [], 0
    while position < len(tail):
        found = _TAIL.match(tail, position)
        mark, axis, reducer = found.groups() if found else ("", "", None)
        if found is None or (reducer is not None and (mark == "@" or reducer not in REDUCERS)):
            hint = f"+axis is a partial sum, +axis:op one by {', '.join(REDUCERS)}, @axis is manual"
            raise HloomError(f"'{text}' is no spec: '{tail[position:]}' says nothing about an axis", hint=hint)
        position = found.end()
        if mark == "@":
            manual.append(axis)
        else:
            partial.append((axis, reducer or "add"))
    return spec_of([None if each in ("-", "") else each.split(".") for each in dims], partial, manual)
