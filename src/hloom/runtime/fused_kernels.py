"""Runs the fusions of a module one by one as the kernels that XLA's CPU compiler makes of them.

`run` executes a fusion as a call, since XLA's client accepts no fusions: XLA then fuses as it likes. To find out what a
fusion computes exactly as written, including in-place updates, XLA compiles a program with the same parameters and
results, and gets the fusions at the end of its own pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.formats.hlo import print_module
from hloom.ir import Apply, Graph, Literal, Module, Node, TensorType, TupleType, Type, default_layout, equal
from hloom.ops import FUSIBLE, OPS
from hloom.runtime import worker_client, xla_queries
from hloom.runtime.comparison import Difference, first_difference
from hloom.runtime.inputs import random_inputs
from hloom.runtime.inside_jit import fill_layouts
from hloom.runtime.legalization import text_for_xla
from hloom.runtime.run import run
from hloom.text import HloomError, Record

MAX_KERNELS = 256
"""The maximum number of fusions to run: XLA takes about 10 ms to compile one."""
MAX_ELEMENTS = 1 << 24
"""The maximum total number of elements that they read and yield: 64 MiB of f32."""


MAX_ATTEMPTS = 16
"""The maximum number of attempts to find the fusions that XLA rejects: each crash costs seconds."""


@dataclass(frozen=True, slots=True)
class KernelCheck(Record):
    """The result of running fusions as kernels.

    `agreeing` and `differing` name fusions by whether they agree with the same fusions as calls; `skipped` are those
    not run, for the `reason`.
    """

    agreeing: tuple[str, ...]
    differing: tuple[tuple[str, Difference], ...]
    skipped: tuple[str, ...]
    reason: str = ""
    json_keys = "agreeing differing=reasons skipped reason"

    @property
    def count(self) -> int:
        """The number of fusions examined."""
        return len(self.agreeing) + len(self.differing) + len(self.skipped)

    @property
    def reasons(self) -> dict[str, str]:
        """How each fusion that differs does."""
        return {name: difference.reason for name, difference in self.differing}


def check_kernels(
    module: Module, seed: int = 0, rtol: float | None = None, *, known: Module | None = None
) -> KernelCheck:
    """Run the loop fusions of a module as kernels and as calls, on the same random inputs, and compare.

    Skips fusions that a `known` module has too, fusions of other kinds, those with opcodes that XLA's CPU compiler
    never fuses, those beyond MAX_KERNELS and MAX_ELEMENTS, and those that XLA rejects.
    """
    fusions = [fusion for fusion in _fusions(module) if known is None or not _is_known(fusion, known)]
    agreeing: list[str] = []
    differing: list[tuple[str, Difference]] = []
    reason = ""
    pending = [_runnable(fusions)]
    ran = set[Apply]()
    for _ in range(MAX_ATTEMPTS):
        if not pending:
            break
        part = pending.pop()
        try:
            differences = _differences(part, seed, rtol) if part else []
        except HloomError as error:
            reason = reason or error.message.partition("\n")[0]
            half = len(part) // 2
            pending += [part[half:], part[:half]] if half else []
            continue
        ran.update(part)
        for fusion, difference in zip(part, differences, strict=True):
            if difference:
                differing.append((fusion.name, difference))
            else:
                agreeing.append(fusion.name)
    skipped = tuple(fusion.name for fusion in fusions if fusion not in ran)
    return KernelCheck(tuple(agreeing), tuple(differing), skipped, (reason or _REASON) if skipped else "")


def _differences(fusions: Sequence[Apply], seed: int, rtol: float | None) -> list[Difference | None]:
    """For each fusion, how its results as a kernel differ from those as a call."""
    inputs = random_inputs([leaf for fusion in fusions for leaf in _operand_types(fusion)], seed)
    kernels = run_kernels(fusions, inputs)
    calls = run(_program(fusions), inputs).outputs
    differences: list[Difference | None] = []
    start = 0
    for fusion in fusions:
        end = start + len(_result_types(fusion))
        differences.append(first_difference(calls[start:end], kernels[start:end], rtol))
        start = end
    return differences


_REASON = "XLA's CPU compiler has no such kernels, or they are too many"


def run_kernels(fusions: Sequence[Apply], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of fusions, run as kernels on the CPU, each on its own operands: `inputs` lists them in order.

    Raises XlaError if XLA rejects them, and XlaCrash if it crashes.
    """
    program = _program(fusions)
    carrier = text_for_xla(_carrier(program))
    fill_layouts(program)
    reply, outputs = worker_client.ask(
        "run_kernels", carrier, inputs, timeout=xla_queries.TIMEOUT, further={"kernels": print_module(program)}
    )
    return outputs[: reply["count"]]


