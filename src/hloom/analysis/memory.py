"""Memory use of a run of a module: how much, when it peaks, what for, and what could reduce it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloom.analysis.buffers import Buffer
from hloom.analysis.liveness import Donations, Index, Liveness, indexed, leaves_at, leaves_below
from hloom.analysis.memory_model import MAIN_MEMORY
from hloom.analysis.op_names import op_name_of, source_of
from hloom.analysis.scopes import NO_SCOPE, scope_of_name, scopes
from hloom.analysis.size_note import ALL_KNOWN, SizeNote, size_note, type_qualifier
from hloom.ir import Module, Node, TensorType, Type, without_layout
from hloom.text import Bytes, Display, Displayed, DisplayTable, Record

ATTACHMENT = "buffer_assignment"
"""The name under which a module keeps the message."""
ROLES = ("argument", "output", "alias", "temporary", "constant", "thread")
LARGEST = 20
"""The maximum number of allocations to list."""


@dataclass(frozen=True, slots=True)
class XlaAllocation:
    """One allocation: its bytes, its purpose, and the instructions whose values it holds, largest first."""

    index: int
    bytes: int
    role: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class XlaAccount:
    """XLA's allocations in bytes; constants and thread-local memory are listed separately."""

    arguments: Bytes
    outputs: Bytes
    aliases: Bytes
    temporaries: Bytes
    constants: Bytes
    allocations: tuple[XlaAllocation, ...]

    @property
    def peak(self) -> Bytes:
        """Arguments and outputs, with aliases counted once, and temporaries."""
        return self.arguments + self.outputs - self.aliases + self.temporaries


def xla_account(module: Module) -> XlaAccount | None:
    """XLA's account, from the buffer assignment that came with a module; None if there was none."""
    message: Any = module.attachments.get(ATTACHMENT)
    if message is None:
        return None
    names = {buffer.id: buffer.defined_at.instruction_name for buffer in message.logical_buffers}
    sums: dict[str, int] = dict.fromkeys(ROLES, 0)
    for allocation in message.buffer_allocations:
        for use in _roles(allocation):
            sums[use] += allocation.size
    largest = sorted(message.buffer_allocations, key=lambda allocation: -allocation.size)[:LARGEST]
    return XlaAccount(
        arguments=sums["argument"],
        outputs=sums["output"],
        aliases=sums["alias"],
        temporaries=sums["temporary"],
        constants=sums["constant"],
        allocations=tuple(
            XlaAllocation(allocation.index, allocation.size, _roles(allocation)[0], _values(allocation, names))
            for allocation in largest
        ),
    )


def _roles(allocation: Any) -> tuple[str, ...]:
    if allocation.is_thread_local:
        return ("thread",)
    if allocation.is_constant:
        return ("constant",)
    if allocation.is_entry_computation_parameter:
        return ("argument", "output", "alias") if allocation.maybe_live_out else ("argument",)
    return ("output",) if allocation.maybe_live_out else ("temporary",)


def _values(allocation: Any, names: dict[int, str]) -> tuple[str, ...]:
    ordered = sorted(allocation.assigned, key=lambda assigned: (-assigned.size, assigned.offset))
    return tuple(names.get(assigned.logical_buffer_id, "?") for assigned in ordered)


