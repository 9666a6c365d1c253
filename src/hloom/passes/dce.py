"""The pass `dce`: eliminates dead nodes, graphs, and unused operands and results of calls.

Follows XLA's xla/hlo/transforms/simplifiers/hlo_dce.cc (HloDCE::RunOnComputation) and
xla/hlo/transforms/simplifiers/call_parameter_cleanup.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from hloom.ir import (
    Apply,
    Attributes,
    Effect,
    FunctionType,
    Graph,
    Missing,
    Module,
    Node,
    Op,
    Parameter,
    TensorType,
    Trait,
    TupleSharding,
    TupleType,
    Type,
    callees_first,
    reachable,
)
from hloom.ops import CONTROL_PREDECESSORS, INLINABLE, OPS, may_drop, with_trait
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.tuple_elements import (
    element_origin,
    elements_of,
    only_elements,
    select_attributes,
    select_origin,
)
from hloom.rewrite import Report, has_own_derivative
from hloom.text import HloomError

_TRANSFERS = with_trait(Trait.POINT_TO_POINT)
"""Communication of which only one side may be dead."""
_PROPAGATION = "allow_spmd_sharding_propagation_to_parameters"


def dce(module: Module, collectives: int | str = 0, parameters: int | str = 0) -> Report:
    """Erase nodes without users and side effects, and graphs that the entry does not reach.

    Nodes with control predecessors or successors stay. Calls and fusions lose unused results, and operands that their
    graphs do not use, if no other call shares the graph; asynchronous calls lose such operands. With `collectives=1`,
    unused collectives are erased as well, except those with `constrain_layout`, and so are unused calls whose only
    effect is collectives. With `parameters=1`, unused parameters of the entry are erased unless a result is aliased
    with them; the module then takes fewer arguments.
    """
    for option, value in (("collectives", collectives), ("parameters", parameters)):
        if value not in (0, 1):
            raise HloomError(f"dce: {option} is 0 or 1, not '{value}'")
    may_go = _may_go_with_collectives if collectives else _may_go
    report = Report("dce")
    touched = set[Node]()
    module.index_users()
    gone = 0
    while True:  # trimming a call may make more dead in other graphs
        trimmed = _sweep(module, report, touched, may_go)
        graphs = _erase_unreached(module, touched)
        report.changes += trimmed + graphs
        gone += graphs
        if not trimmed and not (graphs and any(_may_be_trimmed(node) for node in touched)):
            break
    if gone:
        report.notes.append(f"{gone:,} computations erased that nothing calls")
    if parameters and not module.has_closures:
        lost = _erase_parameters(module)
        report.changes += lost
        if lost:
            report.notes.append(f"{lost:,} parameters erased that nothing uses")
    if not report.changes:
        report.touched = {node for node in touched if node.user_count <= 1 or isinstance(node.type, TupleType)}
    return report


def erase_dead(nodes: Iterable[Node]) -> None:
    """Erase those of some nodes that are unused and have no effect, then their operands likewise."""
    pending = list(nodes)
    gone: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in gone and not node.is_used and not isinstance(node, (Parameter, Missing)) and may_drop(node):
            gone.add(node)
            pending += node.operands
            node.graph.erase(node)


def erase_unused(module: Module) -> None:
    """Erase what `dce` erases except operands and results of calls; drops the index of users.

    Meant for modules that have mostly just been built, and that have no closures.
    """
    module.forget_users()
    module.keep_only(reachable([module.entry], _keep_used))


def _keep_used(graph: Graph) -> list[Graph]:
    """Erase the nodes of a graph that neither its result nor an effect needs; returns the graphs still called."""
    used: set[Node] = {graph.root}
    called: list[Graph] = []
    for node in reversed(graph.nodes):
        if node not in used:
            if not isinstance(node, Parameter) and may_drop(node):
                continue
            used.add(node)
        used.update(node.operands)
        for referent in node.attributes.referents() if node.attributes.refers else ():
            if not referent.is_graph:
                used.add(referent)
            elif not referent.is_declared:
                called.append(referent)
    graph.keep_only(used)
    return called


def _sweep(module: Module, report: Report, touched: set[Node], may_go: Callable[[Node], bool]) -> int:
    """Erase dead nodes and trim calls, callers first; returns how many operands and results calls lost."""
    total = 0
    for graph in reversed(callees_first(module)):
        report.erased += _erase_dead(graph, touched, may_go)
        trimmed = 0
        if not module.has_closures:
            trimmed = sum(_trim(call, report, touched, may_go) for call in _calls(graph))
            trimmed += sum(_trim_start(start) for start in graph.nodes if start.opcode == "async-start")
        if trimmed:
            total += trimmed
            report.erased += _erase_dead(graph, touched, may_go)
    return total


def _erase_dead(graph: Graph, touched: set[Node], may_go: Callable[[Node], bool]) -> int:
    """Erase the dead nodes of a graph, last first, so that their operands are seen to be dead afterwards.

    Their operands, and other callers of the graphs they called, are marked as touched.
    """
    erased = 0
    for node in reversed(graph.nodes):
        if isinstance(node, Parameter) or node.is_used or node.attributes.get(CONTROL_PREDECESSORS):
            continue
        if _may_yield_nothing(node, graph) and may_go(node):
            called = node.called_graphs
            graph.erase(node)
            erased += 1
            touched.update(node.operands)
            touched.update(caller for inner in called for caller in inner.callers)
    return erased


def _may_go(node: Node) -> bool:
    """Whether an unused node has no effect, or is marked as removable.

    A sharding marker may go if nothing else uses the value it marks.
    """
    if not isinstance(node, Apply):
        return may_drop(node)
    said = _says_of_effect(node)
    if said is None and node.opcode == "async-done":
        said = _says_of_effect(node.operands[0])
    if said is not None:
        return said == "true" or (said != "false" and may_drop(node))
    if node.opcode == "custom-call" and node.attributes.get("custom_call_target") == "Sharding" and node.operands:
        return may_drop(node) and node.operands[0].user_count == 1 and not node.operands[0].is_output
    return may_drop(node)


def _may_go_with_collectives(node: Node) -> bool:
    """As `_may_go`, or whether a node's only effect is to take part in collectives."""
    if _may_go(node):
        return True
    if not isinstance(node, Apply):
        return False
    start = node
    while start.opcode in ("async-done", "async-update") and isinstance(start.operands[0], Apply):
        start = start.operands[0]
    if _says_of_effect(node) == "false" or _says_of_effect(start) == "false":
        return False
    pending: list[Node] = [start]
    seen = set[Graph]()
    while pending:
        member = pending.pop()
        if may_drop(member) or _is_erasable_collective(member):
            continue
        if _row_effect(member) is not Effect.CALLS:
            return False
        for graph in member.called_graphs:
            if graph.is_declared:
                return False
            pending += [] if graph in seen else graph.nodes
            seen.add(graph)
    return True


