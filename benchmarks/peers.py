# pyright: reportMissingImports=false
"""What hloom is measured against: XLA's own parser and printer in jaxlib, xDSL's reader of generic MLIR, MindSpore.

All that is private in jaxlib and used by the benchmarks is used here.
"""

# The peers are optional: without them their imports cannot be resolved.
# pyright: reportMissingImports=false, reportOptionalMemberAccess=false

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from jax._src import named_sharding, sharding_impls
from jax.interpreters.mlir import make_ir_context
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]
from jaxlib.mlir import ir

XLA = "XLA"
XDSL = "xDSL"
JAX = "jax"
MINDSPORE = "mindspore.jit"

xla_parse = _hlo.hlo_module_from_text
xla_print = _hlo.HloModule.to_string
xla_write = _hlo.HloModule.as_serialized_hlo_module_proto
xla_read = _hlo.HloModule.from_serialized_hlo_module_proto
xla_dot = _hlo.hlo_module_to_dot_graph


def xla_cost(module: object) -> dict[str, float]:
    """XLA's own cost analysis of a module."""
    return _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)


def generic_mlir(text: str) -> str:
    """The program of an HLO text as StableHLO, in MLIR's generic form."""
    program = _jax.mlir.hlo_to_stablehlo(xla_write(xla_parse(text)))
    with make_ir_context():
        return ir.Module.parse(program).operation.get_asm(print_generic_op_form=True)  # type: ignore[return-value]


def xdsl_parse(text: str) -> object:
    """Read generic MLIR with xDSL, every dialect but builtin unregistered; needs the extra `bench`."""
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.parser import Parser

    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    return Parser(context, text).parse_module()


def jax_sharding(names, sizes, entries):
    """jax's sharding of a mesh without devices and a PartitionSpec's entries."""
    mesh = jax.sharding.AbstractMesh(sizes, names)
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*entries))


def jax_hlo_sharding(sharding, rank):
    """XLA's HloSharding of it."""
    return named_sharding.named_sharding_to_xla_hlo_sharding(sharding, rank)


def jax_sharding_text(sharding, rank):
    """The HLO text of it."""
    return str(named_sharding.named_sharding_to_xla_hlo_sharding(sharding, rank))


def jax_forget():
    """What jax remembers of conversions."""
    named_sharding.named_sharding_to_xla_hlo_sharding.cache_clear()


jax_specs = sharding_impls.parse_flatten_op_sharding
"""The PartitionSpecs of an HloSharding on a mesh."""


def mindspore_function_times() -> dict[str, list[float]]:
    """Seconds by what is timed, of `benchmarks.mindspore.function_times`; empty where MindSpore is not installed.

    The interpreter of an environment with MindSpore is HLOOM_MINDSPORE_PYTHON.
    """
    python = os.environ.get("HLOOM_MINDSPORE_PYTHON")
    if not python:
        sys.stderr.write("no MindSpore: HLOOM_MINDSPORE_PYTHON names no interpreter\n")
        return {}
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "GLOG_v": "4"}
    done = subprocess.run(
        [python, "-P", "-m", "benchmarks.mindspore.function_times"], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{python} does not run MindSpore's programs:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])["times"]
