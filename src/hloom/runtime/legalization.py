"""Legalization of optimised HLO for XLA's client, which takes StableHLO: only ops that StableHLO has, and no layouts.

Execution uses logical arrays, so layouts only matter to bitcasts (see `bitcast_expander.py`) and to custom-calls that
constrain theirs. To make another op legal, write a function of its node and put it in REWRITES; to reject one, put its
reason in REFUSED.

XLA's client either partitions a program or runs replicas of it. A scheduled module with num_partitions=8 is already
partitioned, and all devices run the same program, so it must not be split again:

    partition-id()                                          ->  replica-id()
    all-reduce(x), channel_id=1, use_global_device_ids=true ->  all-reduce(x)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import islice
from typing import Any

from hloom.formats.hlo import KEEPS, print_module
from hloom.ir import (
    DTYPES,
    TOKEN,
    Apply,
    Attributes,
    BufferType,
    Constant,
    ExplicitGroups,
    Graph,
    Literal,
    Module,
    Node,
    TensorType,
    Trait,
    TupleType,
    Type,
    without_layout,
)
from hloom.ops import OPS, with_trait
from hloom.runtime.bitcast_expander import expand_bitcast
from hloom.runtime.constant_division import shield_constant_divisions
from hloom.runtime.emitter import ReplacementEmitter, tensor_type
from hloom.runtime.library_names import jaxlib_version
from hloom.runtime.op_expanders import (
    FORMULAS,
    expand_constant,
    expand_float,
    expand_high_multiply,
    expand_select,
    split_index_vector,
)
from hloom.runtime.preflight import HOST_CALLBACKS
from hloom.sharding import check_reductions
from hloom.text import HloomError, HloomWarning, Unsupported

MOST_NAMED = 10
"""The maximum number of instructions to name in an error."""
_KEPT_HEADER = ("replica_count", "num_partitions", "frontend_attributes")
_DROPPED = ("control-predecessors", "statistics", "origin", "outer_dimension_partitions")
_LAYOUT_CONSTRAINTS = "operand_layout_constraints"

RESERVED = frozenset({*DTYPES, "token", "opaque"})
"""Words that XLA's parser takes for a type wherever they occur."""
REFUSED = {
    "infeed": "nothing feeds it",
    "outfeed": "nothing takes it",
    "recv": "nothing sends to it",
    "recv-done": "nothing sends to it",
    "send": "nothing receives it",
    "send-done": "nothing receives it",
    "stochastic-convert": "XLA's CPU backend has none",
    "scaled-dot": "StableHLO has none",
    "ragged-dot": "XLA's CPU backend has none",
    "ragged-all-to-all": "XLA's CPU backend has none",
    "collective-broadcast": "XLA's CPU backend has none",
    "scan": "StableHLO has none",
}
"""Opcodes that cannot be run, and why."""


def legalize(module: Module, partitions: int = 1) -> Module:
    """A copy of a module that XLA's CPU client takes, computing the same.

    A scheduled module with several partitions is already one device's part, and becomes a program of replicas. Raises
    Unsupported naming every instruction that cannot be made legal, and HloomError for elided constants.
    """
    _check_complete(module)
    copy = module.clone()
    bitcasts = [(node, node.operands[0].type) for node in copy.nodes() if node.opcode == "bitcast" and node.operands]
    for node in list(copy.nodes()):
        _drop_carried(node)
    problems = _rewrite_every(copy, dict(bitcasts))
    if problems:
        more = f"\n  and {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
        named = "\n  ".join(problems[:MOST_NAMED])
        raise Unsupported(f"cannot be made legal for XLA's CPU client:\n  {named}{more}")
    shield_constant_divisions(copy)
    _drop_token_parameters(copy.entry)
    for graph in copy.graphs:
        graph.execution_thread = None
        drop_layouts(graph)
    if module.is_scheduled and partitions > 1:
        partitions_to_replicas(copy, partitions)
    _trim_header(copy, module.is_scheduled)
    return copy


