"""The child process that compiles one program: `python -I compiler_process.py FOLDER`, run by the target's interpreter.

It runs in an environment that has the target's compiler and need not have hloom, so it imports the standard library,
numpy, jax and jaxlib alone. FOLDER has `request.json` and `program.pb` (an HloModuleProto); the answer is `answer.json`
and, where the compiler succeeded, `module.txt` (the optimised module as XLA prints it, with whole constants). What XLA
dumps goes to `dump`.

Source of the options: jax/_src/compiler.py, get_compile_options, and jax/_src/interpreters/pxla.py,
create_compile_options.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

PARENT_CHECK_SECONDS = 2.0
"""Seconds between checks whether the parent is still there: this process may outlive it by that long."""


def main(folder: Path) -> None:
    """Compile the request in a folder and write the answer there; the exit status is 0 if there is an answer."""
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    request = json.loads((folder / "request.json").read_text())
    try:
        answer = _compile(request, folder)
    except Exception as error:
        answer = {"error": str(error) or repr(error), "kind": type(error).__name__}
    beside = folder / "answer.part"
    beside.write_text(json.dumps(answer))
    beside.replace(folder / "answer.json")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # libtpu's threads may crash while the interpreter is taken down


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)


def _compile(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from jax.extend.mlir import hlo_to_stablehlo, ir
    from jax.interpreters import mlir
    from jaxlib import xla_client

    _hlo = _hlo_names()
    devices = _devices(request)[: request["replicas"] * request["partitions"]]
    stablehlo = hlo_to_stablehlo((folder / "program.pb").read_bytes())
    start = time.perf_counter()
    with mlir.make_ir_context():
        program = ir.Module.parse(stablehlo)
        _donate(program, request["donated"], ir)
        _write_general_dots(program, ir)
        order = np.array([device.id for device in devices]).reshape(request["replicas"], request["partitions"])
        options = xla_client.CompileOptions()
        build = options.executable_build_options
        for target in (options, build):
            target.num_replicas, target.num_partitions = request["replicas"], request["partitions"]
            target.device_assignment = xla_client.DeviceAssignment.create(order)
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = request["partitioner"] == "shardy"
        build.allow_spmd_sharding_propagation_to_parameters = request["propagates_to_parameters"]
        build.allow_spmd_sharding_propagation_to_output = request["propagates_to_output"]
        options.env_option_overrides = [tuple(flag) for flag in request["flags"]]
        client = devices[0].client
        compile_program = getattr(client, "compile", None) if request["platform"] != "cpu" else None
        compiled = (compile_program or client.compile_and_load)(program, xla_client.DeviceList(tuple(devices)), options)
    seconds = time.perf_counter() - start
    modules = compiled.hlo_modules()
    if len(modules) != 1:
        raise RuntimeError(f"the compiler returned {len(modules)} modules")
    printing = _hlo.HloPrintOptions()
    printing.print_large_constants = True
    printing.print_metadata = True
    printing.print_backend_config = True
    (folder / "module.txt").write_text(modules[0].to_string(printing), errors="surrogateescape")
    return {
        "memory": _memory(compiled),
        "cost": _cost(compiled),
        "seconds": seconds,
        "compiler": " ".join(str(getattr(client, "platform_version", "")).split()).removeprefix("PJRT C API "),
        "device": str(getattr(devices[0], "device_kind", "")),
    }


def _hlo_names() -> Any:
    """The part of jaxlib that has HLO's classes: `_hlo`, or `_jax` before 0.10."""
    try:
        from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        from jaxlib import _jax as _hlo  # pyright: ignore[reportAttributeAccessIssue]
    return _hlo


def _devices(request: dict[str, Any]) -> list[Any]:
    """The devices of the target: of a topology, without hardware, or virtual ones of the CPU."""
    import jax
    from jax.experimental import topologies

    if request["platform"] == "cpu":
        return jax.devices("cpu")
    topology = topologies.get_topology_desc(platform=request["platform"], **request["topology"])
    return list(topology.devices)


def _donate(program: Any, donated: list[int], ir: Any) -> None:
    """Mark parameters whose buffers results may use: `buffer_donor` of the header, which the conversion leaves out."""
    main = next(op for op in program.body.operations if getattr(op, "name", None) and op.name.value == "main")
    attributes = [ir.DictAttr(attribute) for attribute in main.arg_attrs]
    for number in donated:
        if number >= len(attributes):
            continue
        known = {entry.name: entry.attr for entry in attributes[number]}
        if "tf.aliasing_output" not in known:
            known["jax.buffer_donor"] = ir.BoolAttr.get(True)
        attributes[number] = ir.DictAttr.get(known)
    if donated:
        main.arg_attrs = ir.ArrayAttr.get(attributes)


def _write_general_dots(program: Any, ir: Any) -> None:
    """Write dots that have an algorithm as `dot_general`.

    XLA's converter makes a plain `stablehlo.dot` of a dot of matrices, whose algorithm is then an attribute that
    StableHLO cannot be serialised with for a plugin.
    """
    found = []
    pending = list(program.operation.regions)
    while pending:
        for block in pending.pop().blocks:
            for op in block.operations:
                pending += op.operation.regions
                if op.operation.name == "stablehlo.dot" and "algorithm" in op.operation.attributes:
                    found.append(op.operation)
    for op in found:
        contracted = ir.RankedTensorType(op.operands[0].type).rank - 1
        dimensions = f"#stablehlo.dot<lhs_contracting_dimensions = [{contracted}], rhs_contracting_dimensions = [0]>"
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes["dot_dimension_numbers"] = ir.Attribute.parse(dimensions)
        made = ir.Operation.create(
            "stablehlo.dot_general",
            results=[op.results[0].type],
            operands=list(op.operands),
            attributes=attributes,
            ip=ir.InsertionPoint(op),
            loc=op.location,
        )
        op.results[0].replace_all_uses_with(made.results[0])
        op.erase()


def _memory(compiled: Any) -> dict[str, int]:
    statistics = compiled.get_compiled_memory_stats()
    names = [name for name in dir(statistics) if name.endswith("_in_bytes")]
    return {name.removesuffix("_in_bytes"): int(getattr(statistics, name)) for name in names}


def _cost(compiled: Any) -> dict[str, float]:
    """XLA's cost analysis of the optimised module, where the compiler has one."""
    try:
        properties = compiled.cost_analysis()
    except Exception:  # PJRT's GPU plugin says UNIMPLEMENTED
        return {}
    properties = properties[0] if isinstance(properties, list) and properties else properties
    if not isinstance(properties, dict):
        return {}
    names = ("flops", "bytes accessed", "transcendentals")
    return {name: float(properties[name]) for name in names if name in properties}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
