"""The pass `microbatch`: turns a program over a batch into a loop over slices of it.

Per-example values are computed slice by slice, and sums over the batch are accumulated over slices. If examples mix
(normalisation over the batch, sorting along it) the pass refuses, and reports the path from the batch to there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hloom.analysis import build_call_graph, called_computations, find_trip_counts
from hloom.autodiff import Emitter
from hloom.distribute.microbatch.batch_propagation import BatchLinks, BatchPropagation
from hloom.distribute.microbatch.batch_state import MixedExamples
from hloom.distribute.microbatch.batched_indices import write_batching_dims
from hloom.distribute.microbatch.loop import LOOP_BODY, WrittenLoop, write_loop
from hloom.distribute.microbatch.whole_values import compute_whole
from hloom.distribute.propagation import DataflowGraph
from hloom.ir import (
    Apply,
    DType,
    Graph,
    Module,
    ModuleLike,
    Node,
    Parameter,
    TensorType,
    TupleType,
    as_module,
    dtype,
    verify,
)
from hloom.passes import canonicalize_in_place, dce, is_loop_or_branch, register_pass
from hloom.rewrite import Report
from hloom.text import HloomError, resolve_name

Batch = Mapping[str, int] | Mapping[int, int] | Mapping[str | int, int]
"""For each parameter, by name or number, the batch dimension."""
LEAST_SHARE = 0.5
"""The minimum work a proposed batch must split, as a share of what the best candidate would split."""
LEAST_CUT = 0.5
"""The minimum share of the program's work a proposed batch must split: examples account for most, weight channels for
little.
"""
MOST_WHOLE = 16
"""The maximum number of values that need the whole batch and are computed before the loop."""
MOST_CANDIDATES = 64
"""The maximum number of dimensions to try as the batch: each takes one propagation through the program.

