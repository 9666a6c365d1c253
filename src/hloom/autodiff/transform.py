"""The transformations of whole modules: `grad`, `value_and_grad`, `vjp`, `jvp`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.analysis import build_call_graph, find_trip_counts
from hloom.autodiff import asynchronous, calls, loops, rules  # noqa: F401  they register themselves
from hloom.autodiff.activity import Activity, differentiable, leaf_count
from hloom.autodiff.backward import MASKABLE, Backward
from hloom.autodiff.emitter import Emitter, flatten, leaf_types
from hloom.autodiff.linear import Forward, LinearOps, Tape
from hloom.autodiff.linearize import Options, Session, Walk, linearized, location_of, perform, transposed
from hloom.autodiff.manual_computations import for_gspmd
from hloom.autodiff.shift_invariance import shift_invariant_maxima
from hloom.ir import (
    Attributes,
    BufferDonor,
    Constant,
    FunctionType,
    Graph,
    InputOutputAlias,
    Level,
    Literal,
    Module,
    ModuleLike,
    Node,
    Parameter,
    TensorType,
    Trait,
    TupleType,
    Type,
    as_module,
    callees_first,
    default_layout,
    infer_types,
    map_leaves,
    paused_collection,
    verify,
)
from hloom.ops import with_trait
from hloom.passes import dce, erase_unused
from hloom.rewrite import has_own_derivative
from hloom.text import HloomError, Unsupported, resolve_name

SMALL = 64
"""The maximum number of instructions of a computation that is inlined at every call."""
MOST_ADDED = 10_000
"""The minimum limit on instructions added by inlining guarded calls; larger modules may add as many as they have."""
MOST_SEEN = 100
"""The maximum number of values to examine to see whether one is guarded."""
GUARDABLE = MASKABLE | {"get-tuple-element"}
Which = int | str | Iterable[int | str] | None
"""Entry parameters, by number or name; None: every one that holds floating-point numbers."""


@paused_collection()
def grad(
    module: ModuleLike,
    wrt: Which = None,
    *,
    of: int | None = None,
    stop: Iterable[str] = (),
    checkpoints: int | None = None,
    max_iterations: int | None = None,
) -> Module:
    """The module that computes the gradient of a scalar result: a tuple of one array for each of `wrt`, in order.

    `of` is the result, counted leaf by leaf; without it the module must have one floating-point result. Results and
    parameters are counted from 0. `stop` are names of instructions that count as constants. `checkpoints` and
    `max_iterations` say how loops without a known trip count keep their states. Raises HloomError.
    """
    return _gradient(module, wrt, of, stop, checkpoints, max_iterations, with_value=False)


@paused_collection()
def value_and_grad(
    module: ModuleLike,
    wrt: Which = None,
    *,
    of: int | None = None,
    stop: Iterable[str] = (),
    checkpoints: int | None = None,
    max_iterations: int | None = None,
) -> Module:
    """The same as `grad`, the value of the result before the gradients."""
    return _gradient(module, wrt, of, stop, checkpoints, max_iterations, with_value=True)


@paused_collection()
def vjp(
    module: ModuleLike,
    wrt: Which = None,
    *,
    stop: Iterable[str] = (),
    checkpoints: int | None = None,
    max_iterations: int | None = None,
) -> Module:
    """The module that computes vector-Jacobian products.

    It takes the module's parameters, then a cotangent for each floating-point or complex array among the results, in
    order; it yields a tuple of the cotangents of `wrt`, in order. Raises HloomError.
    """
    work = _Work(module, wrt, stop, checkpoints, max_iterations)
    types = [(leaf, value_type) for leaf, value_type in enumerate(work.results) if differentiable(value_type)]
    wanted = sum(1 << leaf for leaf, _ in types)
    emitter, tape, arguments, inputs = work.begin_reverse()
    cotangents = [
        emitter.graph.add_parameter(value_type, f"cotangent_{number}") for number, (_, value_type) in enumerate(types)
    ]
    _, tangents = perform(Walk(work.session, tape).graph(work.entry, arguments, inputs, wanted))
    given = {leaf: node for (leaf, _), node in zip(types, cotangents, strict=True)}
    return work.finish_reverse(emitter, tape, inputs, [(tangents[leaf], node) for leaf, node in given.items()], [])


@paused_collection()
def jvp(
    module: ModuleLike,
    wrt: Which = None,
    *,
    stop: Iterable[str] = (),
) -> Module:
    """The module that computes Jacobian-vector products.

    It takes the module's parameters, then a tangent for each of `wrt`, in order; it yields a tuple of the module's
    results, leaf by leaf, and then a tangent for each floating-point or complex one. Raises HloomError.
    """
    work = _Work(module, wrt, stop, None, None)
    graph = work.target
    emitter = Emitter(graph)
    arguments = work.parameters_into(graph)
    tangents = work.inputs(lambda name, value_type: graph.add_parameter(value_type, f"{name}_tangent"))
    wanted = sum(1 << leaf for leaf, value_type in enumerate(work.results) if differentiable(value_type))
    value, result = perform(Walk(work.session, Forward(emitter)).graph(work.entry, arguments, tangents, wanted))
    values = flatten(emitter, value)
    further = [
        result[leaf] if result[leaf] is not None else emitter.zeros(value_type)
        for leaf, value_type in enumerate(work.results)
        if differentiable(value_type)
    ]
    return work.finish(emitter, [*values, *further], keeps_results=True)


@paused_collection()
def vjp_parts(
    module: ModuleLike,
    wrt: Which = None,
    *,
    stop: Iterable[str] = (),
    checkpoints: int | None = None,
    max_iterations: int | None = None,
) -> tuple[Module, Module]:
    """The result of `vjp` as two modules: the first yields the results followed by what the second needs.

    The first takes the parameters and yields a tuple of the results, leaf by leaf, and the residuals. The second takes
    a cotangent for each floating-point or complex result, in order, then the residuals; it yields a tuple of the
    cotangents of `wrt`. Raises HloomError.
    """
    work = _Work(module, wrt, stop, checkpoints, max_iterations)
    wanted = [leaf for leaf, value_type in enumerate(work.results) if differentiable(value_type)]
    active = sum(1 << value.leaf for value in work.wrt)
    part = perform(linearized(work.session, work.entry, active, sum(1 << leaf for leaf in wanted)))
    back = transposed(work.session, part, wanted)
    emitter = Emitter(part.forward)
    part.forward.set_output(emitter.tuple([*flatten(emitter, part.value), *back.residuals]))
    second = Emitter(work.target)
    cotangents = {
        leaf: second.graph.add_parameter(work.results[leaf], f"cotangent_{number}")
        for number, leaf in enumerate(wanted)
    }
    residuals = [second.graph.add_parameter(residual.type, "residual") for residual in back.residuals]
    result = back.embed(second, [cotangents[leaf] for leaf in back.cotangents], residuals)
    results = [result[value.leaf] if value.leaf in result else second.zeros(value.type) for value in work.wrt]
    work.target.set_output(second.tuple(results))
    return _alone(work.module, part.forward, "forward"), _alone(work.module, work.target, "backward")


def _alone(module: Module, graph: Graph, name: str) -> Module:
    """A copy of a module with another entry, and a header that says nothing of the former one."""
    copy = module.clone()
    copy.entry = copy[graph.name]
    copy.keep_reached()
    dce(copy)
    copy.graphs[:] = callees_first(copy)
    copy.name = f"{module.name}_{name}"
    former = ("entry_computation_layout", "input_output_alias", "buffer_donor", "is_scheduled")
    copy.attributes = copy.attributes.changed(dict.fromkeys(former))
    return copy


def parameters_of(module: Module, wrt: Which) -> list[tuple[int, str]]:
    """The leaves of the parameters that `wrt` names, in order: their numbers and names."""
    return [(value.leaf, value.name) for value in _chosen(module.entry, wrt)]


def _gradient(
    module: ModuleLike,
    wrt: Which,
    of: int | None,
    stop: Iterable[str],
    checkpoints: int | None,
    max_iterations: int | None,
    *,
    with_value: bool,
) -> Module:
    work = _Work(module, wrt, stop, checkpoints, max_iterations)
    leaf = work.objective(of)
    value_type = work.results[leaf]
    emitter, tape, arguments, inputs = work.begin_reverse()
    value, tangents = perform(Walk(work.session, tape).graph(work.entry, arguments, inputs, 1 << leaf))
    assert isinstance(value_type, TensorType), "checked"
    one = emitter.constant(1, TensorType(value_type.dtype, value_type.dims))
    before = [flatten(emitter, value)[leaf]] if with_value else []
    return work.finish_reverse(emitter, tape, inputs, [(tangents[leaf], one)], before)


@dataclass(slots=True)
class _Wrt:
    """One of the arrays to differentiate with respect to: its leaf among the parameters, name and type."""

    leaf: int
    name: str
    type: Type


class _Work:
    """A copy of a module in which the derivative's entry is made."""

    def __init__(
        self,
        module: ModuleLike,
        wrt: Which,
        stop: Iterable[str],
        checkpoints: int | None,
        max_iterations: int | None,
    ) -> None:
        given = as_module(module)
        _check(given, checkpoints, max_iterations)
        copy = given.clone()
        infer_types(copy)
        stopped = _stopped(copy, stop)
        for_gspmd(copy)
        inline_calls(copy, {node.graph for node in stopped})
        constants = stopped | shift_invariant_maxima(copy)
        copy.forget_users()
        self.module = copy
        self.entry = copy.entry
        self.wrt = _chosen(self.entry, wrt)
        self.results = leaf_types(self.entry.root.type)
        options = Options(constants, checkpoints, max_iterations)
        self.session = Session(copy, options, Activity(options.stop), _trip_counts(copy))
        self.target = copy.add_graph(self.entry.name)

    def objective(self, of: int | None) -> int:
        """The leaf of the result to differentiate; raises HloomError unless it is a scalar that has a derivative."""
        candidates = [leaf for leaf, value_type in enumerate(self.results) if differentiable(value_type)]
        if of is None:
            if len(candidates) != 1:
                count = f"{len(candidates)} results" if candidates else "no result"
                raise HloomError(
                    f"module {self.module.name} has {count} of floating point, and grad is of one",
                    hint=f"name one (of=N, or --of N) among {', '.join(map(str, candidates))}" if candidates else None,
                )
            of = candidates[0]
        if not 0 <= of < len(self.results):
            raise HloomError(f"of={of}, but module {self.module.name} has {len(self.results)} results")
        value_type = self.results[of]
        if of not in candidates:
            raise HloomError(f"result {of} is {value_type}: only floating-point results have a gradient")
        if not isinstance(value_type, TensorType) or value_type.rank or value_type.dtype.is_complex:
            raise HloomError(
                f"result {of} is {value_type}, and a gradient is of a real scalar",
                hint="use vjp, which takes a cotangent",
            )
        return of

    def parameters_into(self, graph: Graph) -> list[Node]:
        """The entry's parameters, in the new entry."""
        return [_like(graph, parameter) for parameter in self.entry.parameters]

    def inputs(self, make: Any) -> list[Any]:
        """For each leaf of the parameters the tangent that `make(name, type)` gives, None where it is not asked for."""
        count = sum(leaf_count(parameter.type) for parameter in self.entry.parameters)
        made = {value.leaf: make(value.name, value.type) for value in self.wrt}
        return [made.get(leaf) for leaf in range(count)]

    def begin_reverse(self) -> tuple[Backward, Tape, list[Node], list[Any]]:
        emitter = Backward(self.target)
        tape = Tape(emitter)
        arguments = self.parameters_into(self.target)
        return emitter, tape, arguments, self.inputs(lambda name, value_type: tape.input(value_type))

    def finish_reverse(
        self, backward: Backward, tape: LinearOps, inputs: list[Any], given: list[tuple[Any, Node]], before: list[Node]
    ) -> Module:
        assert isinstance(tape, Tape), "reverse mode"
        for tangent, cotangent in given:
            backward.give(tangent, cotangent)
        backward.run(tape)
        backward.metadata = None
        results = list(before)
        for value in self.wrt:
            result = backward.take(inputs[value.leaf])
            results.append(result if result is not None else backward.zeros(value.type))
        return self.finish(backward, results, keeps_results=False)

    def finish(self, emitter: Emitter, results: Sequence[Node], *, keeps_results: bool) -> Module:
        module, graph = self.module, self.target
        graph.set_output(emitter.tuple(results))
        former = self.entry
        module.entry = graph
        erase_unused(module)
        keep_own_predecessors(module)
        opcodes = {node.opcode for member in module.graphs for node in member.nodes}
        if not opcodes.isdisjoint(("call", "fusion")):
            dce(module)
        while not opcodes.isdisjoint(COLLECTIVES) and drop_unused_collectives(module):
            dce(module)
        if former.name not in module:
            module.rename_graph(graph, former.name)
        _refuse_elided(module)
        module.graphs[:] = callees_first(module)
        module.attributes = _header(module, self.entry, graph, keeps_results)
        return module


