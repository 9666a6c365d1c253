"""The pass `remat`: peak memory within a budget by computing values again where they are needed, not keeping them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hloom.analysis import bytes_of, cost
from hloom.hlo import print_module
from hloom.ir import Module, TensorType, verify
from hloom.passes import canonicalize_in_place, cse, dce, is_loop_or_branch, register_pass
from hloom.remat.choice import RecomputationChoice, choose
from hloom.remat.kernel_order import Wait, find_waits, write_waits
from hloom.remat.loop_residuals import find_loop_residuals
from hloom.remat.opaque_dependence import MECHANISMS, SELECT
from hloom.remat.recomputation import write_recomputation
from hloom.remat.residual_choice import ResidualChoice, choose_residuals
from hloom.remat.residual_writer import write_residuals
from hloom.remat.stored_values import StoredValues, find_stored_values
from hloom.rewrite import Report
from hloom.runtime import memory
from hloom.text import HloomError
from hloom.xla_cpu import simulate_buffers

Measure = Callable[[Module], int]
"""Yields the bytes that a program takes at its peak."""
Propose = Callable[[float], "tuple[object, Callable[[], Rematerialization]] | None"]
"""Yields a choice that keeps at most so many bytes, and how it is written; None where there is none."""
MEASURES = ("auto", "model", "xla")
"""What says whether a program fits: the model of XLA's CPU compiler, that compiler, or the one and then the other."""
MOST_SEARCHED = 5_000
"""Of programs of more instructions a compiler is asked as little as can be: each time takes many seconds."""
MOST_CHECKED = 20_000
"""Programs of more instructions are not checked by a compiler unless asked for: to compile them takes minutes."""
MARGIN = 0.05
"""The share of the budget that is left free where nothing but the model says what a program takes: its usual error."""
MOST_TRIALS = 8
"""How many choices are written and their buffers simulated."""
LEAST_SHARES = (0.5, 0.35, 0.25, 0.18, 0.13, 0.09, 0.06)
"""Where nothing fits: limits, as shares of what the program takes, among which the least peak is looked for."""
MOST_WORSE = 2
"""After so many in a row that take more than the least that was found, no lower limit is tried; of small programs after
twice as many."""
MOST_ORDERS = 3
"""How often kernels of a program that does not fit are made to wait for others."""
MOST_NAMED, LEAST_NAMED = 3, 0.05
"""Of loops and branches that are left as they are so many are named, if they hold such a share of the peak."""
RELAXATION = 0.98
"""A choice that takes less than this share of the budget is followed by one with a higher limit."""


@dataclass(frozen=True, slots=True)
class Rematerialization:
    """A program that recomputes, and what it takes beside the program before.

    `peak` and `original_peak` are bytes by the model of XLA's CPU compiler, `flops` and `original_flops` the
    arithmetic of one run. `cost` is what recomputing takes, transcendental functions and bytes moved counted in; in
    the model no choice of the same kind that fits at the time of the original peak costs less than `cost_bound`.
    `recomputed` counts the values that are computed again: those of loops by the choice `residuals`, then of the
    `stored` ones by `choice`. `waits` are the kernels that then wait for others, one time after the other. `assigned`
    is what a compiler took when it was asked, None where it was not.
    """

    module: Module
    peak: int
    original_peak: int
    flops: int
    original_flops: int
    cost: float
    cost_bound: float
    recomputed: int
    stored: StoredValues
    choice: RecomputationChoice | None = None
    residuals: ResidualChoice | None = None
    waits: tuple[tuple[Wait, ...], ...] = ()
    assigned: int | None = None


def remat(module: Module, budget: int | str, *, backend: str = "cpu", measure: str = "auto") -> Module:
    """A copy of a program that keeps its peak memory within a budget by computing values twice.

    `budget` are bytes, or a text such as "160MiB"; the peak is arguments, outputs and temporaries. `measure="model"` is
    the model of XLA's CPU compiler, which leaves a margin of 5 % where it can; "xla" is that compiler, asked about each
    choice; "auto" chooses by the model and asks XLA about what is chosen, where it is installed, the backend is "cpu",
    and the program has at most MOST_CHECKED instructions. `backend` says by what the second computations are kept apart
    from the first: a data dependence on "cpu", optimisation barriers on "gpu" and "tpu". Raises HloomError where no
    choice is found that fits.
    """
    return _rematerialized(module, budget, backend, measure).module


