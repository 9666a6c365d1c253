"""The reductions, in the order of a round: each offers candidates to the search, halves before single instructions.

To add one, write a function of the search and put it into REDUCTIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hloom.inspection.minimize.cuts import (
    GET,
    MOVING,
    VALUE,
    entry_instructions,
    first_operand,
    first_parameter_alike,
    keep_instructions,
    keep_outputs,
    last_operand,
    outputs_of,
    put_in_place,
    replace_nodes,
    reshaped_operand,
    same_type_operands,
    skipped_operand,
    tidied,
    zero,
)
from hloom.inspection.minimize.ddmin import minimize_items
from hloom.inspection.minimize.localization import localize_fault
from hloom.inspection.minimize.search import ReductionSearch, attempt
from hloom.inspection.minimize.shape_reduction import reduce_all_shapes, reduce_shapes
from hloom.ir import Apply, Constant, Graph, Literal, Module, Node, TensorType, literal_of, map_leaves, without_layout
from hloom.ops import CONTROL_FLOW
from hloom.passes import apply, inline, inline_fusions

BODIES = CONTROL_FLOW | {"fusion"}
"""Opcodes that call computations whose instructions are the program's own, and not a reducer or a comparator."""
PASSES = ("dce", "simplify", "cse")
"""Passes whose results are tried: what they take away needs no checks one by one."""
LARGE_CONSTANT = 8
"""Constants of more elements become parameters, which take less text."""
LEAST_TRIPS = (1, 2)
FIRST_CHUNK = 16
"""How many instructions the first round leaves out together, at least."""

Site = tuple[str, str]
"""A node by the names of its graph and its own, which copies share."""


def reduce_outputs(search: ReductionSearch) -> None:
    """Yield fewer values."""
    names = [node.name for node in outputs_of(search.module.entry)]
    if len(names) > 1:
        minimize_items(names, lambda kept: search.take(attempt(lambda: keep_outputs(search.module, set(kept)))))


def reduce_instructions(search: ReductionSearch) -> None:
    """Keep fewer of the entry's instructions; parameters take the place of what the others computed."""
    names = entry_instructions(search.module)
    finest = FIRST_CHUNK if search.round == 1 else 1  # the other reductions cost less than one instruction at a time
    minimize_items(
        names, lambda kept: search.take(attempt(lambda: keep_instructions(search.module, set(kept)))), finest
    )


def replace_by_operands(search: ReductionSearch) -> None:
    """Replace an instruction by an operand of the same type: a loop becomes its initial value.

    Where no operand is of that type, but one has as many elements, a reshape of it will do; and so will an operand of
    an operand.
    """
    for operand_of in (first_operand, last_operand):
        sites = _sites(search.module, lambda node, operand_of=operand_of: operand_of(node) is not None)
        _replace(search, sites, operand_of)
    sites = _sites(search.module, lambda node: node.opcode not in MOVING and not same_type_operands(node))
    _replace(search, sites, reshaped_operand)
    _replace(
        search, _sites(search.module, lambda node: any(operand.operands for operand in node.operands)), skipped_operand
    )


def replace_by_zeros(search: ReductionSearch) -> None:
    """Put zeros into the place of what instructions compute."""
    _replace(search, _sites(search.module, lambda node: node.opcode not in ("broadcast", "tuple")), zero)


def merge_parameters(search: ReductionSearch) -> None:
    """Give one parameter in the place of several of its type."""
    entry = search.module.entry
    sites = [(entry.name, node.name) for node in entry.parameters if first_parameter_alike(node) is not None]
    _replace(search, sites, first_parameter_alike)


def replace_conditionals(search: ReductionSearch) -> None:
    """Put one branch into the place of a conditional."""
    for graph_name, name in _sites(search.module, lambda node: node.opcode == "conditional"):
        count = len(search.module[graph_name][name].called_graphs)
        any(search.take(_changed(search, graph_name, name, partial(_take_branch, branch=n))) for n in range(count))


def reduce_loops(search: ReductionSearch) -> None:
    """Put a loop's body into its place, once; or let it go round less often."""
    for graph_name, name in _sites(search.module, lambda node: node.opcode == "while"):
        if not search.take(_changed(search, graph_name, name, _take_body), may_grow=True):
            _reduce_trips(search, graph_name, name)