Those of state (of each type as many parameters as the program returns), and of types that many parameters have, come
last.
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A dimension of a parameter that may be the batch, and how much work is done slice by slice with it.

    `work` counts the points of the iteration spaces of the instructions that are cut.
    """

    parameter: str
    dimension: int
    size: int
    work: int


def microbatch(
    module: ModuleLike, n: int, *, batch: Batch | str | None = None, accumulate: str | None = "f32"
) -> Module:
    """A copy of a program over a batch that is a loop over `n` slices of the batch.

    `batch` says which dimension of which parameters is the batch, by name or number: {"x": 0}, or "x:0 y:0"; where
    it is None, the dimension is proposed (see `propose_batch`). Parameters that go with the batch and are not named
    are cut where they are read. Sums over slices of narrower floating-point types are held in `accumulate`; None
    holds them in their own. Results are equal to rounding. Raises MixedExamples where examples mix, HloomError
    where the batch is not divisible by `n` or what is cut has effects.

    >>> import hloom
    >>> mean = hloom.parse('''
    ... add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ... ENTRY mean {
    ...   x = f32[8,3] parameter(0)
    ...   squares = f32[8,3] multiply(x, x)
    ...   zero = f32[] constant(0)
    ...   sum = f32[3] reduce(squares, zero), dimensions={0}, to_apply=add
    ...   count = f32[] constant(8)
    ...   counts = f32[3] broadcast(count), dimensions={}
    ...   ROOT mean = f32[3] divide(sum, counts)
    ... }''')
    >>> sliced = hloom.microbatch(mean, 4)
    >>> [node.opcode for node in sliced["microbatch.body"].nodes if str(node.type).startswith("f32[2,3]")]
    ['dynamic-slice', 'multiply']
    """
    module = as_module(module)
    chosen, held = _read_batch(batch) if isinstance(batch, str) else batch, _accumulator(accumulate)
    copy = module.clone()
    if _slices(n) > 1:
        _check(copy)
        _write(copy, n, chosen, held)
        verify(copy)
    return copy


def microbatch_in_place(
    module: Module, n: int | None = None, *, batch: Batch | str | None = None, accumulate: str | None = "f32"
) -> Report:
    """As `microbatch`, of the module itself, which stays as it is where that raises."""
    if n is None:
        raise HloomError("into how many slices the batch is cut must be said", hint="microbatch(4) makes four")
    if isinstance(batch, str):
        batch = _read_batch(batch)
    report = Report("microbatch")
    held = _accumulator(accumulate)
    if _slices(n) == 1:
        report.notes.append("one slice is the whole batch: nothing changes")
        return report
    _check(module)
    trial = module.clone()
    chosen, _ = _write(trial, n, batch, held)
    verify(trial)
    _, loop = _write(module, n, chosen, held)
    report.changes = 1
    names = ", ".join(
        f"{parameter.name} along {chosen[parameter.number]}"
        for parameter in module.entry.parameters
        if parameter.number in chosen
    )
    report.notes.append(f"{n} slices of {names}: {loop.share:.0%} of the work is done slice by slice")
    return report


@dataclass(frozen=True, slots=True)
class MicrobatchLoop:
    """A program over a batch as a loop over `count` slices.

    `loop` is the while in the entry of `module`; the element `counter` of its state counts the slices. `batch` are the
    dimensions that are cut, by the name of the parameter; `batch_dims` has for nodes of the loop's body the dimension
    that is a slice of the batch. `share` is the share of the work that is done slice by slice.
    """

    module: Module
    loop: Node
    batch: dict[str, int]
    batch_dims: dict[Node, int]
    count: int
    share: float
    counter: int = 0

    @property
    def body(self) -> Graph:
        """The work on one slice."""
        return self.loop.attributes["body"]


def microbatch_loop(
    module: Module, n: int, *, batch: Batch | str | None = None, accumulate: str | None = "f32"
) -> MicrobatchLoop:
    """As `microbatch`, but a loop also of one slice, and with the loop named.

    Raises HloomError, beyond what that raises, where no result depends on the batch.
    """
    _slices(n)
    _check(module)
    copy = module.clone()
    chosen = _read_batch(batch) if isinstance(batch, str) else batch
    numbers, written = _write(copy, n, chosen, _accumulator(accumulate))
    verify(copy)
    loops = [caller for caller in written.body.callers if caller.graph is copy.entry]
    if not loops:
        raise HloomError("nothing that the program yields is computed from the batch: there is no loop over its slices")
    (loop,) = loops
    names = {p.name: numbers[p.number] for p in copy.entry.parameters if p.number in numbers}
    dims = {node: dim for node, dim in written.batch_dims.items() if _stands(node)}
    return MicrobatchLoop(copy, loop, names, dims, n, written.share)


def _slices(n: int) -> int:
    """The number of slices; raises HloomError for what is none, as options on a command line may be."""
    if not isinstance(n, int) or n < 1:
        raise HloomError(f"a batch cannot be cut into {n} slices", hint="give a number of slices from 1 on")
    return n


def _stands(node: Node) -> bool:
    return node.name in node.graph and node.graph[node.name] is node


def propose_batch(module: Module, n: int = 2) -> list[Proposal]:
    """The dimensions of parameters along which a program may be cut into `n` slices, the most work cut first."""
    _check(module)
    copy = module.clone()
    _prepare(copy)
    return _proposals(DataflowGraph(copy), n)


def _check(module: Module) -> None:
    """Raise HloomError for what is not sound or whole, and for sizes that are not known."""
    gaps = verify(module).unresolved
    if gaps:
        raise HloomError(f"{module.name} is a fragment, and cannot be cut into slices: the {gaps[0]} is not known")
    for node in module.nodes():
        for leaf in node.type.leaves() if node.type is not None else ():
            if isinstance(leaf, TensorType) and not leaf.is_static:
                raise HloomError(
                    f"{node.name} in {node.graph.name} is {leaf}: a program of dynamic sizes cannot be cut into slices",
                    hint="compile the program for sizes that are known",
                )


_LONGEST_BATCH = 1_000
"""How long a parameter's name or number is with its dimension: Python reads integers of up to 4,300 digits."""
def check_batch_names(module: Module, batch: Batch | str) -> None:
    """Raise HloomError for a batch that names no parameter of a program, or no dimension of it."""
    for key, dim in (_read_batch(batch) if isinstance(batch, str) else batch).items():
        _parameter(module, key, dim, 1)


def _read_batch(text: str) -> Batch:
    """The batch as a text gives it: `x:0 y:0`, names or numbers of parameters and their dimensions."""
    batch: dict[str | int, int] = {}
    for part in text.split():
        name, _, dim = part.rpartition(":")
        if not name or not dim.isdecimal() or len(part) > _LONGEST_BATCH:
            named = part[:100]
            raise HloomError(f"'{named}' names no dimension of a parameter", hint="write x:0 for the first one of x")
        key = int(name) if name.isdecimal() else name.removeprefix("%")
        if batch.setdefault(key, int(dim)) != int(dim):
            raise HloomError(f"{name} has two batch dimensions, {batch[key]} and {dim}", hint="name one of them")
    return batch


def _write(module: Module, n: int, batch: Batch | None, accumulate: DType | None) -> tuple[dict[int, int], WrittenLoop]:
    """Rewrite a module, in place; by number the parameters that are cut and their dimensions, and the loop."""
    before = _loop_over_slices(module)
    try:
        return _write_loop(module, n, batch, accumulate)
    except HloomError as error:
        if before is not None:
            error.message += f"; {module.name} is cut into {before[1]} slices already, by the loop {before[0]}"
            error.hint = f"for {n} times as many, cut the program as it was before: microbatch({n * before[1]})"
        raise


