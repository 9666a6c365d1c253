"""Which values inside a program an expert's plan names: the others are left to the partitioner's propagation."""

from __future__ import annotations

from collections.abc import Iterable

from hloom.planner.experts.roles import RENAMING, Roles
from hloom.planner.experts.streams import CONTRACTIONS, LogicalAxis, bytes_of

LARGE = 1 / 8
"""What is named between blocks is at least so large, as a share of the largest value there."""


def activations(roles: Roles) -> frozenset[int]:
    """The values that have the batch and no dimension from nowhere: each use may split such a dimension otherwise."""
    if roles.batch is None:
        return frozenset()
    wiring = roles.wiring
    return frozenset(
        leaf
        for leaf in roles.batch.leaves - roles.streams.parameters
        if not any(wiring.leaves[leaf].dims[dimension] > 1 for dimension in wiring.free[leaf])
    )


def between_blocks(roles: Roles, model: Iterable[LogicalAxis]) -> frozenset[int]:
    """The large activations without a stream of the model: residuals, norms.

    Contractions and sums of nothing but contractions are left out: where their terms are partial results, the
    partitioner combines them once, if it is not told before how the first of them is to lie.
    """
    inside = {leaf for stream in model for leaf in stream.leaves}
    outside = activations(roles) - inside
    size = {leaf: bytes_of(roles.wiring.leaves[leaf].type) for leaf in outside}
    least = LARGE * max(size.values(), default=0.0)
    return frozenset(leaf for leaf in outside - _sums(roles) if size[leaf] >= least)


def _sums(roles: Roles) -> set[int]:
    """The results of contractions, those under other names, and sums of such."""
    found: set[int] = set()
    for link in roles.wiring.links:
        operands, results = link.leaves[: link.relation.results], link.leaves[link.relation.results :]
        opcode = link.node.opcode
        if opcode in CONTRACTIONS or ((opcode in RENAMING or opcode == "add") and found.issuperset(operands)):
            found.update(results)
    return found