MOST_POINTS = 2000
"""The maximum number of points of a timeline; longer ones are thinned, each point being the maximum of its neighbours.
"""


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer in use at the peak: its contents at that time, and from when to when.

    `role` is "argument", "output" or "temporary"; arguments and outputs count for the whole run, and an output's memory
    may currently hold a temporary value. `index` says which element of a tuple it holds, `last_user` the instruction
    that needs its contents last; `sizes` is "at least" or "at most" if the type has a dimension that varies.
    """

    name: str
    index: Index
    computation: str
    opcode: str
    type: str
    bytes: int
    role: str
    start: int
    end: int
    scope: str
    source: str
    last_user: str = ""
    sizes: str = ""


@dataclass(frozen=True, slots=True)
class Donatable:
    """An input whose memory an output of the same type could take if the caller donated it.

    `is_free` says that nothing reads the input once the output is written; otherwise donation would need a copy.
    """

    parameter: int
    index: Index
    name: str
    type: str
    bytes: int
    output_index: Index
    is_free: bool


@dataclass(frozen=True, slots=True)
class SpaceMemory:
    """The memory use of one memory space in bytes; `short` is what a budget calls it.

    `temporaries` is what the target's compiler reports, `heap` the allocation that it lays out for them, `live` the
    most that is in use at one time.
    """

    space: int
    name: str
    short: str
    peak: Bytes
    arguments: Bytes
    outputs: Bytes
    aliases: Bytes
    temporaries: Bytes
    heap: Bytes
    live: Bytes


@dataclass(frozen=True, slots=True, repr=False)
class MemoryReport(Displayed, Record):
    """The memory use of a run, in bytes.

    `peak` is arguments + outputs - aliases + temporaries; `temporaries` is the size of the allocation that holds them
    all, `live` how much of it is in use at the worst time, `peak_time`, when `peak_instruction` runs. `donatable_bytes`
    is how much the peak would drop if all inputs that need no copy were donated. All of these are bytes of the device's
    main memory, which `main_space` names; `other_spaces` has the other memories that layouts name, with nothing shared
    between them. `target` is what the module was compiled for ("cpu" unless its text says otherwise), `heap` the size
    of the compiler's allocation for temporaries. `timeline` holds times and bytes, arguments and outputs included.
    `xla` is XLA's own account if the file has one; `note` says what the figures cannot know.
    """

    module: str
    schedule: str
    peak: Bytes
    arguments: Bytes
    outputs: Bytes
    aliases: Bytes
    temporaries: Bytes
    live: Bytes
    peak_time: int
    length: int
    peak_instruction: str
    at_peak: tuple[LiveBuffer, ...]
    donatable: tuple[Donatable, ...]
    donatable_bytes: int
    timeline: tuple[tuple[int, int], ...]
    opaque_calls: int = 0
    xla: XlaAccount | None = field(default=None)
    sizes: SizeNote = ALL_KNOWN
    other_spaces: tuple[SpaceMemory, ...] = ()
    target: str = "cpu"
    main_space: str = "memory"
    heap: Bytes = 0
    note: str = ""

    def fits(self, budget: int) -> bool:
        """Whether a run needs no more than this many bytes of the main memory."""
        return self.peak <= budget

    def space(self, short: str) -> SpaceMemory | None:
        """One of the other memory spaces by its short name; None if nothing is in it."""
        return next((other for other in self.other_spaces if other.short == short), None)

    def over_budget(self, budgets: Mapping[str, int]) -> dict[str, int]:
        """By how many bytes each memory exceeds its budget, for those that do; keys are short names of memories."""
        peaks = {MAIN_MEMORY: self.peak} | {other.short: other.peak for other in self.other_spaces}
        missing = {name: peaks.get(name, 0) - budget for name, budget in budgets.items()}
        return {name: size for name, size in missing.items() if size > 0}

    def to_shrink(self, budget: int) -> tuple[LiveBuffer, ...]:
        """The largest buffers at the peak that together hold at least the bytes over the budget."""
        missing = self.peak - budget
        buffers: list[LiveBuffer] = []
        for buffer in self.at_peak:
            if missing <= 0:
                break
            buffers.append(buffer)
            missing -= buffer.bytes
        return tuple(buffers)

    def display(self) -> Display:
        names = ("peak", "arguments", "outputs", "aliases", "temporaries", "donatable_bytes")
        sizes = [(name, getattr(self, name)) for name in names]
        buffers = ((live.name, live.opcode, live.type, live.role, live.bytes, live.scope) for live in self.at_peak)
        columns = ("value", "opcode", "type", "whose", "bytes", "scope")
        tables = (
            DisplayTable("bytes", ("memory", "bytes"), sizes, len(sizes)),
            DisplayTable("live at the peak", columns, buffers, len(self.at_peak)),
        )
        return Display(f"<memory of {self}>", tables)

    def __str__(self) -> str:
        parts = (
            f"arguments {self.arguments:,}",
            f"outputs {self.outputs:,}",
            f"of them aliased {self.aliases:,}",
            f"temporaries {self.temporaries:,}",
        )
        peak = f"{self.sizes.qualifier}{self.peak:,} bytes at the peak, at {self.peak_instruction}"
        notes = "".join(f"; {note}" for note in (str(self.sizes) if self.sizes else "", self.note) if note)
        return f"{self.module}: {peak}: {', '.join(parts)}{notes}"


def memory_report(
    module: Module,
    schedule: str,
    live: Liveness,
    with_donations: Callable[[Donations], Liveness],
    origin: Callable[[Node], Node | None] = lambda node: node,
    elsewhere: Iterable[Liveness] = (),
) -> MemoryReport:
    """Report the buffers of a run of a module; `schedule` names the order they were computed for.

    `with_donations` recomputes liveness with more donated inputs; `elsewhere` are the other memory spaces. `origin`
    yields the module's instruction that a value is named after, if the run has other instructions; None for values that
    only exist in the run.
    """
    paths = scopes(module)

    def scope_of(node: Node) -> str:
        try:
            return paths.text(node)
        except KeyError:  # a step inserted by the compiler
            return "/".join(scope_of_name(op_name_of(node))) or NO_SCOPE

    timeline = live.timeline()
    peak_time = int(np.argmax(timeline[: max(live.length, 1)])) if live.length else 0
    fixed = live.arguments + live.outputs - live.aliases
    donatable = tuple(sorted(_donatable(live), key=lambda donatable_input: -donatable_input.bytes))
    return MemoryReport(
        module=module.name,
        schedule=schedule,
        peak=live.peak,
        arguments=live.arguments,
        outputs=live.outputs,
        aliases=live.aliases,
        temporaries=live.temporaries,
        live=int(timeline.max(initial=fixed)) - fixed,
        peak_time=peak_time,
        length=live.length,
        peak_instruction=_step_name(live.steps[peak_time], origin) if live.length else "",
        at_peak=tuple(sorted(_at_peak(live, peak_time, origin, scope_of), key=lambda buffer: -buffer.bytes)),
        donatable=donatable,
        donatable_bytes=_saved(live, with_donations, donatable),
        timeline=_thinned(timeline[: live.length]),
        opaque_calls=live.values.opaque_calls,
        xla=xla_account(module),
        sizes=size_note(module),
        other_spaces=tuple(map(_space_memory, elsewhere)),
        target=live.model.target,
        main_space=live.model.space(live.space).name,
        heap=live.heap,
    )


def _space_memory(live: Liveness) -> SpaceMemory:
    space = live.model.space(live.space)
    fixed = live.arguments + live.outputs - live.aliases
    return SpaceMemory(
        space=live.space,
        name=space.name,
        short=space.short,
        peak=live.peak,
        arguments=live.arguments,
        outputs=live.outputs,
        aliases=live.aliases,
        temporaries=live.temporaries,
        heap=live.heap,
        live=int(live.timeline().max(initial=fixed)) - fixed,
    )


MOST_SERVED = 100
"""The maximum number of readers of a compiler-inserted step to search for one of the user's instructions."""