def inline_calls(module: Module, but: Container[Graph] = ()) -> None:
    """Put computations, but some, in place of their calls where that costs little, or a select guards the result.

    Small ones, so that loops show which slices they take; those that are called once, since nothing becomes longer;
    and those whose result a select may discard, since masks of cotangents do not pass calls. XLA inlines every call
    before it does anything else.
    """
    if not any(_may_inline(node, but) for graph in module.graphs for node in graph.nodes if node.attributes.refers):
        return
    order = callees_first(module)
    for graph in order:
        callers = [node for node in graph.nodes if node.attributes.refers and _may_inline(node, but)]
        small = [caller for caller in callers if len(next(iter(caller.called_graphs)).nodes) <= SMALL]
        if small:
            graph.inline_all(small)
    module.keep_reached()
    kept = set(module.graphs)
    order = [graph for graph in order if graph in kept]
    nodes = [node for graph in order for node in graph.nodes if node.attributes.refers]
    sites = Counter(next(iter(node.called_graphs)) for node in nodes if _may_inline(node, but))
    others = {graph for node in nodes if not _may_inline(node, but) for graph in node.called_graphs}
    budget = max(MOST_ADDED, module.node_count)
    gone: set[Graph] = set()
    for graph in reversed(order if sites else []):
        waiting = [node for node in graph.nodes if _may_inline(node, but)] if graph not in gone else []
        while waiting:
            node = waiting.pop()
            callee = next(iter(node.called_graphs))
            if sites[callee] > 1 or callee in others:
                if len(callee.nodes) > budget or not is_guarded(node):
                    continue
                budget -= len(callee.nodes)
            else:
                gone.add(callee)
            copies: dict[Any, Any] = {}
            graph.inline(node, callee, copies)
            waiting += [copies[inner] for inner in callee.nodes if _may_inline(inner, but)]


