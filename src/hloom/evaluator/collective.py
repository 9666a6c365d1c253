"""Collectives on a single device: every group is that device alone."""

from __future__ import annotations

import numpy as np

from hloom.evaluator.inputs import context
from hloom.evaluator.table import Runner, Value, Values, evaluator, none
from hloom.ir import Apply, ExplicitGroups
from hloom.text import Unsupported


@evaluator("partition-id", "replica-id")
def _identity_of_device(node: Apply, operands: Values, run: Runner) -> Value:
    return np.zeros((), np.uint32)


@evaluator("all-gather", "all-reduce", "all-reduce-start", "reduce-scatter")
def _alone(node: Apply, operands: Values, run: Runner) -> Value:
    """A gather or a sum over groups of one: the operands."""
    check_alone(node)
    return _together(operands)


@evaluator("all-to-all")
def _all_to_all(node: Apply, operands: Values, run: Runner) -> Value:
    check_alone(node)
    return operands[0] if node.attribute("dimensions") else operands


@evaluator("collective-broadcast")
def _broadcast(node: Apply, operands: Values, run: Runner) -> Value:
    check_alone(node)
    return _together(operands[:-1] if node.attribute("has_dynamic_root") else operands)


@evaluator("all-gather-start")
def _all_gather_start(node: Apply, operands: Values, run: Runner) -> Value:
    check_alone(node)
    return (_together(operands), _together(operands), *context(node))


@evaluator("all-reduce-done")
def _all_reduce_done(node: Apply, operands: Values, run: Runner) -> Value:
    return operands[0]


@evaluator("collective-permute")
def _permute(node: Apply, operands: Values, run: Runner) -> Value:
    return _together(permuted(node, operands))


@evaluator("collective-permute-start")
def _permute_start(node: Apply, operands: Values, run: Runner) -> Value:
    return (_together(operands), _together(permuted(node, operands)), *context(node))


def permuted(node: Apply, operands: Values) -> Values:
    """What device 0 receives: its own operands if it sends to itself, zeros if nobody sends to it."""
    pairs = node.attribute("source_target_pairs")
    if node.attribute("slice_sizes"):
        raise Unsupported("it moves slices")
    if any(max(pair) > 0 for pair in pairs):
        raise Unsupported("it moves values between devices")
    if pairs:
        return operands
    return tuple(np.zeros_like(operand) for operand in operands if isinstance(operand, np.ndarray))


def check_alone(node: Apply) -> None:
    """Raise Unsupported where a node's groups, or the module's header, say that there are several devices."""
    groups = node.attribute("replica_groups")
    if groups is not None and not (isinstance(groups, ExplicitGroups) and not groups.listed):
        if groups.group_count == 1 and groups.group_size == 1:
            return
        raise Unsupported(f"it joins several devices: replica_groups={groups}")
    header = node.graph.module.attributes
    if (header.get("replica_count") or 1) * (header.get("num_partitions") or 1) > 1:
        raise Unsupported("the module is for several devices")


def _together(values: Values) -> Value:
    return values[0] if len(values) == 1 else values


none("ragged-all-to-all", because="its offsets are positions on other devices")
none("send", "send-done", because="nothing receives it")
none("recv", "recv-done", because="nothing sends to it")
