"""Rules on while: known trip counts, and loop-state elements that are dead, duplicated or constant.

Follows XLA's xla/service/while_loop_simplifier.cc (TryRemoveWhileLoop, TryRemoveDeadWhileParams,
TryRemoveRepeatedWhileTupleIndices, TryRemoveConstantParams, TryPropagateConstant).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from hloom.analysis import BROADCASTS, derive_trip_count
from hloom.ir import Apply, Constant, Graph, Literal, Node, TensorType
from hloom.ops import may_drop, only_yields
from hloom.passes.computation_order import has_control_dependencies, tracer
from hloom.passes.rules.loop_state import (
    MAX_CONSTANT_ELEMENTS,
    element,
    invariant_elements,
    is_small_constant,
    rebuild_loop,
)
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.tuple_elements import elements_of, only_elements, written_trip_count
from hloom.rewrite import Builder, Family, literal_value

WHILE_LOOP = Family("while-loop", formerly="looping", because="edits the computations of a loop")
WHILE_SCALARS = Family("while-scalars", because="edits the computations of a loop")
WHILE_SINKING = Family("while-sinking", formerly="sinking", because="edits the computations of a loop")
WHILE_LOOP.add(element_of_tuple)  # what becomes of a loop is mostly a tuple

_Test = Callable[[Node], bool]

CHEAP = BROADCASTS | {"convert", "negate", "reshape"}
"""What is as well computed in a loop as kept for it."""
_MAX_DEPTH = 4
"""How many cheap ops above a constant are computed again inside a loop: each is an instruction more in its body."""


def trip_count(loop: Apply) -> int | None:
    """How often a loop runs, worked out, or else as its configuration says; None where neither tells."""
    if not isinstance(loop.attributes.get("condition"), Graph):
        return None
    derived = derive_trip_count(loop, tracer()).count
    return written_trip_count(loop.attributes) if derived is None else derived


@WHILE_LOOP.rewrites("get-tuple-element", depth=2, because="looks at what the body of a loop yields")
def element_that_a_loop_passes_on(build: Builder, node: Apply) -> Node | None:
    """get-tuple-element(while(tuple(x, y)), index=1) -> y, where the body yields its element 1 as it got it

    The value is that of before the loop after any number of rounds; the loop itself stays as it is.
    """
    loop, index = node.operands[0], node.attributes["index"]
    if (
        loop.opcode != "while"
        or not isinstance(loop, Apply)
        or index not in invariant_elements(loop.attributes["body"])
    ):
        return None
    return element(build, loop.operands[0], index)


@WHILE_LOOP.rewrites("while", benefit=5, depth=3, effects=True, because="works out how often a loop runs")
def loop_that_never_runs(build: Builder, node: Apply) -> Node | None:
    """while(x), condition false at once -> x

    The body's effects never come about; the condition must have none.
    """
    if trip_count(node) != 0:
        return build.decline("it may run")
    if not _has_no_effects(node.attributes["condition"]) or has_control_dependencies(node):
        return build.decline("the condition has an effect, or control dependencies name the loop")
    build.consumed.append(node)
    return node.operands[0]


@WHILE_LOOP.rewrites(
    "while", benefit=5, depth=3, effects=True, because="works out how often a loop runs, and copies its body in place"
)
def loop_that_runs_once(build: Builder, node: Apply) -> Node | None:
    """while(x), which runs once -> body(x), put in place

    Neither body nor condition may have an effect: what a loop sends or receives is paired with a loop elsewhere.
    """
    if trip_count(node) != 1:
        return build.decline("it may run more often or never")
    if (
        not _has_no_effects(node.attributes["condition"])
        or not _has_no_effects(node.attributes["body"])
        or has_control_dependencies(node)
    ):
        return build.decline("the loop has an effect, or control dependencies name it")
    build.consumed.append(node)
    return build.copy(node.attributes["body"], node.operands)


@WHILE_LOOP.rewrites(
    "while", benefit=4, depth=2, effects=True, because="walks the users of elements, and edits the loop's computations"
)
def dead_elements(build: Builder, node: Apply) -> Node | None:
    """while(tuple(x, y)) -> while(tuple(x)), where nothing needs the second element

    Needed is what is used after the loop and not passed on as it was before, and what the condition, effects of the
    body and elements that are needed use. A loop of which nothing is needed goes.
    """
    types, used = elements_of(node.type), only_elements(node)
    if not types:
        return build.decline("it has no elements")
    asked, unchanged = set(range(len(types))) if used is None else used, invariant_elements(node.attributes["body"])
    if asked and len(unchanged) == len(types) and _has_no_effects(node.attributes["body"]):
        return build.decline("no round changes anything: a loop that begins never ends")
    live = _live_elements(node, asked - unchanged)
    if live is None or len(live) == len(types):
        return build.decline("all elements are needed")
    return _without_elements(build, node, sorted(live), {})


@WHILE_LOOP.rewrites("while", benefit=3, depth=2, effects=True)
def repeated_elements(build: Builder, node: Apply) -> Node | None:
    """while(tuple(x, x)) -> while(tuple(x)), where the body yields the same for both elements too

    Both begin as the same value, and each round gives both the same value, or leaves both as they are.
    """
    start, body, types = node.operands[0], node.attributes["body"], elements_of(node.type)
    root = body.output
    if types is None or start.opcode != "tuple" or root is None or root.opcode != "tuple":
        return None
    unchanged = invariant_elements(body)
    first: dict[Hashable, int] = {}
    same: dict[int, int] = {}
    for index, value in enumerate(start.operands):
        after = "unchanged" if index in unchanged else root.operands[index]
        kept = first.setdefault((_constant_or_node(value), value.type, after), index)
        if kept != index:
            same[index] = kept
    if not same:
        return None
    return rebuild_loop(build, node, [index for index in range(len(types)) if index not in same], same, {})


@WHILE_LOOP.rewrites("while", benefit=2, depth=2, effects=True)
def constant_elements(build: Builder, node: Apply) -> Node | None:
    """while(tuple(x, constant)) -> while(tuple(x)), the constant copied inside, where the body leaves it as it is

    So too where the body yields a constant that is the same.
    """
    return _sink(build, node, is_small_constant)


@WHILE_SCALARS.rewrites("while", benefit=2, depth=2, effects=True)
def scalar_elements(build: Builder, node: Apply) -> Node | None:
    """while(tuple(x, 2)) -> while(tuple(x)), the number copied inside, where the body leaves it as it is

    So too where the body yields a constant that is the same, an array as well.
    """
    return _sink(build, node, _is_scalar_constant, is_small_constant)


@WHILE_SINKING.rewrites("while", benefit=2, depth=6, effects=True)
def cheap_elements(build: Builder, node: Apply) -> Node | None:
    """while(tuple(x, broadcast(c))) -> while(tuple(x)), broadcast(c) computed inside, where the body leaves it as it is

    Sunk are constants, iotas, and what cheap ops make of them.
    """
    return _sink(build, node, _is_cheap)


def _is_scalar_constant(node: Node) -> bool:
    return is_small_constant(node) and isinstance(node.type, TensorType) and node.type.element_count == 1


def _sink(build: Builder, node: Apply, wanted: _Test, restored: _Test | None = None) -> Node | None:
    """The loop without the elements that are as wanted and stay as they are, or are yielded anew by the body."""
    start, types = node.operands[0], elements_of(node.type)
    if types is None or start.opcode != "tuple":
        return None
    body = node.attributes["body"]
    unchanged = {index for index in invariant_elements(body) if wanted(start.operands[index])}
    yielded = {index for index in _constants_restored(body, start) if (restored or wanted)(start.operands[index])}
    values = {index: start.operands[index] for index in unchanged | yielded}
    kept = [index for index in range(len(types)) if index not in values]
    if not values:
        return build.decline("no constant goes through unchanged")
    return _without_elements(build, node, kept, values)


def _constants_restored(body: Graph, start: Node) -> set[int]:
    """The numbers of the elements that begin as a constant, and that the body yields as the same constant."""
    root = body.output
    if root is None or root.opcode != "tuple" or len(root.operands) != len(start.operands):
        return set()
    pairs = enumerate(zip(start.operands, root.operands, strict=True))
    return {index for index, (before, after) in pairs if _is_same_constant(before, after)}


def _is_same_constant(one: Node, other: Node) -> bool:
    value = literal_value(one)
    return value is not None and one.type == other.type and value == literal_value(other)


def _without_elements(build: Builder, node: Apply, kept: list[int], values: dict[int, Node]) -> Node:
    """The loop with some elements only; what it begins with, where none is left and it does nothing else."""
    if kept or not may_drop(node):
        return rebuild_loop(build, node, kept, {}, values)
    build.consumed.append(node)
    return node.operands[0]


def _live_elements(loop: Apply, used: set[int]) -> set[int] | None:
    """The elements of a loop's state that something needs; None where that cannot be told."""
    condition, body = loop.attributes["condition"], loop.attributes["body"]
    root = body.output
    if condition.output is None or root is None or len(body.parameters) != 1 or len(condition.parameters) != 1:
        return None
    state = body.parameters[0]
    live, asked = set(used), _elements_needed(condition, [condition.output])
    if asked is None:
        return None
    live |= asked
    seen: set[Node] = set()
    pending: list[Node] = [node for node in body.nodes if isinstance(node, Apply) and not may_drop(node)]
    waiting = list(live)
    while waiting or pending:
        if not pending:
            index = waiting.pop()
            if root.opcode == "tuple":
                pending.append(root.operands[index])
            elif root is not state:
                pending.append(root)
            continue
        node = pending.pop()
        if node is state:
            return None
        if node in seen:
            continue
        seen.add(node)
        if node.opcode == "get-tuple-element" and node.operands[0] is state:
            index = node.attributes["index"]
            if index not in live:
                live.add(index)
                waiting.append(index)
            continue
        pending += node.operands
        pending += [referent for referent in node.attributes.referents() if not referent.is_graph]
    return live