def remat_in_place(
    module: Module, budget: int | str | None = None, *, backend: str = "cpu", measure: str = "auto"
) -> Report:
    """As `remat`, of the module itself, which stays as it is where that raises."""
    if budget is None:
        raise HloomError("how much memory the program may take must be said", hint="remat(budget=160MiB)")
    report = Report("remat")
    made = _rematerialized(module, budget, backend, measure)
    if not made.recomputed:
        report.notes.append(f"the program takes {made.original_peak:,} bytes: nothing is recomputed")
        return report
    _prepare(module)
    if made.residuals is not None:
        write_residuals(module, made.residuals)
    if made.choice is not None:
        _write(module, made.choice, made.stored, MECHANISMS[backend])
    for waits in made.waits:
        write_waits(module.entry, find_stored_values(module), waits, MECHANISMS[backend])
    report.changes = 1
    by_xla = "" if made.assigned is None else f" ({made.assigned:,} by XLA)"
    report.notes.append(
        f"{made.recomputed} values are computed again: peak {made.original_peak:,} -> {made.peak:,} bytes{by_xla}, "
        f"{made.flops / max(made.original_flops, 1):.4f} times the FLOPs; that costs {made.cost:,.0f}, bound "
        f"{made.cost_bound:,.0f}"
    )
    alone = _left_alone(module)
    report.notes += [alone] if alone else []
    return report


def _rematerialized(module: Module, budget: int | str, backend: str, measure: str) -> Rematerialization:
    if measure not in MEASURES:
        raise HloomError(f"nothing is known that measures memory by '{measure}'", hint=f"known: {', '.join(MEASURES)}")
    is_checked = measure == "auto" and backend == "cpu" and module.node_count <= MOST_CHECKED
    return rematerialize(
        module,
        budget,
        backend=backend,
        measure=_peak_by_xla if measure == "xla" else None,
        check=_peak_by_xla if is_checked else None,
    )


def _peak_by_xla(module: Module) -> int:
    """The bytes at the peak of a program once XLA has compiled it for the CPU."""
    return memory(print_module(module))["peak"]


def rematerialize(
    module: Module, budget: int | str, *, backend: str = "cpu", measure: Measure | None = None,
    check: Measure | None = None,
) -> Rematerialization:  # fmt: skip
    """As `remat`, with what the program takes.

    `measure` yields the peak of a program as a compiler assigns it; then that, too, must be within the budget. Without
    it a margin of the budget is left free, unless nothing fits that does. `check` is a measure of what is chosen by the
    model; of programs of more than MOST_SEARCHED instructions it is asked about each choice only where the one that
    leaves the margin is above the budget.
    """
    limit = _checked_budget(budget)
    mechanism = MECHANISMS.get(backend)
    if mechanism is None:
        raise HloomError(f"nothing is known of the backend '{backend}'", hint=f"known: {', '.join(MECHANISMS)}")
    _check(module)
    program = module.clone()
    _prepare(program)
    stored = find_stored_values(program)
    flops = cost(program).total.flops
    original = Rematerialization(module.clone(), stored.peak, stored.peak, flops, flops, 0.0, 0.0, 0, stored)
    asked = _Checked(check)
    is_direct = measure is not None or (module.node_count <= MOST_SEARCHED and asked(program) > 0)
    targets = [limit] if is_direct else [int((1 - MARGIN) * limit), limit]
    if stored.peak <= targets[0] and (measure or asked)(program) <= limit:
        return original
    if stored.fixed >= limit:
        raise HloomError(
            f"{module.name}: arguments and outputs alone take {stored.fixed:,} bytes, the budget is {limit:,}",
            hint="give inputs away (donate them), or shard the program",
        )
    least = original.peak
    for target in targets:
        is_last = target == limit
        search = _Search(original, target, mechanism, measure or (asked if is_last else None))
        search.run(program, stored)
        least = min(least, search.least.peak)
        best = search.best
        if best is not None:
            known = measure or (asked.measure if is_last else None)
            assigned = best.peak if known is not None else asked(best.module)
            if assigned <= limit:
                return replace(best, assigned=assigned or None)
        elif measure is None and stored.peak <= limit and asked(program) <= limit:
            return original
    alone = _left_alone(program)
    raise HloomError(
        f"{module.name}: no way was found to run in {limit:,} bytes: the least that was found takes {least:,}, and no "
        f"choice less than {_least_peak(stored):,}" + (f"; {alone}" if alone else ""),
        hint="raise the budget, cut the batch into slices (microbatch), or shard the program",
    )


def _prepare(module: Module) -> None:
    """Put a module into the form that is planned: no calls, nothing computed twice."""
    canonicalize_in_place(module)
    cse(module)
    dce(module)
    module.index_users()


def _write(module: Module, choice: RecomputationChoice, stored: StoredValues, mechanism: str) -> int:
    """Write a choice into a prepared module; how many values are computed twice."""
    count = write_recomputation(module.entry, stored, choice.ranges, choice.recomputed, mechanism)
    cse(module)
    dce(module)
    return count