def _loop_over_slices(module: Module) -> tuple[str, int] | None:
    """The loop that an earlier run wrote, and its slices; None where there is none."""
    for node in module.entry.nodes:
        if isinstance(node, Apply) and node.opcode == "while" and node.attributes["body"].name.startswith(LOOP_BODY):
            count = find_trip_counts(build_call_graph(module), {})[node].count
            return (node.name, count) if count else None
    return None


def _write_loop(
    module: Module, n: int, batch: Batch | None, accumulate: DType | None
) -> tuple[dict[int, int], WrittenLoop]:
    _prepare(module)
    dataflow = DataflowGraph(module)
    if batch is None:
        proposals = _proposals(dataflow, n)
        if not proposals:
            _check_likeliest(dataflow, n)
            raise HloomError(
                f"{module.name}: no dimension of a parameter that cuts {LEAST_CUT:.0%} of the work can be cut into {n} "
                "slices without mixing examples",
                hint="say which is the batch: the error then says where its examples mix",
            )
        batch = {proposals[0].parameter: proposals[0].dimension}
    chosen = {_parameter(module, key, dim, n).number: dim for key, dim in batch.items()}
    loop = write_loop(_propagation(dataflow, chosen, n), accumulate)
    dce(module)
    return chosen, loop


def _prepare(module: Module) -> None:
    """Put a module into the form that is cut: canonical, elements of tuples by their own names."""
    canonicalize_in_place(module)
    for graph in module.graphs:
        for node in list(graph.nodes):
            if node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple":
                graph.replace_uses(node, node.operands[0].operands[node.attributes["index"]])
    dce(module)
    _write_out_root(module.entry)
    write_batching_dims(module)
    for node in module.nodes():
        if called_computations(node) and not is_loop_or_branch(node):
            raise HloomError(
                f"{node.name} in {node.graph.name}: {node.opcode} cannot be cut into slices",
                hint="give the program as it was before XLA optimised it",
            )


def _write_out_root(entry: Graph) -> None:
    """Let the entry yield a tuple of arrays, or of such tuples, where instructions of several results are its root."""
    emitter = Emitter(entry)
    elements: dict[Node, list[Node]] = {}
    written: dict[Node, Node] = {}
    pending = [entry.root]
    while pending:
        node = pending[-1]
        if node in written or not isinstance(node.type, TupleType):
            pending.pop()
            continue
        if node not in elements:
            is_tuple = node.opcode == "tuple"
            indices = range(len(node.type.elements))
            elements[node] = list(node.operands) if is_tuple else [emitter.element(node, index) for index in indices]
        missing = [part for part in elements[node] if isinstance(part.type, TupleType) and part not in written]
        pending += missing
        if not missing:
            written[node] = emitter.tuple([written.get(part, part) for part in elements[node]])
    if entry.root in written:
        entry.set_output(written[entry.root])


def _propagation(dataflow: DataflowGraph, chosen: Mapping[int, int], n: int) -> BatchPropagation:
    """The states of a module's values; what is cheap and needs the whole batch is computed before the loop."""
    whole: list[Node] = []
    for _ in range(MOST_WHOLE):
        parameters = {parameter.number: parameter for parameter in dataflow.module.entry.parameters}
        cuts = {_value(dataflow, parameters[number]): dim for number, dim in chosen.items()}
        try:
            return BatchPropagation(dataflow, cuts, n, whole)
        except MixedExamples as error:
            made = compute_whole(dataflow, error.combined) if error.combined is not None else None
            if made is None:
                raise
            whole += made
            dataflow = DataflowGraph(dataflow.module)
    raise HloomError(f"{dataflow.module.name}: more than {MOST_WHOLE} values need the whole batch")


def _proposals(dataflow: DataflowGraph, n: int) -> list[Proposal]:
    """The dimensions that may be cut, the most work cut first; where most work is cut, no less likely one is tried."""
    links = BatchLinks(dataflow)
    total = BatchPropagation(dataflow, {}, n, links=links).all_work
    proposals: list[Proposal] = []
    most = 0
    for candidates in _candidates(dataflow.module, n):
        for parameter, dim in candidates:
            try:
                work = _trial(dataflow, parameter, dim, n, links).work
            except MixedExamples:
                continue
            assert isinstance(parameter.type, TensorType)
            proposals.append(Proposal(parameter.name, dim, parameter.type.dims[dim], work))
            most = max(most, work)
        if most >= LEAST_SHARE * total:
            break
    least = max(LEAST_SHARE * most, LEAST_CUT * total)
    able = [proposal for proposal in proposals if proposal.work >= least]
    return sorted(able, key=lambda proposal: -proposal.work)


