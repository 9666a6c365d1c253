"""Prepares a module for a target's compiler: what cannot be compiled is refused here, before the compiler starts.

libtpu ends its process where a device assignment does not fit the topology, so the number of devices is checked first.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from hloom.analysis import shape_bytes
from hloom.formats.hlo import KEEPS, write_proto
from hloom.ir import (
    Apply,
    BufferType,
    Constant,
    Literal,
    Module,
    Node,
    TensorType,
    TupleSharding,
    device_count,
    without_layout,
)
from hloom.ops import OPS
from hloom.targets.compiler.custom_calls import Rewritten, adapt_custom_calls
from hloom.targets.compiler.target import Target
from hloom.text import HloomError, HloomWarning, Unsupported, visible

SHARDY, GSPMD, NO_PARTITIONER = "shardy", "gspmd", "none"
"""XLA's partitioners: the program's annotations say which reads them."""
MOST_NAMED = 5
"""The maximum number of instructions to name in an error."""
MOST_ELIDED_BYTES = 1 << 30
"""The maximum size of constants without data to fill, as large as protos of a program can be in practice."""
MOST_DEVICES = 1 << 20
"""A mesh of more devices than this is a damaged file; the largest slices have about 10,000."""
_MESH = re.compile(r"#sdy\.mesh<\[([^\]]*)\]")
_AXIS = re.compile(r"=(\d{1,9})\b")
_SNIPPET = "_"
"""The name of a module that is read from one computation or instruction alone: XLA's parser calls it scheduled."""
_COMPILED_CALLS = re.compile(r"__cublas\$.*|__cudnn\$.*|__onednn\$.*|__triton.*|__gpu\$.*")
"""Custom calls that only an optimised module has, with a config of the compiler that made it."""


@dataclass(frozen=True, slots=True)
class PreparedProgram:
    """A module as the compiler takes it, and how it is to be compiled."""

    proto: bytes
    name: str
    replicas: int
    partitions: int
    partitioner: str
    donated: tuple[int, ...]
    propagates_to_parameters: tuple[bool, ...]
    propagates_to_output: tuple[bool, ...]
    rewritten: tuple[Rewritten, ...]
    notes: tuple[str, ...]

    @property
    def devices(self) -> int:
        """The number of devices it asks for."""
        return self.replicas * self.partitions

    @property
    def has_mock_calls(self) -> bool:
        """Whether the compiler must take calls that it has no handler for."""
        return any(one.is_opaque for one in self.rewritten)


def devices_of(module: Module) -> int:
    """The number of devices that a module asks for: replicas times partitions."""
    return _replicas(module) * _partitions(module)


def prepare(module: Module, target: Target, *, opaque_calls: bool = False) -> PreparedProgram:
    """A module as the target's compiler takes it.

    Raises HloomError for a fragment, for a module that was optimised already, and for another number of devices than
    the target has; Unsupported for custom calls that the target lacks.
    """
    _check_whole(module)
    _check_not_compiled(module)
    replicas, partitions = _replicas(module), _partitions(module)
    _check_devices(replicas, partitions, target)
    copy = module.clone()
    copy.attributes = copy.attributes.changed(is_scheduled=None)
    notes = [f"{note}; a compiler that does not know them ignores them" for note in module.notes if KEEPS in note]
    filled = _fill_elided(copy)
    if filled:
        notes.append(
            f"the data of {filled:,} constants were left out of the text; they were filled with small numbers, which "
            "matters only if the compiler computes with them"
        )
    rewritten = adapt_custom_calls(copy, target, opaque=opaque_calls)
    _drop_layouts(copy)
    _drop_copies(copy)
    partitioner = partitioner_of(module)
    donors = copy.attributes.get("buffer_donor") or ()
    donated = tuple(sorted({donor.parameter for donor in donors if not donor.parameter_index}))
    nested = sum(1 for donor in donors if donor.parameter_index)
    if nested:
        notes.append(f"{nested:,} donated elements of tuple parameters are not passed on to the compiler")
    with warnings.catch_warnings(record=True) as losses:
        warnings.simplefilter("always", HloomWarning)
        proto = write_proto(copy, "hlo_module")
    notes += [str(loss.message) for loss in losses if isinstance(loss.message, HloomWarning)]
    return PreparedProgram(
        proto, module.name, replicas, partitions, partitioner, donated,
        _booleans(module, "allow_spmd_sharding_propagation_to_parameters", default=False),
        _booleans(module, "allow_spmd_sharding_propagation_to_output", default=not _has_result_shardings(module)),
        tuple(rewritten), tuple(notes),
    )  # fmt: skip


