"""A module that carries shardings, compiled by XLA's SPMD partitioner for virtual CPU devices, in the worker."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.hlo import parse, print_module
from hloom.ir import Module
from hloom.runtime import oracle, process
from hloom.runtime.xla import Placement


@dataclass(frozen=True, slots=True)
class Compiled:
    """The program of one device right after the partitioner, the bytes that it takes, and the seconds of compiling.

    `op_name` of its instructions is the name of the instruction that each comes from.
    """

    module: Module
    memory: int
    seconds: float


def partition(module: Module, devices: int, *, timeout: float | None = oracle.TIMEOUT) -> Compiled:
    """Compile an annotated module for so many virtual CPU devices, in the worker; raises as `run` does."""
    text = print_module(_named(module))
    reply, _ = process.ask("partition", text, placement=Placement(1, devices), timeout=timeout)
    return Compiled(parse(reply["text"]), reply["memory"]["peak"], reply["compile_seconds"])


def _named(module: Module) -> Module:
    """A copy whose instructions carry their own names as metadata, which the partitioner hands on."""
    copy = module.clone()
    for graph in copy.graphs:
        for node in graph.nodes:
            graph.set_metadata(node, f'op_name="{node.name}"')
    return copy
