"""The passes `hoist` and `sink`: loop-invariant code motion, and sinking of constants into loops.

Follows XLA's xla/service/while_loop_invariant_code_motion.cc (TryHoistingInvariantInstructionsFromWhileBody),
xla/service/while_loop_expensive_invariant_code_motion.cc (`growth` and `only`) and
xla/service/while_loop_constant_sinking.cc.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.analysis import BROADCASTS
from hloom.ir import (
    Apply,
    Constant,
    Graph,
    Module,
    Node,
    TensorType,
    Trait,
    TupleType,
    callees_first,
    operands_of,
    reachable,
)
from hloom.ops import CALLERS, OPS, may_merge, with_trait
from hloom.passes.computation_order import control_predecessors, own_copy
from hloom.passes.loop_states import initial_element, widen_loop
from hloom.passes.pipeline import register_pass, rules_pass
from hloom.passes.rules.conditional import unused_operands
from hloom.passes.rules.loop_state import invariant_elements
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.tuple_elements import elements_of
from hloom.passes.rules.while_loop import (
    WHILE_SINKING,
    constant_elements,
    dead_elements,
    element_that_a_loop_passes_on,
    trip_count,
)
from hloom.rewrite import Report, splat_of
from hloom.text import HloomError

CHEAP = (
    BROADCASTS
    | with_trait(Trait.KEEPS_ORDER)
    | with_trait(Trait.TUPLE)
    | with_trait(Trait.DEVICE_ID)
    | {"bitcast-convert", "constant", "convert", "copy", "negate", "not", "transpose"}
)
"""What is not worth a further element of the state by itself."""
STAYING = (CALLERS - {"call"}) | {"custom-call"}
"""What may cost anything, or never end, where the loop would not run at all; so may a call of a graph that has some."""
_GET = "get-tuple-element"
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def hoist(
    module: Module,
    cheap: Collection[str] = CHEAP,
    needs_unchanged: bool = False,
    constants: int | str = 0,
    inflation: float | int | str | None = None,
    growth: float | int | str | None = None,
    only: str = "",
) -> Report:
    """Compute loop-invariant values before the loop.

    Each becomes an element of the loop's state, which the body passes on; results of `cheap` opcodes are only hoisted
    as operands of others, and constants only if `constants` is 1. Inner loops come first, so that values hoisted from
    them may leave the outer ones too. Effects stay, and so does everything in loops that run at most once. With
    `needs_unchanged`, loops whose state has no invariant element are left alone. With `inflation`, values with more
    than this many times the bytes of their operands stay in the loop; with `growth`, those with more than this many
    times the bytes of all state elements they are computed from. With `only`, opcodes joined by +, nothing else becomes
    an element. Raises HloomError for invalid options.
    """
    if constants not in (0, 1):
        raise HloomError(f"hoist: constants is 0 or 1, not '{constants}'")
    limits = _Limits(
        cheap, constants == 1, _ratio(inflation, "inflation"), _ratio(growth, "growth"),
        _opcodes(only),
    )  # fmt: skip
    report = Report("hoist")
    module.index_users()
    for graph in [] if module.has_closures else callees_first(module):
        for loop in [node for node in graph.nodes if node.opcode == "while"]:
            assert isinstance(loop, Apply)
            is_left = (needs_unchanged and not _has_unchanged(loop)) or runs_at_most_once(loop)
            count = 0 if is_left else _hoist_from(loop, limits)
            report.changes += count
            if count:
                report.notes.append(f"{count:,} values of {loop.name} in {graph.name} computed before it")
    return report


@dataclass(frozen=True, slots=True)
class _Limits:
    """What not to hoist: results of cheap opcodes by themselves, constants, and values that grow too much."""

    cheap: Collection[str]
    takes_constants: bool
    inflation: float | None
    growth: float | None
    only: frozenset[str]


def _ratio(given: float | int | str | None, name: str) -> float | None:
    if given is None:
        return None
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise HloomError(f"hoist: {name} is a number, as 1.5, not '{given}'")
    return number


def _opcodes(given: str) -> frozenset[str]:
    opcodes = frozenset(str(given).split("+")) if given else frozenset[str]()
    unknown = sorted(opcodes - OPS.keys())
    if unknown:
        raise HloomError(f"hoist: only lists opcodes such as dot+reduce, and '{unknown[0]}' is not an opcode")
    return opcodes


def runs_at_most_once(loop: Apply) -> bool:
    """Whether a loop's condition is false after one iteration because the body yields constants, or its trip count is
    1.

    Follows ComputeWhileLoopTripCountUpperBound of XLA's xla/service/while_loop_analysis.cc.
    """
    condition, body = loop.attributes["condition"], loop.attributes["body"]
    if condition.output is None or body.output is None or len(condition.parameters) != 1:
        return False
    state, root = condition.parameters[0], body.output

    def after_one(node: Node) -> np.generic | None:
        if node.opcode == _GET and node.operands[0] is state and root.opcode == "tuple":
            node = root.operands[node.attributes["index"]]
        return splat_of(node)

    asked = condition.output
    if asked.opcode == "compare" and asked.attributes["direction"] in _COMPARISONS:
        left, right = (after_one(operand) for operand in asked.operands)
        if left is not None and right is not None:
            return not _COMPARISONS[asked.attributes["direction"]](left, right)
    value = after_one(asked)
    return (value is not None and not value) or trip_count(loop) == 1


def _has_unchanged(loop: Apply) -> bool:
    body = loop.attributes["body"]
    return len(body.parameters) == 1 and bool(invariant_elements(body))


@dataclass(slots=True)
class _Found:
    """The nodes of a body that can be computed before the loop, in order, and those whose values are passed in."""

    invariant: list[Node]
    passed: list[Node]


def _hoist_from(loop: Apply, limits: _Limits) -> int:
    """Hoist out of one loop; returns how many new elements its state gets."""
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    plan = _find(body, elements_of(loop.type), limits)
    if plan is None or not plan.passed or len(condition.parameters) != 1:
        return 0
    copy = own_copy(body, loop)
    own_copy(condition, loop)
    if copy is not body:
        plan = _find(copy, elements_of(loop.type), limits)
        assert plan, "a copy has the same invariants"
    _carry_out(loop, copy, plan)
    return len(plan.passed)


def _find(body: Graph, types: Sequence[Any] | None, limits: _Limits) -> _Found | None:
    root = body.output
    if types is None or root is None or root.opcode != "tuple" or len(body.parameters) != 1 or body.missing:
        return None
    state, unchanged = body.parameters[0], invariant_elements(body)
    awaited = control_predecessors(body)
    invariant: dict[Node, None] = {}
    for node in body.nodes:
        if node.opcode == _GET and node.operands[0] is state:
            if node.attributes["index"] in unchanged and node not in awaited:
                invariant[node] = None
        elif isinstance(node, Constant) or (
            node not in awaited and _can_go(node, invariant) and not _is_inflated(node, limits.inflation)
        ):
            invariant[node] = None
    read = _elements_read(state, invariant) if limits.growth is not None else {}
    sizes = [element_type.byte_count for element_type in types]
    large = {node for node, mask in read.items() if _has_grown(node, mask, sizes, limits.growth)}
    return _Found(list(invariant), _values_that_go_in(state, invariant, limits, large))


def _elements_read(state: Node, invariant: dict[Node, None]) -> dict[Node, int]:
    """The state elements that each value depends on, as a bit set."""
    read: dict[Node, int] = {}
    for node in invariant:
        if node.opcode == _GET and node.operands[0] is state:
            read[node] = 1 << node.attributes["index"]
        else:
            mask = 0
            for operand in node.operands:
                mask |= read[operand]
            read[node] = mask
    return read


def _has_grown(node: Node, mask: int, sizes: Sequence[int], growth: float | None) -> bool:
    if growth is None or node.type is None:
        return False
    return node.type.byte_count > growth * sum(size for index, size in enumerate(sizes) if mask >> index & 1)


def _is_inflated(node: Node, inflation: float | None) -> bool:
    """Whether a node has more bytes than `inflation` times those of its operands."""
    if inflation is None or node.type is None:
        return False
    given = sum(operand.type.byte_count for operand in node.operands if operand.type is not None)
    return node.type.byte_count > inflation * given


def _can_go(node: Node, invariant: dict[Node, None]) -> bool:
    """Whether a node may be computed before the loop: its operands are available there, and it has no effect."""
    if not isinstance(node, Apply) or not node.has_row or any(operand not in invariant for operand in node.operands):
        return False
    if node.type is None or _may_never_end(node) or not may_merge(node):
        return False
    if any(not referent.is_graph for referent in node.attributes.referents()):
        return False
    if isinstance(node.type, TensorType):
        return True
    only_taken_apart = not node.is_output and all(user.opcode == _GET for user in node.users)
    return isinstance(node.type, TupleType) and ((node.opcode == "tuple" and not node.is_output) or only_taken_apart)


def _may_never_end(node: Node) -> bool:
    """Whether a node or a callee has a staying opcode, or is a call about which nothing is known."""
    pending, seen = [node], set[Graph]()
    while pending:
        current = pending.pop()
        if current.opcode in STAYING:
            return True
        for graph in current.called_graphs if current.opcode == "call" else ():
            if graph.is_declared or graph.output is None or graph.missing:
                return True
            if graph not in seen:
                seen.add(graph)
                pending += graph.nodes
    return False


def _values_that_go_in(
    state: Node, invariant: dict[Node, None], limits: _Limits, large: Collection[Node]
) -> list[Node]:
    """The values worth a state element that the rest of the body uses, directly or through cheap ops."""
    passed: list[Node] = []
    stays: set[Node] = set()
    for node in reversed(list(invariant)):
        is_needed = node.is_output or any(user not in invariant or user in stays for user in node.users)
        if not is_needed:
            continue
        if node not in large and _is_worth(node, state, limits):
            passed.append(node)
        else:
            stays.add(node)
    return passed[::-1]


def _is_worth(node: Node, state: Node, limits: _Limits) -> bool:
    if not isinstance(node.type, TensorType) or (limits.only and node.opcode not in limits.only):
        return False
    if node.opcode == "constant":
        return limits.takes_constants
    if node.opcode == _GET:
        return node.operands[0] is not state and node.operands[0].opcode != "tuple"
    return node.opcode not in limits.cheap


def _carry_out(loop: Apply, body: Graph, plan: _Found) -> None:
    state = body.parameters[0]
    mapping: dict[Any, Any] = {}
    for node in plan.invariant:
        if node.opcode == _GET and node.operands[0] is state:
            mapping[node] = initial_element(loop, node.attributes["index"])
    loop.graph.copy_nodes(_closure(plan), mapping, before=loop)
    _, elements = widen_loop(loop, [mapping[node] for node in plan.passed])
    _use_elements(body, plan, elements)


def _closure(plan: _Found) -> list[Node]:
    """The invariant nodes that the values depend on, in order."""
    wanted = reachable(plan.passed, operands_of)
    return [node for node in plan.invariant if node in wanted]


def _use_elements(body: Graph, plan: _Found, elements: list[Node]) -> None:
    """Make the body read the values from its state, and remove what only computed them."""
    for node, element in zip(plan.passed, elements, strict=True):
        body.set_metadata(element, node.raw_metadata)
        body.replace_uses(node, element)
    for node in reversed(plan.invariant):
        if not node.is_used:
            body.erase(node)


SUNK = (
    *WHILE_SINKING,
    constant_elements,
    dead_elements,
    element_of_tuple,
    element_that_a_loop_passes_on,
    unused_operands,
)
"""The rules that sink constants and cheap values into loops and branches."""

register_pass(
    "hoist",
    "compute before a loop what each of its rounds computes the same",
    hoist,
    ("constants", "inflation", "growth", "only"),
)
register_pass("sink", "compute constants and what is cheap inside loops and branches", rules_pass("sink", SUNK).run)
