"""Checks for `strict=True`: what XLA's parser rejects or aborts on beyond the grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isinf, prod
from typing import Any

from hloom.formats.hlo.implied_types import type_for_xla
from hloom.formats.hlo.reader_state import ModuleState
from hloom.formats.hlo.reserved_words import RESERVED, name_problem
from hloom.ir import (
    METADATA_FIELDS,
    OPAQUE,
    UNBOUNDED,
    Apply,
    Attributes,
    BufferType,
    Graph,
    Layout,
    MeshSharding,
    Node,
    Op,
    Parameter,
    TensorType,
    Tiled,
    TupleSharding,
    TupleType,
    Type,
    canonical,
    compatible,
    default_layout,
    element_at,
)
from hloom.text import Cursor, HloomError, ParseError, unescape

NOT_TODAY = frozenset(
    (
        "tuple-select",
        ("topk", "is_stable"),
        ("collective-broadcast", "has_dynamic_root"),
        ("convolution", "algorithm"),
    )
)
"""Opcodes, and opcodes with attributes, that today's XLA lacks: they are from 2020 or from July 2026."""
LARGEST_F32 = 3.4028234663852886e38
"""`std::numeric_limits<float>::max()`: XLA compares the doubles it reads with this value."""
INT32 = range(-(1 << 31), 1 << 31)
PROFILE_TYPES = range(4)
"""The numbers of ProfileType in xla_data.proto."""
_Check = Callable[[Type | None, Sequence[Node], Attributes], str | None]
"""Given an application's written type, inputs and attributes, returns why it is rejected, or None."""


_ORIGIN_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\{[0-9,\s]*\}|[(),]')
"""The strings and indices of an `origin=`, which may contain commas, and its brackets."""


def chain_start(inputs: Sequence[Node]) -> Apply | None:
    """The async-start that an async-update or async-done belongs to; None if there is none."""
    node = inputs[0] if inputs else None
    while isinstance(node, Apply) and node.opcode == "async-update" and node.operands:
        node = node.operands[0]
    return node if isinstance(node, Apply) and node.opcode == "async-start" else None


def check_call(
    cursor: Cursor, op: Op, type_: Type | None, inputs: Sequence[Node], attributes: Attributes, start: int
) -> None:
    """Reject wrong operand counts, missing required types, and whatever XLA checks per opcode."""
    problem = call_problem(op, type_, inputs, attributes)
    if problem:
        raise cursor.error(problem, start)


def count_problem(op: Op, count: int) -> str | None:
    """Why an opcode does not accept this many operands, in any mode; None if it does."""
    return None if op.accepts(count) else f"{op} takes {_count(op)}, not {count}"


