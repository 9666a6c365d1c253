"""Compiles programs with the compiler of a TPU, a GPU or the CPU, without the hardware."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from hloom.api.load import load
from hloom.ir import Module
from hloom.targets.compiler import SECONDS, CompiledProgram, Target, compile_module


def compile(
    program: object,
    target: str | Target,
    *,
    flags: Mapping[str, str] | Sequence[str] = (),
    opaque_calls: bool = False,
    seconds: float = SECONDS,
    dump: str | os.PathLike[str] | None = None,
    all_passes: bool = False,
    use_cache: bool = True,
) -> CompiledProgram:
    """Compile a program for a target with the target's own compiler, in a child process.

    `program` is a module, or what `hloom.load` reads: a file, a text, a program that jax lowered. `target` is a name:
    a TPU's generation and slice ("v5e:4x4"), a GPU and how many ("h100x8", "a100") or "cpu"; without a slice or number
    it is the smallest with as many devices as the program asks for. The compilers are found in the environments of
    HLOOM_TPU_PYTHON and HLOOM_GPU_PYTHON, or in this one; `hloom doctor` says how to get them.

    `flags` are XLA's ("xla_gpu_enable_while_loop_unrolling=..." or a mapping). With `opaque_calls`, custom calls that
    the target lacks become opaque calls of the same types. `seconds` is the maximum time of compiling. `dump` is a new
    folder for what XLA dumps, with `all_passes` the module after every pass. Answers are kept in the user's cache
    folder unless `use_cache` is off.

    Raises HloomError for a program or target that cannot be compiled; its subclasses MissingCompiler, CompilerError
    (rejected, died, too slow) and CompilerOutOfMemory are in `hloom.targets.compiler`.
    """
    module = program if isinstance(program, Module) else load(program)
    return compile_module(
        module,
        target,
        flags=flags,
        opaque_calls=opaque_calls,
        seconds=seconds,
        dump=dump,
        all_passes=all_passes,
        use_cache=use_cache,
    )
