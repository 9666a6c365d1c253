"""Which buffers are in use at each time of a run, and the memory they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.analysis.buffer_assignment import BufferAssignment, assign_buffers, reuse_operands, reuse_shared_operands
from hloom.analysis.buffers import Buffer, Buffers, Span
from hloom.analysis.control_flow import element_type
from hloom.analysis.dataflow import BufferAlias, ValueTable, ValueTree, analyze_dataflow, leaves, subtree
from hloom.analysis.heap_simulator import aligned, height, height_in_time_order, live_bytes
from hloom.analysis.memory_model import DEVICE_MEMORY, MemoryModel, memory_model
from hloom.analysis.schedule import Scheduler, order_of
from hloom.analysis.stored_sizes import stored_in_all
from hloom.ir import BufferDonor, Module, Node, TensorType, TupleType, Type, paused_collection, without_layout
from hloom.text import HloomError

Index = tuple[int, ...]


MOST_BYTES = 2**60
"""The maximum sum of sizes in bytes; beyond it the integers used for sums would overflow."""
Donations = dict[Index, tuple[int, Index]]
"""For each element of the output, the number of the parameter whose memory it takes, and which element of it."""


@dataclass(slots=True)
class Liveness:
    """The lifetime of every buffer of one memory space in a run of a module.

    `arguments`, `outputs`, `aliases` and `temporaries` are bytes, as in XLA's account: outputs are separate from
    arguments unless aliased, and include a pointer table for each tuple. `heap` is the size of the allocation that the
    compiler lays out for temporaries, which on a TPU includes tables that the device never stores. `donations` says
    which parameter an output replaces; `last_reads` when each value of a parameter is last read.
    """

    module: Module
    model: MemoryModel
    space: int
    values: ValueTable
    arguments: int
    outputs: int
    aliases: int
    temporaries: int
    heap: int
    parameter_buffers: list[Buffer]
    output_buffers: list[Buffer]
    allocation: BufferAssignment
    donations: Donations = field(default_factory=dict)
    last_reads: dict[int, int] = field(default_factory=dict)

    @property
    def peak(self) -> int:
        """The maximum bytes in use at any time: arguments and outputs, with aliases counted once, and temporaries."""
        return self.arguments + self.outputs - self.aliases + self.temporaries

    @property
    def length(self) -> int:
        """The number of instructions that run in sequence, with loops counted once."""
        return len(self.values.steps)

    @property
    def steps(self) -> list[Node]:
        """The instruction at each time."""
        return self.values.steps

    def timeline(self) -> np.ndarray:
        """The bytes in use at each time: arguments, outputs and the temporaries live at that time."""
        fixed = self.arguments + self.outputs - self.aliases
        return fixed + live_bytes(self.allocation.temporaries, self.length)


@paused_collection()
def liveness(
    module: Module,
    schedule: str | None = None,
    given: Donations | None = None,
    scheduler: Scheduler | None = None,
    space: int = DEVICE_MEMORY,
    model: MemoryModel | None = None,
) -> Liveness:
    """Find when each buffer in a memory space is in use; `given` are donations in addition to those in the module.

    A scheduled module runs in its own order and nothing more is fused. Any other is assumed to run in the requested
    order (one of SCHEDULES, "list" by default) with elementwise work fused; or as a given scheduler says.
    """
    return liveness_by_space(module, schedule, given, scheduler, [space], model)[space]


@paused_collection()
def liveness_by_space(
    module: Module,
    schedule: str | None = None,
    given: Donations | None = None,
    scheduler: Scheduler | None = None,
    spaces: Sequence[int] | None = None,
    model: MemoryModel | None = None,
) -> dict[int, Liveness]:
    """The liveness of each memory space that values are in, the main memory first, or of the given spaces."""
    scheduler = scheduler or Scheduler(module.is_scheduled and schedule != "list", order_of(module, schedule))
    model = model or memory_model(module)
    values = analyze_dataflow(module, scheduler, model)
    if sum(values.sizes) > MOST_BYTES:
        raise HloomError(f"{module.name} holds arrays of more than {MOST_BYTES:,} bytes: more than any machine has")
    named = {**dict(_donations(module)), **(given or {})}
    donations = {index: donor for index, donor in named.items() if leaves_at(values.parameters, *donor)}
    donated = {leaf for number, index in donations.values() for leaf in leaves_at(values.parameters, number, index)}
    fixed = {leaf for tree in values.parameters.values() for leaf in leaves(tree)}
    last_reads = {leaf: values.ends[leaf] for leaf in fixed}
    for leaf in (fixed | values.constants) - donated:
        values.starts[leaf], values.ends[leaf] = 0, len(values.steps) + 1
    buffers = Buffers(values, _aliases(values, donations, scheduler.is_final), scheduler.is_final)
    numbers = dict.fromkeys([DEVICE_MEMORY, *sorted(set(values.spaces))]) if spaces is None else spaces
    account = _Account(module, model, values, buffers, donations, last_reads)
    return {number: account.of(number) for number in numbers}


@dataclass(slots=True)
class _Account:
    """Adds up the buffers of a run by memory space; `last_reads` has the entry's parameters as keys."""

    module: Module
    model: MemoryModel
    values: ValueTable
    buffers: Buffers
    donations: Donations
    last_reads: dict[int, int]

    def of(self, space: int) -> Liveness:
        """The liveness of one space."""
        module, values, donations = self.module, self.values, self.donations
        root = module.entry.output
        replaced = {leaf for index in donations for leaf in leaves_below(values.output, index)}
        parameter_buffers = self._in_space(sorted(self.last_reads), space)
        kept = {id(buffer) for buffer in parameter_buffers}
        live_out = self._in_space([leaf for leaf in leaves(values.output) if leaf not in replaced], space)
        output_buffers = [buffer for buffer in live_out if id(buffer) not in kept]
        constants = self._in_space(values.constants, space)
        elsewhere = kept | {id(buffer) for buffer in (*constants, *output_buffers)}
        free = [buffer for buffer in self.buffers if _space_of(buffer, values) == space and id(buffer) not in elsewhere]
        tables = _keep_tables(values, free)
        donors = [buffer for buffer in parameter_buffers if len(buffer.spans) > 1]
        is_preset = self.model.is_tpu and space != DEVICE_MEMORY
        reuse = reuse_shared_operands if is_preset else reuse_operands
        allocation = assign_buffers(values, [*output_buffers, *donors], free, self.model.temporary_opcodes, reuse)
        aliased = [leaf for number, index in donations.values() for leaf in leaves_at(values.parameters, number, index)]
        packed = height_in_time_order if self.model.is_tpu and not is_preset else height
        heap = packed(allocation.temporaries, len(values.steps), self.model.space(space).alignment)
        temporaries = heap
        if self.model.is_tpu and space == DEVICE_MEMORY:
            allocation.temporaries = [buffer for buffer in allocation.temporaries if id(buffer) not in tables]
            temporaries = self._stored_temporaries(allocation.temporaries, heap, sum(tables.values()))
        return Liveness(
            module=module,
            model=self.model,
            space=space,
            values=values,
            arguments=sum(stored_in_all(parameter.type, space, self.model) for parameter in module.entry.parameters),
            outputs=stored_in_all(root.type if root is not None else None, space, self.model),
            aliases=sum(values.sizes[leaf] for leaf in aliased if values.spaces[leaf] == space),
            temporaries=temporaries,
            heap=heap,
            parameter_buffers=parameter_buffers,
            output_buffers=output_buffers,
            allocation=allocation,
            donations=donations,
            last_reads=self.last_reads,
        )

    def _in_space(self, numbers: Iterable[int], space: int) -> list[Buffer]:
        return _distinct(self.buffers.of(leaf) for leaf in numbers if self.values.spaces[leaf] == space)

    def _stored_temporaries(self, buffers: Sequence[Buffer], heap: int, tables: int) -> int:
        """What libtpu reports as temporaries: its allocation, and once more what is lost to fragmentation in it.

        Nothing if only tuples' tables and the scalar unit's numbers are in it. Of values that take turns in a buffer
        because they must, only the first counts as live (xla/service/buffer_assignment.cc,
        ComputePeakMemoryLogicalBuffers).
        """
        if all(self._is_scalar(span.value) for buffer in buffers for span in buffer.spans):
            return 0
        alone = [Buffer(buffer.size, _own_spans(buffer)) for buffer in buffers]
        live = int(live_bytes(alone, len(self.values.steps)).max(initial=0))
        return 2 * aligned(heap, self.model.space(DEVICE_MEMORY).alignment) - tables - live

    def _is_scalar(self, number: int) -> bool:
        """Whether the scalar unit computes a value: no float, and nothing that a kernel makes of an array."""
        node = self.values.nodes[number]
        held = element_type(node.type, self.values.indices[number])
        if not isinstance(held, TensorType) or held.dims or held.dtype.is_float:
            return False
        return not any(isinstance(operand.type, TensorType) and operand.type.dims for operand in node.operands)