def _at_peak(
    live: Liveness, time: int, origin: Callable[[Node], Node | None], scope_of: Callable[[Node], str]
) -> Iterator[LiveBuffer]:
    """Every buffer in use at a time; memory that an argument donates to an output counts as the argument's."""
    for role, buffers in (("argument", live.parameter_buffers), ("output", live.output_buffers)):
        for buffer in buffers:
            if buffer.size:
                yield _live(live, buffer, role, time, origin, scope_of)
    for buffer in live.allocation.temporaries:
        if buffer.size and any(start <= time <= end for start, end, _ in buffer.spans):
            yield _live(live, buffer, "temporary", time, origin, scope_of)


def _live(
    live: Liveness,
    buffer: Buffer,
    role: str,
    time: int,
    origin: Callable[[Node], Node | None],
    scope_of: Callable[[Node], str],
) -> LiveBuffer:
    values = live.values
    allocation = live.allocation.allocations.get(id(buffer), buffer)
    within = [span for span in allocation.spans if span.start <= time <= span.end]
    span = buffer.spans[0] if role == "argument" else within[-1] if within else buffer.spans[-1]
    node, index = values.nodes[span.value], values.indices[span.value]
    named = origin(node) or _served(node, origin) or _copied(node, origin) or node
    start, end = (0, live.length) if role != "temporary" else (buffer.spans[0].start, buffer.spans[-1].end)
    last_read = live.last_reads.get(span.value, span.end)
    held = dict(indexed(node.type)).get(index) if node.type is not None and index else node.type
    return LiveBuffer(
        name=_step_name(node, origin),
        index=index,
        computation=named.graph.name,
        opcode=node.opcode,
        type=_text(held),
        bytes=buffer.size,
        role=role,
        start=start,
        end=end,
        scope=scope_of(named),
        source=source_of(named, live.module.stack_tables),
        last_user=_step_name(live.steps[last_read], origin) if 0 <= last_read < live.length else "",
        sizes=type_qualifier(held).strip(),
    )


