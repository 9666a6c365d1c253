"""The pass `remat`: keeps peak memory within a budget by recomputing values where they are needed."""

from __future__ import annotations

from dataclasses import replace

from hloom.analysis import cost
from hloom.distribute.remat.inner_program import as_program, computation_at_peak, put_back
from hloom.distribute.remat.kernel_order import write_waits
from hloom.distribute.remat.materialization import find_shared, materialize
from hloom.distribute.remat.opaque_dependence import MECHANISMS, SELECT
from hloom.distribute.remat.residual_writer import write_residuals
from hloom.distribute.remat.search import MOST_SEARCHED, Measure, Rematerialization, Search, find_least, write_choice
from hloom.distribute.remat.stored_values import StoredValues, find_stored_values
from hloom.formats.hlo import print_module
from hloom.ir import Module, ModuleLike, TensorType, as_module, verify
from hloom.ops import PRODUCTS
from hloom.passes import canonicalize_in_place, cse, dce, is_loop_or_branch, register_pass
from hloom.rewrite import Report
from hloom.runtime import memory
from hloom.targets.cpu import simulate_buffers
from hloom.text import HloomError, Unattainable, parse_capacity

MEASURES = ("auto", "model", "xla")
"""What decides whether a program fits: the model of XLA's CPU compiler, that compiler, or first one and then the other.
"""
MOST_CHECKED = 20_000
"""Programs of more instructions are not checked by a compiler unless asked for: to compile them takes minutes."""
MARGIN = 0.05
"""The share of the budget that is left free where nothing but the model says what a program takes: its usual error."""
MOST_NEAR, NEAR = 2, 0.1
"""About so many ways that by the model take a little too much a compiler is asked, where nothing else fits, and what
share of the budget that is."""
MOST_NESTED = 3
"""How deep loops and branches are looked into."""
MOST_INSIDE, MOST_TRIALS_INSIDE = 4, 3
"""In how many of them something is chosen, and how often in each, with a lower limit."""
MOST_NAMED, LEAST_NAMED = 3, 0.05
"""Of loops and branches so many are named, if they hold such a share of the peak; no less for temporaries is named."""


def remat(
    module: ModuleLike,
    budget: int | str | None = None,
    *,
    temporaries: int | str | None = None,
    backend: str = "cpu",
    measure: str = "auto",
) -> Module:
    """A copy of a program that keeps its peak memory within a budget by computing values twice.

    `budget` are bytes, or a text such as "160MiB"; the peak is arguments, outputs and temporaries. `temporaries`, in
    place of it, is a budget for what comes beside arguments and outputs. `measure="model"` is
    the model of XLA's CPU compiler, which leaves a margin of 5 % where it can; "xla" is that compiler, asked about each
    choice; "auto" chooses by the model and asks XLA about what is chosen, where it is installed, the backend is "cpu",
    and the program has at most MOST_CHECKED instructions. `backend` says by what the second computations are kept apart
    from the first: a data dependence on "cpu", optimisation barriers on "gpu" and "tpu". Raises HloomError where no
    choice is found that fits.
    """
    module = as_module(module)
    return _rematerialized(module, budget, temporaries, backend, measure).module


def remat_in_place(
    module: Module,
    budget: int | str | None = None,
    *,
    temporaries: int | str | None = None,
    backend: str = "cpu",
    measure: str = "auto",
) -> Report:
    """As `remat`, of the module itself, which stays as it is where that raises."""
    report = Report("remat")
    made = _rematerialized(module, budget, temporaries, backend, measure)
    if not made.is_changed:
        report.notes.append(f"the program takes {made.original_peak:,} bytes: nothing is recomputed")
        return report
    _prepare(module)
    materialize(module.entry, made.materialized)
    for name, inner in made.inside:
        put_back(module, name, inner)
    if made.residuals is not None:
        write_residuals(module, made.residuals)
    if made.choice is not None:
        write_choice(module, made.choice, made.stored, MECHANISMS[backend])
    for waits in made.waits:
        write_waits(module.entry, find_stored_values(module), waits, MECHANISMS[backend])
    report.changes = 1
    by_xla = "" if made.assigned is None else f" ({made.assigned:,} by XLA)"
    stored = f"{len(made.materialized)} values are stored once, " if made.materialized else ""
    report.notes.append(
        f"{stored}{made.recomputed} values are computed again: peak {made.original_peak:,} -> {made.peak:,} bytes"
        f"{by_xla}, {made.flops / max(made.original_flops, 1):.4f} times the FLOPs; that costs {made.cost:,.0f}, bound "
        f"{made.cost_bound:,.0f}"
    )
    large = "" if made.inside else _largest_inside(module)
    report.notes += [large] if large else []
    return report


