"""Rules on collectives of trivial groups and of splats: the result is known without communication.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAllGather, HandleAllToAll).
One-device groups: AllReduceSimplifier::RunImpl of xla/service/all_reduce_simplifier.cc.
"""

from __future__ import annotations

from hloom.ir import Apply, ExplicitGroups, Node, Parameter, TensorType, TupleType, float_range, same_shape
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.rules.reducers import combiner_of, is_idempotent, wrapped
from hloom.rewrite import Builder, Family, operand_is, splat_of, tensor_type, used_once

COLLECTIVES = Family("collectives", formerly="exchanging")
COLLECTIVES_INEXACT = Family("collectives-inexact", formerly="exchanging-relaxed")


@COLLECTIVES.rewrites(
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-broadcast",
    benefit=9,
    depth=1,
    effects=True,
    because="takes any number of arrays, and asks for the size of a group",
)
def collective_of_one(build: Builder, node: Apply) -> Node | None:
    """all-reduce(x), replica_groups={{0},{1}} -> x, of several arrays a tuple: each device is alone in its group.

    Only where the groups are written so, by replica or by global number.
    """
    groups = node.attributes.get("replica_groups")
    if groups is None or groups.group_size != 1 or (isinstance(groups, ExplicitGroups) and not groups.listed):
        return None
    if "channel_id" in node.attributes and not node.attribute("use_global_device_ids"):
        return build.decline("a group holds all partitions of its replicas")
    if isinstance(node.type, TupleType):
        same = [
            same_shape(operand.type, element_type)
            for operand, element_type in zip(node.operands, node.type.elements, strict=False)
        ]
        complete = len(same) == len(node.type.elements) == len(node.operands) and all(same)
        return build.op("tuple", *node.operands) if complete else None
    return node.operands[0] if same_shape(node.operands[0].type, node.type) else None


@COLLECTIVES.rewrites(
    "async-done",
    benefit=9,
    depth=3,
    effects=True,
    requires=operand_is(0, "async-start"),
    because="looks at what the called computation yields, and ends two ops with effects",
)
def asynchronous_nothing(build: Builder, node: Apply) -> Node | None:
    """async-done(async-start(x), calls=f), f(x) = x -> x: what a collective of one device leaves."""
    start = node.operands[0]
    yielded = [graph.output for graph in start.called_graphs] if isinstance(start, Apply) and used_once(start) else []
    if len(yielded) != 1 or not isinstance(yielded[0], Parameter) or has_control_dependencies(node):
        return build.decline("it computes something, or something else uses it")
    operand = start.operands[yielded[0].graph.parameters.index(yielded[0])]
    if has_control_dependencies(start) or not same_shape(operand.type, node.type):
        return build.decline("control dependencies name it, or its type changes")
    build.consumed += [node, start]
    return operand


@COLLECTIVES.rewrites("all-gather", "all-to-all", depth=2, effects=True, because="replaces an op with effects")
def gather_of_splat(build: Builder, node: Apply) -> Node | None:
    """all-gather(broadcast(1)) -> broadcast(1): all devices have the same constant in every element."""
    array_type, value = tensor_type(node), _constant_below(node.operands[0])
    if array_type is None or value is None or len(node.operands) != 1:
        return None
    return build.broadcast(value, array_type.with_layout(None))


@COLLECTIVES.rewrites(
    "all-reduce", "reduce-scatter", depth=2, effects=True, because="computes the sum over the devices of a group"
)
def reduction_of_splat(build: Builder, node: Apply) -> Node | None:
    """all-reduce(broadcast(7)), maximum -> broadcast(7); a sum of integers is the number times the group's devices."""
    combiner = combiner_of(node.attribute("to_apply"))
    array_type, value = tensor_type(node), _constant_below(node.operands[0])
    if array_type is None or value is None or len(node.operands) != 1:
        return None
    if is_idempotent(combiner):
        return build.broadcast(value, array_type.with_layout(None))
    if combiner != "add" or not array_type.dtype.is_integer:
        return None
    return _sum_of_splat(build, node, array_type, value)


@COLLECTIVES_INEXACT.rewrites(
    "all-reduce", "reduce-scatter", depth=2, effects=True, because="computes the sum over the devices of a group"
)
def sum_of_splat(build: Builder, node: Apply) -> Node | None:
    """all-reduce(broadcast(7)), add -> broadcast(7 times the devices of a group): rounded once, not at each step."""
    array_type, value = tensor_type(node), _constant_below(node.operands[0])
    if array_type is None or value is None or len(node.operands) != 1 or not array_type.dtype.is_float:
        return None
    return _sum_of_splat(build, node, array_type, value) if combiner_of(node.attribute("to_apply")) == "add" else None


@COLLECTIVES.rewrites("after-all", benefit=2, depth=1, effects=True, because="takes any number of tokens")
def after_one(build: Builder, node: Apply) -> Node | None:
    """after-all(token) -> token, and after-all(token, token) -> after-all(token)."""
    awaited = tuple(dict.fromkeys(node.operands))
    if len(awaited) == 1:
        return awaited[0]
    return build.op("after-all", *awaited) if len(awaited) < len(node.operands) else None


def _constant_below(node: Node) -> Node | None:
    """The scalar constant that is broadcast here; None for all else."""
    if node.opcode != "broadcast" or splat_of(node) is None:
        return None
    scalar = node.operands[0]
    return scalar if isinstance(scalar.type, TensorType) and not scalar.type.rank else None


def _sum_of_splat(build: Builder, node: Apply, array_type: TensorType, value: Node) -> Node | None:
    groups, splat = node.attributes.get("replica_groups"), splat_of(value)
    size = None if groups is None or (isinstance(groups, ExplicitGroups) and not groups.listed) else groups.group_size
    if size is None or splat is None:
        return build.decline("how many devices a group has is not written")
    if "channel_id" in node.attributes and not node.attribute("use_global_device_ids"):
        return build.decline("a group holds all partitions of its replicas")
    total = wrapped(int(splat) * size, array_type.dtype) if array_type.dtype.is_integer else float(splat) * size
    if array_type.dtype.is_float and not abs(total) <= float_range(array_type.dtype)[1]:
        return build.decline("the element type does not hold the sum")
    scalar = build.constant(total, TensorType(array_type.dtype))
    return build.broadcast(scalar, array_type.with_layout(None))
