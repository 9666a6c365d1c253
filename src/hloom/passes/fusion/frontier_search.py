"""Chooses which values of a component are stored, by dynamic programming over the frontier of decided instructions.

Instructions are decided from the last to the first, so all users of an instruction are decided before it. Either it is
stored, and computed by a kernel of its own, or every kernel that needs it computes it. Remaining decisions depend on
earlier ones only through the frontier: which instructions are needed, by which kernels, at which indices. Among states
with equal frontiers, those dominated in every kernel are dropped; if more than the width remain, only the cheapest are
kept, and the result is no longer exact. As in Boehm et al. 2018, On Optimizing Operator Fusion Plans for Large-Scale
Machine Learning in SystemML, values are chosen and kernels follow; the kernels cannot form a cycle, since each has one
result.

    y = exp(x); a = y + 1; b = y * 2      y stored: 3 kernels; y computed twice: 2 kernels, which read x
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hloom.analysis import EXPENSIVE, VIEWS
from hloom.passes.fusion.kernel_model import READ, Kernel, KernelModel, joined
from hloom.passes.fusion.target import MAX_MEMBERS, MAX_OPERANDS_AND_RESULTS

WIDTH = 200
"""The maximum number of states to keep."""
STEPS = 40
"""The maximum number of frontier parts to process per instruction of a component; a part is one kernel's need of one
instruction.
"""
SPARE_STEPS = 150_000
"""The number of additional frontier parts allowed for all components of a computation together."""
AHEAD = 4
"""The maximum steps for one instruction, as a multiple of the average."""

Choices = tuple[int, bool, "Choices"] | None
"""The instructions decided, last first: the number, whether kernels that read it compute it, and those before."""


@dataclass(slots=True)
class MaterializedValues:
    """The chosen values: the roots of kernels, and those among them that other kernels recompute.

    `is_exact` says that no other choice is cheaper.
    """

    roots: list[int]
    computed: set[int]
    is_exact: bool


@dataclass(slots=True)
class _OpenKernel:
    """A kernel some of whose instructions are not decided yet; `pending` is how many it needs."""

    compute: float = 0.0
    moved: float = 0.0
    members: int = 0
    operands: int = 0
    pending: int = 0
    is_view: bool = True

    def copy(self) -> _OpenKernel:
        return _OpenKernel(self.compute, self.moved, self.members, self.operands, self.pending, self.is_view)


@dataclass(slots=True)
class _Demand:
    """A kernel's need of an instruction: the indices, and the bytes if it is read; None for the whole."""

    keys: dict[int, float]
    sliced: int | None
    may_compute: bool

    def copy(self) -> _Demand:
        return _Demand(self.keys, self.sliced, self.may_compute)


@dataclass(slots=True)
class _State:
    closed: float = 0.0
    kernels: dict[int, _OpenKernel] = field(default_factory=dict)
    demands: dict[int, dict[int, _Demand]] = field(default_factory=dict)
    choices: Choices = None

    def copy(self) -> _State:
        kernels = {root: kernel.copy() for root, kernel in self.kernels.items()}
        demands = {
            number: {root: demand.copy() for root, demand in needed.items()} for number, needed in self.demands.items()
        }
        return _State(self.closed, kernels, demands, self.choices)