def call_problem(op: Op, type_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    """Why XLA would reject this application; None if it would not."""
    if problem := count_problem(op, len(inputs)):
        return problem
    if type_ is None and not op.omits_type:
        return f"{op} needs its type written before it"
    lacking = op.lacking(attributes)
    if lacking is not None:
        return f"{op} needs the attribute '{lacking}'"
    if op.name in NOT_TODAY or any((op.name, name) in NOT_TODAY for name in attributes):
        return f"{op} with these attributes is of another year: XLA's parser of today does not read it"
    for name, value in attributes.items():
        if isinstance(value, float) and abs(value) > LARGEST_F32:
            return f"{name}={value} does not fit into 32 bits"
    problems = (check(type_, inputs, attributes) for check in _CHECKS.get(op.name, ()))
    return next(filter(None, problems), None)


def _count(op: Op) -> str:
    least, most = op.arity
    if most == least:
        return f"{least} operand{'s' * (least != 1)}"
    step = f" and then {op.operand_step} at a time" if op.operand_step > 1 else ""
    return f"at least {least} operands{step}" if most is None else f"{least} to {most} operands"


def _takes_arrays(_: Type | None, inputs: Sequence[Node], __: Attributes) -> str | None:
    """XLA reads the dimensions of these operands and aborts if they have none."""
    wrong = next((node for node in inputs if node.type is not None and not isinstance(node.type, TensorType)), None)
    return None if wrong is None else f"{wrong.name} must be an array, not {wrong.type}"


def _takes_memory(_: Type | None, inputs: Sequence[Node], __: Attributes) -> str | None:
    """As `_takes_arrays`, but buffers have dimensions too."""
    kinds = (TensorType, BufferType)
    wrong = next((node for node in inputs if node.type is not None and not isinstance(node.type, kinds)), None)
    return None if wrong is None else f"{wrong.name} must be an array or a buffer, not {wrong.type}"


def _updates_memory(type_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    """XLA's parser does not look at the update."""
    return _takes_memory(type_, (*inputs[:1], *inputs[2:]), attributes)


def _yields_array(type_: Type | None, _: Sequence[Node], __: Attributes) -> str | None:
    return None if type_ is None or isinstance(type_, TensorType) else f"this must yield an array, not {type_}"


def _no_opaque(type_: Type | None, inputs: Sequence[Node], _: Attributes) -> str | None:
    return "an opaque value cannot be copied" if OPAQUE in (type_ or inputs[0].type,) else None


def _same_size(type_: Type | None, inputs: Sequence[Node], _: Attributes) -> str | None:
    operand = inputs[0].type
    if not isinstance(type_, TensorType) or not isinstance(operand, TensorType) or UNBOUNDED in operand.dims:
        return None
    if UNBOUNDED in type_.dims or prod(type_.dims) != prod(operand.dims):
        return f"reshape from {operand} to {type_} changes the number of elements"
    return None


def _same_arity(type_: Type | None, inputs: Sequence[Node], _: Attributes) -> str | None:
    if type_ is None:
        return None
    if not isinstance(type_, TupleType) or len(type_.elements) != len(inputs):
        return f"a tuple of {len(inputs)} operands cannot have the type {type_}"
    return None


def _branches(_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    pair = ("true_computation" in attributes, "false_computation" in attributes)
    branches = attributes.get("branch_computations")
    if branches is None and not all(pair):
        return "conditional needs branch_computations, or true_computation and false_computation"
    if branches is not None and any(pair):
        return "conditional cannot have branch_computations and true_computation or false_computation"
    if branches == ():
        return "conditional needs at least one branch"
    count = 2 if branches is None else len(branches)
    if len(inputs) != count + 1:
        return f"conditional with {count} branches takes {count + 1} operands, not {len(inputs)}"
    wanted = "pred" if branches is None else "s32"
    index = inputs[0].type
    if index is not None and not (isinstance(index, TensorType) and index.dtype.name == wanted and index.rank == 0):
        return f"conditional's first operand must be {wanted}[], not {index}"
    return None


def _needs_dimensions(_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    operand = inputs[0].type
    if "dimensions" not in attributes and not (isinstance(operand, TensorType) and operand.rank == 0):
        return "broadcast needs the attribute 'dimensions' unless its operand is a scalar"
    return None


def _single_dimension(_: Type | None, __: Sequence[Node], attributes: Attributes) -> str | None:
    dimensions = attributes.get("dimensions")
    if dimensions is not None and len(dimensions) != 1:
        return f"dimensions={{{','.join(map(str, dimensions))}}} must name one dimension"
    return None


def _rank(node: Node) -> int | None:
    type_ = node.type.element if isinstance(node.type, BufferType) else node.type
    return type_.rank if isinstance(type_, TensorType) else None


def _start_indices(first: int) -> _Check:
    """Check for one index per dimension from operand `first` on, or all of them as one vector."""

    def check(_: Type | None, inputs: Sequence[Node], __: Attributes) -> str | None:
        given, rank = len(inputs) - first, _rank(inputs[0])
        if rank is None or given == rank or (given == 1 and _rank(inputs[first]) == 1):
            return None
        return f"{inputs[0].name} has rank {rank}, but there are {given} start indices"

    return check


def _async_start(type_: Type | None, inputs: Sequence[Node], _: Attributes) -> str | None:
    elements = type_.elements if isinstance(type_, TupleType) else ()
    if len(elements) < 2 or not isinstance(elements[0], TupleType) or len(elements[0].elements) != len(inputs):
        return f"async-start must have a type ((operands), outputs, ...), not {type_}"
    return None


def _same_as_start(type_: Type | None, inputs: Sequence[Node], _: Attributes) -> str | None:
    """Layouts count, with absent ones as default layouts (hlo_parser.cc compares whole shapes)."""
    before = inputs[0].type
    if type_ is None or before is None or (compatible(type_, before) and _layouts(type_) == _layouts(before)):
        return None
    return f"async-update must have the type of {inputs[0].name}, {before}, not {type_}"


def _layouts(type_: Type) -> list[Layout | None]:
    leaves = type_.leaves() if isinstance(type_, TupleType) else [type_]
    return [leaf.layout or default_layout(leaf.rank) if isinstance(leaf, TensorType) else None for leaf in leaves]


def _async_chain(_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    start = chain_start(inputs)
    if start is None:
        return f"{inputs[0].name} is neither async-start nor async-update"
    if len(inputs) > 1:
        return "async-update takes 1 operand: XLA's parser of today reads no more"
    for name, default in (("calls", None), ("async_execution_thread", "main")):
        if name in attributes and attributes[name] != start.attributes.get(name, default):
            return f"'{name}' differs from that of {start.name}"
    return None


def _yields_tuple(type_: Type | None, _: Sequence[Node], __: Attributes) -> str | None:
    if isinstance(type_, TupleType) and type_.elements:
        return None
    return f"this must yield a tuple that is not empty, not {type_}"


def _same_channel(_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    """A done must be on the channel of its operand, if that is an op with channels."""
    operand = inputs[0]
    if not isinstance(operand, Apply) or not isinstance(operand.function, Op):
        return None
    if "channel_id" not in operand.function.attributes or operand.opcode in _NO_CHANNELS:
        return None
    own, other = attributes.get("channel_id"), operand.attributes.get("channel_id")
    return None if own == other else f"channel_id={own} is not that of {operand.name}, {other}"


def _group_mode(_: Type | None, __: Sequence[Node], attributes: Attributes) -> str | None:
    if attributes.get("use_global_device_ids") and not ("channel_id" in attributes or "mode" in attributes):
        return "use_global_device_ids=true needs a channel_id"
    return None


def _api_version(_: Type | None, __: Sequence[Node], attributes: Attributes) -> str | None:
    version = attributes.get("api_version")
    return f"api_version={version} says nothing" if version == "API_VERSION_UNSPECIFIED" else None


def _map_dimensions(type_: Type | None, _: Sequence[Node], attributes: Attributes) -> str | None:
    if type_ is None and "dimensions" not in attributes:
        return "map needs its type, or the attribute 'dimensions'"
    return None


def _sizes(type_: Type | None, inputs: Sequence[Node], _: Attributes) -> str | None:
    if isinstance(type_, TensorType) and len(inputs) == type_.rank + 1:
        return None
    return f"dynamic-reshape to {type_} takes its sizes, one by one, as operands, not {len(inputs) - 1}"


def _some_padding(_: Type | None, __: Sequence[Node], attributes: Attributes) -> str | None:
    """XLA prints a scalar's padding as nothing, which its parser cannot read."""
    return None if attributes["padding"] else "padding= must say how each dimension is padded"


def _device_number(type_: Type | None, _: Sequence[Node], __: Attributes) -> str | None:
    is_number = isinstance(type_, TensorType) and type_.dtype.name == "u32" and type_.rank == 0
    return None if type_ is None or is_number else f"the number of a device is u32[], not {type_}"


def _prefetch_index(_: Type | None, __: Sequence[Node], attributes: Attributes) -> str | None:
    index = attributes.get("cross_program_prefetch_index", 0)
    return None if index in INT32 else f"cross_program_prefetch_index={index} does not fit into 32 bits"


def _takes_tuple(_: Type | None, inputs: Sequence[Node], __: Attributes) -> str | None:
    operand = inputs[0].type
    if operand is None or (isinstance(operand, TupleType) and operand.elements):
        return None
    return f"{inputs[0].name} must be a tuple that is not empty, not {operand}"


def _element(type_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    """Only checked if the type is omitted: a written one is trusted."""
    operand = inputs[0].type
    if type_ is not None or operand is None or element_at(operand, (attributes["index"],)) is not None:
        return None
    return f"{inputs[0].name} is {operand}: it has no element {attributes['index']}"


def _scan(_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    step = attributes["to_apply"]
    if isinstance(step, Graph) and len(step.parameters) != len(inputs):
        return f"scan has {len(inputs)} operands, and {step.name} takes {len(step.parameters)}"
    if 0 <= attributes["num_carries"] <= len(inputs):
        return None
    return f"num_carries={attributes['num_carries']} does not fit {len(inputs)} operands"


def _layout_constraints(_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    constraints = attributes.get("operand_layout_constraints")
    if constraints is None:
        return None
    if len(constraints) != len(inputs):
        return f"operand_layout_constraints must be {len(inputs)}, one per operand, not {len(constraints)}"
    wrong = [pair for pair in zip(constraints, inputs, strict=True) if not compatible(pair[0], pair[1].type)]
    return f"operand_layout_constraints: {wrong[0][0]} does not fit {wrong[0][1].name}" if wrong else None


def _domain(_: Type | None, __: Sequence[Node], attributes: Attributes) -> str | None:
    domain_kind = attributes["domain"].kind
    return None if domain_kind == "sharding" else f"domains are of the kind 'sharding', not '{domain_kind}'"


def _pairs(attributes: Attributes) -> str | None:
    wrong = [pair for pair in attributes["source_target_pairs"] if len(pair) != 2]
    return f"source_target_pairs must be pairs, not {wrong[0]}" if wrong else None


def _permute(_: Type | None, inputs: Sequence[Node], attributes: Attributes) -> str | None:
    if "slice_sizes" in attributes and len(inputs) != 4:
        return f"collective-permute with slice_sizes takes 4 operands, not {len(inputs)}"
    return _pairs(attributes)


_NO_CHANNELS = frozenset(("custom-call",))
"""Opcodes whose rows have a channel but that are not HloChannelInstruction."""
_CHECKS: dict[str, tuple[_Check, ...]] = {
    "all-gather": (_single_dimension,),
    "all-gather-start": (_single_dimension,),
    "all-reduce": (_group_mode,),
    "all-reduce-start": (_group_mode,),
    "all-to-all": (_single_dimension,),
    "async-done": (_async_chain,),
    "async-start": (_async_start,),
    "async-update": (_async_chain, _same_as_start),
    "broadcast": (_needs_dimensions,),
    "collective-permute": (_permute,),
    "collective-permute-start": (_permute,),
    "compare": (_takes_arrays,),
    "concatenate": (_single_dimension,),
    "conditional": (_branches,),
    "copy": (_no_opaque,),
    "copy-start": (_prefetch_index,),
    "custom-call": (_layout_constraints, _api_version),
    "domain": (_domain,),
    "dynamic-reshape": (_takes_arrays, _sizes, _same_size),
    "dynamic-slice": (_takes_memory, _start_indices(1)),
    "dynamic-update-slice": (_updates_memory, _start_indices(2)),
    "get-dimension-size": (_single_dimension,),
    "get-tuple-element": (_element,),
    "infeed": (_yields_tuple,),
    "map": (_map_dimensions, _yields_array),
    "pad": (_some_padding,),
    "partition-id": (_device_number,),
    "ragged-all-to-all": (_single_dimension,),
    "recv": (_yields_tuple,),
    "recv-done": (_takes_tuple, _same_channel),
    "reduce-scatter": (_single_dimension, _group_mode),
    "replica-id": (_device_number,),
    "reshape": (_takes_arrays, _yields_array, _same_size),
    "scan": (_scan, _single_dimension),
    "send-done": (_same_channel,),
    "set-dimension-size": (_single_dimension,),
    "sort": (_single_dimension,),
    "tuple": (_same_arity,),
}


def check_graph(reader: ModuleState, graph: Graph, start: int, end: int, result: Type | None) -> None:
    """Check a finished computation: whatever the fast path did not check, its parameters, and the result."""
    for node in graph.nodes:
        if node.raw_metadata is not None:
            _check_metadata(reader, node, start, end)
        if "origin" in node.attributes and not _nests(node.attributes["origin"]):
            raise _error_at(reader, node.name, start, end, "origin= has a comma outside a tuple")
        if "sharding" in node.attributes:
            _check_sharding(reader, node, start, end)
        if "statistics" in node.attributes and any(isinf(number) for _, number in node.attributes["statistics"].values):
            raise _error_at(reader, node.name, start, end, "XLA reads no infinite statistic")
        if isinstance(node.type, TensorType) and not node.type.dims and _is_left_out(node):
            raise _error_at(reader, node.name, start, end, "the value of a scalar cannot be left out")
        if "outer_dimension_partitions" in node.attributes or "parameter_replication" in node.attributes:
            _check_leaf_counts(reader, node, start, end)
        invalid = _invalid_leaf(node.type) if isinstance(node.type, TupleType) else None
        if invalid and _is_tuple_written(reader, node.name, start, end):
            raise _error_at(reader, node.name, start, end, invalid)
        problem = name_problem(node.name, True)
        if node.name in RESERVED and not _is_written_with_percent(reader, node.name, start, end):
            problem = name_problem(node.name, False)
        if problem is None and isinstance(node, Apply) and isinstance(node.function, Op):
            problem = call_problem(node.function, node.type, node.operands, node.attributes)
        if problem:
            raise _error_at(reader, node.name, start, end, problem)
    numbers = [parameter.number for parameter in graph.parameters]
    if numbers != list(range(len(numbers))):
        raise _parameter_error(reader, graph, numbers, start, end)
    root = graph.root
    if result is not None and not compatible(result, type_for_xla(root)):
        problem = f"{graph.name} is declared to yield {result}, but its root {root.name} is {type_for_xla(root)}"
        raise _error_at(reader, root.name, start, end, problem)


def _is_left_out(node: Node) -> bool:
    return node.literal is not None and node.literal.is_left_out


@lru_cache(maxsize=4096)
def _invalid_leaf(type_: TupleType) -> str | None:
    """What is wrong with an array inside a tuple: XLA only validates arrays in tuples that are written."""
    arrays = (leaf for leaf in type_.leaves() if isinstance(leaf, TensorType))
    return next((f"{leaf} in a tuple: {problem}" for leaf in arrays if (problem := _layout_problem(leaf))), None)


def _layout_problem(type_: TensorType) -> str | None:
    """What LayoutUtil::ValidateLayoutForShape (xla/layout_util.cc) rejects but the reader accepts."""
    layout = type_.layout
    if layout is None or layout.is_plain:
        return None
    if layout.index_type or layout.pointer_type:
        return "an array that is not sparse has no index or pointer type"
    if any(not tile or 0 in tile for tile in layout.tiles):
        return "a tile has at least one dimension, none of size 0"
    if len({split.dimension for split in layout.split_configs}) < len(layout.split_configs):
        return "a dimension is split twice"
    for split in layout.split_configs:
        if split.dimension >= type_.rank:
            return f"a split names dimension {split.dimension}, which it lacks"
        bounds = (0, *split.indices, type_.dims[split.dimension])
        if any(left >= right for left, right in pairwise(bounds)):
            return f"the split {split} must rise from above 0 to below {bounds[-1]}"
    return None


def _check_metadata(reader: ModuleState, node: Node, start: int, end: int) -> None:
    """Parse metadata, which is otherwise lazy, and report the instruction if it is malformed."""
    try:
        metadata = node.metadata
    except HloomError as problem:
        raise _error_at(reader, node.name, start, end, f"in its metadata: {problem.message}") from None
    if metadata is None:
        return
    problem = None
    numbers = {name: getattr(metadata, name) for name, default in METADATA_FIELDS.items() if isinstance(default, int)}
    if wide := [name for name, value in numbers.items() if value not in INT32]:
        problem = f"{wide[0]}={numbers[wide[0]]} does not fit into 32 bits"
    elif unknown := [number for number in metadata.profile_type if number not in PROFILE_TYPES]:
        problem = f"no profile type is called {unknown[0]}"
    elif node.raw_metadata is not None and node.raw_metadata.rstrip().endswith(","):
        problem = "nothing follows the last comma"
    if problem:
        raise _error_at(reader, node.name, start, end, f"in its metadata: {problem}")


def _nests(origin: Any) -> bool:
    """Whether every comma of an `origin=` is inside a tuple: XLA aborts on others."""
    depth = 0
    for match in _ORIGIN_TOKEN.finditer(str(origin)[1:-1]):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if match[0] == "," and depth <= 0:
            return False
    return True


def _check_sharding(reader: ModuleState, node: Node, start: int, end: int) -> None:
    sharding = node.attributes["sharding"]
    for leaf in sharding.elements if isinstance(sharding, TupleSharding) else (sharding,):
        if isinstance(leaf, Tiled) and leaf.subgroups and not leaf.fits and isinstance(canonical(leaf), Tiled):
            problem = f"{leaf} has {prod(leaf.tile)} places for {leaf.devices.count} devices: XLA's parser dies of such"
            raise _error_at(reader, node.name, start, end, problem)
        if isinstance(leaf, MeshSharding) and leaf.reduction != "sum":
            problem = f"unreduced={leaf.reduction} is newer than what XLA's parser reads here"
            raise _error_at(reader, node.name, start, end, problem)


def _check_leaf_counts(reader: ModuleState, node: Node, start: int, end: int) -> None:
    if "outer_dimension_partitions" in node.attributes:
        raise _error_at(reader, node.name, start, end, "outer_dimension_partitions was read in 2020 only")
    if not isinstance(node, Parameter):
        raise _error_at(reader, node.name, start, end, "parameter_replication is for parameters")
    given = len(node.attributes["parameter_replication"])
    leaves = sum(1 for _ in node.type.leaves()) if node.type else given
    if given != leaves:
        raise _error_at(reader, node.name, start, end, f"parameter_replication needs {leaves} values, not {given}")


_ORIGINAL_ARRAY = r'\s*\{\s*(?:"(?:[^"\\]|\\.)*"\s*(?:\{[0-9,\s]*\})?\s*)?\}\s*'
_RECOVERY = re.compile(rf"{_ORIGINAL_ARRAY}:{_ORIGINAL_ARRAY}(?:,\s*(\"(?:[^\"\\]|\\.)*\")\s*)?", re.DOTALL)
"""An entry of the header's origin_recovery_table, optionally with the text of a module."""


def check_aliases(reader: ModuleState, cursor: Cursor) -> None:
    """Check that the header's aliases name existing outputs and parameters of the entry."""
    entry = reader.module.entry
    for alias in reader.module.attributes.get("input_output_alias", ()):
        parameter = entry.parameters[alias.parameter].type if alias.parameter < len(entry.parameters) else None
        outputs = element_at(entry.root.type, alias.output_index)
        if outputs is None or element_at(parameter, alias.parameter_index) is None:
            raise cursor.error(f"the header's {alias} names an output or a parameter that {entry.name} has not", 0)


def check_async_computations(reader: ModuleState) -> None:
    """Check that each computation is started asynchronously from one place only."""
    started: dict[Graph, Node] = {}
    for graph in reader.module.graphs:
        for node in graph.nodes:
            called = node.attributes.get("calls") if node.opcode == "async-start" else None
            if isinstance(called, Graph) and started.setdefault(called, node) is not node:
                problem = f"{called.name} is started by {started[called].name} already: each needs its own computation"
                raise _error_at(reader, node.name, 0, len(reader.text), problem)


def check_recovery_table(reader: ModuleState, cursor: Cursor, read: Callable[[str], object]) -> None:
    """Check the header's origin_recovery_table; `read` parses the modules in it."""
    table = reader.module.attributes.get("origin_recovery_table")
    if table is None:
        return
    text, position = str(table), 1
    while match := _RECOVERY.match(text, position):
        position = match.end()
        if match[1] is not None:
            try:
                read(unescape(match[1][1:-1]))
            except (HloomError, ValueError) as problem:
                words = problem.message if isinstance(problem, HloomError) else str(problem)
                raise cursor.error(f"a module of origin_recovery_table does not read: {words}", 0) from None
    if text[position:].strip() != "}":
        raise cursor.error('origin_recovery_table must be { {"old"} : {"new"}, "HloModule .." .. }', 0)


def _parameter_error(reader: ModuleState, graph: Graph, numbers: list[int], start: int, end: int) -> ParseError:
    number, parameter = next(
        (number, parameter_) for number, parameter_ in enumerate(graph.parameters) if parameter_.number != number
    )
    wrong = f"{parameter.number} is given twice" if parameter.number < number else f"{number} is missing"
    problem = f"parameter numbers of {graph.name} must be 0 to {len(numbers) - 1}, each once: {wrong}"
    return _error_at(reader, parameter.name, start, end, problem)


def _definition(reader: ModuleState, name: str, start: int, end: int) -> re.Match[str] | None:
    return re.compile(rf"(?<![\w.%-])%?{re.escape(name)}\s*=(?=\s)").search(reader.text, start, end)


def _is_written_with_percent(reader: ModuleState, name: str, start: int, end: int) -> bool:
    definition = _definition(reader, name, start, end)
    return definition is None or definition[0].startswith("%")


def _is_tuple_written(reader: ModuleState, name: str, start: int, end: int) -> bool:
    """Whether a tuple type is written before the instruction's opcode."""
    definition = _definition(reader, name, start, end)
    return definition is None or _OPENS.match(reader.text, definition.end()) is not None


_OPENS = re.compile(r"\s*\(")


def _error_at(reader: ModuleState, name: str, start: int, end: int, problem: str) -> ParseError:
    definition = _definition(reader, name, start, end)
    return Cursor(reader.source).error(problem, definition.start() if definition else start)