def _candidates(module: Module, n: int) -> list[list[tuple[Parameter, int]]]:
    """The dimensions of parameters that are divisible, in groups, the likeliest first, MOST_CANDIDATES in all.

    A program returns its state, and layers have weights of equal types: a batch is neither.
    """
    state = _state(module)
    counts = Counter(parameter.type for parameter in module.entry.parameters)
    groups: dict[tuple[bool, int], list[tuple[Parameter, int]]] = {}
    for parameter in module.entry.parameters:
        if not isinstance(parameter.type, TensorType):
            continue
        key = parameter in state, counts[parameter.type]
        dims = [dim for dim, size in enumerate(parameter.type.dims) if size >= n and size % n == 0]
        groups.setdefault(key, []).extend((parameter, dim) for dim in dims)
    left, chosen = MOST_CANDIDATES, list[list[tuple[Parameter, int]]]()
    for key in sorted(groups):
        chosen.append(groups[key][:left])
        left -= len(chosen[-1])
    return chosen


def _state(module: Module) -> set[Parameter]:
    """The parameters that a program returns: of each type the first ones, as many as it has results of that type."""
    results = Counter(module.entry.root.type.leaves() if module.entry.root.type is not None else ())
    state: set[Parameter] = set()
    for parameter in sorted(module.entry.parameters, key=lambda parameter: parameter.number):
        if parameter.type is not None and results[parameter.type] > 0:
            results[parameter.type] -= 1
            state.add(parameter)
    return state


def check_likeliest_batch(module: Module, n: int) -> None:
    """Raise MixedExamples or HloomError where the likeliest batch of a training step cannot be cut into `n` slices."""
    _check(module)
    copy = module.clone()
    _prepare(copy)
    _check_likeliest(DataflowGraph(copy), n)


def _check_likeliest(dataflow: DataflowGraph, n: int) -> None:
    """As `check_likeliest_batch`: that is the first dimension of the largest array that is not a state."""
    module, state = dataflow.module, _state(dataflow.module)
    arrays = [p for p in module.entry.parameters if isinstance(p.type, TensorType) and p.type.rank]
    given = [parameter for parameter in arrays if parameter not in state]
    if not given or len(given) == len(arrays):
        return
    likeliest = max(given, key=lambda parameter: parameter.type.byte_count if parameter.type is not None else 0)
    _parameter(module, likeliest.number, 0, n)
    _propagation(DataflowGraph(module.clone()), {likeliest.number: 0}, n)


def _trial(dataflow: DataflowGraph, parameter: Parameter, dim: int, n: int, links: BatchLinks) -> BatchPropagation:
    """The states with one parameter cut; of a copy of the module where something must be written twice for it."""
    try:
        return BatchPropagation(dataflow, {_value(dataflow, parameter): dim}, n, links=links)
    except MixedExamples as error:
        if error.combined is None:
            raise
    return _propagation(DataflowGraph(dataflow.module.clone()), {parameter.number: dim}, n)


def _value(dataflow: DataflowGraph, parameter: Parameter) -> int:
    (leaf,) = dataflow.values[parameter]
    return leaf


def _parameter(module: Module, key: str | int, dim: int, n: int) -> Parameter:
    """The parameter that a key names, checked."""
    parameters = {parameter.number: parameter for parameter in module.entry.parameters}
    by_name = {parameter.name: parameter for parameter in parameters.values()}
    if isinstance(key, int) and key not in parameters:
        raise HloomError(f"{module.name} has no parameter {key}", hint=f"it has {len(parameters)}, counted from 0")
    own = key if isinstance(key, int) else resolve_name(key, by_name, module.name, "parameter")
    parameter = parameters[own] if isinstance(own, int) else by_name[own]
    value_type = parameter.type
    if not isinstance(value_type, TensorType) or not 0 <= dim < value_type.rank:
        raise HloomError(f"{parameter.name} is {value_type}: it has no dimension {dim}")
    if value_type.dynamic is not None and value_type.dynamic[dim]:
        raise HloomError(f"{parameter.name} is {value_type}: the batch must have a size that is known")
    if value_type.dims[dim] % n:
        raise HloomError(
            f"{parameter.name} is {value_type}: {value_type.dims[dim]} examples cannot be cut into {n} equal slices",
            hint=f"take a divisor of {value_type.dims[dim]}",
        )
    return parameter


def _accumulator(name: str | None) -> DType | None:
    if name is None:
        return None
    made = dtype(name)
    if not made.is_float:
        raise HloomError(f"sums over slices cannot be held in {name}", hint="give a floating-point type, as f32")
    return made


register_pass("microbatch", "a loop over slices of the batch", microbatch_in_place, ("n", "batch", "accumulate"))
