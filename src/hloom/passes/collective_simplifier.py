"""The pass `simplify-collectives` and its parts: send less data, and less often.

Follows XLA's xla/hlo/transforms/collectives/all_reduce_simplifier.cc (AllReduceSimplifier), with the part of
xla/hlo/analysis/hlo_replication_analysis.cc that knows which values all replicas share; the rest is in
`rules/all_reduce.py`.
"""

from __future__ import annotations

from hloom.ir import Apply, Constant, Graph, Module, Node, Parameter, TensorType, Trait, float_range, reachable
from hloom.ops import ASYNC_PARTS, may_merge, with_trait
from hloom.passes.computation_order import control_predecessors, has_control_dependencies
from hloom.passes.dce import dce
from hloom.passes.pipeline import Pass, fixpoint, register_pass, rules_pass
from hloom.passes.rules.all_reduce import FOLDING, GATHERING, REASSOCIATION, SCATTERING, WIDENING
from hloom.passes.rules.collectives import COLLECTIVES, COLLECTIVES_INEXACT
from hloom.passes.rules.participants import device_counts, participants
from hloom.passes.rules.reducers import combiner_of, is_idempotent, wrapped
from hloom.passes.rules.tuple import element_of_tuple
from hloom.rewrite import Builder, Report, Rule, tensor_type
from hloom.text import HloomError

_DIFFERING = (
    with_trait(Trait.COLLECTIVE)
    | with_trait(Trait.POINT_TO_POINT)
    | with_trait(Trait.HOST_FEED)
    | (with_trait(Trait.RANDOM) - {"rng-bit-generator"})
    | ASYNC_PARTS
    | {"custom-call", "replica-id"}
)
"""What may yield another value on each replica though its operands are the same.

A bit generator is given its state, and replicas of one partition share its number."""


def simplify_all_reduces(module: Module) -> Report:
    """Replace all-reduces of replicated values: sums by a multiple, maxima and the like by the operand.

    Replicated are constants, parameters whose `parameter_replication` says so, results of all-reduces among all
    replicas, and whatever is computed from these.
    """
    report = Report("simplify-all-reduces")
    if module.has_closures:
        return report
    module.index_users()
    differing = _differing_graphs(module)
    for graph in list(module.graphs):
        shared: set[Node] = set()
        awaited = control_predecessors(graph)
        for node in graph.nodes:
            if isinstance(node, Apply) and _is_all_reduce(node) and node.operands[0] in shared and node not in awaited:
                replacement = _without_sending(node)
                if replacement is not None:
                    graph.replace_uses(node, replacement)
                    graph.erase(node)
                    report.changes += 1
                    shared.add(replacement)
                    continue
            if _is_shared(node, shared, differing):
                shared.add(node)
    return report


def _differing_graphs(module: Module) -> set[Graph]:
    """The graphs in which, or in whose callees, a value may differ between replicas."""
    differing = [
        graph for graph in module.graphs
        if graph.is_declared or graph.missing or any(node.opcode in _DIFFERING for node in graph.nodes)
    ]  # fmt: skip
    return set(reachable(differing, lambda graph: [caller.graph for caller in graph.callers]))


def _is_shared(node: Node, shared: set[Node], differing: set[Graph]) -> bool:
    if isinstance(node, Constant):
        return True
    if isinstance(node, Parameter):
        replication = node.attributes.get("parameter_replication")
        return node.graph.module.is_entry(node.graph) and bool(replication) and all(replication)
    if not isinstance(node, Apply) or not node.has_row:
        return False
    if _is_all_reduce(node):
        return _is_among_all(node)
    if node.opcode in _DIFFERING or not may_merge(node) or any(graph in differing for graph in node.called_graphs):
        return False
    return all(operand in shared for operand in node.operands)


def _is_all_reduce(node: Node) -> bool:
    """Whether it is an all-reduce of one array among replicas, without other constraints."""
    if not isinstance(node, Apply) or node.opcode != "all-reduce" or len(node.operands) != 1:
        return False
    is_free = not has_control_dependencies(node) and "sharding" not in node.attributes
    return is_free and "channel_id" not in node.attributes and node.type == node.operands[0].type


def _is_among_all(node: Apply) -> bool:
    groups, (replicas, _) = participants(node), device_counts(node.graph.module, node)
    return groups is not None and len(groups[0]) == replicas


def _without_sending(node: Apply) -> Node | None:
    """The result of an all-reduce of a value that all its devices share."""
    operand, array_type, groups = node.operands[0], tensor_type(node), participants(node)
    combiner = combiner_of(node.attributes["to_apply"])
    if array_type is None or groups is None:
        return None
    if is_idempotent(combiner) or len(groups[0]) == 1:
        return operand
    element, count = array_type.dtype, len(groups[0])
    if combiner != "add" or not (element.is_integer or element.is_float or element.is_complex):
        return None
    if element.is_float and count > float_range(element)[1]:
        return None
    build = Builder(node)
    number = wrapped(count, element) if element.is_integer else float(count)
    factor = build.constant(number, TensorType(element))
    return build.op("multiply", operand, build.broadcast(factor, array_type) if array_type.rank else factor)


def _reassociation(converts: int | str = 0) -> list[Rule]:
    if converts not in (0, 1):
        raise HloomError(f"reassociate-all-reduces: converts is 0 or 1, not '{converts}'")
    return [*REASSOCIATION, *(WIDENING if converts else ())]


register_pass(
    "simplify-all-reduces", "all-reduces of what all replicas share become a product, or go", simplify_all_reduces
)
register_pass(
    "fold-all-reduces", "an all-reduce of an all-reduce becomes one", rules_pass("fold-all-reduces", FOLDING).run
)
register_pass(
    "reassociate-all-reduces",
    "a sum of all-reduces becomes an all-reduce of the sum",
    rules_pass("reassociate-all-reduces", _reassociation, options=("converts",)).run,
    ("converts",),
)
register_pass(
    "create-reduce-scatters",
    "all-reduces of which each device takes a part become reduce-scatters",
    rules_pass("create-reduce-scatters", [*SCATTERING, element_of_tuple]).run,
)
register_pass(
    "reorder-all-gathers", "what is broadcast is gathered before that", rules_pass("reorder-all-gathers", GATHERING).run
)
SIMPLIFY_COLLECTIVES = fixpoint(
    "simplify-collectives",
    [
        rules_pass(
            "collective rules",
            [*COLLECTIVES, *COLLECTIVES_INEXACT, *REASSOCIATION, *FOLDING, *SCATTERING, *GATHERING, element_of_tuple],
        ),
        Pass("all-reduces", simplify_all_reduces),
        Pass("dce", dce),
    ],
)
register_pass("simplify-collectives", "collectives send less, and are fewer", SIMPLIFY_COLLECTIVES.run)