def partitioner_of(module: Module) -> str:
    """The partitioner that reads a module's annotations: Shardy's attributes, or shardings of HLO for GSPMD."""
    if _partitions(module) == 1:
        return NO_PARTITIONER
    return SHARDY if _uses_shardy(module) else GSPMD


def _uses_shardy(module: Module) -> bool:
    if any(name.startswith("xla.sdy.") for name, _ in module.attributes.get("frontend_attributes") or ()):
        return True
    if any(str(_attribute(node, "custom_call_target")).startswith("xla.sdy.") for node in module.nodes()):
        return True
    return any(
        name.startswith("xla.sdy.sharding") and name != "xla.sdy.sharding_rule"
        for node in module.nodes()
        for name, _ in _attribute(node, "frontend_attributes") or ()
    )


def _attribute(node: Node, name: str) -> Any:
    return None if isinstance(node, Constant) else node.attributes.get(name)


def _replicas(module: Module) -> int:
    return max(1, module.attributes.get("replica_count") or 1)


def _partitions(module: Module) -> int:
    """The partitions that the header says, or its meshes, or the shardings of instructions."""
    stated = module.attributes.get("num_partitions") or 0
    meshes = dict(module.attributes.get("frontend_attributes") or ()).get("xla.sdy.meshes", "")
    sizes = [math.prod(map(int, _AXIS.findall(axes))) for axes in _MESH.findall(meshes)]
    count = max(stated, 1) if stated else max(sizes, default=0) or _sharded_devices(module)
    if count > MOST_DEVICES:
        raise HloomError(f"{module.name} asks for {count:,} devices, more than any machine has")
    return count


def _sharded_devices(module: Module) -> int:
    """The devices that the shardings of HLO cut arrays over; 1 if there are none."""
    counts = [1]
    for node in module.nodes():
        sharding = _attribute(node, "sharding")
        leaves = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
        counts += [device_count(leaf) or 1 for leaf in leaves if leaf is not None and not leaf.is_replicated]
    return max(counts)


def _has_result_shardings(module: Module) -> bool:
    root = module.entry.root
    values = (root, *root.operands)
    return _attribute(root, "sharding") is not None or any(
        str(_attribute(value, "custom_call_target")) == "xla.sdy.FuncResultSharding" for value in values
    )


def _booleans(module: Module, name: str, *, default: bool) -> tuple[bool, ...]:
    value = module.attributes.get(name)
    if value is None:
        return (default,)
    return (value,) if isinstance(value, bool) else tuple(value)


def _check_devices(replicas: int, partitions: int, target: Target) -> None:
    asked = replicas * partitions
    if asked in (1, target.devices):
        return
    parts = [f"{partitions:,} partitions"] if partitions > 1 else []
    parts += [f"{replicas:,} replicas"] if replicas > 1 else []
    raise HloomError(
        f"the program is for {asked:,} devices ({', '.join(parts)}), and {target.name} has {target.devices:,}",
        hint=f"give {target.chip} alone for a target of {asked:,} devices, or shard the program for {target.devices:,}",
    )


def _check_whole(module: Module) -> None:
    if not module.has_entry:
        raise HloomError(f"{visible(module.name)} has no entry computation: only a whole program can be compiled")
    unresolved = module.unresolved
    if unresolved:
        named = ", ".join(visible(str(one)) for one in unresolved[:MOST_NAMED])
        raise Unsupported(f"a fragment cannot be compiled: nothing defines {named}")
    untyped = list(
        islice((node for node in module.nodes() if node.type is None and not _holds_graph(node)), MOST_NAMED)
    )
    if untyped:
        named = ", ".join(f"{visible(node.name)} in {visible(node.graph.name)}" for node in untyped)
        raise Unsupported(f"a fragment cannot be compiled: no type is known of {named}")
    if module.has_closures:
        raise Unsupported(f"{visible(module.name)} has computations that use values around them: HLO cannot say that")