def _rematerialized(
    module: Module, budget: int | str | None, temporaries: int | str | None, backend: str, measure: str
) -> Rematerialization:
    if measure not in MEASURES:
        raise HloomError(f"nothing is known that measures memory by '{measure}'", hint=f"known: {', '.join(MEASURES)}")
    is_checked = measure == "auto" and backend == "cpu" and module.node_count <= MOST_CHECKED
    return rematerialize(
        module,
        budget,
        temporaries=temporaries,
        backend=backend,
        measure=_peak_by_xla if measure == "xla" else None,
        check=_peak_by_xla if is_checked else None,
    )


def _peak_by_xla(module: Module) -> int:
    """The bytes at the peak of a program once XLA has compiled it for the CPU."""
    return memory(print_module(module))["peak"]


def rematerialize(
    module: Module, budget: int | str | None = None, *, temporaries: int | str | None = None, backend: str = "cpu",
    measure: Measure | None = None, check: Measure | None = None,
) -> Rematerialization:  # fmt: skip
    """As `remat`, with what the program takes.

    `measure` yields the peak of a program as a compiler assigns it; then that, too, must be within the budget. Without
    it a margin of the budget is left free, unless nothing fits that does. `check` is a measure of what is chosen by the
    model; of programs of more than MOST_SEARCHED instructions it is asked about each choice only where the one that
    leaves the margin is above the budget.
    """
    if (budget is None) == (temporaries is None):
        raise HloomError(
            "how much memory the program may take must be given, either in all or on top of arguments and outputs",
            hint="remat(budget=160MiB), or remat(temporaries=160MiB)",
        )
    given = temporaries if budget is None else budget
    assert given is not None, "one of them was said"
    limit = int(parse_capacity(given))
    if backend not in MECHANISMS:
        raise HloomError(f"nothing is known of the backend '{backend}'", hint=f"known: {', '.join(MECHANISMS)}")
    _check(module)
    return _rematerialize(module, limit, backend, measure, check, MOST_NESTED, is_beside_fixed=budget is None)


def _rematerialize(
    module: Module, limit: int, backend: str, measure: Measure | None, check: Measure | None, depth: int, *,
    is_beside_fixed: bool = False,
) -> Rematerialization:  # fmt: skip
    """As `rematerialize`; computations are looked into `depth` deep."""
    mechanism = MECHANISMS[backend]
    program = module.clone()
    _prepare(program)
    stored = find_stored_values(program)
    if is_beside_fixed:
        limit += stored.fixed
    flops = cost(program).total.flops
    original = Rematerialization(module.clone(), stored.peak, stored.peak, flops, flops, 0.0, 0.0, 0, stored)
    asked = _Checked(check)
    known = measure(program) if measure else asked(program) if module.node_count <= MOST_SEARCHED else 0
    targets = [limit] if known or measure else [int((1 - MARGIN) * limit), limit]
    if known <= limit if known else stored.peak <= targets[0] and asked(program) <= limit:
        return original
    if stored.fixed >= limit:
        raise Unattainable(
            f"{module.name}: arguments and outputs alone take {stored.fixed:,} bytes, the budget is {limit:,}",
            hint="give inputs away (donate them), or shard the program" + _beside_fixed(stored, stored.fixed, limit),
        )
    starts = [*_materialized(replace(original, module=program), mechanism), replace(original, module=program)]
    for start in starts:
        made = _fitting(start, limit, targets, backend, measure, asked, depth)
        if made is not None:
            return made if made.is_changed else original
    ways: list[Rematerialization] = []
    for start in starts:
        below = min((way.peak for way in ways), default=None)
        ways += _least_ways(start, start.module, mechanism, depth, below)
    fitting = sorted((way for way in ways if way.peak <= limit), key=lambda way: way.flops)
    near = sorted((way for way in ways if limit < way.peak <= (1 + NEAR) * limit), key=lambda way: way.peak)
    for way in (*fitting, *near[:MOST_NEAR]):
        assigned = (measure or asked)(way.module)
        if assigned <= limit and (assigned or way.peak <= limit) and way.is_changed:
            return replace(way, peak=assigned if measure else way.peak, assigned=assigned or None)
    least = min(way.peak for way in ways)
    large = _largest_inside(program)
    raise Unattainable(
        f"{module.name}: found no way to run in {limit:,} bytes: the smallest found takes {least:,}, and no "
        f"choice less than {_least_peak(stored):,}; arguments and outputs are {stored.fixed:,} of that"
        + (f"; {large}" if large else ""),
        hint="raise the budget, cut the batch into slices (microbatch), or shard the program"
        + ("" if is_beside_fixed else _beside_fixed(stored, least, limit)),
    )


def _beside_fixed(stored: StoredValues, least: int, limit: int) -> str:
    """Says how a budget is written that arguments and outputs do not count for, where it might be met."""
    if limit < max(least - stored.fixed, LEAST_NAMED * stored.usage.max(initial=0)):
        return ""
    return f"; a budget for what comes on top of arguments and outputs is remat(temporaries={limit})"