class FrontierSearch:
    """Decides which values to store, one component of a computation at a time."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.target = model.target
        self.spare_steps = SPARE_STEPS

    def stored_values(self, component: Sequence[int]) -> MaterializedValues:
        """The best values to store of a component, given in order.

        If not all states could be kept, the best remaining one, or that of greedily taking the cheaper option per
        instruction.
        """
        best, is_exact = self._searched(component, STEPS * len(component) + self.spare_steps)
        if not is_exact:
            best = min(best, self._searched(component, 0)[0], key=lambda state: state.closed)
        roots, computed = [], set[int]()
        choices = best.choices
        while choices is not None:
            number, is_computed, choices = choices
            roots.append(number)
            if is_computed:
                computed.add(number)
        return MaterializedValues(sorted(roots), computed, is_exact)

    def _searched(self, component: Sequence[int], steps: int) -> tuple[_State, bool]:
        """The cheapest state within this many steps, and whether none was dropped that might be cheaper."""
        inside = set(component)
        states, is_exact = [_State()], True
        remaining = len(component)
        for number in self._order(component, inside):
            if number in inside:
                size = 1 + sum(map(len, states[0].demands.values()))
                width = min(WIDTH, AHEAD * steps // (remaining * size))
                states, is_complete = self._decided(states, number, width)
                is_exact &= is_complete
                steps -= size * len(states) if len(states) > 1 else 0
                remaining -= 1
            else:
                for state in states:
                    self._read(state, number, state.demands.pop(number, {}))
        if steps:
            self.spare_steps = max(0, min(self.spare_steps, steps))
        return min(states, key=lambda state: state.closed), is_exact

    def _order(self, component: Sequence[int], inside: set[int]) -> list[int]:
        """Instructions, users first, and outside values right after their last reader."""
        last: dict[int, int] = {}
        for number in component:
            for edge in self.model.edges[number]:
                if edge.operand not in inside:
                    last.setdefault(edge.operand, number)
        after: dict[int, list[int]] = {}
        for operand, number in last.items():
            after.setdefault(number, []).append(operand)
        return [decided for number in reversed(component) for decided in (number, *after.get(number, ()))]

    def _decided(self, states: list[_State], number: int, width: int) -> tuple[list[_State], bool]:
        """The states after a decision, and whether none was left out that might be better."""
        results: list[_State] = []
        is_exact = len(states) <= max(1, width)
        if not is_exact:
            states = sorted(states, key=self._bound)[: max(1, width)]
        for state in states:
            options = self._options(state, number)
            is_exact &= not self._is_beyond_limits(state, number)
            if len(options) > 1 and width < 2:
                options, is_exact = [self._cheaper(state, number, options)], False
            for position, (is_stored, is_computed) in enumerate(options):
                branch = state if position == len(options) - 1 else state.copy()
                self._decide(branch, number, is_stored, is_computed)
                results.append(branch)
        if len(results) == 1:
            return results, is_exact
        kept = self._undominated(results)
        if len(kept) > width:
            kept.sort(key=self._bound)
            return kept[:width], False
        return kept, is_exact

    def _options(self, state: _State, number: int) -> list[tuple[bool, bool]]:
        """The options worth trying for an instruction: (store it, compute it in kernels)."""
        model = self.model
        needed = state.demands.get(number, {})
        may_compute = bool(needed) and not self._is_beyond_limits(state, number)
        may_compute = may_compute and all(
            demand.may_compute and model.may_compute(number, demand.keys, is_root=False) for demand in needed.values()
        )
        if model.is_leaf[number]:
            return [(False, True)] if may_compute else [(True, False)]
        is_free = model.is_free(number)
        if model.is_stored[number]:
            if not may_compute:
                return [(True, False)]
            if is_free:
                return [(True, True)]
            opcode = model.nodes[number].opcode
            return [(True, False)] if opcode in EXPENSIVE or opcode not in VIEWS else [(True, False), (True, True)]
        if not needed:
            return [(False, False)]
        if not may_compute:
            return [(True, False)]
        if is_free or self._is_computed_once(number, needed):
            return [(False, True)]
        return [(True, False), (False, True)]

    def _is_beyond_limits(self, state: _State, number: int) -> bool:
        """Whether a kernel that needs an instruction has reached its limit of instructions or operands."""
        kernels = [state.kernels[root] for root in state.demands.get(number, ())]
        operands = len(self.model.edges[number])
        return any(
            kernel.members >= MAX_MEMBERS or kernel.operands + operands >= MAX_OPERANDS_AND_RESULTS
            for kernel in kernels
        )

    def _is_computed_once(self, number: int, needed: dict[int, _Demand]) -> bool:
        """Whether one kernel computes it, no element twice: then storing it only adds a launch and bytes."""
        if len(needed) > 1:
            return False
        (demand,) = needed.values()
        return sum(demand.keys.values()) <= self.model.elements[number] and len(demand.keys) == 1

    def _cheaper(self, state: _State, number: int, options: Sequence[tuple[bool, bool]]) -> tuple[bool, bool]:
        """The cheaper of two options, reading and computing, by their immediate costs."""
        model, target = self.model, self.target
        operands = sum(model.bytes[edge.operand] for edge in model.edges[number])
        own, seconds = model.bytes[number], model.seconds[number]
        must_store = all(is_stored for is_stored, _ in options)
        stored = 0.0 if must_store else target.device.kernel_seconds(seconds, operands + own)
        computed = 0.0
        for root, demand in state.demands[number].items():
            kernel = state.kernels[root]
            before = target.device.kernel_seconds(kernel.compute, kernel.moved)
            added = model.compute_seconds(number, demand.keys)
            computed += target.device.kernel_seconds(kernel.compute + added, kernel.moved + operands) - before
            stored += target.device.kernel_seconds(kernel.compute, kernel.moved + own) - before
        reads, computes = options
        return reads if stored < computed else computes

    def _decide(self, state: _State, number: int, is_stored: bool, is_computed: bool) -> None:
        """Change a state by a decision."""
        model = self.model
        needed = state.demands.pop(number, {})
        if is_stored:
            state.choices = (number, is_computed, state.choices)
        if is_computed:
            for root, demand in needed.items():
                self._compute(state, root, number, demand.keys)
        else:
            self._read(state, number, needed)
        if is_stored:
            kernel = state.kernels[number] = _OpenKernel(moved=model.bytes[number])
            self._compute(state, number, number, model.root_demand(number), is_root=True)
            self._close(state, number, kernel)

    def _compute(self, state: _State, root: int, number: int, keys: dict[int, float], is_root: bool = False) -> None:
        """Make a kernel compute an instruction: it now needs the operands instead."""
        model, kernel = self.model, state.kernels[root]
        kernel.compute += model.compute_seconds(number, keys)
        kernel.members += 1
        kernel.is_view &= model.nodes[number].opcode in VIEWS
        for edge in model.edges[number]:
            passed = model.operand_demand(number, edge, keys, is_root)
            needed = state.demands.setdefault(edge.operand, {})
            before = needed.get(root)
            is_computable = model.is_fusible[edge.operand] and edge.mode != READ
            if before is None:
                needed[root] = _Demand(passed, edge.sliced, is_computable)
                kernel.pending += 1
                continue
            before.keys = joined(before.keys, passed)
            before.may_compute &= is_computable
            sliced = before.sliced
            before.sliced = None if sliced is None or edge.sliced is None else sliced + edge.sliced
        if not is_root:
            kernel.pending -= 1
            self._close(state, root, kernel)

    def _read(self, state: _State, number: int, needed: dict[int, _Demand]) -> None:
        """Make kernels read a stored value."""
        whole = self.model.whole_bytes(number)
        for root, demand in needed.items():
            kernel = state.kernels[root]
            kernel.moved += whole if demand.sliced is None else min(whole, demand.sliced)
            kernel.operands += 1
            kernel.pending -= 1
            self._close(state, root, kernel)

    def _close(self, state: _State, root: int, kernel: _OpenKernel) -> None:
        if not kernel.pending:
            del state.kernels[root]
            if not kernel.is_view:
                state.closed += self.target.device.kernel_seconds(kernel.compute, kernel.moved)

    def _bound(self, state: _State) -> float:
        """A lower bound on the cost of a state."""
        return state.closed + sum(
            self.target.device.kernel_seconds(kernel.compute, kernel.moved) for kernel in state.kernels.values()
        )

    def _undominated(self, states: list[_State]) -> list[_State]:
        """Those that no other with the same frontier beats in everything."""
        groups: dict[object, list[_State]] = {}
        for state in states:
            signature = tuple(
                (
                    number,
                    tuple(
                        sorted(
                            (root, *sorted(demand.keys.items()), demand.sliced or -1) for root, demand in needed.items()
                        )
                    ),
                )
                for number, needed in sorted(state.demands.items())
            )
            groups.setdefault(signature, []).append(state)
        return [state for group in groups.values() for state in _front(group)]


def _front(states: list[_State]) -> list[_State]:
    kept: list[_State] = []
    for state in sorted(states, key=lambda state: state.closed):
        if not any(_beats(other, state) for other in kept):
            kept.append(state)
    return kept


def _beats(better: _State, state: _State) -> bool:
    """Whether a state, closed kernels of which take no longer, takes no longer in any open one."""
    return all(
        kernel.compute <= other.compute and kernel.moved <= other.moved and kernel.is_view >= other.is_view
        for kernel, other in zip(better.kernels.values(), map(state.kernels.__getitem__, better.kernels), strict=True)
    )


def kernels_of(model: KernelModel, values: MaterializedValues) -> list[Kernel]:
    """The kernels that follow from the stored values."""
    kept = set(values.roots)
    return [Kernel((root,), model.members(root, kept, values.computed)) for root in values.roots]
