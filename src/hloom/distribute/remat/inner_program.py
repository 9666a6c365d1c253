"""Treats bodies of loops and branches as separate programs: values computed inside are recomputed inside.

    ENTRY { ... s = while(init), body=step ... }        the peak is in `step`
      ->
    ENTRY step { ... }, its state given and yielded in the same buffers; what is chosen there is put back

A loop over slices of a batch is such a loop: forward and backward part are one iteration.
"""

from __future__ import annotations

from hloom.analysis import called_computations
from hloom.ir import Attributes, Graph, InputOutputAlias, Module, TensorType, TupleType, Type, reachable
from hloom.passes import dce, is_loop_or_branch
from hloom.targets.cpu import simulate_buffers


def computation_at_peak(module: Module) -> Graph | None:
    """The computation in which the peak is, as the entry of a canonical module calls it; None for the entry."""
    callers = [node for node in module.entry.nodes if is_loop_or_branch(node)]
    if not callers:
        return None
    live = simulate_buffers(module.clone())
    usage = live.timeline()
    at = live.steps[int(usage.argmax())].graph.name if len(usage) else ""
    for caller in callers:
        for graph in called_computations(caller):
            if _leads_to(graph, at):
                return graph
    return None


def as_program(module: Module, graph: Graph) -> Module:
    """A module of which a computation is the entry; a loop's body writes its state where it was given."""
    program = module.clone()
    program.entry = program[graph.name]
    program.keep_reached()
    state = program.entry.parameters[0].type if program.entry.parameters else None
    aliases: tuple[InputOutputAlias, ...] = ()
    if len(program.entry.parameters) == 1 and state is not None and state == program.entry.root.type:
        aliases = tuple(InputOutputAlias(path, 0, path) for path in _paths(state))
    program.attributes = Attributes(input_output_alias=aliases) if aliases else Attributes()
    return program


def put_back(module: Module, name: str, program: Module) -> None:
    """Let a computation of a module be what the entry of a program computes."""
    module.index_users()
    graph = module[name]
    callers = list(graph.callers)
    copies = module.copy_graphs(program)
    for caller in callers:
        caller.graph.set_attributes(caller, caller.attributes.mapped({graph: copies[program.entry]}))
    dce(module)


def _leads_to(graph: Graph, name: str) -> bool:
    """Whether a computation is the one of this name, or calls it."""
    return any(reached.name == name for reached in reachable([graph], Graph.callees))


def _paths(value_type: Type) -> list[tuple[int, ...]]:
    """The indices of the arrays in a value."""
    paths: list[tuple[int, ...]] = []
    pending: list[tuple[tuple[int, ...], Type]] = [((), value_type)]
    while pending:
        path, part = pending.pop()
        if isinstance(part, TupleType):
            pending += [((*path, index), element) for index, element in reversed(list(enumerate(part.elements)))]
        elif isinstance(part, TensorType):
            paths.append(path)
    return paths
