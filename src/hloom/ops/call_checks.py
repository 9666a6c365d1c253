"""What XLA's verifier asks of calls, fusions, loops and branches beyond their types.

Source: xla/service/hlo_verifier.cc, HandleCall, CheckFusionInstruction, CheckCallableInstructionThreadName and
VerifyConsistentSharding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from hloom.ir import Apply, Graph, LeafSharding, Node, Surroundings, TensorType, TupleSharding, equivalent
from hloom.ops.alias_checks import alias_problem
from hloom.ops.buffer_checks import check_writer
from hloom.text import HloomError

_VERSION = re.compile(r"\s*\+?\d+\s*", re.ASCII)
_GREATEST_VERSION = (1 << 63) - 1


def check_composite(node: Apply, _: Surroundings) -> str | None:
    """A composite call says which operation it stands for."""
    if not node.attributes.get("is_composite"):
        return None
    said = dict(node.attributes.get("frontend_attributes", ()))
    if not said.get("composite.name"):
        return "a composite call needs composite.name in its frontend_attributes, not empty"
    if said.get("composite.attributes") == "":
        return "composite.attributes in its frontend_attributes is empty: leave it out, or write {}"
    version = said.get("composite.version", "0")
    if not _VERSION.fullmatch(version) or len(version) > 40 or int(version) > _GREATEST_VERSION:
        return f"composite.version must be a number of 64 bits that is not negative, not '{version}'"
    return None


def check_fusion(node: Apply, _: Surroundings) -> str | None:
    """What it fuses runs on its thread, and ends with the root.

    XLA also refuses computations that two fusions share, and instructions of them that nothing uses; here both are
    sound, and mean what they say.
    """
    fused = node.attributes["calls"]
    if "output_to_operand_aliasing" in node.attributes and (problem := alias_problem(node)):
        return problem
    if not isinstance(fused, Graph) or fused.is_declared:
        return None
    if fused.execution_thread != node.graph.execution_thread and (problem := _thread_problem(node)):
        return problem
    used = set(chain.from_iterable([inner.operands for inner in fused.nodes]))
    return f"the root of {fused.name} must not be used in it" if fused.output in used else None


def check_loop(node: Apply, surroundings: Surroundings) -> str | None:
    """The state has the same sharding all around."""
    body, condition = node.attributes["body"], node.attributes["condition"]
    states: list[Node | None] = [node, *_root(body), *_first(body), *_first(condition)]
    return _thread_problem(node) or _sharding_problem(node, states) or check_writer(node, surroundings)


def check_branches(node: Apply, _: Surroundings) -> str | None:
    """What the branches yield has the sharding of the result."""
    results: list[Node | None] = [node, *(root for branch in node.called_graphs for root in _root(branch))]
    return _thread_problem(node) or _sharding_problem(node, results)


def _root(graph: Any) -> Sequence[Node | None]:
    return [graph.output] if isinstance(graph, Graph) else []


def _first(graph: Any) -> Sequence[Node | None]:
    return graph.parameters[:1] if isinstance(graph, Graph) else []


def _thread_problem(node: Apply) -> str | None:
    own = node.graph.execution_thread or "main"
    for graph in node.called_graphs:
        if not graph.is_declared and (graph.execution_thread or "main") != own:
            return f"it runs on the thread '{own}', and {graph.name} on '{graph.execution_thread or 'main'}'"
    return None


def _sharding_problem(node: Apply, values: Sequence[Node | None]) -> str | None:
    sharded = [value for value in values if value is not None and "sharding" in value.attributes]
    for other in sharded[1:]:
        if not _is_same(sharded[0], other):
            which = f"{sharded[0].name} has {sharded[0].attributes['sharding']}"
            return f"{node.opcode} needs one sharding, but {which}, and {other.name} {other.attributes['sharding']}"
    return None


def _is_same(left: Node, right: Node) -> bool:
    ours, theirs = _leaves(left), _leaves(right)
    if ours == theirs:
        return True
    ranks = [leaf.rank if isinstance(leaf, TensorType) else 0 for leaf in left.type.leaves()] if left.type else []
    if not len(ours) == len(theirs) == len(ranks):
        return False
    try:
        return all(map(equivalent, ours, theirs, ranks))
    except HloomError:
        return False


def _leaves(node: Node) -> list[LeafSharding]:
    sharding = node.attributes["sharding"]
    count = len(list(node.type.leaves())) if node.type else 1
    return list(sharding.elements) if isinstance(sharding, TupleSharding) else [sharding] * count
