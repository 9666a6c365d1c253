"""XLA's own account of a module's memory: the buffer assignment that an `.hlo.pb` may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hloom.ir import Module

ATTACHMENT = "buffer_assignment"
"""Under which name a module keeps the message."""
ROLES = ("argument", "output", "alias", "temporary", "constant", "thread")
LARGEST = 20
"""How many allocations are listed."""


@dataclass(frozen=True, slots=True)
class XlaAllocation:
    """One piece of memory: its bytes, what it is for, and the instructions whose values it holds, largest first."""

    index: int
    bytes: int
    role: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class XlaAccount:
    """What XLA allocates, in bytes; constants and what each thread has for itself stand aside."""

    arguments: int
    outputs: int
    aliases: int
    temporaries: int
    constants: int
    allocations: tuple[XlaAllocation, ...]

    @property
    def peak(self) -> int:
        """Arguments and outputs, what is aliased counted once, and temporaries."""
        return self.arguments + self.outputs - self.aliases + self.temporaries


def xla_account(module: Module) -> XlaAccount | None:
    """XLA's account, from the buffer assignment that came with a module; None where none came."""
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