def _may_inline(node: Node, but: Container[Graph]) -> bool:
    if not node.attributes.refers or node.opcode != "call" or has_own_derivative(node):
        return False
    if any(not referent.is_graph for referent in node.attributes.referents()):
        return False
    callee = next(iter(node.called_graphs))
    return callee.output is not None and not callee.missing and callee not in but


def is_guarded(node: Node) -> bool:
    """Whether a select may discard what is made of a value, element by element."""
    pending, seen = [node], {node}
    while pending and len(seen) <= MOST_SEEN:
        value = pending.pop()
        for user in value.users:
            if user.opcode == "select" and value is not user.operands[0]:
                return True
            if user not in seen and user.opcode in GUARDABLE:
                seen.add(user)
                pending.append(user)
    return False


_PREDECESSORS = "control-predecessors"
COLLECTIVES = with_trait(Trait.COLLECTIVE)


def keep_own_predecessors(module: Module) -> None:
    """Leave out the control predecessors that stand in another graph: those of the program before, and of its loops."""
    holders = [node for graph in module.graphs for node in graph.nodes if node.attributes.refers]
    for node in holders:
        predecessors = node.attributes.get(_PREDECESSORS, ())
        own = tuple(other for other in predecessors if other.graph is node.graph)
        if own != tuple(predecessors):
            rest = {name: value for name, value in node.attributes.items() if name != _PREDECESSORS}
            node.graph.set_attributes(node, rest | ({_PREDECESSORS: own} if own else {}))