def _materialized(original: Rematerialization, mechanism: str) -> list[Rematerialization]:
    """The program with values stored once that the CPU's kernels would compute several times; none where none are."""
    names = tuple(find_shared(original.stored)) if mechanism == SELECT else ()
    if not names:
        return []
    program = original.module.clone()
    program.index_users()
    materialize(program.entry, names)
    verify(program)
    stored, flops = find_stored_values(program), cost(program).total.flops
    return [replace(original, module=program, peak=stored.peak, flops=flops, stored=stored, materialized=names)]


def _fitting(
    original: Rematerialization, limit: int, targets: list[int], backend: str, measure: Measure | None,
    asked: _Checked, depth: int,
) -> Rematerialization | None:  # fmt: skip
    """The cheapest choice that is found and fits; None where none is."""
    program, stored, mechanism = original.module, original.stored, MECHANISMS[backend]
    if original.peak <= targets[0] and original.is_changed:
        assigned = (measure or asked)(program)
        if assigned <= limit:
            return replace(original, assigned=assigned or None)
    start = _inside(original, program, limit, backend, measure or asked, depth)
    if start.inside:
        assigned = (measure or asked)(start.module)
        if start.peak <= limit and assigned <= limit:
            return replace(start, assigned=assigned or None)
    whole, held = (start.module, start.stored) if start.inside else (program, stored)
    for target in targets:
        is_last = target == limit
        search = Search(start, target, mechanism, measure or (asked if is_last else None))
        search.run(whole, held)
        best = search.best
        if best is not None:
            is_measured = measure or (asked.measure if is_last else None)
            assigned = best.peak if is_measured is not None else asked(best.module)
            if assigned <= limit:
                return replace(best, assigned=assigned or None)
        elif measure is None and stored.peak <= limit and asked(program) <= limit:
            return original
    return None


def _inside(
    original: Rematerialization, program: Module, limit: int, backend: str, asked: Measure, depth: int
) -> Rematerialization:
    """With recomputation inside the loop or branch where the peak is, and then in the next one.

    As it was where the peak is in none, or nothing fits inside.
    """
    made = original
    for _ in range(MOST_INSIDE if depth else 0):
        whole = made.module if made.inside else program
        graph = computation_at_peak(whole) if made.peak > limit or not made.inside else None
        if graph is None:
            break
        inner = as_program(whole, graph)
        wanted = limit - (made.peak - find_stored_values(inner).peak)
        smaller = None
        for _ in range(MOST_TRIALS_INSIDE):
            if wanted <= 0:
                break
            try:
                way = _rematerialize(inner, wanted, backend, None, None, depth - 1)
            except HloomError:
                break
            if way.is_changed:
                smaller = _put_inside(made, whole, graph.name, way)
                taken = max(smaller.peak, asked(smaller.module) if smaller.peak <= limit else 0)
                if taken <= limit or computation_at_peak(smaller.module) is None:
                    break
                wanted -= taken - limit
            else:
                wanted = int((1 - MARGIN) * way.peak)
        if smaller is None or smaller.peak >= made.peak:
            break
        made = smaller
    return made


def _least_ways(
    original: Rematerialization, program: Module, mechanism: str, depth: int, below: int | None = None
) -> list[Rematerialization]:
    """As `find_least`, with the least inside the loop or branch where the peak is."""
    graph = computation_at_peak(program) if depth else None
    if graph is None:
        return find_least(original, program, original.stored, mechanism, below)
    inner = as_program(program, graph)
    stored = find_stored_values(inner)
    flops = cost(inner).total.flops
    alone = Rematerialization(inner, stored.peak, stored.peak, flops, flops, 0.0, 0.0, 0, stored)
    smallest = min(_least_ways(alone, inner, mechanism, depth - 1), key=lambda way: way.peak)
    start = _put_inside(original, program, graph.name, smallest) if smallest.is_changed else original
    if start.peak >= original.peak:
        return find_least(original, program, original.stored, mechanism, below)
    return [original, *find_least(start, start.module, start.stored, mechanism, below)]


def _put_inside(original: Rematerialization, program: Module, name: str, way: Rematerialization) -> Rematerialization:
    """With a computation of the program exchanged for one that recomputes."""
    trial = program.clone()
    put_back(trial, name, way.module)
    verify(trial)
    stored, flops = find_stored_values(trial), cost(trial).total.flops
    return replace(
        original,
        module=trial,
        peak=stored.peak,
        flops=flops,
        cost=float(flops - original.original_flops),
        recomputed=original.recomputed + way.recomputed,
        stored=stored,
        inside=(*original.inside, (name, way.module)),
    )


def _prepare(module: Module) -> None:
    """Put a module into the form that is planned: no calls, nothing computed twice."""
    canonicalize_in_place(module)
    cse(module)
    dce(module)
    module.index_users()


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
        largest = max(largest, operands + value.size * (value.node.opcode in PRODUCTS))
    return max(stored.fixed, stored.arguments + largest)


def _largest_inside(module: Module) -> str:
    """Says which loops and branches hold much, at most MOST_NAMED of them.

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
    return f"loops and branches that hold much inside: {listed}" if large else ""


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
    ("budget", "backend", "measure", "temporaries"),
)