def inline_calls(search: ReductionSearch) -> None:
    """Put what calls and fusions call into their place: all, or one after the other."""
    for opcode, inline_all in (("call", inline), ("fusion", inline_fusions)):
        sites = _sites(search.module, lambda node, opcode=opcode: node.opcode == opcode)
        if not sites or search.take(_applied(search, inline_all), may_grow=True):
            continue
        for graph_name, name in sites:
            if graph_name in search.module and name in search.module[graph_name]:
                search.take(_changed(search, graph_name, name, _inline), may_grow=True)


def run_passes(search: ReductionSearch) -> None:
    """Take what the standard passes make of the module, where that is smaller."""
    for name in PASSES:
        search.take(attempt(lambda name=name: apply(search.module, [name])[0]))


def replace_large_constants(search: ReductionSearch) -> None:
    """Replace large constants by parameters, or by their first element everywhere."""
    entry = search.module.entry
    sites = [(entry.name, node.name) for node in entry.nodes if _is_large(node)]
    _replace(search, sites, _as_parameter)
    sites = _sites(search.module, _is_large, Constant)
    _replace(search, sites, _as_splat)


def drop_attributes(search: ReductionSearch) -> None:
    """Take away metadata, layouts, the header's attributes, and attributes that instructions may do without."""
    search.take(attempt(lambda: _without_metadata(search.module, None)))
    search.take(attempt(lambda: _without_stack_frames(search.module)))
    sites = [(node.graph.name, node.name) for node in search.module.nodes() if node.raw_metadata is not None]
    _leave_out(search, sites, _without_metadata)
    search.take(attempt(lambda: _without_layouts(search.module)))
    for name in search.module.attributes:
        search.take(attempt(lambda name=name: _without_header(search.module, name)))
    optional = dict.fromkeys(
        name for node in search.module.nodes() for name in node.attributes if _is_optional(node, name)
    )
    for name in optional:
        without = partial(_without_attribute, name=name)
        sites = [(node.graph.name, node.name) for node in search.module.nodes() if name in node.attributes]
        _leave_out(search, sites, without)


REDUCTIONS: dict[str, Callable[[ReductionSearch], None]] = {
    "the instruction at fault": localize_fault,
    "smaller shapes, all at once": reduce_all_shapes,
    "the instruction at fault, of smaller shapes": localize_fault,
    "fewer instructions": reduce_instructions,
    "fewer outputs": reduce_outputs,
    "branches for conditionals": replace_conditionals,
    "fewer rounds of loops": reduce_loops,
    "inlined calls": inline_calls,
    "operands for instructions": replace_by_operands,
    "fewer parameters": merge_parameters,
    "zeros for instructions": replace_by_zeros,
    "passes": run_passes,
    "smaller shapes": reduce_shapes,
    "smaller constants": replace_large_constants,
    "fewer attributes": drop_attributes,
}
"""What a round tries, with the names that progress shows."""


def _sites(module: Module, wanted: Callable[[Node], bool], node_class: type[Node] = Apply) -> list[Site]:
    """The nodes that are meant, of the entry and of what it calls as a part of the program."""
    graphs = [graph for graph in module.graphs if _is_body(graph)]
    return [
        (graph.name, node.name)
        for graph in graphs
        for node in graph.nodes
        if isinstance(node, node_class) and wanted(node)
    ]


def _is_body(graph: Graph) -> bool:
    is_entry = graph.module.is_entry(graph)
    return is_entry or (bool(graph.callers) and all(caller.opcode in BODIES for caller in graph.callers))


def _replace(search: ReductionSearch, sites: list[Site], replacement: Callable[[Node], Node | None]) -> None:
    """Replace as many of these nodes as will do, in chunks that halve."""
    _leave_out(search, sites, lambda module, some: replace_nodes(module, some, replacement))


def _leave_out(
    search: ReductionSearch, sites: list[Site], make: Callable[[Module, Sequence[Site]], Module | None]
) -> None:
    """Do something to as many of these nodes as will do; what is there no more is left alone."""

    def keeps(kept: Sequence[Site]) -> bool:
        standing = set(kept)
        changed = [site for site in sites if site not in standing and _is_there(search.module, site)]
        return bool(changed) and search.take(attempt(lambda: make(search.module, changed)))

    if sites and not keeps(()):
        minimize_items(sites, keeps)


def _is_there(module: Module, site: Site) -> bool:
    return site[0] in module and site[1] in module[site[0]]


def _changed(search: ReductionSearch, graph_name: str, name: str, change: Callable[[Apply], None]) -> Module | None:
    """A copy with one instruction changed."""
    if not _is_there(search.module, (graph_name, name)):
        return None

    def make() -> Module:
        copy = search.module.clone()
        copy.index_users()
        node = copy[graph_name][name]
        assert isinstance(node, Apply)
        change(node)
        return tidied(copy, search.module)

    return attempt(make)