class _Search:
    """Choices with limits that follow what the one before takes once it is written; of those that fit the cheapest."""

    def __init__(self, original: Rematerialization, budget: int, mechanism: str, measure: Measure | None) -> None:
        self.original = original
        self.budget = budget
        self.mechanism = mechanism
        self.measure = measure
        self.best: Rematerialization | None = None
        self.least = original

    def run(self, program: Module, stored: StoredValues) -> None:
        """Try choices of what loops stack, of stored values, and where loops do not suffice of both."""
        self.residuals(program, stored)
        if self.best is None and self.least.residuals is not None:
            smaller = self.least
            self.values(smaller.module, find_stored_values(smaller.module), smaller)
        self.values(program, stored, self.original)

    def residuals(self, program: Module, stored: StoredValues) -> None:
        """Try choices of what loops stack."""
        residuals = find_loop_residuals(program)
        held = sum(pair.bytes for pair in residuals)
        if not held:
            return
        bound = float("inf")

        def propose(limit: float) -> tuple[object, Callable[[], Rematerialization]] | None:
            nonlocal bound
            choice = choose_residuals(residuals, limit)
            if choice is None:
                return None
            bound = min(bound, choice.bound)
            key = (*choice.kept.items(), *choice.computed.items())
            return key, lambda: replace(self._with_residuals(program, choice), cost_bound=bound)

        self._try(propose, float(held + self.budget - stored.peak), float(held))

    def values(self, program: Module, stored: StoredValues, start: Rematerialization) -> None:
        """Try choices of stored values, after the choice of what loops stack that a program was written by."""
        bound = float("inf")

        def propose(limit: float) -> tuple[object, Callable[[], Rematerialization]]:
            nonlocal bound
            choice = choose(stored, limit)
            bound = min(bound, choice.bound)
            before = replace(start, stored=stored)
            return tuple(choice.recomputed), lambda: replace(
                _written(program, stored, before, choice, self.mechanism),
                cost=start.cost + choice.cost,
                cost_bound=bound,
            )

        held = float(stored.usage.max(initial=0))
        self._try(propose, float(self.budget - stored.fixed), held)
        worse, most_worse = 0, MOST_WORSE if program.node_count > MOST_SEARCHED else 2 * MOST_WORSE
        for share in LEAST_SHARES:
            if self.best is not None or worse == most_worse:
                break
            _, write = propose(share * held)
            result = self._measured(self._in_order(write()))
            worse = 0 if result.peak < self.least.peak else worse + 1
            self._take(result)

    def _with_residuals(self, program: Module, choice: ResidualChoice) -> Rematerialization:
        trial = program.clone()
        trial.index_users()
        write_residuals(trial, choice)
        verify(trial)
        return replace(
            self.original,
            module=trial,
            peak=simulate_buffers(trial.clone()).peak,
            flops=cost(trial).total.flops,
            cost=choice.cost,
            recomputed=choice.count,
            residuals=choice,
        )

    def _in_order(self, result: Rematerialization) -> Rematerialization:
        """With kernels that wait for others, while it does not fit and takes less that way."""
        for _ in range(MOST_ORDERS):
            if result.peak <= self.budget or self.mechanism != SELECT or result.module.node_count > MOST_CHECKED:
                break
            stored = find_stored_values(result.module)
            waits = tuple(find_waits(stored, self.budget))
            if not waits:
                break
            trial = result.module.clone()
            trial.index_users()
            write_waits(trial.entry, stored, waits, self.mechanism)
            verify(trial)
            peak = simulate_buffers(trial.clone()).peak
            if peak >= result.peak:
                break
            flops = cost(trial).total.flops
            result = replace(result, module=trial, peak=peak, flops=flops, waits=(*result.waits, waits))
        return result

    def _measured(self, result: Rematerialization) -> Rematerialization:
        """With the peak as it is measured, where the model says that it fits."""
        if self.measure is None or result.peak > self.budget:
            return result
        return replace(result, peak=self.measure(result.module) or result.peak)

    def _take(self, result: Rematerialization) -> None:
        """Keep a result that takes less than all before, or that fits and costs less."""
        if result.peak < self.least.peak:
            self.least = result
        if result.peak <= self.budget and (self.best is None or result.flops < self.best.flops):
            self.best = result

    def _try(self, propose: Propose, limit: float, high: float) -> None:
        low, fits = 0.0, dict[object, bool]()
        for _ in range(MOST_TRIALS):
            proposed = propose(limit)
            key, write = proposed if proposed is not None else (None, None)
            if write is None or key in fits:
                low, high = (low, limit) if write is not None and not fits[key] else (limit, high)
                limit = (low + high) / 2
                continue
            result = self._measured(self._in_order(write()))
            self._take(result)
            fits[key] = result.peak <= self.budget
            if fits[key]:
                low = max(low, limit)
                if result.peak >= RELAXATION * self.budget:
                    break
            else:
                high = min(high, limit)
            limit += self.budget - result.peak
            if not low < limit < high:
                limit = (low + high) / 2
            if high - low < (1 - RELAXATION) * self.budget:
                break


