"""Collectives, transfers between devices, and copies that run beside the program."""

from __future__ import annotations

from hloom.analysis.counts import Cost
from hloom.analysis.rules.table import Application, Inner, moves, nothing, rules
from hloom.analysis.sizes import elements, leaf_bytes, leaf_elements, shape_bytes
from hloom.ir import TensorType, TupleType

FINISHED = "XLA counts the bytes of what the starting instruction has moved already"


def _all_reduce(application: Application, inner: Inner) -> Cost:
    return Cost(leaf_elements(application.result), 0, application.accessed)


def _exact_all_reduce(application: Application, inner: Inner) -> Cost:
    size = group_size(application)
    each = inner(application.attribute("to_apply"))
    kinds = [kind for kind in application.operands if isinstance(kind, TensorType)]
    times = sum(-(-elements(kind) * (size - 1) // size) for kind in kinds)
    return each.arithmetic(times) + Cost(bytes_accessed=application.accessed)


def _exact_reduce_scatter(application: Application, inner: Inner) -> Cost:
    each = inner(application.attribute("to_apply"))
    times = leaf_elements(application.result) * (_scattered(application) - 1)
    return each.arithmetic(times) + Cost(bytes_accessed=application.accessed)


def _scattered(application: Application) -> int:
    """Into how many parts a reduce-scatter cuts."""
    whole, part = sum(map(elements, application.operands)), leaf_elements(application.result)
    return whole // part if part else 1


def group_size(application: Application) -> int:
    """How many devices take part in one group; 2, as XLA assumes, where the instruction does not say."""
    groups = application.attribute("replica_groups")
    return (groups.group_size if groups is not None else None) or 2


def _copied(application: Application, inner: Inner) -> Cost:
    return Cost(bytes_accessed=2 * shape_bytes(application.operand(0)))


def _gathered(application: Application, inner: Inner) -> Cost:
    made = application.result.elements[1] if isinstance(application.result, TupleType) else application.result
    return Cost(bytes_accessed=sum(map(shape_bytes, application.operands)) + leaf_bytes(made))


def _sent(application: Application, inner: Inner) -> Cost:
    return Cost(bytes_accessed=leaf_bytes(application.operand(0)))


def _received(application: Application, inner: Inner) -> Cost:
    kind = application.result.elements[0] if isinstance(application.result, TupleType) else application.result
    return Cost(bytes_accessed=leaf_bytes(kind))


rules(
    "all-reduce all-reduce-start",
    _all_reduce,
    _exact_all_reduce,
    because="XLA assumes two replicas and a sum: one operation per element; in a ring, each of n devices reduces "
    "(n-1)/n of the elements with the given function",
)
rules("all-gather all-to-all ragged-all-to-all collective-broadcast collective-permute", moves)
rules("reduce-scatter", moves, _exact_reduce_scatter, because="XLA counts no arithmetic")
_STARTS = "XLA counts operands again, and counters, where the starting instruction's result holds them"
rules("all-gather-start collective-permute-start", moves, _gathered, because=_STARTS)
rules("copy-start", moves, _copied, because=_STARTS)
rules("all-gather-done all-reduce-done collective-permute-done copy-done", moves, nothing, because=FINISHED)
rules("send", moves, _sent, because="XLA counts the value twice, and the counter")
rules("recv", moves, _received, because="XLA counts the counter")
rules("send-done recv-done", moves, nothing, because=FINISHED)
