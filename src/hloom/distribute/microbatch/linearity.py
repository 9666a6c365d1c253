"""Which instructions may be applied to the partial results of each iteration, before they are combined.

An op may where it gives the same for the combined value: sums pass through what is linear, maxima through what only
moves elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloom.distribute.microbatch.batch_state import PartialResult, State
from hloom.ir import Apply, Graph, Node, Trait
from hloom.ops import splat_number, with_trait

MOVING = with_trait(Trait.REINDEXES)
"""Opcodes of one array whose result has its elements, or some of them, and no others."""
IDEMPOTENT = with_trait(Trait.IDEMPOTENT) & with_trait(Trait.ASSOCIATIVE)
"""Reducers that a value may enter twice."""


def terms_of(node: Apply, states: Sequence[State], reducer: str) -> list[int] | None:
    """How a node yields partial results, to be combined by `reducer`, of operands that are such; None where it cannot.

    `states` has one state for each operand, which are arrays. The answer are the operands that are the same in all
    iterations and would enter what is combined once for each: they must be neutral, or enter in one iteration alone.
    """
    partial = [isinstance(state, PartialResult) for state in states]
    if any(isinstance(state, PartialResult) and state.reducer != reducer for state in states):
        return None
    whole = [number for number, held in enumerate(partial) if not held]
    opcode = node.opcode
    if opcode in MOVING:
        return []
    if opcode == "dynamic-slice":
        return [] if whole == list(range(1, len(partial))) else None
    if opcode in ("concatenate", "tuple") or (opcode == reducer and len(node.operands) == 2):
        return whole
    if opcode == "select":
        return None if partial[0] else whole[1:]
    if opcode == "dynamic-update-slice":
        return None if any(partial[2:]) else [number for number in whole if number < 2]
    rule = _LINEAR.get(opcode) if reducer == "add" else None
    return None if rule is None else rule(node, partial)


def _alone(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    return []


def _product(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    return [] if sum(partial) == 1 else None


def _first_only(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    return [] if partial[0] and not any(partial[1:]) else None


def _difference(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    return [number for number, held in enumerate(partial) if not held]


def _conversion(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    types = node.operands[0].type, node.type
    is_float = [bool(getattr(getattr(type_, "dtype", None), "is_float", False)) for type_ in types]
    return [] if all(is_float) else None


def _padding(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    return [1] if partial[0] and not partial[1] else None


def _reduction(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    is_sum = len(node.operands) == 2 and partial[0] and not partial[1] and combined_by(node) == "add"
    return [1] if is_sum else None


def _scattering(node: Apply, partial: Sequence[bool]) -> list[int] | None:
    if len(node.operands) != 3 or partial[1] or combined_by(node) != "add":
        return None
    return [number for number in (0, 2) if not partial[number]]


_LINEAR: dict[str, Callable[[Apply, Sequence[bool]], list[int] | None]] = {
    "convert": _conversion,
    "convolution": _product,
    "divide": _first_only,
    "dot": _product,
    "gather": _first_only,
    "imag": _alone,
    "multiply": _product,
    "negate": _alone,
    "pad": _padding,
    "real": _alone,
    "reduce": _reduction,
    "scatter": _scattering,
    "subtract": _difference,
}
"""Opcodes that are linear in some operands, and which of the others are terms of what is summed."""


def combined_by(node: Apply) -> str:
    """The opcode by which a node's `to_apply` combines two elements; empty where it is not a single op."""
    graph = node.attributes.get("to_apply")
    root = graph.output if isinstance(graph, Graph) else None
    if graph is None or not isinstance(root, Apply):
        return ""
    combines_both = len(graph.parameters) == 2 and set(root.operands) == set(graph.parameters)
    return root.opcode if combines_both else ""


def is_neutral(node: Node, reducer: str) -> bool:
    """Whether a value that is the same in all iterations may be combined with itself once for each of them.

    True of zeros in sums, of ones in products, and of anything in maxima.
    """
    if reducer in IDEMPOTENT:
        return True
    neutral = {"add": 0, "multiply": 1}.get(reducer)
    return neutral is not None and bool(splat_number(node) == neutral)
