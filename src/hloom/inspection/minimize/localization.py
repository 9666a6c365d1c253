"""Localizes numeric faults: finds instructions that compute different numbers from equal operands.

All instructions of the entry are run at once, each (or each window of neighbours) on recorded values of its operands,
so that errors do not propagate:

    a = f(p)              a = f(p)
    b = g(a)        ->    b = g(a.value)
    ROOT c = h(b)         c = h(b.value)
                          ROOT t = tuple(a, b, c)

Those whose results differ cause the fault, and become the program, worst first. A differing loop becomes the iteration
that differs most, a call its callee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from hloom.evaluator import Value, evaluate, leaves_of
from hloom.inspection.minimize.cuts import (
    VALUE,
    entry_instructions,
    erase_all,
    is_plain,
    keep_instructions,
    put_in_place,
    tidied,
    yield_leaves,
)
from hloom.inspection.minimize.numeric_predicates import NumericPredicate
from hloom.inspection.minimize.recorded_values import Leaves
from hloom.inspection.minimize.search import ReductionSearch, attempt
from hloom.ir import Apply, Graph, Module, Node, Trait, TupleType
from hloom.ops import INLINABLE, OPS, with_trait
from hloom.text import HloomError

WINDOWS = ((1, 0), (16, 0), (16, 8), (256, 0))
"""The number of neighbours run together, and the number before the first window: single instructions first."""
MOST_SUSPECTS = 8
"""The maximum number of differing windows to try, worst first."""
FEW = 4
"""Programs of no more instructions are not looked through."""
MOST_ROUNDS = 256
"""The maximum number of iterations of a loop to examine."""
MOST_STATE_BYTES = 1 << 28
"""The maximum bytes of the loop's states in these iterations."""
STATE = ".state"
"""How the name of a parameter ends that takes the place of a loop's state; the loop's and the round come before."""
JOINTS = with_trait(Trait.TUPLE)
"""Opcodes that compute nothing: they belong to what uses them."""


def localize_fault(search: ReductionSearch) -> None:
    """Keep the instruction alone in which a numeric fault comes up, as far as calls and loops go."""
    predicate = search.predicate
    if not isinstance(predicate, NumericPredicate):
        return
    while _localize(search, predicate) or _open(search, predicate):
        pass


def _localize(search: ReductionSearch, predicate: NumericPredicate) -> bool:
    """Keep one instruction, or one window, of those that differ on their own."""
    count = len(entry_instructions(search.module))
    if count <= FEW or search.looked_through is search.module or predicate.values() is None:
        return False
    for size, offset in WINDOWS:
        if 2 * size > count:
            break
        separation = attempt(partial(separate, search.module, size, offset))
        if separation is None:
            continue
        search.count_step()
        for names in separation.suspects(predicate)[:MOST_SUSPECTS]:
            with predicate.taking_any():
                if search.take(attempt(partial(keep_instructions, search.module, names)), may_grow=True):
                    return True
    search.looked_through = search.module
    return False


@dataclass(frozen=True, slots=True)
class Separation:
    """A program's windows side by side, given values: the windows, and for each output the number of its window."""

    module: Module
    windows: list[frozenset[str]]
    outputs: list[int]

    def suspects(self, predicate: NumericPredicate) -> list[frozenset[str]]:
        """The windows whose results differ, those of the greatest errors first; none where they cannot be run."""
        try:
            fault = predicate.fault(self.module, predicate.inputs_of(self.module))
        except HloomError:
            return []
        errors: dict[int, float] = {}
        for output, error in (fault.errors if fault else {}).items():
            window = self.outputs[output]
            errors[window] = max(errors.get(window, 0.0), error)
        return [self.windows[window] for window in sorted(errors, key=lambda window: -errors[window])]


def separate(module: Module, size: int, offset: int) -> Separation | None:
    """A copy in which windows of the entry's instructions are given values; None where there is nothing to separate."""
    copy = module.clone()
    copy.index_users()
    entry = copy.entry
    single = size == 1
    nodes = [node for node in entry.nodes if is_plain(node) and not (single and node.opcode in JOINTS)]
    bounds = [0, *range(offset, len(nodes), size), len(nodes)] if offset else [*range(0, len(nodes), size), len(nodes)]
    windows = [nodes[begin:end] for begin, end in pairwise(bounds)]
    number_of = {node: number for number, window in enumerate(windows) for node in window}
    if len(windows) < 2:
        return None
    operands = _OutsideValues(entry)
    yielded = [node for node in nodes if node.opcode != "tuple" and (single or _leaves_window(node, number_of))]
    for node in nodes:
        number = number_of[node]
        inside = [operand if number_of.get(operand) == number else operands.value(operand) for operand in node.operands]
        entry.set_operands(node, inside)
    counts = yield_leaves(copy, yielded)
    outputs = [number_of[node] for node, count in zip(yielded, counts, strict=True) for _ in range(count)]
    kept = {entry.root, *entry.root.operands, *number_of, *operands.tuples}
    erase_all(node for node in reversed(entry.nodes) if isinstance(node, Apply) and node not in kept)
    return Separation(tidied(copy, module), [frozenset(node.name for node in part) for part in windows], outputs)