def _is_erasable_collective(node: Node) -> bool:
    if node.opcode in _TRANSFERS or _row_effect(node) is not Effect.COMMUNICATION:
        return False
    start = node.operands[0] if node.opcode.endswith("-done") else node
    return not start.attributes.get("constrain_layout")


def _row_effect(node: Node) -> Effect | None:
    return node.function.effect if isinstance(node, Apply) and isinstance(node.function, Op) else None


def _says_of_effect(node: Node) -> str | None:
    return dict(node.attributes.get("frontend_attributes") or ()).get("xla_allow_dce_side_effecting_op")


def _may_be_trimmed(node: Node) -> bool:
    """Whether a node is a call or a fusion that is left: of those that lost another caller, some are touched."""
    is_call = node.opcode in INLINABLE or node.opcode == "async-start"
    return is_call and node.name in node.graph and node.graph.name in node.graph.module


def _calls(graph: Graph) -> list[Apply]:
    """The calls and fusions of a graph that may be given fewer operands and yield less."""
    callers = [node for node in graph.nodes if node.attributes.refers and isinstance(node, Apply)]
    return [node for node in callers if node.opcode in INLINABLE and _is_trimmable(node)]


def _is_trimmable(call: Apply) -> bool:
    inner = next(iter(call.called_graphs), None)
    if inner is None or inner.is_declared or inner.output is None or len(inner.parameters) != len(call.operands):
        return False
    if call.attributes.get("kind") == "kCustom" or "output_to_operand_aliasing" in call.attributes:
        return False
    if has_own_derivative(call):  # the derivative is of all its operands and results
        return False
    return inner.is_called_once


