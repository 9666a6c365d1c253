"""Applies rules to all forms of all classes, and records the equalities they produce."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product

from hloom.ir import Apply, Node, TypeProblem, same_shape
from hloom.passes.saturation.egraph import EGraph
from hloom.passes.saturation.siblings import find_siblings
from hloom.rewrite import Builder, Candidate, RuleIndex, replacement_of
from hloom.text import HloomError

COMMUTATIVE = ("add", "multiply")
"""Ops of which both orders of operands are looked at: as nodes of the e-graph they are one."""
MOST_FORMS = 12
"""The maximum number of combinations of operand forms to try for one op per round."""
MOST_OPERAND_FORMS = 4
"""The maximum number of forms of one operand to try: the first ones of its class."""


@dataclass(slots=True)
class Exploration:
    """Applies rules to an e-graph in rounds until nothing new is found or a number of nodes is reached.

    If moving elements may be free, more products are merged. `fired` counts new equalities per rule.
    """

    egraph: EGraph
    index: RuleIndex
    most_nodes: int
    moves_are_free: bool = False
    fired: Counter[str] = field(default_factory=Counter)
    is_exhausted: bool = False
    _tried: set[tuple[object, ...]] = field(default_factory=set)
    _offered: set[tuple[object, frozenset[int]]] = field(default_factory=set)

    def run_round(self) -> bool:
        """Try all rules at everything not tried yet; returns whether anything new was found."""
        said = 0
        for node in [node for nodes in self.egraph.distinct.values() for node in nodes]:
            if node.opcode not in self.index.roots or not self.egraph.is_open(node):
                continue
            assert isinstance(node, Apply), "an open node"
            for form in self._forms(node):
                for candidate in self.index.at(form):
                    said += self._attempt(candidate, form)
                if self.egraph.size >= self.most_nodes:
                    self.is_exhausted = True
                    self.egraph.rebuild()
                    return False
        self.egraph.rebuild()
        return said > 0

    def merge_siblings(self) -> None:
        """Offer one product, or convolution, in place of several of one operand (Jia et al. 2019), or of one shape.

        dot(x, a), dot(x, b) -> slices of dot(x, concatenate(a, b))
        """
        for siblings in list(find_siblings(self.egraph, moves_are_free=self.moves_are_free)):
            classes = frozenset(self.egraph.class_of[node] for node in siblings.nodes)
            key = type(siblings), classes
            if key in self._offered:
                continue
            self._offered.add(key)
            if self.egraph.size >= self.most_nodes:
                self.is_exhausted = True
                return
            before = len(self.egraph.graph.nodes)
            slices = siblings.merge(self.egraph.graph)
            for made in self.egraph.graph.nodes[before:]:
                self.egraph.add(made)
            for old, fresh in zip(siblings.nodes, slices, strict=True):
                self.fired["merged-siblings"] += self.egraph.union(old, fresh)
        self.egraph.rebuild()

    def _forms(self, node: Apply) -> Iterator[Apply]:
        """The op with its own operands, and with others of their classes, each combination once and for all."""
        choices = [self._operand_forms(operand) for operand in node.operands]
        combinations = [node.operands, *islice(product(*choices), MOST_FORMS)]
        if node.opcode in COMMUTATIVE:
            combinations += [tuple(reversed(operands)) for operands in combinations]
        for operands in combinations:
            key = (node.function, id(node.attributes), node.type, *map(id, operands))
            if key in self._tried:
                continue
            self._tried.add(key)
            if operands == node.operands:
                yield node
                continue
            form = self.egraph.graph.add_apply(
                node.function, operands, node.type, node.attributes, metadata=node.raw_metadata
            )
            self.egraph.add(form)
            yield form

    def _operand_forms(self, operand: Node) -> list[Node]:
        """Nodes of an operand's class: one of each opcode first, then others."""
        nodes = self.egraph.distinct[self.egraph.class_of[operand]]
        if len(nodes) == 1:
            return nodes
        first = list({node.opcode: node for node in reversed(nodes)}.values())
        first.reverse()
        rest = [node for node in nodes if node not in first]
        return [node for node in (*first, *rest) if same_shape(node.type, operand.type)][:MOST_OPERAND_FORMS]

    def _attempt(self, candidate: Candidate, node: Apply) -> bool:
        """Try a rule at a node; whether it said something new."""
        build = Builder(node, candidate.rule.rows)
        try:
            result = candidate.attempt(build, node)
        except (TypeProblem, HloomError):
            result = None
        if result is None:
            if build.is_changed:
                build.discard()
            return False
        replacement = replacement_of(result, node)
        if build.moves or any(not same_shape(old.type, fresh.type) for old, fresh in replacement.items()):
            build.discard()
            return False
        said = False
        for made in build.made:
            self.egraph.add(made)
        for old, fresh in replacement.items():
            if old in self.egraph.class_of and fresh in self.egraph.class_of:
                said |= self.egraph.union(old, fresh)
        self.fired[candidate.rule.name] += said
        return said
