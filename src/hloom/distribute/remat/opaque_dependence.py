"""Data dependences that compilers cannot remove: a value that equals x but is not available before another value.

Merging equal instructions (XLA's HloCSE) undoes recomputation unless an operand differs, and XLA's CPU compiler drops
optimisation barriers before it merges (OptimizationBarrierExpander in `CpuCompiler::RunHloPasses`,
xla/service/cpu/cpu_compiler.cc). There the dependence is a select, by a predicate that is always true:

    bits = bitcast-convert(first element of the value waited for)
    select(broadcast(compare(or(bits, 1), 0), direction=NE), x, 0)

which keeps every bit of x. Where a backend keeps barriers, the dependence is one.

A first element is of one example and of one device. In programs that are cut into microbatches or partitioned later,
the predicate has the dimensions in which the value waited for and x agree, and is the first element along the others
alone: an example waits for itself, and a shard for the shard beside it.

    bits = bitcast-convert(first elements of g[8,512,64] along what x[8,512,256] has not: [8,512])
    select(broadcast(compare(or(bits, 1), 0), direction=NE, dimensions={0,1}), x, 0)
"""

from __future__ import annotations

import math

from hloom.autodiff import Emitter
from hloom.ir import DTypeKind, Node, SliceDimension, TensorType, dtype
from hloom.text import HloomError

SELECT, BARRIER, ALIGNED = "select", "barrier", "aligned"
MECHANISMS = {"cpu": SELECT, "gpu": BARRIER, "tpu": BARRIER, "partitioned": ALIGNED}
"""By backend what its compiler does not undo; `partitioned` is any, behind a cut of the batch or XLA's partitioner."""
_UNSIGNED = {8: dtype("u8"), 16: dtype("u16"), 32: dtype("u32"), 64: dtype("u64")}


def can_wait_for(node: Node) -> bool:
    """Whether a dependence on a node's value can be written: an array of at least one element of whole bytes."""
    value_type = node.type
    if not isinstance(value_type, TensorType) or not value_type.is_static or not value_type.element_count:
        return False
    element = value_type.dtype
    return element.kind is DTypeKind.BOOLEAN or element.kind is DTypeKind.COMPLEX or element.bits in _UNSIGNED


class OpaqueDependence:
    """Writes dependences into a graph by one mechanism; each is written once."""

    def __init__(self, emitter: Emitter, mechanism: str) -> None:
        self.emitter = emitter
        self.mechanism = mechanism
        self._predicates: dict[tuple[Node, tuple[int, ...], int], Node] = {}
        self._waiting: dict[tuple[Node, Node, int], Node] = {}

    def after(self, value: Node, waited_for: Node, variant: int = 0) -> Node:
        """An array or scalar, as soon as another value is computed; equal instructions of two variants stay two."""
        key = (value, waited_for, variant)
        if key not in self._waiting:
            write = self._barrier if self.mechanism == BARRIER else self._select
            self._waiting[key] = write(value, waited_for, variant)
        return self._waiting[key]

    def _barrier(self, value: Node, waited_for: Node, _variant: int) -> Node:
        emitter = self.emitter
        return emitter.element(emitter.op("opt-barrier", emitter.tuple([value, waited_for])), 0)

    def _select(self, value: Node, waited_for: Node, variant: int) -> Node:
        emitter, value_type = self.emitter, value.type
        if not isinstance(value_type, TensorType):
            raise HloomError(f"{value.name} is not an array: it cannot be made to wait")
        pairs = self._aligned(waited_for, value)
        kept, dims = tuple(own for own, _ in pairs), tuple(dim for _, dim in pairs)
        key = (waited_for, kept, variant)
        if key not in self._predicates:
            self._predicates[key] = self._predicate(waited_for, kept, variant)
        predicate = self._predicates[key]
        other = emitter.like(1, value) if value.splat == 0 else emitter.zeros(value_type)  # a choice of zeros is none
        return emitter.select(emitter.broadcast(predicate, value_type.dims, dims), value, other)

    @property
    def aligns(self) -> bool:
        """Whether values wait along the dimensions that they have in common."""
        return self.mechanism == ALIGNED

    def mismatch(self, value: Node, waited_for: Node) -> tuple[bool, int]:
        """How badly a value waits for another one: not along its first dimension, and for few of its elements.

        The same for all values, where the mechanism does not align them.
        """
        if self.mechanism != ALIGNED or not isinstance(waited_for.type, TensorType):
            return False, 0
        pairs = self._aligned(waited_for, value)
        kept = [own for own, _ in pairs]
        left_out = [size for dim, size in enumerate(waited_for.type.dims) if dim not in kept]
        return (0, 0) not in pairs, math.prod(left_out)

    def _aligned(self, waited_for: Node, value: Node) -> list[tuple[int, int]]:
        """The pairs of dimensions of equal sizes that two values have in the same order; none for other mechanisms."""
        if self.mechanism != ALIGNED:
            return []
        own, dims = (node.type.dims if isinstance(node.type, TensorType) else () for node in (waited_for, value))
        return _common_dims(own, dims)

    def _predicate(self, waited_for: Node, kept: tuple[int, ...], variant: int) -> Node:
        """True, whatever the value is, as some bits are set: an array of some of the value's dimensions."""
        emitter, value_type = self.emitter, waited_for.type
        assert isinstance(value_type, TensorType), "a value that can be waited for is an array"
        first, dims = waited_for, tuple(value_type.dims[dim] for dim in kept)
        if dims != value_type.dims:
            corner = tuple(SliceDimension(0, size if dim in kept else 1, 1) for dim, size in enumerate(value_type.dims))
            first = emitter.reshape(emitter.op("slice", waited_for, slice=corner), dims)
        if value_type.dtype.kind is DTypeKind.COMPLEX:
            first = emitter.op("real", first)
        first_type = first.type
        assert isinstance(first_type, TensorType)
        if first_type.dtype.kind is DTypeKind.BOOLEAN:
            first = emitter.convert(first, _UNSIGNED[8])
        return true_of(emitter, first, 1 + variant % ((1 << max(first_type.dtype.bits, 8)) - 1))


def true_of(emitter: Emitter, value: Node, some: int = 1) -> Node:
    """True for every element of an array of whole bytes, as what it is with `some` bits set is not zero."""
    value_type = value.type
    assert isinstance(value_type, TensorType), "what is true of a value is true of the elements of an array"
    bits, dims = _UNSIGNED[max(value_type.dtype.bits, 8)], value_type.dims
    if value_type.dtype is not bits:
        value = emitter.op("bitcast-convert", value, type=TensorType(bits, dims))
    ones, zeros = (emitter.broadcast(emitter.constant(number, bits), dims) for number in (some, 0))
    return emitter.compare("NE", emitter.op("or", value, ones), zeros)


def _common_dims(own: tuple[int, ...], other: tuple[int, ...]) -> list[tuple[int, int]]:
    """The longest sequence of pairs of dimensions of equal sizes above 1, the first ones where several are as long.

    >>> _common_dims((8, 512, 64), (8, 4, 512, 512)), _common_dims((8, 3), (3, 8))
    ([(0, 0), (1, 2)], [(0, 1)])
    """
    lengths = [[0] * (len(other) + 1) for _ in range(len(own) + 1)]
    for i in reversed(range(len(own))):
        for j in reversed(range(len(other))):
            is_same = own[i] == other[j] > 1
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if is_same else max(lengths[i + 1][j], lengths[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(own) and j < len(other):
        if own[i] == other[j] > 1 and lengths[i][j] == lengths[i + 1][j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i][j] == lengths[i][j + 1]:
            j += 1
        else:
            i += 1
    return pairs