def _fusions(module: Module) -> list[Apply]:
    """The fusions of a module, each computation once; those in fusions belong to these."""
    known = set[Graph]()
    fusions: list[Apply] = []
    inside = {graph for node in module.nodes() if node.opcode == "fusion" for graph in node.called_graphs}
    for graph in module.graphs:
        for node in graph.nodes if graph not in inside else ():
            called = node.attributes.get("calls") if node.opcode == "fusion" else None
            if isinstance(node, Apply) and isinstance(called, Graph) and called not in known:
                known.add(called)
                fusions.append(node)
    return fusions


def _is_known(fusion: Apply, known: Module) -> bool:
    graph: Graph = fusion.attributes["calls"]
    return graph.name in known and equal(graph, known[graph.name], metadata=False)


def _runnable(fusions: Iterable[Apply]) -> list[Apply]:
    runnable: list[Apply] = []
    elements = 0
    for fusion in fusions:
        if not _is_loop(fusion):
            continue
        elements += sum(leaf.element_count for leaf in (*_operand_types(fusion), *_result_types(fusion)))
        if len(runnable) == MAX_KERNELS or elements > MAX_ELEMENTS:
            break
        runnable.append(fusion)
    return runnable


def _is_loop(fusion: Apply) -> bool:
    """Whether XLA's CPU compiler emits a fusion as a loop over arrays."""
    graph: Graph = fusion.attributes["calls"]
    if fusion.attributes.get("kind") != "kLoop" or "backend_config" in fusion.attributes or graph.output is None:
        return False
    values = [*fusion.operands, *(node for node in graph.nodes if node is not graph.output)]
    results = fusion.type.elements if isinstance(fusion.type, TupleType) else (fusion.type,)
    if not all(map(_is_plain, (*(value.type for value in values), *results))):
        return False
    return all(node.opcode in FUSIBLE or node.opcode == "scatter" for node in graph.nodes)


def _is_plain(value_type: object) -> bool:
    """Whether a value is an array whose elements have bytes of their own, and whose size is known."""
    if not isinstance(value_type, TensorType) or not value_type.is_static:
        return False
    return value_type.dtype.bits >= 8 or value_type.dtype.name == "pred"


def _operand_types(fusion: Apply) -> list[TensorType]:
    return [operand.type for operand in fusion.operands if isinstance(operand.type, TensorType)]


def _result_types(fusion: Apply) -> list[TensorType]:
    leaves = fusion.type.leaves() if fusion.type else ()
    return [leaf for leaf in leaves if isinstance(leaf, TensorType)]


def _program(fusions: Sequence[Apply]) -> Module:
    """Fusions side by side: each reads copies of parameters of its own, and may write over them."""
    program = Module("kernels")
    program.stack_tables = fusions[0].graph.module.stack_tables  # what metadata refers to
    copies = program.copy_graphs(fusions[0].graph.module)
    entry = program.add_graph("kernels")
    program.entry = entry
    results: list[Node] = []
    for fusion in fusions:
        operands: list[Node] = []
        for operand in fusion.operands:
            parameter = entry.add_parameter(_plain(operand), f"p{len(entry.parameters)}")
            operands.append(entry.add_apply(OPS["copy"], [parameter], operand.type))
        attributes = {"kind": "kLoop", "calls": copies[fusion.attributes["calls"]]}
        made = entry.add_apply(OPS["fusion"], operands, fusion.type, attributes, fusion.name)
        results += _elements(entry, made)
    plain = [entry.add_apply(OPS["copy"], [result], _plain(result)) for result in results]
    entry.set_output(_result(entry, plain))
    program.keep_reached()
    return program


def _plain(node: Node) -> Type:
    """The type of an array as XLA's client takes and yields it: row by row."""
    assert isinstance(node.type, TensorType), "fusions of other operands are not run"
    return node.type.with_layout(default_layout(node.type.rank))


def _elements(entry: Graph, made: Node) -> list[Node]:
    if not isinstance(made.type, TupleType):
        return [made]
    get = OPS["get-tuple-element"]
    return [entry.add_apply(get, [made], part, {"index": number}) for number, part in enumerate(made.type.elements)]


def _result(entry: Graph, results: Sequence[Node]) -> Node:
    """The one result, or several as a tuple: StableHLO has no tuple of one."""
    if len(results) == 1:
        return results[0]
    return entry.add_apply(OPS["tuple"], results, TupleType([node.type for node in results if node.type is not None]))


def _carrier(program: Module) -> Module:
    """A program that takes and yields the same arrays, and does nothing else."""
    carrier = Module("carrier")
    entry = carrier.add_graph("main")
    carrier.entry = entry
    for parameter in program.entry.parameters:
        entry.add_parameter(parameter.type, parameter.name)
    root_type = program.entry.root.type
    zeros = [_zeros(entry, leaf) for leaf in (root_type.leaves() if root_type else ())]
    entry.set_output(_result(entry, zeros))
    return carrier


def _zeros(entry: Graph, array_type: Any) -> Node:
    scalar = TensorType(array_type.dtype)
    zero = entry.add_constant(Literal.splat(scalar, np.zeros((), array_type.dtype.numpy)), scalar)
    return entry.add_apply(OPS["broadcast"], [zero], array_type, {"dimensions": ()})