def text_for_xla(module: Module) -> str:
    """The text of a legalized copy in which names that look like types are changed: XLA rejects `u1`.

    Warns of what a proto had that no text can have. Raises Unsupported for shardings that the installed jaxlib would
    misread.

    Follows LexIdentifier in xla/hlo/parser/hlo_lexer.cc and UniquifyName in xla/service/name_uniquer.cc.
    """
    check_reductions(module, jaxlib_version())
    for note in module.notes:
        if KEEPS in note:
            warnings.warn(f"XLA gets text, which has no place for everything: {note}", HloomWarning, stacklevel=2)
    if module.name in RESERVED:
        module.name = f"{module.name}_"
    for graph in module.graphs:
        if graph.name in RESERVED:
            module.rename_graph(graph, f"{graph.name}_")
        for node in [node for node in graph.nodes if node.name in RESERVED]:
            graph.rename(node, f"{node.name}_")
    return print_module(module)


def parameter_names(module: Module) -> list[str]:
    """The names of the entry's flattened parameters: `x`, and `pair.0`, `pair.1` for a tuple's elements."""
    names: list[str] = []
    for parameter in module.entry.parameters:
        pending: list[tuple[str, Type | None]] = [(parameter.name, parameter.type)]
        while pending:
            name, value_type = pending.pop()
            if isinstance(value_type, TupleType):
                elements = [(f"{name}.{number}", element) for number, element in enumerate(value_type.elements)]
                pending += reversed(elements)
            elif value_type is not TOKEN:
                names.append(name)
    return names


def _check_complete(module: Module) -> None:
    unresolved = module.unresolved
    if unresolved:
        raise Unsupported(f"a fragment cannot run: nothing defines {', '.join(map(str, unresolved[:MOST_NAMED]))}")
    elided = (f"{node.name} in {node.graph.name}" for node in module.nodes() if _is_elided(node))
    named = list(islice(elided, MOST_NAMED))
    if named:
        raise HloomError(
            f"the data of constants were left out of the text, as {{...}}, and are never invented: {', '.join(named)}",
            hint="print the program with whole constants: print_large_constants in XLA's HloPrintOptions, "
            "--xla_dump_large_constants among XLA_FLAGS",
        )


def _is_elided(node: Node) -> bool:
    value: Any = node.value if isinstance(node, Constant) else node.attributes.get("literal")
    return isinstance(value, Literal) and value.is_elided


def _drop_carried(node: Node) -> None:
    """Remove attributes that only the schedule of the optimised program or a reader needs."""
    graph = node.graph
    graph.set_metadata(node, None)
    dropped = [name for name in _DROPPED if name in node.attributes]
    if node.opcode != "custom-call" and "backend_config" in node.attributes:
        dropped.append("backend_config")
    if dropped:
        graph.set_attributes(node, node.attributes.changed(dict.fromkeys(dropped)))


def _rewrite_every(module: Module, bitcast_sources: dict[Node, Type | None]) -> list[str]:
    problems: list[str] = []
    for graph in module.graphs:
        for node in graph.nodes:
            try:
                _rewrite(node, bitcast_sources)
            except Unsupported as error:
                problems.append(f"{node.name} ({node.opcode}) in {graph.name}: {error.message}")
        _erase_starts(graph)
    return problems


def _rewrite(node: Node, bitcast_sources: dict[Node, Type | None]) -> None:
    if node.opcode in REFUSED:
        raise Unsupported(REFUSED[node.opcode])
    if node.opcode == "bitcast":
        _rewrite_bitcast(node, bitcast_sources[node])
        return
    if "replica_groups" in node.attributes:
        _list_groups(node)
    if node.opcode in _GLOBAL_IDS and len(node.operands) > 1:
        _split_collective(node)
        return
    rewrite = REWRITES.get(node.opcode)
    if rewrite is not None:
        rewrite(node)


def _rewrite_bitcast(node: Node, source: Type | None) -> None:
    if not isinstance(source, TensorType) or not source.is_static:
        raise Unsupported(f"its operand's type is {source or 'not written'}: an array of static size is needed")
    expand_bitcast(node, source, tensor_type(node))


