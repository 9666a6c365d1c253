"""A module compiled by a fake compiler: what it is asked, what comes back (`compiled_program.py`), every way to fail."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from hloom import parse
from hloom.targets.compiler import (
    CompilerError,
    CompilerOutOfMemory,
    cache_folder,
    compile_module,
    parse_flags,
)
from hloom.text import HloomError
from tests.targets.compiler.fake_compiler import ASSIGNMENT, OPTIMISED, FakeCompiler
from tests.targets.compiler.test_program import GSPMD, PLAIN, SHARDY

MODULE = parse(PLAIN)


def test_what_the_compiler_made(compiler: FakeCompiler):
    program = compile_module(MODULE, "v5e")
    assert program.target.name == "v5e:1x1"
    assert program.module.entry.root.opcode == "fusion"
    assert (program.text, program.buffer_assignment) == (OPTIMISED, ASSIGNMENT)
    memory = program.memory
    assert (memory.arguments, memory.outputs, memory.aliases, memory.temporaries) == (4096, 4096, 1024, 96)
    assert (memory.peak, memory.generated_code, memory.host) == (7264, 300, 7)
    assert [space.name for space in program.spaces] == ["HBM", "VMEM"]
    assert program.cycles is not None
    assert program.cycles.total == 1200
    assert (program.seconds, program.compiler, program.cost) == (1.5, "a fake", {"flops": 8.0})
    assert program.versions["libtpu"] == "0.0.42"
    assert program.fits is None
    assert "jax" not in vars(sys.modules["hloom.targets.compiler.compilation"])


def test_how_it_shows_itself(compiler: FakeCompiler):
    program = compile_module(MODULE, "h100")
    assert repr(program) == "<m compiled for h100: 7.1 KiB, 4 instructions, 1.5 s>"
    assert "temporaries" in str(program)
    assert "<table>" in program._repr_html_()
    record = json.loads(json.dumps(program.to_json()))
    assert record["memory"]["peak"] == 7264
    assert record["fits"] is True
    assert record["spaces"][1] == {
        "space": 1, "name": "collective", "arguments": 0, "outputs": 0, "temporaries": 8192, "constants": 0,
        "thread_local": 0, "total": 8192,
    }  # fmt: skip
    assert "not autotuned" in record["notes"][0]


def test_what_the_compiler_is_asked(compiler: FakeCompiler):
    compile_module(parse(SHARDY), "v5p", flags=["xla_tpu_a=true", "--xla_b=3"])
    (request,) = map(json.loads, compiler.requests)
    assert request["topology"] == {"topology_name": "v5p:2x2x2"}
    assert (request["replicas"], request["partitions"], request["partitioner"]) == (1, 8, "shardy")
    assert request["flags"] == [["xla_tpu_a", True], ["xla_b", 3]]
    assert request["donated"] == [0]


def test_a_gpu_is_not_tuned_and_mocks_calls_on_request(compiler: FakeCompiler):
    called = parse(PLAIN.replace("negate(x)", 'custom-call(x), custom_call_target="f"'))
    program = compile_module(called, "h100x4", opaque_calls=True, flags={"xla_gpu_autotune_level": "4"})
    (request,) = map(json.loads, compiler.requests)
    assert request["flags"] == [["xla_gpu_mock_custom_calls", True], ["xla_gpu_autotune_level", 4]]
    assert program.all_notes()[0].startswith("custom calls to f (1) became a mock call: memory and time inside")


def test_an_answer_is_kept_by_content_target_flags_and_versions(compiler: FakeCompiler):
    first = compile_module(MODULE, "v5e")
    again = compile_module(MODULE, "v5e")
    assert (first.is_cached, again.is_cached) == (False, True)
    assert again.memory == first.memory
    assert len(compiler.requests) == 1
    compile_module(MODULE, "v6e")
    compile_module(MODULE, "v5e", flags=["xla_a=1"])
    compile_module(parse(PLAIN.replace("negate", "cosine")), "v5e")
    compile_module(MODULE, "v5e", use_cache=False)
    assert len(compiler.requests) == 5
    compiler.plays("success", {"python": "3.12", "jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "9"})
    compile_module(MODULE, "v5e")
    assert len(compiler.requests) == 6


def test_a_kept_answer_that_is_damaged_is_asked_for_again(compiler: FakeCompiler):
    compile_module(MODULE, "v5e")
    folder = cache_folder()
    assert folder is not None
    (entry,) = folder.iterdir()
    entry.write_bytes(gzip.compress(b'{"text": 3}'))
    assert not compile_module(MODULE, "v5e").is_cached
    assert compile_module(MODULE, "v5e").is_cached


@pytest.mark.parametrize(
    ("behaviour", "error", "message"),
    [
        ("rejects", CompilerError, r"the compiler for v5e:1x1 rejects m: INVALID_ARGUMENT: no\\033\[31m such thing"),
        ("too_old", CompilerError, "for v5e:1x1 cannot be started: cannot import name 'hlo_to_stablehlo'\n  pip install"),
        ("unknown_flag", CompilerError, "No such compile option: 'xla_y'\n  the compiler does not know this flag"),
        (
            "out_of_memory",
            CompilerOutOfMemory,
            r"m does not fit into the memory of v5e:1x1: RESOURCE_EXHAUSTED: .*15.75G",
        ),
        ("aborts", CompilerError, r"died \(signal SIGABRT\) on m:\n  Check failed: a == b \(topology.cc:12\)$"),
        ("exits", CompilerError, r"died \(exit status 3\) on m:\n  the last words\\033\[31m$"),
        ("silent", CompilerError, r"ended without an answer \(exit status 0\) on m$"),
        ("prints", CompilerError, r"died \(exit status 4\)"),
        ("garbage", CompilerError, "gave an answer that cannot be read"),
        ("no_module", CompilerError, "gave an answer without a module"),
        ("bad_memory", CompilerError, "gave an answer that cannot be read: .*-1 is no number of bytes"),
        ("bad_module", CompilerError, "wrote a module that hloom cannot read"),
    ],
)
def test_a_compiler_that_fails(
    compiler: FakeCompiler, behaviour: str, error: type[HloomError], message: str, tmp_path: Path
):
    compiler.plays(behaviour)
    with pytest.raises(error, match=message) as problem:
        compile_module(MODULE, "v5e", dump=tmp_path / "dump")
    assert "\x1b" not in str(problem.value)
    assert len(str(problem.value)) < 4000
    assert not (tmp_path / "dump").exists()
    folder = cache_folder()
    assert folder is not None
    assert not folder.exists()


def test_a_compiler_that_hangs(compiler: FakeCompiler):
    compiler.plays("hangs")
    with pytest.raises(CompilerError, match=r"was stopped after 0.5 s on m\n  give it more time"):
        compile_module(MODULE, "v5e", seconds=0.5)


def test_a_compiler_that_leaves_a_process_behind(compiler: FakeCompiler):
    compiler.plays("leaves_a_child")
    assert compile_module(MODULE, "v5e").memory.peak == 7264


def test_nothing_is_asked_where_the_devices_do_not_fit(compiler: FakeCompiler):
    with pytest.raises(HloomError, match="the program is for 4 devices"):
        compile_module(parse(GSPMD), "v5e:4x4")
    assert compiler.requests == []


def test_a_dump_is_written_whole(compiler: FakeCompiler, tmp_path: Path):
    compile_module(MODULE, "v5e", dump=tmp_path / "dump")
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names == [
        "module_0000.jit_step.after_optimizations-buffer-assignment.txt",
        "module_0000.jit_step.before_optimizations.txt",
    ]
    with pytest.raises(HloomError, match=r"cannot write .*dump: directory not empty"):
        compile_module(MODULE, "v5e", dump=tmp_path / "dump")


def test_a_program_with_a_hostile_name(compiler: FakeCompiler):
    module = parse(PLAIN)
    module.name = "../../a\x1b[31m\n"
    program = compile_module(module, "v5e")
    assert "\x1b" not in repr(program) + str(program)


@pytest.mark.parametrize("flag", ["a=1", "xla_a", "xla_a=", "xla_A=1", "=", "xla_dump_to=/x", "xla_a\x1b=1"])
def test_a_flag_is_a_name_and_a_value(flag: str):
    with pytest.raises(HloomError, match=r"is no flag of XLA|is set by hloom itself"):
        parse_flags([flag])


def test_the_last_value_of_a_flag_counts():
    assert parse_flags(["xla_a=1", "--xla_b=x,y=z", "xla_a=2"]) == (("xla_a", "2"), ("xla_b", "x,y=z"))


def test_a_time_is_positive(compiler: FakeCompiler):
    with pytest.raises(HloomError, match="a compiler needs time"):
        compile_module(MODULE, "v5e", seconds=float("nan"))
    with pytest.raises(HloomError, match="needs a folder"):
        compile_module(MODULE, "v5e", all_passes=True)


def test_partial_maxima_do_not_reach_a_compiler_that_would_add_them(compiler: FakeCompiler):
    sharding = "sharding={mesh['x'=2], [{}], unreduced=max{'x'}}"
    module = parse(f"HloModule m, num_partitions=2\nENTRY e {{ ROOT p = f32[8] parameter(0), {sharding} }}")
    with pytest.raises(HloomError, match=r"p in e is a partial max .* jaxlib 0.10.2 does not know"):
        compile_module(module, "h100x2")
    assert compiler.requests == []