def _step_name(node: Node, origin: Callable[[Node], Node | None]) -> str:
    """The name of the user's instruction that a step stands for, or what the step is and what it is for."""
    named = origin(node)
    if named is not None:
        return named.name
    served, copied = _served(node, origin), _copied(node, origin)
    if served is not None:
        return f"({node.opcode} for {served.name})"
    return f"({node.opcode} of {'the compiler' if copied is None else copied.name})"


def _copied(node: Node, origin: Callable[[Node], Node | None]) -> Node | None:
    """The user's instruction at the start of the compiler's own steps that lead to a result."""
    for _ in range(MOST_SERVED):
        if not node.operands:
            return None
        node = node.operands[0]
        named = origin(node)
        if named is not None:
            return named
    return None


def _served(node: Node, origin: Callable[[Node], Node | None]) -> Node | None:
    """The user's instruction that a compiler-inserted step serves: the first one that reads its result.

    A computation's result is read by its callers.
    """
    seen, pending = {node}, deque([node])
    while pending and len(seen) <= MOST_SERVED:
        step = pending.popleft()
        for reader in (*step.users, *(step.graph.callers if step.is_output else ())):
            if reader not in seen:
                named = origin(reader)
                if named is not None:
                    return named
                seen.add(reader)
                pending.append(reader)
    return None


def _text(value_type: Type | None) -> str:
    return "?" if value_type is None else str(without_layout(value_type))


def _donatable(live: Liveness) -> Iterator[Donatable]:
    """Match inputs that are not donated with outputs of the same type, in order."""
    values, entry = live.values, live.module.entry
    root = entry.output
    if root is None or root.type is None:
        return
    given = {leaf for tree in values.parameters.values() for leaf in leaves_below(tree, ())}
    waiting: dict[Type, list[tuple[Index, int]]] = {}
    for index, value_type in indexed(root.type):
        made = leaves_below(values.output, index)
        if (
            index not in live.donations
            and len(made) == 1
            and made[0] not in given
            and isinstance(value_type, TensorType)
        ):
            waiting.setdefault(without_layout(value_type), []).append((index, made[0]))
    taken = set(live.donations.values())
    for parameter in entry.parameters:
        for index, value_type in indexed(parameter.type) if parameter.type is not None else ():
            outputs = waiting.get(without_layout(value_type))
            if (parameter.number, index) in taken or not outputs:
                continue
            output_index, made = outputs.pop(0)
            (leaf,) = leaves_at(values.parameters, parameter.number, index)
            yield Donatable(
                parameter=parameter.number,
                index=index,
                name=parameter.name,
                type=_text(value_type),
                bytes=values.sizes[leaf] if values.spaces[leaf] == live.space else 0,
                output_index=output_index,
                is_free=_is_free(live, leaf, made),
            )


def _saved(live: Liveness, with_donations: Callable[[Donations], Liveness], donatable: tuple[Donatable, ...]) -> int:
    free = [donation for donation in donatable if donation.is_free]
    given: Donations = {donation.output_index: (donation.parameter, donation.index) for donation in free}
    return max(live.peak - with_donations(given).peak, 0) if given else 0


def _is_free(live: Liveness, given: int, made: int) -> bool:
    last, written = live.last_reads.get(given, 0), live.values.starts[made]
    if last == written:
        return any(old == given for old, _ in live.values.overwrites.get(made, ()))
    return last < written


def _thinned(timeline: np.ndarray) -> tuple[tuple[int, int], ...]:
    """The points of a timeline, at most MOST_POINTS of them."""
    step = -(-len(timeline) // MOST_POINTS) or 1
    times = [start + int(np.argmax(timeline[start : start + step])) for start in range(0, len(timeline), step)]
    return tuple((time, int(timeline[time])) for time in times)
