"""Runs a program on XLA's CPU client and summarises its outputs.

For results of dynamic size, such as f32[<=5], XLA's client returns arrays of the maximum size, with the elements first
and arbitrary values after them:

    ROOT y = f32[<=5] f(x)   ->   ROOT t = (f32[<=5], s32[]) tuple(y, get-dimension-size(y), dimensions={0})
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.ir import (
    DTYPES,
    TOKEN,
    Graph,
    Module,
    ModuleLike,
    Node,
    TensorType,
    TupleType,
    Type,
    as_module,
    dtype_of,
)
from hloom.ops import OPS
from hloom.runtime import worker_client, xla_queries
from hloom.runtime.input_domains import InputDomain, input_domains
from hloom.runtime.inputs import Inputs, check_inputs, leaf_type, random_inputs
from hloom.runtime.legalization import legalize, parameter_names, text_for_xla
from hloom.runtime.preflight import check_text
from hloom.runtime.xla import Placement
from hloom.text import Display, Displayed, DisplayTable, HloomError, time_text

_HEADER = re.compile(r"^\s*HloModule\b.*", re.MULTILINE)
_MESH = re.compile(r"#sdy\.mesh<\[([^\]]*)\]")
_AXIS = re.compile(r"=(\d{1,9})\b")
_COUNT = re.compile(r"\b(num_partitions|replica_count)=(\d+)")
PIECE = 1 << 20
"""The number of elements of an output to process at once."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One row of the table of outputs: the type, and the minimum and maximum of the finite values."""

    number: int
    type: str
    minimum: float | complex | None
    maximum: float | complex | None
    not_finite: int


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Displayed):
    """What a run gave.

    `outputs` are unsharded arrays, with tuples flattened and tokens dropped. `per_device` holds each device's results
    if there were several; replicas may differ, and `outputs` are then the first one's. `seconds` is the execution time,
    without compiling (`compile_seconds`, zero if the same text was compiled before) and without copying inputs.
    """

    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    per_device: tuple[tuple[np.ndarray, ...], ...]
    seconds: float
    compile_seconds: float

    def display(self) -> Display:
        columns = ("output", "type", "minimum", "maximum", "not finite")
        title = f"<run: {len(self.outputs)} outputs in {time_text(self.seconds)}>"
        return Display(title, [DisplayTable("outputs", columns, self._cells(), len(self.outputs))], "result.rows()")

    def _cells(self) -> Iterator[tuple[Any, ...]]:
        """The table of outputs, looked at when it is shown: it takes as long as reading all of them."""
        for row in self.rows():
            ends = (end if end is None else str(end) for end in (row.minimum, row.maximum))
            yield (row.number, row.type, *ends, row.not_finite)

    def rows(self) -> list[OutputRow]:
        """The table of outputs."""
        return output_rows(self.outputs)


def run(
    program: ModuleLike,
    inputs: Inputs | None = None,
    *,
    seed: int = 0,
    devices: int | None = None,
    timeout: float | None = xla_queries.TIMEOUT,
) -> RunResult:
    """Legalise a program, compile it and run it in the worker.

    Without inputs, random ones from the seed are used, each in the domain of the ops it reaches. `devices` are virtual
    CPU devices, split by the program's shardings; the default is the header's counts, or the mesh it declares. Results
    of dynamic size are cut to their true sizes. Raises XlaError with XLA's message, XlaCrash if XLA crashes,
    Unsupported naming what cannot be legalized, and HloomError for elided constants, unsuitable inputs and a timeout,
    which is in seconds and includes compiling.
    """
    module = as_module(program)
    legal = legalize(module, _partitions(module, devices))
    names, dims = parameter_names(legal), expose_sizes(legal)
    domains = input_domains(module) if inputs is None else None
    return _run(text_for_xla(legal), inputs, names, seed, devices, timeout, dims, domains)


