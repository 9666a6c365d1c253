"""Programs, and what the model of XLA's GPU compiler makes of them."""

from __future__ import annotations

from hloom.analysis import device
from hloom.formats.hlo import parse
from hloom.ir import Graph
from hloom.targets.gpu import simulate_buffers
from tests.targets.cpu.programs import program

H100, A100 = device("h100"), device("a100-80")


def stored(*lines: str) -> list[str]:
    """The opcodes and types that an H100 stores, in order; without scalars, parameters and the tuple of results."""
    values = simulate_buffers(parse(program(*lines)), H100).values
    kept = dict.fromkeys(node for node, size in zip(values.nodes, values.sizes, strict=True) if size > 4)
    return [f"{node.opcode} {node.type}" for node in kept if node.opcode not in ("parameter", "tuple")]


def entry(*lines: str) -> Graph:
    """The entry of a program with these lines."""
    return parse(program(*lines)).entry
