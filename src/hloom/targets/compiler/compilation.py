"""Compiles a module with a target's own compiler: asks the cache, or runs the compiler in a child process.

The program travels as an HloModuleProto in a folder of its own, the answer comes back the same way, and nothing of jax
is imported here. `compiler_process.py` is the other side.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hloom.analysis import TARGET
from hloom.formats.hlo import parse
from hloom.ir import Module, ModuleLike, as_module
from hloom.sharding import check_reductions
from hloom.targets.compiler.assignment_text import spaces_in
from hloom.targets.compiler.cache import cache_key, keep, read_cached
from hloom.targets.compiler.child import ChildResult, run_child
from hloom.targets.compiler.compiled_program import CompiledMemory, CompiledProgram
from hloom.targets.compiler.cycles import compiler_cycles
from hloom.targets.compiler.environment import COMPILERS, Environment, child_environment, find_environment
from hloom.targets.compiler.program import PreparedProgram, devices_of, prepare
from hloom.targets.compiler.target import CUDA, Target, parse_target
from hloom.text import HloomError, ParseError, Unattainable, read_limited, readable, unwritable

SECONDS = 600.0
"""Seconds that a compiler may take unless told otherwise; a layer's training step takes 0.3 to 45 on two cores."""
MOST_MODULE_BYTES = 2 << 30
"""The maximum size of the optimised module's text, and of the buffer assignment's."""
MOST_ANSWER_BYTES = 64 << 20
"""The maximum size of the rest of the answer; a long error message of XLA has 1 MB."""
LONGEST_MESSAGE = 1_500
"""The maximum number of characters of the compiler's message to show."""
MOST_FLAGS = 1_000
_FLAG = re.compile(r"(?:--)?(xla_[a-z0-9_]{1,120})=(.{1,1000})", re.DOTALL)
_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|Ran out of memory|Out of memory")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_BOOLEANS = {"true": True, "false": False}
_SCRIPT = Path(__file__).with_name("compiler_process.py")


class CompilerError(HloomError):
    """The target's compiler rejects a program, dies of it, or takes too long."""


