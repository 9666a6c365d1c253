"""StableHLO is read as the HLO that jax itself makes of it; what is none is refused.

Covers `stablehlo.py`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from jax import export
from jax._src.interpreters.mlir import module_to_bytecode

import hloom
from hloom.cli import main
from hloom.ir import Apply
from hloom.runtime import XlaCrash
from hloom.text import HloomError

X = jnp.arange(16.0).reshape(4, 4) / 16


def function(x):
    return jax.scipy.special.erfinv(jnp.sin(x) @ x)


LOWERED = jax.jit(function).lower(X)
EXPORTED = export.export(jax.jit(function))(X)
FUTURE = """module {
  vhlo.func_v1 @type_future() -> (!vhlo.future_v1<!vhlo.tensor_v1<!vhlo.f32_v1>>) {
  } {arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>, sym_visibility = #vhlo.string_v1<"private">}
}"""
DEEP = 50_000
DEADLY = {
    "unknown VHLO": FUTURE,
    "nested regions": "module {" * DEEP + "}" * DEEP,
    "nested attributes": f"module attributes {{a = {'[' * DEEP}{']' * DEEP}}} {{ }}",
    "nested types": f"func.func @main(%a: {'tuple<' * DEEP}{'>' * DEEP}) {{ return }}",
}
"""Texts of which MLIR's parser or XLA's converter dies."""


@pytest.mark.parametrize(
    "program",
    [
        LOWERED.as_text(),
        LOWERED.as_text().encode(),
        LOWERED.compiler_ir("stablehlo"),
        module_to_bytecode(cast(Any, LOWERED.compiler_ir("stablehlo"))),
        EXPORTED,
        EXPORTED.mlir_module_serialized,
    ],
    ids=["text", "bytes", "module", "bytecode", "exported", "portable artifact"],
)
def test_every_form_is_the_program_that_jax_lowers(program: object):
    module = hloom.from_stablehlo(program)
    assert hloom.difference(module, hloom.load(LOWERED), metadata=False) is None
    np.testing.assert_allclose(hloom.evaluate(module, [np.asarray(X)])[0], function(X), rtol=1e-4)


def test_what_is_no_stablehlo():
    with pytest.raises(HloomError, match=r"broken\.mlir: MLIR does not read this: "):
        hloom.from_stablehlo("module { gone }", "broken.mlir")
    with pytest.raises(HloomError, match="<bytes>: MLIR does not read this: "):
        hloom.from_stablehlo(b"\0\1")
    with pytest.raises(HloomError, match="<text>: XLA does not convert this to HLO: "):
        hloom.from_stablehlo("func.func @main(%a: index) { return }")
    with pytest.raises(HloomError, match=r"no function is called main, and not one alone is public: f, g\n  call it"):
        hloom.from_stablehlo("func.func @f() { return } func.func @g() { return }")


@pytest.mark.parametrize("text", DEADLY.values(), ids=DEADLY.keys())
def test_a_program_that_kills_the_converter_is_an_error_and_the_next_one_is_read(text: str):
    with pytest.raises(XlaCrash, match=r"deadly\.mlir: XLA crashed \(signal SIG(SEGV|ABRT)\)"):
        hloom.from_stablehlo(text, "deadly.mlir")
    assert hloom.from_stablehlo("func.func @main() { return }").entry.root.opcode == "tuple"


def test_the_only_public_function_is_the_program():
    text = LOWERED.as_text().replace("@main", "@forward")
    assert hloom.difference(hloom.from_stablehlo(text), hloom.load(LOWERED), metadata=False) is None


def test_a_reshard_is_read_as_the_constraint_that_it_is():
    module = hloom.from_stablehlo("""module {
      sdy.mesh @mesh = <["x"=2, "y"=2]>
      func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
        %0 = sdy.reshard %a <@mesh, [{"y"}]> : tensor<4xf32>
        return %0 : tensor<4xf32>
      } }""")
    root = module.entry.root
    assert isinstance(root, Apply)
    assert str(root.attribute("sharding")) == "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"


@pytest.mark.parametrize("read", [hloom.load, hloom.from_stablehlo])
def test_a_file_of_it_is_read(tmp_path: Path, read: Callable[[Any], hloom.Module]):
    text, bytecode, packed = tmp_path / "f.mlir", tmp_path / "f.mlirbc", tmp_path / "f.mlir.gz"
    text.write_text(LOWERED.as_text())
    bytecode.write_bytes(EXPORTED.mlir_module_serialized)
    packed.write_bytes(gzip.compress(LOWERED.as_text().encode()))
    for source in (text, str(text), bytecode, packed, LOWERED):
        assert hloom.difference(read(source), hloom.load(LOWERED), metadata=False) is None
    text.write_text("module { gone }")
    with pytest.raises(HloomError, match=r"f\.mlir: MLIR does not read this: "):
        read(text)


@pytest.mark.parametrize("form", ["text", "bytes", "module"])
def test_load_reads_it(form: str):
    forms = {
        "text": LOWERED.as_text(),
        "bytes": LOWERED.as_text().encode(),
        "module": LOWERED.compiler_ir("stablehlo"),
    }
    assert hloom.difference(hloom.load(forms[form]), hloom.load(LOWERED), metadata=False) is None


@pytest.mark.parametrize("arguments", [("inspect",), ("opt", "-p", "simplify"), ("evaluate",)])
@pytest.mark.parametrize("is_piped", [False, True])
def test_subcommands_read_it(tmp_path: Path, arguments: tuple[str, ...], is_piped: bool):
    path = tmp_path / "f.mlir"
    path.write_text(LOWERED.as_text())
    name, *options = arguments
    given = LOWERED.as_text() if is_piped else None
    result = CliRunner().invoke(main, [name, "-" if is_piped else str(path), *options], input=given)
    assert result.exit_code == 0, result.stderr
    assert "f32[4,4]" in result.stdout or "jit_function" in result.stdout


@pytest.mark.parametrize("arguments", [("inspect",), ("opt", "-p", "simplify")])
@pytest.mark.parametrize("name", ["f.mlirbc", "f.mlir"])
def test_subcommands_read_bytecode(tmp_path: Path, arguments: tuple[str, ...], name: str):
    (tmp_path / name).write_bytes(EXPORTED.mlir_module_serialized)
    subcommand, *options = arguments
    result = CliRunner().invoke(main, [subcommand, str(tmp_path / name), *options])
    assert result.exit_code == 0, result.stderr
    assert "f32[4,4]" in result.stdout