def _leaves_window(node: Node, number_of: Mapping[Node, int]) -> bool:
    """Whether a value is for others than its window."""
    return not node.users or any(number_of.get(user) != number_of[node] for user in node.users)


class _OutsideValues:
    """The values that instructions are given from outside: parameters, constants, and tuples of them."""

    def __init__(self, entry: Graph) -> None:
        self._entry, self._first = entry, entry.nodes[0]
        self._values: dict[Node, Node] = {}
        self.tuples: list[Node] = []

    def value(self, node: Node) -> Node:
        """What stands for a value."""
        if not isinstance(node, Apply):
            return node
        known = self._values.get(node)
        if known is None:
            known = self._values[node] = self._rebuilt(node) if node.opcode == "tuple" else self._given(node)
        return known

    def _given(self, node: Node) -> Node:
        given = self._entry.add_parameter(node.type, f"{node.name}{VALUE}")
        self._entry.move_before(given, self._first)
        return given

    def _rebuilt(self, node: Apply) -> Node:
        parts = [self.value(operand) for operand in node.operands]
        rebuilt = self._entry.add_apply(OPS["tuple"], parts, node.type, before=node)
        self.tuples.append(rebuilt)
        return rebuilt


def _open(search: ReductionSearch, predicate: NumericPredicate) -> bool:
    """Where few instructions are left and one of them calls computations, put what it calls into its place."""
    entry = search.module.entry
    calling = [node for node in entry.nodes if node.called_graphs and isinstance(node, Apply)]
    if sum(node.opcode not in JOINTS for node in entry.nodes if isinstance(node, Apply)) > FEW:
        return False
    for node in calling:
        inlined = partial(_inlined, search.module, node.name)
        if node.opcode in INLINABLE and search.take(attempt(inlined), may_grow=True):
            return True
        if node.opcode == "while" and _take_worst_round(search, predicate, node.name):
            return True
        branches = len(node.called_graphs) if node.opcode == "conditional" else 0
        if any(
            search.take(attempt(partial(_branch, search.module, node.name, number)), may_grow=True)
            for number in range(branches)
        ):
            return True
    return False


def _inlined(module: Module, name: str) -> Module:
    copy = module.clone()
    copy.index_users()
    copy.entry.inline(copy.entry[name])
    return tidied(copy, module)


def _branch(module: Module, name: str, number: int) -> Module:
    copy = module.clone()
    copy.index_users()
    node = copy.entry[name]
    put_in_place(node, node.called_graphs[number], (node.operands[number + 1],))
    return tidied(copy, module)


def _take_worst_round(search: ReductionSearch, predicate: NumericPredicate, name: str) -> bool:
    """Keep the round of a loop that differs most, given the state that it begins with."""
    parameter = f"{name}{STATE}"
    body = attempt(partial(_round, search.module, name, parameter))
    if body is None:
        return False
    worst: tuple[float, int, Leaves] | None = None
    for number, state in enumerate(_states(search.module, predicate, name)):
        predicate.give(parameter, state)
        search.count_step()
        try:
            fault = predicate.fault(body, predicate.inputs_of(body))
        except HloomError:
            return False
        if fault is not None and (worst is None or fault.error > worst[0]):
            worst = fault.error, number, state
    if worst is None:
        return False
    predicate.give(parameter, worst[2])
    with predicate.taking_any():
        return search.take(body, may_grow=True)


def _round(module: Module, name: str, parameter: str) -> Module:
    """A copy with a loop's body, once, in its place, and a parameter as its state."""
    copy = module.clone()
    copy.index_users()
    entry, node = copy.entry, copy.entry[name]
    state = entry.add_parameter(node.type, parameter)
    entry.move_before(state, entry.nodes[0])
    put_in_place(node, node.attributes["body"], (state,))
    if isinstance(entry.root.type, TupleType) and entry.root.opcode != "tuple":
        yield_leaves(copy, [entry.root])
    return tidied(copy, module)


def _states(module: Module, predicate: NumericPredicate, name: str) -> Iterator[Leaves]:
    """The states that a loop's rounds begin with."""
    loop = module.entry[name]
    parameter = loop.attributes["body"].parameters[0]
    states: list[Leaves] = []
    held = 0

    def observe(node: Node, value: Value) -> None:
        nonlocal held
        if node is parameter and len(states) < MOST_ROUNDS:
            state = [leaf.copy() for leaf in leaves_of(value)]
            held += sum(leaf.nbytes for leaf in state)
            if held <= MOST_STATE_BYTES:
                states.append(state)

    inputs: Sequence[Leaves] = list(predicate.inputs_of(module).values())
    try:
        evaluate(module, [array for leaves in inputs for array in leaves], observe=observe)
    except HloomError:
        return
    yield from states