def _least_peak(stored: StoredValues) -> int:
    """A bound of every choice: arguments, and what the largest instruction reads (and makes, if not in place).

    Loops are left out, for they may stack less.
    """
    largest = 0
    for value in stored.values:
        if value.node.opcode == "while":
            continue
        read = [operand for operand in value.operands if not operand.is_cheap and operand.node.opcode != "while"]
        operands = sum(operand.size for operand in read)
        largest = max(largest, operands + value.size * (value.node.opcode in ("convolution", "dot")))
    return max(stored.fixed, stored.arguments + largest)


def _left_alone(module: Module) -> str:
    """Says which loops and branches hold much, at most MOST_NAMED of them; what they compute is not computed again.

    What a loop holds is without the state that it is given and yields.
    """
    if not any(is_loop_or_branch(node) for node in module.entry.nodes) or module.node_count > MOST_CHECKED:
        return ""
    live = simulate_buffers(module.clone())
    names = {node.name: node for node in module.entry.nodes if is_loop_or_branch(node)}
    usage, held = live.timeline(), dict[str, int]()
    start = 0
    for time, node in enumerate(live.steps):
        if node.graph is not live.module.entry:
            continue
        if node.name in names and time > start:
            held[node.name] = int(usage[start:time].max() - min(usage[start], usage[time]))
        start = time + 1
    large = sorted((name for name in held if held[name] >= LEAST_NAMED * live.peak), key=lambda name: -held[name])
    listed = ", ".join(f"{name} ({names[name].opcode}, {held[name]:,} bytes)" for name in large[:MOST_NAMED])
    return f"what these compute inside is left as it is: {listed}" if large else ""


def _written(
    program: Module, stored: StoredValues, original: Rematerialization, choice: RecomputationChoice, mechanism: str
) -> Rematerialization:
    trial = program.clone()
    trial.index_users()
    count = _write(trial, choice, stored, mechanism)
    verify(trial)
    return replace(
        original,
        module=trial,
        peak=simulate_buffers(trial.clone()).peak,
        flops=cost(trial).total.flops,
        cost=choice.cost,
        cost_bound=float(choice.bound),
        recomputed=original.recomputed + count,
        choice=choice,
    )


class _Checked:
    """A compiler that is asked what a program takes, until it does not know one."""

    def __init__(self, measure: Measure | None) -> None:
        self.measure = measure

    def __call__(self, module: Module) -> int:
        """The bytes that it takes; none where nobody knows."""
        if self.measure is None:
            return 0
        try:
            return self.measure(module)
        except HloomError:  # it is not installed, or does not compile the program
            self.measure = None
            return 0


def _checked_budget(budget: int | str) -> int:
    """The budget in bytes; raises HloomError for what is none."""
    try:
        limit = bytes_of(budget) if isinstance(budget, str) else int(budget)
    except ValueError as problem:
        raise HloomError(f"the budget {problem}", hint="remat(budget=160MiB)") from None
    if limit <= 0:
        raise HloomError(f"a program cannot run in {limit:,} bytes", hint="remat(budget=160MiB)")
    return limit


def _check(module: Module) -> None:
    """Raise HloomError for what is not sound or whole, for sizes that are not known, and for optimised programs."""
    gaps = verify(module).unresolved
    if gaps:
        raise HloomError(f"{module.name} is a fragment: the {gaps[0]} is not known, and so neither is its memory")
    if module.is_scheduled:
        raise HloomError(
            f"{module.name} is scheduled: XLA has chosen what it keeps",
            hint="give the program as it was before XLA optimised it",
        )
    for node in module.nodes():
        for leaf in node.type.leaves() if node.type is not None else ():
            if isinstance(leaf, TensorType) and not leaf.is_static:
                raise HloomError(
                    f"{node.name} in {node.graph.name} is {leaf}: the memory of dynamic sizes is not known",
                    hint="compile the program for sizes that are known",
                )


register_pass(
    "remat",
    "values computed again, so that memory stays within a budget",
    remat_in_place,
    ("budget", "backend", "measure"),
)
