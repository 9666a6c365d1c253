"""Data dependences that no compiler sees through: a value that is itself, but not before another one is computed.

Merging equal instructions (XLA's HloCSE) undoes recomputation unless an operand differs, and XLA's CPU compiler drops
optimisation barriers before it merges (OptimizationBarrierExpander in `CpuCompiler::RunHloPasses`,
xla/service/cpu/cpu_compiler.cc). There the dependence is a select, by a predicate that is always true:

    bits = bitcast-convert(first element of the value waited for)
    select(broadcast(compare(or(bits, 1), 0), direction=NE), x, 0)

which keeps every bit of x. Where a backend keeps barriers, the dependence is one.
"""

from __future__ import annotations

from hloom.autodiff import Emitter
from hloom.ir import Constant, DTypeKind, Literal, Node, SliceDimension, TensorType, dtype
from hloom.text import HloomError

SELECT, BARRIER = "select", "barrier"
MECHANISMS = {"cpu": SELECT, "gpu": BARRIER, "tpu": BARRIER}
"""By backend what its compiler does not undo."""
_UNSIGNED = {8: dtype("u8"), 16: dtype("u16"), 32: dtype("u32"), 64: dtype("u64")}


def can_wait_for(node: Node) -> bool:
    """Whether a dependence on a node's value can be written: an array of at least one element of whole bytes."""
    value_type = node.type
    if not isinstance(value_type, TensorType) or not value_type.is_static or not value_type.element_count:
        return False
    element = value_type.dtype
    return element.kind is DTypeKind.BOOLEAN or element.kind is DTypeKind.COMPLEX or element.bits in _UNSIGNED


def is_zero(node: Node) -> bool:
    """Whether a node is a constant of zeros."""
    value = node.value if isinstance(node, Constant) else None
    return isinstance(value, Literal) and value.is_splat and not value.splat_value()


class OpaqueDependence:
    """Writes dependences into a graph by one mechanism; each is written once."""

    def __init__(self, emitter: Emitter, mechanism: str) -> None:
        self.emitter = emitter
        self.mechanism = mechanism
        self._predicates: dict[Node, Node] = {}
        self._waiting: dict[tuple[Node, Node], Node] = {}

    def after(self, value: Node, waited_for: Node) -> Node:
        """An array or scalar, as soon as another value is computed."""
        key = (value, waited_for)
        if key not in self._waiting:
            write = self._select if self.mechanism == SELECT else self._barrier
            self._waiting[key] = write(value, waited_for)
        return self._waiting[key]

    def _barrier(self, value: Node, waited_for: Node) -> Node:
        emitter = self.emitter
        return emitter.element(emitter.op("opt-barrier", emitter.tuple([value, waited_for])), 0)

    def _select(self, value: Node, waited_for: Node) -> Node:
        emitter, value_type = self.emitter, value.type
        if not isinstance(value_type, TensorType):
            raise HloomError(f"{value.name} is no array: it cannot be made to wait")
        predicate = self._predicates.get(waited_for)
        if predicate is None:
            predicate = self._predicates[waited_for] = self._predicate(waited_for)
        other = emitter.like(1, value) if is_zero(value) else emitter.zeros(value_type)  # a choice of zeros is none
        return emitter.select(emitter.broadcast(predicate, value_type.dims), value, other)

    def _predicate(self, waited_for: Node) -> Node:
        """True, whatever the value is."""
        emitter, value_type = self.emitter, waited_for.type
        assert isinstance(value_type, TensorType), "a value that can be waited for is an array"
        first = waited_for
        if value_type.rank:
            corner = tuple(SliceDimension(0, 1, 1) for _ in value_type.dims)
            first = emitter.reshape(emitter.op("slice", waited_for, slice=corner), [])
        if value_type.dtype.kind is DTypeKind.COMPLEX:
            first = emitter.op("real", first)
        first_type = first.type
        assert isinstance(first_type, TensorType)
        if first_type.dtype.kind is DTypeKind.BOOLEAN:
            first = emitter.convert(first, _UNSIGNED[8])
        bits = _UNSIGNED[max(first_type.dtype.bits, 8)]
        if first.type != TensorType(bits):
            first = emitter.op("bitcast-convert", first, type=TensorType(bits))
        odd = emitter.op("or", first, emitter.constant(1, bits))
        return emitter.compare("NE", odd, emitter.constant(0, bits))
