"""Specs as the entries of jax's `PartitionSpec`, without jax: None, an axis, or a tuple of axes per dimension.

`PartitionSpec(*to_partition(spec), unreduced=unreduced_axes(spec))` makes one; its entries are `.partitions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloom.sharding.spec import Spec, spec_of
from hloom.text import HloomError, Unsupported

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