def _list_groups(node: Node) -> None:
    """Write replica groups out: the conversion to StableHLO fails for ranges and meshes in some ops."""
    groups = node.attributes.get("replica_groups")
    if groups is not None and not isinstance(groups, ExplicitGroups):
        listed = ExplicitGroups(groups.groups(0))
        node.graph.set_attributes(node, node.attributes.changed(replica_groups=listed))


def _split_collective(node: Node) -> None:
    """Split a collective of several arrays into one per array, each on its own channel: StableHLO's take one.

    all-reduce(x, y)  ->  tuple(all-reduce(x), all-reduce(y))
    """
    if not isinstance(node.type, TupleType):
        raise Unsupported(f"its type is {node.type or 'not written'}: a tuple is needed")
    emitter = ReplacementEmitter(node)
    channels = _channels(node, len(node.operands))
    parts = [
        emitter.apply(node.opcode, (value,), result_type, **node.attributes.changed(channel_id=number, sharding=None))
        for value, result_type, number in zip(node.operands, node.type.elements, channels, strict=True)
    ]
    emitter.finish(emitter.apply("tuple", tuple(parts), node.type))


def _channels(node: Node, count: int) -> list[int | None]:
    """The node's channel and further ones that nothing uses yet, or none at all where the node has none."""
    channel = node.attributes.get("channel_id")
    if channel is None:
        return [None] * count
    highest = max(other.attributes.get("channel_id") or 0 for other in node.graph.module.nodes())
    return [channel, *range(highest + 1, highest + count)]


def _rewrite_fusion(node: Any) -> None:
    called = _called(node)
    kept = {name: node.attributes[name] for name in ("sharding", "frontend_attributes") if name in node.attributes}
    node.graph.set_attributes(node, Attributes(to_apply=called, **kept))
    node.graph.set_function(node, OPS["call"])


def _rewrite_async_done(node: Node) -> None:
    """Replace async-done by a call of what async-start calls."""
    start = _start_of(node, "async-start", through="async-update")
    emitter = ReplacementEmitter(node)
    emitter.finish(emitter.apply("call", start.operands, node.type, to_apply=_called(start)))


def _called(node: Node) -> Graph:
    called = node.attributes.get("calls")
    if not isinstance(called, Graph):
        raise Unsupported(f"{node.name} has no calls=")
    return called


def _rewrite_started(node: Node) -> None:
    """Replace OP-done by the synchronous op."""
    opcode = node.opcode.removesuffix("-done")
    start = _start_of(node, f"{opcode}-start")
    emitter = ReplacementEmitter(node)
    kept = {name: value for name, value in start.attributes.items() if name in OPS[opcode].attributes}
    emitter.finish(emitter.apply(opcode, start.operands, node.type, **kept))


def _start_of(node: Node, opcode: str, through: str = "") -> Node:
    start = node.operands[0]
    while start.opcode == through:
        start = start.operands[0]
    if start.opcode != opcode:
        raise Unsupported(f"its operand {start.name} is {start.opcode}, not {opcode}")
    return start


def _erase_starts(graph: Graph) -> None:
    """Erase asynchronous starts that nothing waits for; those still used are left for XLA to reject."""
    for node in reversed(graph.nodes):
        if node.opcode in _STARTS and not node.users and not node.is_output:
            graph.erase(node)


def _rewrite_to_operand(node: Node) -> None:
    ReplacementEmitter(node).finish(node.operands[0])


def _rewrite_triangular_solve(node: Node) -> None:
    if node.attributes.get("transpose_a") is None:
        node.graph.set_attributes(node, node.attributes.changed(transpose_a="NO_TRANSPOSE"))


def _refuse_callback(node: Node) -> None:
    target = node.attributes.get("custom_call_target")
    if target in HOST_CALLBACKS:
        raise Unsupported(f"{target} calls a Python function of the process that lowered the program")