def run_per_device(
    program: ModuleLike, inputs: Sequence[Sequence[np.ndarray]], *, timeout: float | None = xla_queries.TIMEOUT
) -> RunResult:
    """Run a partitioned program or one of replicas with one list of inputs per device; otherwise as `run`.

    The outputs are in `per_device`, and `inputs` hold the devices' lists one after the other.
    """
    module = as_module(program)
    legal = legalize(module, _partitions(module, len(inputs)))
    names, dims = parameter_names(legal), expose_sizes(legal)
    text = text_for_xla(legal)
    placement = _checked_placement(text, len(inputs))
    if placement.partitions > 1:
        raise HloomError("the program is not partitioned yet: its partitions share its inputs, which run takes")
    types = _parameter_types(text, timeout)
    arrays = [array for device_inputs in inputs for array in check_inputs(device_inputs, types, names)]
    reply, outputs = worker_client.ask("run", text, arrays, placement=placement, is_per_device=True, timeout=timeout)
    return _result(arrays, reply, outputs, dims)


def run_text(
    text: str,
    inputs: Inputs | None = None,
    *,
    seed: int = 0,
    devices: int | None = None,
    timeout: float | None = xla_queries.TIMEOUT,
) -> RunResult:
    """Compile and run a text unchanged: as `run`, but without parsing or legalizing it first."""
    return _run(text, inputs, None, seed, devices, timeout)


def compiled_in_child(module: Module) -> Callable[..., list[np.ndarray]]:
    """A module as a function of arrays, compiled once and run by the worker: an XLA crash raises XlaCrash."""
    text = text_for_xla(legalize(module, 1))

    def run_module(*arrays: Any) -> list[np.ndarray]:
        inputs = [np.asarray(array, order="C") for array in arrays]
        reply, outputs = worker_client.ask("run_kept", text, inputs)
        return outputs[: reply["count"]]

    return run_module


def placement_of(text: str, devices: int | None = None) -> Placement:
    """How many replicas and partitions a text asks for in its header, the partitions filling up the devices given."""
    header = _HEADER.search(text)
    counts = dict(_COUNT.findall(header[0])) if header else {}
    replicas = int(counts.get("replica_count", 1))
    partitions = int(counts.get("num_partitions", 0)) or _mesh_size(header[0] if header else "")
    if devices is not None:
        if devices < 1 or devices % replicas:
            raise HloomError(f"{devices} devices cannot hold {replicas} replicas of the same size")
        partitions = devices // replicas
    return Placement(replicas, partitions, "xla.sdy." in text)


def _partitions(module: Module, devices: int | None) -> int:
    replicas = module.attributes.get("replica_count") or 1
    if devices is not None:
        return devices // replicas
    meshes = dict(module.attributes.get("frontend_attributes") or ()).get("xla.sdy.meshes", "")
    return module.attributes.get("num_partitions") or _mesh_size(meshes)


def _mesh_size(text: str) -> int:
    """The devices of the largest mesh that a header declares for Shardy; 1 where there is none."""
    meshes = [_AXIS.findall(axes) for axes in _MESH.findall(text)]
    return max((math.prod(map(int, sizes)) for sizes in meshes), default=1)


def _run(
    text: str,
    inputs: Inputs | None,
    names: Sequence[str] | None,
    seed: int,
    devices: int | None,
    timeout: float | None,
    dims: Sequence[DynamicDim] = (),
    domains: Sequence[InputDomain] | None = None,
) -> RunResult:
    placement = _checked_placement(text, devices)
    types = _parameter_types(text, timeout)
    known = names or [str(number) for number in range(len(types))]
    arrays = random_inputs(types, seed, domains) if inputs is None else check_inputs(inputs, types, known)
    reply, outputs = worker_client.ask("run", text, arrays, placement=placement, timeout=timeout)
    return _result(arrays, reply, outputs, dims)


def _checked_placement(text: str, devices: int | None) -> Placement:
    check_text(text)
    return placement_of(text, devices)


def _parameter_types(text: str, timeout: float | None) -> list[TensorType]:
    return [leaf_type(parameter) for parameter in xla_queries.signature(text, timeout).parameters]