def drop_unused_collectives(module: Module) -> int:
    """Erase collectives whose results only the former program needed: every device runs the same one, and drops them.

    How many are gone.
    """
    gone = 0
    for graph in module.graphs:
        for node in reversed(graph.nodes):
            if node.opcode in COLLECTIVES and not node.is_used:
                graph.erase(node)
                gone += 1
    return gone


def _check(module: Module, checkpoints: int | None, max_iterations: int | None) -> None:
    if module.has_closures:
        raise Unsupported(f"module {module.name} has closures: only first-order modules are differentiated")
    verification = verify(module)
    if verification.level is not Level.HLO:
        raise HloomError(
            f"module {module.name} is not whole HLO, and cannot be differentiated: {verification}",
        )
    for name, value in (("checkpoints", checkpoints), ("max_iterations", max_iterations)):
        if value is not None and value < 1:
            raise HloomError(f"{name}={value} must be at least 1")


def _refuse_elided(module: Module) -> None:
    """Raise HloomError where a derivative needs a constant whose data were left out: XLA would read zeros."""
    constants = [node for graph in module.graphs for node in graph.nodes if isinstance(node, Constant)]
    for node in constants:
        if isinstance(node.value, Literal) and node.value.is_elided:
            raise HloomError(
                f"{node.name}: the derivative needs this constant, whose data were left out of the text, as {{...}}",
                location_of(node),
                "print the program with whole constants: print_large_constants in XLA's HloPrintOptions, "
                "--xla_dump_large_constants among XLA_FLAGS",
            )


