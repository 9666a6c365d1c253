"""Queries to XLA about a program: whether it parses and compiles, its printed form, types, costs, memory, partitions.

Every function asks the worker, so a text that crashes XLA raises an error and does not end this process. All raise
XlaError with XLA's own message; timeouts are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloom.formats.hlo import parse, write_proto
from hloom.ir import Module
from hloom.runtime import worker_client
from hloom.runtime.legalization import legalize, text_for_xla
from hloom.runtime.library_names import jaxlib_version
from hloom.runtime.worker_client import XlaError
from hloom.runtime.xla import Placement
from hloom.sharding import check_reductions
from hloom.text import HloomError

TIMEOUT = 120.0
"""How long XLA may take over one text, unless told otherwise."""

CONVERSION_TIMEOUT = 600.0
"""The same for StableHLO, which may be of any size: 100 MB take about 10 s."""


@dataclass(frozen=True, slots=True)
class ProgramSignature:
    """The types of a text's flattened parameters and results, as HLO writes them, without layouts."""

    parameters: tuple[str, ...]
    results: tuple[str, ...]


def accepts(text: str, timeout: float | None = TIMEOUT) -> str | None:
    """None if XLA's parser accepts a text, else its message; a crash of the parser counts as rejection."""
    return _refusal("parse", text, None, timeout)


def compiles(text: str, placement: Placement | None = None, timeout: float | None = TIMEOUT) -> str | None:
    """None where XLA compiles a text for the CPU, else its message."""
    return _refusal("compile", text, placement, timeout)


def canonical(text: str, timeout: float | None = TIMEOUT) -> str:
    """A text as XLA prints it with canonical names and whole constants: equal for modules that differ in names only."""
    return worker_client.ask("canonical", text, timeout=timeout)[0]["text"]


def printed(text: str, timeout: float | None = TIMEOUT) -> str:
    """A text as XLA prints it with nothing left out."""
    return worker_client.ask("printed", text, timeout=timeout)[0]["text"]


def signature(text: str, timeout: float | None = TIMEOUT) -> ProgramSignature:
    """The parameter and result types of a text's entry, as XLA reads it."""
    reply, _ = worker_client.ask("signature", text, timeout=timeout)
    return ProgramSignature(tuple(reply["parameters"]), tuple(reply["results"]))


def cost(text: str, timeout: float | None = TIMEOUT) -> dict[str, float]:
    """XLA's cost analysis: `flops`, `bytes accessed`, `transcendentals` and more; a while body counts once."""
    return worker_client.ask("cost", text, timeout=timeout)[0]["cost"]


def memory(text: str, placement: Placement | None = None, timeout: float | None = TIMEOUT) -> dict[str, int]:
    """Bytes per device once compiled for the CPU: `arguments`, `outputs`, `temporaries`, `aliases` and `peak`."""
    return worker_client.ask("compile", text, placement=placement, timeout=timeout)[0]["memory"]


def embeddable_stablehlo(module: Module, timeout: float | None = TIMEOUT) -> str:
    """A legalized module as StableHLO that another MLIR module can take in; its results are arrays or one flat tuple.

    Constraints for Shardy include their meshes. Raises XlaError if XLA cannot convert it.
    """
    return worker_client.ask("stablehlo", text_for_xla(legalize(module, 1)), timeout=timeout)[0]["text"]


def shardy_text(module: Module, timeout: float | None = TIMEOUT) -> str:
    """A module that is annotated for Shardy as StableHLO with Shardy's own shardings.

    Raises HloomError for what XLA cannot convert.
    """
    check_reductions(module, jaxlib_version())
    proto = np.frombuffer(write_proto(module, "hlo_module"), np.uint8)
    try:
        return worker_client.ask("shardy", "", [proto], timeout=timeout)[0]["text"]
    except XlaError as error:
        raise type(error)(f"XLA cannot write {module.name} as StableHLO: {error.message}", hint=error.hint) from None


def hlo_of_stablehlo(program: bytes, name: str, timeout: float | None = CONVERSION_TIMEOUT) -> bytes:
    """The HloModuleProto of StableHLO in MLIR's text or bytecode; raises HloomError, which says the name."""
    try:
        data = np.frombuffer(program, np.uint8)
        _, (proto,) = worker_client.ask("hlo_of_stablehlo", "", [data], timeout=timeout)
    except HloomError as error:
        raise type(error)(f"{name}: {error.message}", hint=error.hint) from None
    return proto.tobytes()


def _refusal(request: str, text: str, placement: Placement | None, timeout: float | None) -> str | None:
    try:
        worker_client.ask(request, text, placement=placement, timeout=timeout)
    except XlaError as error:
        return error.message
    return None


@dataclass(frozen=True, slots=True)
class Compiled:
    """The program of one device right after the partitioner, the bytes that it takes, and the seconds of compiling.

    `memory` is the total, `temporaries` everything that is neither a parameter nor a result. `op_name` of its
    instructions is the name of the original instruction.
    """

    module: Module
    memory: int
    temporaries: int
    seconds: float


def partition(module: Module, devices: int, *, timeout: float | None = TIMEOUT) -> Compiled:
    """Compile an annotated module for this many virtual CPU devices, in the worker; raises as `run` does."""
    text = text_for_xla(_named(module))
    reply, _ = worker_client.ask("partition", text, placement=Placement(1, devices), timeout=timeout)
    memory = reply["memory"]
    return Compiled(parse(reply["text"]), memory["peak"], memory["temporaries"], reply["compile_seconds"])


def _named(module: Module) -> Module:
    """A copy whose instructions carry their names as metadata, which the partitioner copies to what it emits."""
    copy = module.clone()
    for graph in copy.graphs:
        for node in graph.nodes:
            graph.set_metadata(node, f'op_name="{node.name}"')
    return copy
