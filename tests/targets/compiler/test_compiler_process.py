"""The compilers themselves: of the CPU, and of TPUs and GPUs where they are installed (`make test-targets`)."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hloom import fit, load, parse, plan, verify
from hloom.ir import Module
from hloom.targets.compiler import (
    CompiledProgram,
    CompilerError,
    CompilerOutOfMemory,
    MissingCompiler,
    compile_module,
    find_environment,
    parse_target,
)
from tests.targets.compiler.test_custom_calls import CHOLESKY
from tests.targets.compiler.test_program import GSPMD, SHARDY

MLP = """HloModule mlp, buffer_donor={ (1, {}) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = bf16[512,1024] parameter(0)
  w = bf16[1024,4096] parameter(1)
  v = bf16[4096,1024] parameter(2)
  h = bf16[512,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = bf16[512,4096] tanh(h)
  y = bf16[512,1024] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = bf16[1024,4096] dot(x, t), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n = bf16[1024,4096] subtract(w, g)
  ROOT r = (bf16[1024,4096], bf16[512,1024]) tuple(n, y)
}
"""
LARGE = """HloModule large
ENTRY main {
  p = f32[65536,65536] parameter(0)
  a = f32[65536,65536] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[65536,65536] dot(a, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  c = f32[65536,65536] dot(b, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = f32[65536,65536] add(c, a)
}
"""
CALLBACK = """HloModule callback
ENTRY main {
  x = f32[128,256] parameter(0)
  c = (f32[128,256], s32[]) custom-call(x), custom_call_target="my_call", api_version=API_VERSION_TYPED_FFI
  y = f32[128,256] get-tuple-element(c), index=0
  ROOT d = f32[128,128] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "cache"))


def compiled(text: str, name: str, **options: object) -> CompiledProgram:
    """Compile for a target, or skip where its compiler is not installed."""
    target = parse_target(name)
    try:
        find_environment(target.platform)
    except MissingCompiler as problem:
        pytest.skip(problem.message)
    return compile_module(parse(text), name, **options)  # pyright: ignore[reportArgumentType]


def has_alias(module: Module) -> bool:
    """Whether a result has the memory of a parameter."""
    return bool(module.attributes.get("input_output_alias"))


@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
def test_the_cpus_compiler(tmp_path: Path):
    program = compiled(MLP, "cpu", dump=tmp_path / "dump", all_passes=True)
    assert program.memory.arguments == 2 * (512 * 1024 + 2 * 1024 * 4096)
    assert program.memory.aliases == 2 * 1024 * 4096
    assert has_alias(program.module)
    assert program.module.is_scheduled
    (space,) = program.spaces
    assert space.arguments == program.memory.arguments
    assert len(list((tmp_path / "dump").iterdir())) > 20


@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
def test_the_process_needs_no_hloom(tmp_path: Path):
    """The file runs by itself: it imports nothing of hloom, and an error of jax's becomes an answer."""
    from hloom.targets.compiler import compilation

    script = Path(compilation.__file__).with_name("compiler_process.py")
    assert "import hloom" not in script.read_text()
    assert "from hloom" not in script.read_text()
    (tmp_path / "request.json").write_text("{}")
    done = subprocess.run([sys.executable, "-I", str(script), str(tmp_path)], capture_output=True, check=False)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert (done.returncode, "error" in answer) == (0, True)


@pytest.mark.long
@pytest.mark.parametrize("name", ["v4", "v5e", "v5p", "v6e", "v7x", "a100", "h100", "h200", "b200"])
def test_every_target(name: str):
    program = compiled(MLP, name)
    verify(program.module)
    assert program.memory.arguments >= 2 * (512 * 1024 + 2 * 1024 * 4096)
    assert program.memory.aliases == 2 * 1024 * 4096
    assert (program.cycles is not None) == name.startswith("v")
    assert program.buffer_assignment
    assert compiled(MLP, name).is_cached


@pytest.mark.long
@pytest.mark.parametrize("name", ["v5e:2x2", "h100x4"])
def test_gspmds_shardings_are_obeyed(name: str):
    program = compiled(GSPMD, name)
    assert (program.partitioner, program.devices) == ("gspmd", 4)
    assert str(program.module.entry.parameters[0].type).startswith("f32[2,128]")


@pytest.mark.long
@pytest.mark.parametrize("name", ["v5e:2x4", "h100x8"])
def test_shardys_shardings_are_obeyed(name: str):
    program = compiled(SHARDY, name)
    assert (program.partitioner, program.devices) == ("shardy", 8)
    assert str(program.module.entry.parameters[0].type).startswith("f32[4,128]")


@pytest.mark.long
@pytest.mark.parametrize("name", ["v5e", "h100", "cpu"])
def test_lapack_becomes_the_targets(name: str):
    assert len(compiled(CHOLESKY, name).rewritten) == (name != "cpu")
    assert len(compiled(CHOLESKY.replace("lapack_spotrf", "cusolver_potrf"), name).rewritten) == (name != "h100")


@pytest.mark.long
@pytest.mark.parametrize("name", ["v5e", "h100", "cpu"])
def test_opaque_calls(name: str):
    program = compiled(CALLBACK, name, opaque_calls=True)
    assert program.rewritten[0].is_opaque
    assert program.memory.peak > 128 * 256 * 4 * 2


ALGORITHM = """HloModule algorithm
ENTRY main {
  x = f32[16,32] parameter(0)
  y = f32[32] parameter(1)
  ROOT d = f32[16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_f32_f32_f32
}
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["h100", "cpu"])
def test_dots_with_an_algorithm(name: str):
    assert compiled(ALGORITHM, name).memory.outputs == 64
    matrices = ALGORITHM.replace("f32[32]", "f32[32,8]").replace("f32[16] ", "f32[16,8] ")
    assert compiled(matrices, name).memory.outputs == 512


@pytest.mark.long
def test_memory_that_runs_out():
    with pytest.raises(CompilerOutOfMemory, match=r"Ran out of memory on HBM, .* exceeds available HBM"):
        compiled(LARGE, "v5e")
    assert compiled(LARGE, "a100").memory.peak > 60 << 30


@pytest.mark.long
@pytest.mark.parametrize("name", ["v5e", "h100", "cpu"])
def test_flags(name: str):
    with pytest.raises(CompilerError, match="No such compile option: 'xla_no_such_flag'"):
        compiled(MLP, name, flags=["xla_no_such_flag=1"])


@pytest.mark.long
def test_a_dump_of_every_pass_reads(tmp_path: Path):
    compiled(MLP, "v5e", dump=tmp_path / "dump", all_passes=True)
    assert load(tmp_path / "dump", stage="after").is_scheduled
    assert len(list((tmp_path / "dump").iterdir())) > 50


@pytest.mark.long
@pytest.mark.parametrize("name", ["v5e:2x2", "h100x4"])
def test_a_plan_is_split_by_the_targets_compiler(name: str):
    alone = compiled(MLP, name.partition(":")[0].partition("x")[0])
    planned = plan(parse(MLP), target=name, planner="expert")
    made = planned.compiled
    assert made is not None and (made.partitioner, made.devices) == ("gspmd", 4)
    assert made.memory.arguments < alone.memory.arguments
    assert sum(one.bytes for one in made.collectives().values()) > 0
    fitted = fit(parse(MLP), target=name, microbatches=[1])
    assert fitted.devices == 4 and fitted.best.compiled is not None
    assert fitted.best.measured_bytes == fitted.best.compiled.memory.peak