def _holds_graph(node: Node) -> bool:
    """Whether a node is a computation or an op as a value, which has no type of HLO."""
    return isinstance(node, Constant) and not isinstance(node.value, Literal)


def _check_not_compiled(module: Module) -> None:
    """Refuse a module that a compiler has optimised: its fusions, tiles and configs are of that compiler."""
    signs = list(islice(_signs_of_compiler(module), 3))
    if signs:
        raise HloomError(
            f"{visible(module.name)} has been optimised by a compiler already: {'; '.join(map(visible, signs))}",
            hint="give the program as it was before optimisation (in a dump directory: --stage before)",
        )


def _signs_of_compiler(module: Module) -> Iterator[str]:
    if module.is_scheduled and module.name != _SNIPPET:
        yield "it is scheduled"
    tiled = fused = called = False
    for node in module.nodes():
        if not fused and node.opcode == "fusion":
            fused = True
            yield f"{node.name} is a fusion"
        if not tiled and _is_tiled(node):
            tiled = True
            yield f"{node.name} has the tiled layout {node.type}"
        target = str(_attribute(node, "custom_call_target"))
        if not called and _COMPILED_CALLS.fullmatch(target):
            called = True
            yield f"{node.name} calls {target}"


def _is_tiled(node: Node) -> bool:
    leaves = node.type.leaves() if node.type is not None else ()
    return any(isinstance(leaf, TensorType) and leaf.layout is not None and leaf.layout.tiles for leaf in leaves)


def _drop_layouts(module: Module) -> None:
    """Drop the layouts of values, so that the compiler chooses them, except where a custom call requires its own."""
    for graph in module.graphs:
        for node in graph.nodes:
            if isinstance(node.type, BufferType):
                raise Unsupported(f"{visible(node.name)} in {visible(graph.name)} is a buffer, {node.type}")
            if _attribute(node, "operand_layout_constraints") is None and node.type is not None:
                graph.set_type(node, without_layout(node.type))


def _drop_copies(module: Module) -> None:
    """Drop copies, which only change layouts and which StableHLO has not; a call that XLA has for it keeps a sharding.

        copy(x), sharding={replicated}  ->  custom-call(x), custom_call_target="Sharding", sharding={replicated}
    """
    for graph in module.graphs:
        for node in [node for node in graph.nodes if isinstance(node, Apply) and node.opcode == "copy"]:
            replacement = node.operands[0]
            sharding = node.attributes.get("sharding")
            if sharding is None and node.attributes.get("frontend_attributes"):
                continue  # they may have a sharding for Shardy
            if sharding is not None:
                attributes = {"custom_call_target": "Sharding", "sharding": sharding}
                replacement = graph.add_apply(OPS["custom-call"], [replacement], node.type, attributes, before=node)
            graph.replace_uses(node, replacement)
            graph.erase(node)


def _fill_elided(module: Module) -> int:
    """Give constants without data deterministic values, as XLA's own text parser does; how many there were.

    Source: xla/hlo/parser/hlo_parser.cc, ParseDenseLiteral: "Fill data with deterministic (garbage) values".
    """
    elided = [node for node in module.nodes() if isinstance(node, Constant) and _is_elided(node)]
    size = sum(shape_bytes(node.type) for node in elided)
    if size > MOST_ELIDED_BYTES:
        raise HloomError(
            f"the data of {len(elided):,} constants were left out of the text, {size:,} bytes: too many to make up",
            hint="dump with --xla_dump_large_constants among XLA_FLAGS, or as protos (--xla_dump_hlo_as_proto)",
        )
    for node in elided:
        assert isinstance(node.value, Literal)
        node.graph.set_value(node, _filled(node.value))
    return len(elided)


def _is_elided(node: Constant) -> bool:
    return isinstance(node.value, Literal) and node.value.is_elided


def _filled(literal: Literal) -> Literal:
    if literal.is_tuple:
        raise Unsupported(f"the data of a constant of type {literal.type} were left out of the text")
    assert isinstance(literal.type, TensorType)
    values = np.arange(math.prod(literal.type.dims)) % _FILL_PERIOD
    return Literal.array(literal.type, values.astype(literal.type.dtype.numpy).reshape(literal.type.dims))


_FILL_PERIOD = 2
"""Values 0 and 1 fit every type, and are no single value, which the compiler would simplify."""