def _space_of(buffer: Buffer, values: ValueTable) -> int:
    return values.spaces[buffer.spans[0].value]


def _own_spans(buffer: Buffer) -> list[Span]:
    """The spans of values that find the buffer empty, and of those that overwrite an operand by choice."""
    last = -1
    spans: list[Span] = []
    for span in buffer.spans:
        if span.start > last or span.value in buffer.reusing:
            spans.append(span)
        last = max(last, span.end)
    return spans


def _keep_tables(values: ValueTable, buffers: Iterable[Buffer]) -> dict[int, int]:
    """Give each pointer table its own memory for the whole run; returns their sizes by the ids of the buffers.

    XLA does not reuse tuple buffers (xla/service/buffer_assignment.cc, BufferAssigner::MaybeAssignBuffer).
    """
    tables = values.inner_tables.union(values.tables.values())
    sizes: dict[int, int] = {}
    for buffer in buffers:
        if buffer.spans[0].value in tables:
            buffer.spans = [Span(0, len(values.steps), buffer.spans[0].value)]
            sizes[id(buffer)] = buffer.size
    return sizes


def _distinct(buffers: Iterable[Buffer]) -> list[Buffer]:
    return list({id(buffer): buffer for buffer in buffers}.values())


def _donations(module: Module) -> Iterator[tuple[Index, tuple[int, Index]]]:
    """Which parameter's buffer each output takes; donors without an assigned output get the first one of their type."""
    taken: set[Index] = set()
    for alias in module.attributes.get("input_output_alias") or ():
        taken.add(alias.output_index)
        yield alias.output_index, (alias.parameter, alias.parameter_index)
    donors = module.attributes.get("buffer_donor") or ()
    root = module.entry.output
    if not donors or root is None or root.type is None:
        return
    waiting: dict[Type, list[Index]] = {}
    for index, value_type in indexed(root.type):
        if index not in taken:
            waiting.setdefault(without_layout(value_type), []).append(index)
    for donor in donors:
        value_type = _type_at(module, donor)
        outputs = waiting.get(value_type) if value_type is not None else None
        if outputs:
            yield outputs.pop(0), (donor.parameter, donor.parameter_index)


