"""Finds the Python environments that hold the targets' compilers, without importing anything of them.

An environment is another interpreter, because the compilers are large and bring their own jax: its path is in a
variable such as HLOOM_TPU_PYTHON. Without one, the running interpreter serves if the compiler is installed there.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hloom.targets.compiler.child import run_child
from hloom.targets.compiler.target import CPU, CUDA, TPU, Target, parse_sized_target
from hloom.text import HloomError, visible

PROBE_SECONDS = 60.0
"""Seconds that an interpreter may take to tell its packages' versions; 0.1 s are usual, more on network disks."""
LONGEST_ANSWER = 64 << 10
"""The maximum number of characters of its answer; 200 are usual."""
_PROBE = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
versions = {"python": ".".join(map(str, sys.version_info[:3]))}
for name in sys.argv[1:]:
    try:
        versions[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(versions))
"""


@dataclass(frozen=True, slots=True)
class Compiler:
    """Where a platform's compiler comes from: the variable, the distributions (one of each group), how to install it.

    `packages` are pip's requirements, `extra` the extra of hloom that has the same.
    """

    platform: str
    targets: str
    variable: str
    distributions: tuple[tuple[str, ...], ...]
    packages: str
    extra: str
    size: str

    @property
    def instructions(self) -> str:
        """How to get it, in a sentence for a hint."""
        return (
            f"pip install 'hloom[{self.extra}]', or, in an environment of its own ({self.size}): "
            f"python3 -m venv {self.extra} && {self.extra}/bin/pip install {self.packages} && "
            f"export {self.variable}=$PWD/{self.extra}/bin/python"
        )


COMPILERS = {
    TPU: Compiler(
        TPU, "v2 to v7x", "HLOOM_TPU_PYTHON", (("jax",), ("jaxlib",), ("libtpu",)),
        "'jax==0.10.2' 'jaxlib==0.10.2' 'libtpu==0.0.42.*'", "tpu", "0.6 GB",
    ),
    CUDA: Compiler(
        CUDA, "a100, h100, h200, b200", "HLOOM_GPU_PYTHON",
        (("jax",), ("jaxlib",), ("jax-cuda12-plugin", "jax-cuda13-plugin")),
        "'jax==0.10.2' 'jaxlib==0.10.2' 'jax-cuda12-plugin[with-cuda]==0.10.2'", "gpu", "5 GB",
    ),
    CPU: Compiler(
        CPU, "cpu", "HLOOM_CPU_PYTHON", (("jax",), ("jaxlib",)), "'jax==0.10.2' 'jaxlib==0.10.2'", "run", "0.4 GB"
    ),
}  # fmt: skip
"""The compilers by platform."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter with a target's compiler, what it was found by, and the versions of its packages."""

    platform: str
    python: str
    found_by: str
    versions: dict[str, str] = field(default_factory=dict)


class MissingCompiler(HloomError):
    """The target's compiler is not installed, or the interpreter that should have it does not."""


def find_environment(platform: str, target: str | None = None) -> Environment:
    """The environment with a platform's compiler; raises MissingCompiler, with how to install it.

    `target` is the name that was asked for, if one was.
    """
    compiler = COMPILERS[platform]
    given = os.environ.get(compiler.variable)
    if given:
        given = os.path.abspath(given)  # it is started in other folders; links stay, for they make an environment
        versions = _versions_in(given, compiler)
        missing = _missing(compiler, versions)
        if missing:
            raise MissingCompiler(
                f"{compiler.variable}={visible(given)} does not have {' and '.join(missing)}",
                hint=f"{visible(given)} -m pip install {compiler.packages}",
            )
        return Environment(platform, given, compiler.variable, versions)
    versions = _own_versions(compiler)
    missing = _missing(compiler, versions)
    if missing:
        raise MissingCompiler(
            f"the compiler for {target or compiler.targets} is not installed here: {' and '.join(missing)} missing",
            hint=compiler.instructions,
        )
    return Environment(platform, sys.executable, "this interpreter", versions)


def available_target(target: str | Target, devices: int | None) -> Target:
    """The target for programs that a search will split over `devices` devices, or over all that the target's name says.

    Raises HloomError as `parse_sized_target` does, and MissingCompiler before anything is searched.
    """
    wanted = parse_sized_target(target.name if isinstance(target, Target) else target, devices)
    find_environment(wanted.platform, wanted.name)
    return wanted


def _missing(compiler: Compiler, versions: dict[str, str]) -> list[str]:
    return [" or ".join(group) for group in compiler.distributions if not any(name in versions for name in group)]


def _names(compiler: Compiler) -> list[str]:
    return [name for group in compiler.distributions for name in group]


def _own_versions(compiler: Compiler) -> dict[str, str]:
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _names(compiler):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _versions_in(python: str, compiler: Compiler) -> dict[str, str]:
    """The versions that another interpreter tells of its packages."""
    where = f"{compiler.variable}={visible(python)}"
    if not os.path.isfile(python) or not os.access(python, os.X_OK):
        what = "is a folder" if os.path.isdir(python) else "is not an executable file"
        inside = [path for path in (Path(python) / "bin" / "python",) if path.is_file()]
        raise MissingCompiler(
            f"{where} {what}", hint=f"give {visible(str(inside[0]))}" if inside else "give the path of an interpreter"
        )
    try:
        done = run_child([python, "-I", "-c", _PROBE, *_names(compiler)], os.environ, os.sep, PROBE_SECONDS)
    except HloomError as problem:
        raise MissingCompiler(f"{where}: {problem.message}") from None
    if done.timed_out:
        raise MissingCompiler(f"{where} did not answer within {PROBE_SECONDS:.0f} s")
    answer = _last_object(done.printed)
    if not isinstance(answer, dict) or not all(isinstance(value, str) for value in answer.values()):
        raise MissingCompiler(f"{where} does not answer as a Python interpreter does")
    return {str(name): visible(number)[:40] for name, number in answer.items()}


def _last_object(printed: str) -> object:
    """The JSON of the last line that can be an object: an interpreter may print warnings, too."""
    lines = [line for line in printed.splitlines() if line.startswith("{") and len(line) <= LONGEST_ANSWER]
    try:
        return json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        return None


def child_environment(platform: str, devices: int, dump_flags: str, folder: str) -> dict[str, str]:
    """The environment variables of a compiling process: no hardware is looked for, and dumps go into its folder.

    XLA_FLAGS and LIBTPU_INIT_ARGS of this process are not passed on: an answer depends on its request alone.
    """
    dropped = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_", "TPU_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    flags = [dump_flags]
    settings = {
        "JAX_PLATFORMS": "cpu",  # only the client of the topology is asked
        "JAX_ENABLE_COMPILATION_CACHE": "0",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "TMPDIR": folder,
    }
    if platform == TPU:
        settings |= {
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_WORKER_HOSTNAMES": "localhost",
            "TPU_ACCELERATOR_TYPE": "",
            "TPU_LOG_DIR": folder,
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # otherwise a second compilation at a time fails at libtpu's lock
        }
    if platform == CUDA:
        settings["CUDA_VISIBLE_DEVICES"] = ""
    if platform == CPU:
        flags.append(f"--xla_force_host_platform_device_count={devices}")
    return {**kept, **settings, "XLA_FLAGS": " ".join(flags)}
