"""Specs: which mesh axes shard which dimension of an array, and over which axes it is a partial result.

As the entries of jax's `PartitionSpec`, without jax, a spec is None, an axis, or a tuple of axes per dimension:
`PartitionSpec(*to_partition(spec), unreduced=unreduced_axes(spec))` makes one; its entries are `.partitions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hloom.ops import REDUCERS
from hloom.text import HloomError, Unsupported

Axes = tuple[str, ...]
"""Mesh axes, major to minor; the order determines which device holds which shard."""

_TAIL = re.compile(r"\s*([+@])\s*([^\s+@:]+)\s*(?::\s*(\w+)\s*)?")


@dataclass(frozen=True, slots=True)
class Spec:
    """Per dimension the axes that shard it, major to minor; and the axes over which the value is a partial result.

    The array is replicated over the other axes. `partial` pairs axes with the op that combines them, sorted by axis.
    Over `manual` axes, sorted, each device has its own value, and the program communicates explicitly (`shard_map`):
    the dimensions are those of that value.

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
        """The rank of the array."""
        return len(self.dims)

    @property
    def axes(self) -> Axes:
        """The axes that shard it, dimension by dimension."""
        return tuple(axis for axes in self.dims for axis in axes)

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array, complete."""
        return not self.axes and not self.partial and not self.manual

    def dimension_of(self, axis: str) -> int | None:
        """The dimension that an axis shards; None if it shards none."""
        return next((dim for dim, axes in enumerate(self.dims) if axis in axes), None)

    def split(self, dimension: int, axes: Iterable[str]) -> Spec:
        """The same, further sharded: the axes are minor to those that shard the dimension already."""
        dims = list(self.dims)
        dims[dimension] = (*dims[dimension], *axes)
        return replace(self, dims=tuple(dims))

    def without(self, axes: Iterable[str]) -> Spec:
        """The same without these axes, sharded, partial or manual."""
        dropped = set(axes)
        dims = tuple(tuple(axis for axis in of_dim if axis not in dropped) for of_dim in self.dims)
        partial = tuple(pair for pair in self.partial if pair[0] not in dropped)
        return Spec(dims, partial, tuple(axis for axis in self.manual if axis not in dropped))

    def complete(self) -> Spec:
        """The same, with the partial results combined."""
        return replace(self, partial=())

    def refined(self, parts: Mapping[str, Sequence[int]]) -> Spec:
        """The same on a mesh whose axes are split into sub-axes: see `Mesh.refined`.

        >>> print(spec_of([["x", "y"], None]).refined({"x": (2, 3)}))
        [x_0.x_1.y,-]
        """
        named = {axis: sub_axis_names(axis, len(sizes)) for axis, sizes in parts.items()}
        dims = [[name for axis in axes for name in named.get(axis, (axis,))] for axes in self.dims]
        partial = [(name, reducer) for axis, reducer in self.partial for name in named.get(axis, (axis,))]
        return spec_of(dims, partial, [name for axis in self.manual for name in named.get(axis, (axis,))])

    def __str__(self) -> str:
        dims = ",".join(".".join(axes) or "-" for axes in self.dims)
        tails = (f"+{axis}" if reducer == "add" else f"+{axis}:{reducer}" for axis, reducer in self.partial)
        return f"[{dims}]" + "".join(tails) + "".join(f"@{axis}" for axis in self.manual)


def sub_axis_names(axis: str, count: int) -> Axes:
    """The names of an axis's sub-axes, major to minor.

    >>> sub_axis_names("data", 2)
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
    axes = tuple(() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in dims)
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
        raise HloomError(f"'{text}' is not a spec", hint="write one entry per dimension, as in [data,-,model.expert]")
    dims = [entry.strip() for entry in inside.split(",")] if inside.strip() else []
    partial, manual, position = [], [], 0
    while position < len(tail):
        match = _TAIL.match(tail, position)
        mark, axis, reducer = match.groups() if match else ("", "", None)
        if match is None or (reducer is not None and (mark == "@" or reducer not in REDUCERS)):
            hint = f"+axis is a partial sum, +axis:op one by {', '.join(REDUCERS)}, @axis is manual"
            raise HloomError(f"'{text}' is not a spec: '{tail[position:]}' says nothing about an axis", hint=hint)
        position = match.end()
        if mark == "@":
            manual.append(axis)
        else:
            partial.append((axis, reducer or "add"))
    return spec_of([None if entry in ("-", "") else entry.split(".") for entry in dims], partial, manual)


Entry = str | tuple[str, ...] | None


def to_partition(spec: Spec) -> tuple[Entry, ...]:
    """One entry per dimension.

    >>> to_partition(Spec((("x",), (), ("y", "z"))))
    ('x', None, ('y', 'z'))
    """
    return tuple(axes[0] if len(axes) == 1 else axes or None for axes in spec.dims)


def unreduced_axes(spec: Spec) -> frozenset[str]:
    """The axes over which the value is a partial sum; Unsupported for other reducers, which jax does not have."""
    wrong = next((reducer for _, reducer in spec.partial if reducer != "add"), None)
    if wrong:
        raise Unsupported(f"{spec}: jax's partial results are sums, not partial {wrong}s")
    return frozenset(axis for axis, _ in spec.partial)


def from_partition(entries: Iterable[object], rank: int, unreduced: Iterable[str] = ()) -> Spec:
    """The spec of a PartitionSpec's entries; those of the last dimensions may be missing.

    Raises Unsupported for an entry that leaves the choice open (`PartitionSpec.UNCONSTRAINED`).

    >>> print(from_partition(("x", None, ("y", "z")), 4))
    [x,-,y.z,-]
    """
    given = list(entries)
    if len(given) > rank:
        raise HloomError(f"{len(given)} entries are too many for an array of rank {rank}")
    dims = [_axes(entry) for entry in given] + [()] * (rank - len(given))
    return spec_of(dims, [(axis, "add") for axis in unreduced])


def _axes(entry: object) -> tuple[str, ...]:
    if entry is None:
        return ()
    if isinstance(entry, str):
        return (entry,)
    if isinstance(entry, Sequence) and all(isinstance(axis, str) for axis in entry):
        return tuple(entry)
    raise Unsupported(f"{entry!r} does not say how a dimension is split: None, an axis, or a tuple of axes do")