class CompilerOutOfMemory(Unattainable):
    """The program does not fit into the target's memory; `text` is all that the compiler says."""

    def __init__(self, message: str, text: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.text = text


def compile_module(
    module: ModuleLike,
    target: str | Target,
    *,
    flags: Mapping[str, str] | Sequence[str] = (),
    opaque_calls: bool = False,
    seconds: float = SECONDS,
    dump: str | os.PathLike[str] | None = None,
    all_passes: bool = False,
    use_cache: bool = True,
) -> CompiledProgram:
    """Compile a module for a target, such as "v5e:4x4", "h100x8" or "cpu", with the target's own compiler.

    `flags` are XLA's, by name or as "xla_x=y"; `opaque_calls` lets custom calls that the target lacks stand as opaque
    ones; `dump` is a new folder for what XLA dumps, with `all_passes` the module after every pass. Raises HloomError
    for a program, target or flag that cannot be compiled, MissingCompiler if it is not installed, CompilerError with
    the compiler's words if it fails, and CompilerOutOfMemory if the program does not fit.
    """
    module = as_module(module)
    wanted = target if isinstance(target, Target) else parse_target(target, devices_of(module))
    settings = parse_flags(flags)
    if not seconds > 0:
        raise HloomError(f"a compiler needs time, and {seconds:g} s is none")
    if all_passes and dump is None:
        raise HloomError("the dump of every pass needs a folder", hint="give dump= (--dump DIR)")
    program = prepare(module, wanted, opaque_calls=opaque_calls)
    environment = find_environment(wanted.platform, wanted.name)
    check_reductions(module, environment.versions["jaxlib"])
    request = _request(program, wanted, settings)
    key = cache_key({**request, "versions": environment.versions, "script": _script_digest()}, program.proto)
    answer = read_cached(key) if use_cache and dump is None else None
    compiled = None if answer is None else _from_cache(answer, program, wanted, environment, settings)
    if compiled is not None:
        return compiled

    def made(answer: Mapping[str, Any]) -> CompiledProgram:
        return _compiled(answer, program, wanted, environment, settings, is_cached=False)

    answer, compiled = _compile(program, request, wanted, environment, seconds, dump, made, all_passes=all_passes)
    if use_cache:
        keep(key, answer)
    return compiled


def parse_flags(flags: Mapping[str, str] | Sequence[str]) -> tuple[tuple[str, str], ...]:
    """XLA's flags as names and values; the last of a name counts. Raises HloomError for anything else."""
    texts = [f"{name}={value}" for name, value in flags.items()] if isinstance(flags, Mapping) else list(flags)
    if len(texts) > MOST_FLAGS:
        raise HloomError(f"{len(texts):,} flags are given, and {MOST_FLAGS:,} are the most")
    settings: dict[str, str] = {}
    for text in texts:
        match = _FLAG.fullmatch(text)
        if match is None:
            raise HloomError(f"'{readable(text[:80])}' is no flag of XLA", hint="give xla_name=value")
        if match[1].startswith(("xla_dump_", "xla_force_host_platform")):
            raise HloomError(f"{match[1]} is set by hloom itself", hint="--dump DIR writes what XLA dumps")
        settings[match[1]] = match[2]
    return tuple(settings.items())


def _typed(value: str) -> bool | int | float | str:
    """A flag's value in the type that XLA wants: its options take no text where they are boolean."""
    if value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    if _INTEGER.fullmatch(value):
        return int(value)
    try:
        return float(value) if re.fullmatch(r"[+-]?[0-9.]+(?:[eE][+-]?\d{1,3})?", value) else value
    except ValueError:
        return value


def _request(program: PreparedProgram, target: Target, settings: Sequence[tuple[str, str]]) -> dict[str, Any]:
    flags: list[tuple[str, bool | int | float | str]] = []
    if target.platform == CUDA:
        flags.append(("xla_gpu_autotune_level", 0))  # there is no GPU to measure on
        if program.has_mock_calls:
            flags.append(("xla_gpu_mock_custom_calls", True))
    given = {name for name, _ in settings}
    flags = [flag for flag in flags if flag[0] not in given]
    return {
        "platform": target.platform,
        "topology": target.topology,
        "replicas": program.replicas,
        "partitions": program.partitions,
        "partitioner": program.partitioner,
        "donated": program.donated,
        "propagates_to_parameters": program.propagates_to_parameters,
        "propagates_to_output": program.propagates_to_output,
        "flags": [*flags, *((name, _typed(value)) for name, value in settings)],
    }


@cache
def _script_digest() -> str:
    return hashlib.sha256(_SCRIPT.read_bytes()).hexdigest()


def _compile(
    program: PreparedProgram,
    request: Mapping[str, Any],
    target: Target,
    environment: Environment,
    seconds: float,
    dump: str | os.PathLike[str] | None,
    made: Callable[[Mapping[str, Any]], CompiledProgram],
    *,
    all_passes: bool,
) -> tuple[dict[str, Any], CompiledProgram]:
    """Run the compiler in a folder of its own; its answer, and the program that `made` makes of it.

    Raises CompilerError or CompilerOutOfMemory; the dump is written only if all is well.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="hloom-compile-"))
    except OSError as problem:
        raise unwritable(tempfile.gettempdir(), problem) from None
    try:
        (folder / "dump").mkdir()
        (folder / "tmp").mkdir()
        (folder / "program.pb").write_bytes(program.proto)
        (folder / "request.json").write_text(json.dumps(request))
        dump_flags = f"--xla_dump_to={folder / 'dump'} --xla_dump_hlo_as_text"
        dump_flags += " --xla_dump_hlo_pass_re=.*" if all_passes else ""
        variables = child_environment(target.platform, target.devices, dump_flags, str(folder / "tmp"))
        command = [environment.python, "-I", str(_SCRIPT), str(folder)]
        result = run_child(command, variables, str(folder), seconds)
        answer = _answer(folder, result, program, target, seconds)
        compiled = made(answer)
        if dump is not None:
            _move_dump(folder / "dump", Path(dump))
        return answer, compiled
    except OSError as problem:
        raise unwritable(folder, problem) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answer(
    folder: Path, result: ChildResult, program: PreparedProgram, target: Target, seconds: float
) -> dict[str, Any]:
    """The child's answer, with the texts; raises for an error, a crash, a timeout and an unreadable one."""
    subject = f"the compiler for {target.name}"
    path = folder / "answer.json"
    if result.timed_out:
        raise CompilerError(
            f"{subject} was stopped after {seconds:g} s on {readable(program.name)}",
            hint="give it more time: --seconds (seconds=)",
        )
    if not path.is_file():
        if _MEMORY.search(result.printed):
            raise _out_of_memory(result.printed, program, target)
        lines = "\n  ".join(readable(line) for line in result.telling_lines())
        died = "died" if result.status else "ended without an answer"
        raise CompilerError(
            f"{subject} {died} ({result.ending}) on {readable(program.name)}" + (f":\n  {lines}" if lines else "")
        )
    answer = _read_answer(path, subject)
    if isinstance(error := answer.get("error"), str):
        if _MEMORY.search(error):
            raise _out_of_memory(f"{error}\n{result.printed}", program, target)
        if answer.get("kind") == "ImportError":
            raise CompilerError(
                f"{subject} cannot be started: {_shortened(error)}", hint=COMPILERS[target.platform].instructions
            )
        raise CompilerError(f"{subject} rejects {readable(program.name)}: {_shortened(error)}", hint=_hint(error))
    answer["text"] = _read_text(folder / "module.txt", subject)
    answer["assignment"] = _assignment(folder / "dump")
    return answer


def _read_answer(path: Path, subject: str) -> dict[str, Any]:
    try:
        answer = json.loads(read_limited(path, MOST_ANSWER_BYTES))
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise CompilerError(f"{subject} gave an answer that cannot be read")
    return answer


def _read_text(path: Path, subject: str) -> str:
    if not path.is_file():
        raise CompilerError(f"{subject} gave an answer without a module")
    return read_limited(path, MOST_MODULE_BYTES).decode("utf-8", "surrogateescape")


def _assignment(dump: Path) -> str:
    """The largest buffer assignment among the dumped files: constant folding may compile small modules beside."""
    found = [path for path in dump.glob("*-buffer-assignment.txt") if path.is_file()]
    if not found:
        return ""
    largest = max(found, key=lambda path: path.stat().st_size)
    if largest.stat().st_size > MOST_MODULE_BYTES:
        return ""
    return read_limited(largest, MOST_MODULE_BYTES).decode("utf-8", "surrogateescape")


def _move_dump(made: Path, wanted: Path) -> None:
    """Move the dump to where it is wanted; the folder appears whole."""
    try:
        if wanted.exists():
            wanted.rmdir()  # only an empty one goes
        beside = wanted.with_name(f".{wanted.name[:100]}.part")
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(made, beside)
        beside.replace(wanted)
    except OSError as problem:
        raise unwritable(wanted, problem) from None


def _out_of_memory(text: str, program: PreparedProgram, target: Target) -> CompilerOutOfMemory:
    match = _MEMORY.search(text)
    rest = text[match.start() if match else 0 :]
    first = next((line for line in rest.splitlines() if line.strip()), "")
    return CompilerOutOfMemory(
        f"{readable(program.name)} does not fit into the memory of {target.name}: {readable(first[:LONGEST_MESSAGE])}",
        rest,
        hint="`hloom why-oom` on the program, with --budget, simulates remedies",
    )


def _hint(error: str) -> str | None:
    if "No such compile option" in error:
        return "the compiler does not know this flag; those of other platforms begin with xla_gpu_ or xla_tpu_"
    if "No FFI handler registered" in error or "Custom emitter for" in error or "No registered implementation" in error:
        return "give --opaque-calls (opaque_calls=True): each such call becomes an opaque one of the same types"
    return None


def _shortened(message: str) -> str:
    shown = "\n  ".join(readable(line) for line in message.strip().splitlines() if line.strip())
    if len(shown) <= LONGEST_MESSAGE:
        return shown
    return f"{shown[:LONGEST_MESSAGE].rstrip()}\n... and {len(shown) - LONGEST_MESSAGE:,} characters more"


def _from_cache(
    answer: dict[str, Any], program: PreparedProgram, target: Target, environment: Environment, settings: Any
) -> CompiledProgram | None:
    """A kept answer; None if it is damaged, so that the compiler is asked again."""
    try:
        return _compiled(answer, program, target, environment, settings, is_cached=True)
    except (HloomError, TypeError):
        return None


def _compiled(
    answer: Mapping[str, Any],
    program: PreparedProgram,
    target: Target,
    environment: Environment,
    settings: tuple[tuple[str, str], ...],
    *,
    is_cached: bool,
) -> CompiledProgram:
    """The result from an answer, whose fields are checked; raises CompilerError for one that is damaged."""
    subject = f"the compiler for {target.name}"
    try:
        statistics = {str(name): _natural(value) for name, value in answer["memory"].items()}
        memory = CompiledMemory.of_statistics(statistics)
        cost = {str(name): float(value) for name, value in answer["cost"].items()}
        seconds, compiler = float(answer["seconds"]), readable(str(answer["compiler"]))[:200]
        text, assignment = str(answer["text"]), str(answer["assignment"])
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise CompilerError(f"{subject} gave an answer that cannot be read: {readable(repr(problem))[:200]}") from None
    module = _module(text, subject)
    module.attachments[TARGET] = target.name
    return CompiledProgram(
        target=target,
        name=program.name,
        devices=program.devices,
        module=module,
        text=text,
        memory=memory,
        spaces=spaces_in(assignment, target.platform),
        buffer_assignment=assignment,
        cycles=compiler_cycles(module),
        cost=cost,
        seconds=seconds,
        compiler=compiler,
        versions=environment.versions,
        partitioner=program.partitioner,
        flags=settings,
        rewritten=program.rewritten,
        notes=program.notes,
        is_cached=is_cached,
    )


def _natural(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of bytes")
    return value


def _module(text: str, subject: str) -> Module:
    try:
        return parse(text)
    except ParseError as error:
        raise CompilerError(f"{subject} wrote a module that hloom cannot read: {error.message}") from None