def _applied(search: ReductionSearch, change: Callable[[Module], object]) -> Module | None:
    """A copy with a pass applied."""

    def make() -> Module:
        copy = search.module.clone()
        change(copy)
        return tidied(copy, search.module)

    return attempt(make)


def _take_branch(node: Apply, branch: int) -> None:
    put_in_place(node, node.called_graphs[branch], (node.operands[branch + 1],))


def _take_body(node: Apply) -> None:
    put_in_place(node, node.attributes["body"], node.operands)


def _inline(node: Apply) -> None:
    node.graph.inline(node)


def _reduce_trips(search: ReductionSearch, graph_name: str, name: str) -> None:
    """Let a loop's condition compare with smaller numbers."""
    condition = search.module[graph_name][name].attributes["condition"]
    for node in [node for node in condition.nodes if _is_count(node)]:
        count = int(node.value.numpy())
        for smaller in dict.fromkeys((*LEAST_TRIPS, count // 2)):
            if smaller < count and search.take(_with_count(search, graph_name, name, node.name, smaller)):
                break


def _is_count(node: Node) -> bool:
    literal = node.literal
    if literal is None or literal.is_elided or not isinstance(node.type, TensorType):
        return False
    return not node.type.rank and node.type.dtype.is_integer and int(literal.numpy()) > 1


def _with_count(search: ReductionSearch, graph_name: str, name: str, constant: str, count: int) -> Module | None:
    def change(loop: Apply) -> None:
        node = loop.attributes["condition"][constant]
        node.graph.set_value(node, literal_of(count, node.type.dtype))
        loop.graph.set_attributes(loop, loop.attributes.changed(backend_config=None))

    return _changed(search, graph_name, name, change)


def _is_large(node: Node) -> bool:
    return node.literal is not None and not node.literal.is_splat and node.element_count > LARGE_CONSTANT


def _as_parameter(node: Node) -> Node:
    graph = node.graph
    parameter = graph.add_parameter(node.type, f"{node.name}{VALUE}")
    graph.move_before(parameter, graph.nodes[0])
    return parameter


def _as_splat(node: Node) -> Node | None:
    value = getattr(node, "value", None)
    if not isinstance(value, Literal) or value.is_elided or not isinstance(node.type, TensorType):
        return None
    return node.graph.add_constant(Literal.splat(node.type, value.numpy().flat[0]), node.type, before=node)


def _without_metadata(module: Module, sites: Sequence[Site] | None) -> Module:
    """A copy without the metadata of some nodes; of all, and without the tables behind it, where none are named."""
    copy = module.clone()
    nodes = list(copy.nodes()) if sites is None else [copy[graph][name] for graph, name in sites]
    for node in nodes:
        node.graph.set_metadata(node, None)
    if sites is None:
        copy.stack_tables = None
    return copy


def _without_stack_frames(module: Module) -> Module | None:
    """A copy without the stack tables and what refers to them; None where there are none."""
    if module.stack_tables is None:
        return None
    copy = module.clone()
    copy.stack_tables = None
    for node in copy.nodes():
        metadata = node.metadata
        if metadata is not None and metadata.stack_frame_id:
            node.graph.set_metadata(node, replace(metadata, stack_frame_id=0).text() or None)
    return copy


def _without_layouts(module: Module) -> Module:
    copy = module.clone()
    for node in copy.nodes():
        if node.type is not None:
            node.graph.set_type(node, map_leaves(node.type, without_layout))
    copy.attributes = copy.attributes.changed(entry_computation_layout=None)
    return copy


def _without_header(module: Module, name: str) -> Module:
    copy = module.clone()
    copy.attributes = copy.attributes.changed({name: None})
    return copy


def _without_attribute(module: Module, sites: Sequence[Site], name: str) -> Module:
    copy = module.clone()
    for graph_name, node_name in sites:
        node = copy[graph_name][node_name]
        if _is_optional(node, name):
            node.graph.set_attributes(node, node.attributes.changed({name: None}))
    return copy


def _is_optional(node: Node, name: str) -> bool:
    """Whether an instruction may do without an attribute that it has; what it computes may be another thing then."""
    if node.opcode == GET or not isinstance(node, Apply) or not node.has_row:
        return True
    row = node.op.attributes.get(name)
    return row is None or not row.required