def _result(
    arrays: list[np.ndarray], reply: dict[str, Any], outputs: list[np.ndarray], dims: Sequence[DynamicDim]
) -> RunResult:
    count = reply["count"]
    first, *groups = [
        tuple(cut(outputs[start : start + count], dims)) for start in range(0, max(len(outputs), 1), max(count, 1))
    ]
    return RunResult(tuple(arrays), first, tuple(groups), reply["seconds"], reply["compile_seconds"])


def output_rows(outputs: Sequence[np.ndarray]) -> list[OutputRow]:
    """The table of some outputs."""
    return [_row(number, array) for number, array in enumerate(outputs)]


def _row(number: int, array: np.ndarray) -> OutputRow:
    """The row of one output, read a piece at a time: as doubles it would take many times its memory."""
    type_text = f"{dtype_of(array.dtype)}[{','.join(map(str, array.shape))}]"
    limits: list[np.generic] = []
    finite_count = 0
    for start in range(0, array.size, PIECE):
        piece = array.flat[start : start + PIECE].astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        finite = piece[np.isfinite(piece)]
        finite_count += finite.size
        if finite.size:
            limits += [finite.min(), finite.max()]
    if not limits:
        return OutputRow(number, type_text, None, None, array.size)
    return OutputRow(number, type_text, np.min(limits).item(), np.max(limits).item(), array.size - finite_count)


SIZE = TensorType(DTYPES["s32"])
"""The type of get-dimension-size."""


@dataclass(frozen=True, slots=True)
class DynamicDim:
    """A dimension of an output whose size is known when it has run only."""

    output: int
    dim: int


def expose_sizes(module: Module) -> list[DynamicDim]:
    """Make a module also yield the sizes of its results' dynamic dimensions, after the results; returns which.

    A module without such results stays as it is.
    """
    entry = module.entry
    leaves = _leaves(entry, entry.root) if _has_dynamic(entry.root.type) else []
    dims = [
        (node, DynamicDim(output, dim))
        for output, node in enumerate(leaves)
        if isinstance(node.type, TensorType) and node.type.dynamic is not None
        for dim, is_dynamic in enumerate(node.type.dynamic)
        if is_dynamic
    ]
    if not dims:
        return []
    sizes = [entry.add_apply(OPS["get-dimension-size"], (node,), SIZE, {"dimensions": (of.dim,)}) for node, of in dims]
    results = [*leaves, *sizes]
    types = [node.type for node in results if node.type is not None]
    entry.set_output(entry.add_apply(OPS["tuple"], results, TupleType(types)))
    return [of for _, of in dims]


def cut(outputs: Sequence[np.ndarray], dims: Sequence[DynamicDim]) -> list[np.ndarray]:
    """The outputs at their true sizes, which are the last of them.

    XLA packs the elements of a dynamic array at the start of its buffer (IrEmitter::HandleSliceToDynamic in
    xla/service/cpu/ir_emitter.cc).
    """
    count = len(outputs) - len(dims)
    results = list(outputs[:count])
    shapes = {of.output: list(results[of.output].shape) for of in dims}
    for of, size in zip(dims, outputs[count:], strict=True):
        shapes[of.output][of.dim] = int(size)
    for output, shape in shapes.items():
        results[output] = results[output].reshape(-1)[: math.prod(shape)].reshape(shape).copy()
    return results


def _has_dynamic(root_type: Type | None) -> bool:
    leaves = root_type.leaves() if root_type is not None else ()
    return any(isinstance(leaf, TensorType) and leaf.dynamic is not None for leaf in leaves)


def _leaves(entry: Graph, root: Node) -> list[Node]:
    """The arrays of a result, tuples taken apart and tokens left out, in order."""
    leaves: list[Node] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if not isinstance(node.type, TupleType):
            leaves += [node] if node.type is not TOKEN else []
        elif node.opcode == "tuple":
            pending += reversed(node.operands)
        else:
            get = OPS["get-tuple-element"]
            parts = [entry.add_apply(get, (node,), part, {"index": n}) for n, part in enumerate(node.type.elements)]
            pending += reversed(parts)
    return leaves
