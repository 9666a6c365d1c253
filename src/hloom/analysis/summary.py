"""The summary of a module: its contents, its size, and what hloom does not understand in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import nlargest

from hloom.analysis.rules import kind_of
from hloom.analysis.size_note import ALL_KNOWN, SizeNote, size_note
from hloom.ir import (
    Graph,
    ModuleLike,
    Node,
    Parameter,
    TensorType,
    Trait,
    Type,
    as_module,
    without_layout,
)
from hloom.ops import collective, with_trait
from hloom.text import Display, Displayed, DisplayTable, HloomError, Record

LARGEST = 10
"""How many of the largest tensors are listed."""
_MOVES_NOTHING = with_trait(Trait.DEVICE_ID)
_FINISHES = "-done"
"""Asynchronous pairs are counted at their start; this suffix marks the other half."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One instruction's result; `bytes` counts all elements unpacked, without layouts and padding."""

    name: str
    computation: str
    opcode: str
    type: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Call:
    """One line of the call tree, in preorder: the callee, its depth, how often it is called, and by which opcodes.

    `times` counts the caller's instructions that call it. A computation's own calls are only listed below its first
    line; `is_repeated` marks the others.
    """

    computation: str
    depth: int
    opcodes: tuple[str, ...]
    times: int
    instructions: int
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class CollectiveCount:
    """All collectives of one opcode; `bytes` is the size of their results on one device."""

    opcode: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class Summary(Displayed, Record):
    """The summary of a module.

    Counts by opcode and by element type are in decreasing order; `dtypes` counts the arrays that instructions yield.
    `calls` begins with the entry. `unreached` are computations that the entry does not reach. Unknown sizes (dimensions
    without a bound) count as 0, and `sizes` says so.
    """

    name: str
    source: str
    entry: str
    is_scheduled: bool
    replica_count: int
    partition_count: int
    computation_count: int
    instruction_count: int
    entry_instruction_count: int
    parameter_count: int
    parameter_bytes: int
    output_count: int
    output_bytes: int
    constant_bytes: int
    elided_constant_count: int
    sharded_count: int
    opcodes: Mapping[str, int]
    dtypes: Mapping[str, int]
    calls: tuple[Call, ...]
    unreached: tuple[str, ...]
    largest: tuple[Tensor, ...]
    collectives: tuple[CollectiveCount, ...]
    custom_calls: Mapping[str, int]
    custom_call_names: Mapping[str, str]
    unresolved: tuple[str, ...]
    notes: tuple[str, ...]
    sizes: SizeNote = ALL_KNOWN

    def display(self) -> Display:
        largest = [(tensor.name, tensor.opcode, tensor.type, tensor.bytes) for tensor in self.largest]
        opcodes = list(self.opcodes.items())
        custom_calls = [(target, self.custom_call_names.get(target, ""), n) for target, n in self.custom_calls.items()]
        sent = [(collective.opcode, collective.count, collective.bytes) for collective in self.collectives]
        tables = (
            DisplayTable("opcodes", ("opcode", "instructions"), opcodes, len(opcodes)),
            DisplayTable("largest results", ("instruction", "opcode", "type", "bytes"), largest, len(largest)),
            DisplayTable("collectives", ("opcode", "instructions", "bytes"), sent, len(sent)),
            DisplayTable("custom calls", ("target", "name", "instructions"), custom_calls, len(custom_calls)),
            DisplayTable("unresolved", ("name",), [(name,) for name in self.unresolved], len(self.unresolved)),
        )
        return Display(f"<summary of {self}>", tables)

    def __str__(self) -> str:
        opcodes = ", ".join(f"{opcode} {count:,}" for opcode, count in list(self.opcodes.items())[:8])
        return (
            f"{self.name}: {self.computation_count:,} computations, {self.instruction_count:,} instructions; "
            f"{self.parameter_count:,} parameters of {self.sizes.qualifier}{self.parameter_bytes:,} bytes, "
            f"{self.output_count:,} outputs of {self.sizes.qualifier}{self.output_bytes:,} bytes; {opcodes}"
            f"{f'; {self.sizes}' if self.sizes else ''}"
        )