def _trip_counts(module: Module) -> dict[Node, int]:
    if all(node.opcode != "while" for graph in module.graphs for node in graph.nodes if node.attributes.refers):
        return {}
    known = find_trip_counts(build_call_graph(module), {})
    return {loop: trips.count for loop, trips in known.items() if trips.count is not None}


def _stopped(module: Module, names: Iterable[str]) -> frozenset[Node]:
    listed = [names] if isinstance(names, str) else list(names)
    stopped: set[Node] = set()
    for name in listed:
        every = (node.name for graph in module.graphs for node in graph.nodes)
        own = resolve_name(name, every, f"module {module.name}", "instruction to stop at:")
        stopped.update(graph[own] for graph in module.graphs if own in graph)
    return frozenset(stopped)


def _chosen(entry: Graph, wrt: Which) -> list[_Wrt]:
    starts, start = {}, 0
    for parameter in entry.parameters:
        starts[parameter] = start
        start += leaf_count(parameter.type)
    if wrt is None:
        listed = [value for value in entry.parameters if any(map(differentiable, leaf_types(value.type)))]
        if not listed:
            raise HloomError(f"computation {entry.name} has no parameter of floating point")
    else:
        given = [wrt] if isinstance(wrt, (int, str)) else list(wrt)
        listed = [_parameter(entry, value) for value in given]
        if not listed:
            raise HloomError("wrt= names no parameter")
    chosen = []
    for parameter in listed:
        leaves = leaf_types(parameter.type)
        own = [(leaf, value_type) for leaf, value_type in enumerate(leaves) if differentiable(value_type)]
        if not own:
            raise HloomError(
                f"parameter {parameter.number} ({parameter.name}) is {parameter.type}: it has no derivative",
                hint="wrt= (--wrt) takes parameters of floating point",
            )
        chosen += [_Wrt(starts[parameter] + leaf, parameter.name, value_type) for leaf, value_type in own]
    return chosen


def _parameter(entry: Graph, which: int | str) -> Parameter:
    if isinstance(which, int):
        if not 0 <= which < len(entry.parameters):
            raise HloomError(f"wrt={which}, but computation {entry.name} has {len(entry.parameters)} parameters")
        return entry.parameters[which]
    named = {parameter.name: parameter for parameter in entry.parameters}
    return named[resolve_name(which, named, f"computation {entry.name}", "parameter")]


def _like(graph: Graph, parameter: Parameter) -> Node:
    return graph.add_parameter(parameter.type, parameter.name, parameter.attributes, parameter.raw_metadata)


def _header(module: Module, former: Graph, entry: Graph, keeps_results: bool) -> Attributes:
    """The header of the derivative: parameters keep their layouts and donations, results have default layouts.

    A parameter that shared its buffer with a result may share it with any, as there are other results now.
    """
    attributes = module.attributes
    changes: dict[str, Any] = {}
    layout = attributes.get("entry_computation_layout")
    if isinstance(layout, FunctionType):
        written = list(layout.parameters)
        further = [_laid_out(parameter.type) for parameter in entry.parameters[len(written) :]]
        changes["entry_computation_layout"] = FunctionType([*written, *further], _laid_out(entry.root.type))
    aliases = attributes.get("input_output_alias") or ()
    if aliases and not (keeps_results and isinstance(former.root.type, TupleType)):
        donated = list(attributes.get("buffer_donor") or ())
        donated += [BufferDonor(aliase.parameter, aliase.parameter_index) for aliase in aliases if _is_alias(aliase)]
        changes |= {"input_output_alias": None, "buffer_donor": tuple(dict.fromkeys(donated))}
    return attributes.changed({**changes, "is_scheduled": None})


def _is_alias(value: object) -> bool:
    return isinstance(value, InputOutputAlias)


def _laid_out(value_type: Type | None) -> Type | None:
    return None if value_type is None else map_leaves(value_type, _with_layout)


def _with_layout(value_type: Type) -> Type:
    if isinstance(value_type, TensorType) and value_type.layout is None:
        return value_type.with_layout(default_layout(value_type.rank))
    return value_type