def _trim(call: Apply, report: Report, touched: set[Node], may_go: Callable[[Node], bool]) -> int:
    """Remove unneeded results and operands of a call; returns how many."""
    inner = next(iter(call.called_graphs))
    types, used, root = elements_of(call.type), only_elements(call), inner.root
    count = 0
    if types and used and len(used) < len(types) and (root.opcode == "tuple" or call.opcode == "call"):
        if root.opcode != "tuple":
            _take_apart(inner, types)
        kept = sorted(used)
        count = len(types) - len(kept)
        _yield_some(call, inner, kept)
        if len(kept) == 1 and call.opcode == "fusion":
            _yield_one(call, inner)
    report.erased += _erase_dead(inner, touched, may_go)
    return count + _drop_unused_operands(call, inner)


def _drop_unused_operands(call: Apply, inner: Graph) -> int:
    """Remove operands of a call that its graph does not use; returns how many."""
    unused = {number for number, parameter in enumerate(inner.parameters) if _is_unused(parameter)}
    if unused:
        call.graph.set_operands(call, [operand for number, operand in enumerate(call.operands) if number not in unused])
        for parameter in [inner.parameters[number] for number in sorted(unused)]:
            inner.erase(parameter)
    return len(unused)


def _is_unused(parameter: Parameter) -> bool:
    return not parameter.is_used and not parameter.attributes.get(CONTROL_PREDECESSORS)


def _trim_start(start: Node) -> int:
    """Remove operands of an asynchronous call that its graph does not use; returns how many."""
    inner = next(iter(start.called_graphs), None)
    chain, ends = _async_chain(start)
    if not isinstance(start, Apply) or inner is None or inner.is_declared or inner.output is None or not chain:
        return 0
    operand_types = elements_of(next(iter(elements_of(start.type) or ()), None))
    if not len(inner.parameters) == len(start.operands) == len(operand_types or ()):
        return 0
    if any(caller not in chain and caller not in ends for caller in inner.callers) or any(map(_says_more, chain)):
        return 0
    used = [not _is_unused(parameter) for parameter in inner.parameters]
    count = _drop_unused_operands(start, inner)
    for node in chain if count else ():
        assert isinstance(node.type, TupleType) and operand_types is not None, f"{node!r} yields no operands"
        kept = [operand_type for operand_type, is_used in zip(operand_types, used, strict=True) if is_used]
        node.graph.set_type(node, TupleType([TupleType(kept), *node.type.elements[1:]]))
    return count


def _async_chain(start: Node) -> tuple[set[Node], set[Node]]:
    """A start with the updates after it, which have its type, and its ends; none where it is used as a tuple."""
    chain, ends, pending = {start}, set[Node](), [start]
    while pending:
        node = pending.pop()
        users = [user for user in node.users if node in user.operands]
        ends.update(user for user in users if user.opcode == "async-done")
        updates = [user for user in users if user.opcode == "async-update" and user.type is start.type]
        if node.is_output or any(user not in ends and user not in updates for user in users):
            return set(), set()
        chain.update(updates)
        pending += updates
    return chain, ends


def _says_more(node: Node) -> bool:
    """Whether an attribute says something of each operand of an asynchronous call."""
    return any(name in node.attributes for name in ("origin", "output_to_operand_aliasing", "sharding"))


def _take_apart(inner: Graph, types: Sequence[Type]) -> None:
    """Make a graph that yields the tuple of a loop or a call yield a new tuple of its elements instead."""
    root = inner.root
    get = OPS["get-tuple-element"]
    parts = [inner.add_apply(get, [root], part, {"index": number}) for number, part in enumerate(types)]
    inner.set_output(inner.add_apply(OPS["tuple"], parts, root.type))


def _yield_some(call: Apply, inner: Graph, kept: list[int]) -> None:
    """Make a call yield only some elements of its tuple."""
    graph, root = call.graph, inner.root
    parts = [root.operands[index] for index in kept]
    result_type = TupleType([part.type for part in parts if part.type is not None])
    made = inner.add_apply(
        OPS["tuple"],
        parts,
        result_type,
        select_attributes(root.attributes, root.type, kept),
        metadata=root.raw_metadata,
    )
    inner.set_output(made)
    elements = elements_of(call.type) or ()
    graph.set_attributes(
        call,
        Attributes(select_attributes(call.attributes, call.type, kept)).changed(
            origin=select_origin(call.attributes.get("origin"), len(elements), kept)
        ),
    )
    graph.set_type(call, TupleType([elements[index] for index in kept]))
    for user in call.users:
        graph.set_attributes(user, user.attributes.changed(index=kept.index(user.attributes["index"])))