def indexed(value_type: Type) -> Iterator[tuple[Index, Type]]:
    """The non-tuple types, each with its index."""
    pending: list[tuple[Index, Type]] = [((), value_type)]
    while pending:
        index, part = pending.pop()
        if isinstance(part, TupleType):
            pending += [((*index, number), element) for number, element in reversed(list(enumerate(part.elements)))]
        else:
            yield index, part


def _type_at(module: Module, donor: BufferDonor) -> Type | None:
    parameters = {parameter.number: parameter.type for parameter in module.entry.parameters}
    value_type = parameters.get(donor.parameter)
    for number in donor.parameter_index:
        is_there = isinstance(value_type, TupleType) and 0 <= number < len(value_type.elements)
        value_type = value_type.elements[number] if is_there and isinstance(value_type, TupleType) else None
    return None if value_type is None else without_layout(value_type)


def leaves_at(trees: Mapping[int, ValueTree], number: int, index: Index) -> list[int]:
    """The values in an element of one of several trees."""
    return leaves_below(trees[number], index) if number in trees else []


def leaves_below(tree: ValueTree, index: Index) -> list[int]:
    """The values below an index of a tree, or none if the index is out of range."""
    part = subtree(tree, index)
    return [] if part is None else leaves(part)


def _aliases(values: ValueTable, donations: Donations, is_final: bool) -> Iterator[BufferAlias]:
    """Alias donated parameters with their outputs if nothing reads the parameter after the output is written."""
    for index, (number, parameter_index) in donations.items():
        rows = zip(
            leaves_at(values.parameters, number, parameter_index), leaves_below(values.output, index), strict=False
        )
        for given, made in rows:
            is_met = is_final or any(old == given for old, _ in values.overwrites.get(made, ()))
            yield BufferAlias(given, made, is_met)