def _elements_needed(graph: Graph, results: list[Node]) -> set[int] | None:
    """The elements of a graph's state that some nodes and its effects need; None for all."""
    state = graph.parameters[0]
    indices: set[int] = set()
    seen: set[Node] = set()
    pending = [*results, *(node for node in graph.nodes if isinstance(node, Apply) and not may_drop(node))]
    while pending:
        node = pending.pop()
        if node is state:
            return None
        if node in seen:
            continue
        seen.add(node)
        if node.opcode == "get-tuple-element" and node.operands[0] is state:
            indices.add(node.attributes["index"])
            continue
        pending += node.operands
    return indices


def _is_cheap(node: Node, depth: int = 0) -> bool:
    if isinstance(node, Constant):
        return is_small_constant(node) or _is_small_tuple(node)
    if node.opcode not in CHEAP or depth == _MAX_DEPTH or any(True for _ in node.attributes.referents()):
        return False
    return all(_is_cheap(operand, depth + 1) for operand in node.operands)


def _is_small_tuple(node: Constant) -> bool:
    """Whether it is a constant tuple of few elements in all."""
    literal = node.value
    if not isinstance(literal, Literal) or not literal.is_tuple or literal.is_elided:
        return False
    leaves = [leaf.type for leaf in literal.leaves()]
    arrays = [leaf for leaf in leaves if isinstance(leaf, TensorType)]
    return len(arrays) == len(leaves) and sum(leaf.element_count for leaf in arrays) <= MAX_CONSTANT_ELEMENTS


def _constant_or_node(node: Node) -> Hashable:
    """What tells whether two values are one: scalar constants that are equal are."""
    if isinstance(node, Constant) and isinstance(node.value, Literal) and node.value.is_splat:
        return node.value
    return node


def _has_no_effects(graph: Graph) -> bool:
    return all(map(only_yields, graph.nodes))