def _yield_one(fusion: Apply, inner: Graph) -> None:
    """Make a fusion that yields a one-element tuple yield that element."""
    graph, (part,) = fusion.graph, inner.root.operands
    if not isinstance(part, Apply) or not isinstance(part.type, TensorType):
        return
    if any(user.attributes.get(CONTROL_PREDECESSORS) for user in fusion.users):
        return  # the get-tuple-element has control predecessors that the fusion need not wait for
    element = next(iter(elements_of(fusion.type) or ()))
    root = inner.root
    inner.set_output(part)
    inner.erase(root)
    users = list(fusion.users)
    sharding = fusion.attributes.get("sharding")
    if isinstance(sharding, TupleSharding):
        graph.set_attributes(fusion, fusion.attributes.changed(sharding=sharding.elements[0]))
    origin = element_origin(fusion.attributes.get("origin"))
    graph.set_attributes(fusion, fusion.attributes.changed(origin=origin))
    graph.set_type(fusion, element)
    for user in users:
        graph.replace_uses(user, fusion)
        graph.erase(user)


def _may_yield_nothing(node: object, graph: Graph) -> bool:
    """Whether no closure yields the node."""
    return not graph.module.has_closures or all(other.output is not node for other in graph.module.graphs)


def _erase_unreached(module: Module, touched: set[Node]) -> int:
    """Erase the graphs that the entry does not reach; returns how many. Other callers of their callees are touched."""
    if not module.has_entry:
        return 0
    callees: dict[Graph, list[Graph]] = {}
    for graph in module.graphs:
        for caller in graph.callers:
            callees.setdefault(caller.graph, []).append(graph)
    reached = reachable(
        [module.entry],
        lambda graph: [*([graph.parent] if graph.parent else []), *callees.get(graph, ())],
    )
    if len(reached) == len(module.graphs):
        return 0
    gone: dict[Graph, None] = {}
    pending = [graph for graph in module.graphs if graph not in reached]
    called: dict[Graph, None] = {}
    while pending:
        graph = pending.pop()
        if graph not in gone and all(caller.graph is graph or caller.graph in gone for caller in graph.callers):
            gone[graph] = None
            called |= dict.fromkeys(callees.get(graph, ()))
            pending += [callee for callee in callees.get(graph, ()) if callee not in reached]
    module.erase_graphs(gone)
    touched.update(caller for callee in called if callee not in gone for caller in callee.callers)
    return len(gone)


def _erase_parameters(module: Module) -> int:
    """Erase unused entry parameters that share no buffer with a result; returns how many."""
    entry, header = module.entry, module.attributes
    aliases = header.get("input_output_alias") or ()
    shared = {alias.parameter for alias in aliases}
    former = list(entry.parameters)
    kept = [parameter.number for parameter in former if not _is_unused(parameter) or parameter.number in shared]
    if len(kept) == len(former):
        return 0
    position = {number: index for index, number in enumerate(kept)}
    changes: dict[str, object] = {
        "input_output_alias": tuple(replace(alias, parameter=position[alias.parameter]) for alias in aliases) or None,
        "buffer_donor": tuple(
            replace(donor, parameter=position[donor.parameter])
            for donor in header.get("buffer_donor") or ()
            if donor.parameter in position
        )
        or None,
    }
    layout = header.get("entry_computation_layout")
    if layout is not None:
        changes["entry_computation_layout"] = FunctionType(
            [layout.parameters[number] for number in kept], layout.result
        )
    propagation = header.get(_PROPAGATION)
    if isinstance(propagation, tuple) and len(propagation) == len(former):
        changes[_PROPAGATION] = tuple(propagation[number] for number in kept)
    for parameter in [parameter for parameter in former if parameter.number not in position]:
        entry.erase(parameter)
    module.attributes = header.changed(changes)
    return len(former) - len(kept)


register_pass(
    "dce",
    "erase what no result and no effect needs, and computations that nothing calls",
    dce,
    options=("collectives", "parameters"),
)