REWRITES: dict[str, Callable[[Node], None]] = {
    "fusion": _rewrite_fusion,
    "async-done": _rewrite_async_done,
    "all-gather-done": _rewrite_started,
    "all-reduce-done": _rewrite_started,
    "collective-permute-done": _rewrite_started,
    "copy-done": _rewrite_started,
    "add-dependency": _rewrite_to_operand,
    "domain": _rewrite_to_operand,
    "triangular-solve": _rewrite_triangular_solve,
    "custom-call": _refuse_callback,
    "mulhi": expand_high_multiply,
    "constant": expand_constant,
    "tuple-select": expand_select,
    "dynamic-slice": split_index_vector,
    "dynamic-update-slice": split_index_vector,
    **dict.fromkeys(FORMULAS, expand_float),
}
_STARTS = (with_trait(Trait.ASYNC_START) | with_trait(Trait.ASYNC_UPDATE)) - with_trait(Trait.POINT_TO_POINT)


def _drop_token_parameters(entry: Graph) -> None:
    """Create the entry's token parameters inside: a token cannot be passed from outside."""
    for parameter in list(entry.parameters):
        if parameter.type is TOKEN:
            emitter = ReplacementEmitter(parameter)
            emitter.finish(emitter.apply("after-all", (), TOKEN))


def drop_layouts(graph: Graph) -> None:
    """Drop layouts so that XLA chooses them again, except those that a custom call requires."""
    for node in graph.nodes:
        if isinstance(node.type, BufferType):
            raise Unsupported(f"{node.name} in {graph.name}: a buffer, {node.type}, cannot be run")
        if _LAYOUT_CONSTRAINTS not in node.attributes and node.type is not None:
            graph.set_type(node, without_layout(node.type))


def _trim_header(module: Module, is_optimised: bool) -> None:
    """Keep only header fields about where the program runs; Shardy's annotations of an optimised program are obsolete.
    """
    kept = _KEPT_HEADER[:-1] if is_optimised else _KEPT_HEADER
    module.attributes = Attributes({name: module.attributes[name] for name in kept if name in module.attributes})
    module.stack_tables = None
    if not is_optimised:
        return
    for graph in module.graphs:
        for node in graph.nodes:
            if "frontend_attributes" in node.attributes:
                graph.set_attributes(node, node.attributes.changed(frontend_attributes=None))


_GLOBAL_IDS = frozenset(
    opcode for opcode, op in OPS.items() if "use_global_device_ids" in op.attributes
) - with_trait(Trait.ASYNC_START)
"""Collectives whose groups hold replicas, not partitions, unless use_global_device_ids is set."""

_OF_PARTITIONS = ("channel_id", "use_global_device_ids", "sharding")


def partitions_to_replicas(module: Module, partitions: int) -> None:
    """Turn a module's partitions into replicas; raises Unsupported if it has replicas already."""
    if (module.attributes.get("replica_count") or 1) > 1:
        raise Unsupported("a partitioned program with replicas cannot be run: only one of the two")
    for node in list(module.nodes()):
        _rewrite_for_replicas(node, partitions)
    module.attributes = module.attributes.changed(num_partitions=None, replica_count=partitions)


def _rewrite_for_replicas(node: Node, partitions: int) -> None:
    if node.opcode == "partition-id":
        assert isinstance(node, Apply)
        node.graph.set_function(node, OPS["replica-id"])
    elif node.opcode == "replica-id":
        raise Unsupported(f"{node.name}: replica-id in a partitioned program, whose devices are one replica")
    elif node.opcode in _GLOBAL_IDS:
        _rewrite_groups(node, partitions)
    dropped = [name for name in _OF_PARTITIONS if name in node.attributes]
    if dropped:
        node.graph.set_attributes(node, node.attributes.changed(dict.fromkeys(dropped)))


def _rewrite_groups(node: Node, partitions: int) -> None:
    """Groups of partitions, where they were groups of the one replica: all partitions, or each on its own."""
    attributes = node.attributes
    if attributes.get("use_global_device_ids") or not attributes.get("replica_groups"):
        return
    together = attributes.get("channel_id") is not None
    groups = ExplicitGroups(() if together else tuple((number,) for number in range(partitions)))
    node.graph.set_attributes(node, attributes.changed(replica_groups=groups))