def inspect(module: ModuleLike) -> Summary:
    """Summarise a module; raises HloomError if it has no entry."""
    module = as_module(module)
    entry = module.entry
    nodes = list(module.nodes())
    sizes: dict[Type | None, int] = {}
    opcodes = Counter(node.opcode for node in nodes)
    constants = [(node, literal) for node in nodes if (literal := node.literal) is not None]
    calls, reached = _calls(entry)
    custom_calls = dict(_custom_calls(nodes).most_common())
    outputs = list(entry.output.type.leaves()) if entry.output is not None and entry.output.type is not None else []
    return Summary(
        name=module.name,
        source=module.source_name,
        entry=entry.name,
        is_scheduled=module.is_scheduled,
        replica_count=module.attributes.get("replica_count") or 1,
        partition_count=module.attributes.get("num_partitions") or 1,
        computation_count=len(module.graphs),
        instruction_count=len(nodes),
        entry_instruction_count=len(entry.nodes),
        parameter_count=len(entry.parameters),
        parameter_bytes=sum(_bytes(parameter.type, sizes) for parameter in entry.parameters),
        output_count=len(outputs),
        output_bytes=sum(_bytes(leaf, sizes) for leaf in outputs),
        constant_bytes=sum(_bytes(node.type, sizes) for node, _ in constants),
        elided_constant_count=sum(literal.is_elided for _, literal in constants),
        sharded_count=sum(1 for node in nodes if "sharding" in node.attributes),
        opcodes=dict(opcodes.most_common()),
        dtypes=_dtypes(nodes),
        calls=calls,
        unreached=tuple(graph.name for graph in module.graphs if graph not in reached),
        largest=_largest(nodes, sizes),
        collectives=_collectives(nodes, sizes),
        custom_calls=custom_calls,
        custom_call_names={target: kind.name for target in custom_calls if (kind := kind_of(target)) is not None},
        unresolved=tuple(str(name) for name in module.unresolved),
        notes=tuple(module.notes),
        sizes=size_note(module),
    )


def _bytes(value_type: Type | None, sizes: dict[Type | None, int]) -> int:
    """The bytes of a type, computed once per type."""
    size = sizes.get(value_type)
    if size is None:
        try:
            size = value_type.byte_count if value_type is not None else 0
        except HloomError:
            size = 0
        sizes[value_type] = size
    return size


def _dtypes(nodes: list[Node]) -> dict[str, int]:
    kinds = Counter(node.type for node in nodes)
    dtypes: Counter[str] = Counter()
    for value_type, count in kinds.items():
        for leaf in value_type.leaves() if value_type is not None else ():
            dtypes[leaf.dtype.name if isinstance(leaf, TensorType) else str(leaf)] += count
    return dict(dtypes.most_common())


def _largest(nodes: list[Node], sizes: dict[Type | None, int]) -> tuple[Tensor, ...]:
    """The largest results, excluding tuples, which only collect data."""
    makers = (node for node in nodes if isinstance(node.type, TensorType) and not isinstance(node, Parameter))
    nodes = nlargest(LARGEST, makers, key=lambda node: _bytes(node.type, sizes))
    return tuple(
        Tensor(node.name, node.graph.name, node.opcode, _text(node.type), _bytes(node.type, sizes)) for node in nodes
    )


def _text(value_type: Type | None) -> str:
    return "?" if value_type is None else str(without_layout(value_type))


def _collectives(nodes: list[Node], sizes: dict[Type | None, int]) -> tuple[CollectiveCount, ...]:
    counts: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for node in nodes:
        opcode = node.opcode
        if opcode in collective.ROWS and opcode not in _MOVES_NOTHING and not opcode.endswith(_FINISHES):
            counts[opcode] += 1
            moved[opcode] += _bytes(node.type, sizes)
    return tuple(CollectiveCount(opcode, count, moved[opcode]) for opcode, count in counts.most_common())


def _custom_calls(nodes: list[Node]) -> Counter[str]:
    calls = (node for node in nodes if node.opcode == "custom-call")
    return Counter(str(node.attributes.get("custom_call_target", "?")) for node in calls)


def _calls(entry: Graph) -> tuple[tuple[Call, ...], set[Graph]]:
    """The tree of calls below the entry in preorder, and the graphs in it."""
    lines = [Call(entry.name, 0, (), 1, len(entry.nodes))]
    reached = {entry}
    pending = [_called(entry)]
    while pending:
        following = next(pending[-1], None)
        if following is None:
            pending.pop()
            continue
        graph, callers = following
        opcodes = tuple(dict.fromkeys(caller.opcode for caller in callers))
        is_repeated = graph in reached
        lines.append(Call(graph.name, len(pending), opcodes, len(callers), len(graph.nodes), is_repeated))
        if not is_repeated:
            reached.add(graph)
            pending.append(_called(graph))
    return tuple(lines), reached


def _called(graph: Graph) -> Iterator[tuple[Graph, list[Node]]]:
    callers: dict[Graph, list[Node]] = {}
    for node in graph.nodes:
        for called in node.called_graphs:
            callers.setdefault(called, []).append(node)
    return iter(callers.items())
