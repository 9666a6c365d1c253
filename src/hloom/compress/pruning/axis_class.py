"""Classifies coupled dimensions of a network: channels, attention heads, experts, the residual stream."""

from __future__ import annotations

from collections.abc import Collection

from hloom.compress.pruning.dimension_dependency import Coupling, LeafDim
from hloom.distribute.propagation import ShardingRule
from hloom.ir import Node
from hloom.ops import PRODUCTS

AXES = ("channels", "heads", "head_dims", "experts", "residual")
"""Channels between two products; attention heads; the elements of a head, shared by products of activations; experts,
the batches of weights; the stream that several layers add to.
"""


def axis_class(coupling: Coupling, readers: Collection[Node]) -> str:
    """Which of AXES the dimensions are; `readers` are the dots and convolutions that read weights."""
    dataflow = coupling.dataflow
    roles: set[str] = set()
    for number in coupling.equations:
        equation = dataflow.equations[number]
        if equation.node.opcode != "dot":
            continue
        rule = equation.rule
        if equation.leaves[0] == equation.leaves[1]:  # squares of a norm
            continue
        for slot, leaf in enumerate(equation.leaves[: rule.results]):
            for dim, side in enumerate(rule.dim_factors[slot]):
                if LeafDim(leaf, dim) not in coupling.labels or not side.factors:
                    continue
                parts = rule.factor_dims[side.factors[0][0]]
                if len(parts) == 3:
                    roles.add("experts" if equation.node in readers else "heads")
                elif equation.node not in readers:
                    is_summed = all(part.slot < rule.results for part in parts)
                    roles |= {"head_dims"} if is_summed or _is_batched(rule) else set()
    for role in ("experts", "heads"):
        if role in roles:
            return role
    if _is_stream(coupling):
        return "residual"
    return "head_dims" if roles else "channels"


def _is_batched(rule: ShardingRule) -> bool:
    """Whether a dot has batch dimensions: that of a weight's derivative has none."""
    return any(len(parts) == 3 for parts in rule.factor_dims)


def _is_stream(coupling: Coupling) -> bool:
    """Whether an addition joins what different products make."""
    dataflow = coupling.dataflow
    makers: dict[int, frozenset[Node]] = {}
    numbers = sorted(coupling.equations)
    is_changed = True
    while is_changed:
        is_changed = False
        for number in numbers:
            node, rule, leaves = dataflow.equations[number]
            operands, results = leaves[: rule.results], leaves[rule.results :]
            if node.opcode in PRODUCTS:
                made = frozenset((node,))
            else:
                made = frozenset().union(*(makers.get(leaf, frozenset()) for leaf in operands))
            for leaf in results:
                labelled = any(LeafDim(leaf, dim) in coupling.labels for dim in range(len(dataflow.leaves[leaf].dims)))
                if labelled and not made <= makers.get(leaf, frozenset()):
                    makers[leaf] = makers.get(leaf, frozenset()) | made
                    is_changed = True
    for number in numbers:
        node, rule, leaves = dataflow.equations[number]
        if node.opcode == "add" and len(leaves) == 3:
            first, second = makers.get(leaves[0]), makers.get(leaves[1])
            if first and second and first != second:
                return True
    return False
