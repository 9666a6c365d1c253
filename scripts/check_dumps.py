"""Run every subcommand on dumps: no traceback, an exit status that fits, outputs that load again, the same numbers.

    python scripts/check_dumps.py DUMP...            what needs no XLA; numbers by numpy
    python scripts/check_dumps.py --xla DUMP...      also `run`, `opt --verify` and `grad --check`

A line for each failure, and for each refusal (exit status 1 with an error of hloom's), which is to be read; then the
count. The exit status is 1 where anything failed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from types import FrameType
from xml.etree import ElementTree

import numpy as np
from click.testing import CliRunner

import hloom
from hloom.cli import main
from hloom.ir import TOKEN, Constant, Literal, Module, TensorType
from hloom.runtime import random_inputs
from hloom.text import HloomError

SECONDS = 60
"""How long one command may take, in seconds of a processor."""
SLOW_SECONDS = 10
"""From how many seconds on a command is listed."""
PIPELINES = (
    "simplify,cse,dce", "simplify-xla,cse,dce", "fold,dce", "inline,hoist,sink,dce", "outline", "unroll,dce",
)  # fmt: skip
RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""How far results may be apart: as a part of the largest number and of each number; and where all are about zero."""


class TooLong(BaseException):
    """A command took more than SECONDS."""


@dataclass(slots=True)
class Tally:
    """What was run, refused and wrong."""

    commands: int = 0
    refusals: int = 0
    failures: int = 0

    def refused(self, what: str, why: str) -> None:
        self.refusals += 1
        print(f"refused  {what}: {why}", flush=True)

    def failed(self, what: str, why: str) -> None:
        self.failures += 1
        print(f"FAILED   {what}: {why}", flush=True)


def main_of(arguments: Sequence[str]) -> int:
    files = [Path(argument).resolve() for argument in arguments if argument != "--xla"]
    signal.signal(signal.SIGVTALRM, _interrupt)
    warnings.simplefilter("ignore")
    tally = Tally()
    for file in files:
        started = process_time()
        with tempfile.TemporaryDirectory() as folder:
            here = Path.cwd()
            os.chdir(folder)
            try:
                check(file, tally, uses_xla="--xla" in arguments)
            finally:
                os.chdir(here)
        print(f"checked  {file.name} in {process_time() - started:.1f} s", flush=True)
    print(f"{len(files)} dumps, {tally.commands} commands, {tally.refusals} refused, {tally.failures} failed")
    return int(tally.failures > 0)


def check(file: Path, tally: Tally, *, uses_xla: bool) -> None:
    """Run every subcommand on one dump."""
    module = hloom.load(file)
    for arguments, may_refuse, check_output in commands(module, uses_xla):
        name, *options = arguments
        what = f"{file.name}: hloom {' '.join(arguments)}"
        run(what, [name, str(file), *options], tally, check_output, may_refuse=may_refuse)
    inputs = _inputs(module)
    before = None if inputs is None else _numbers(module, inputs)
    for pipeline in PIPELINES:
        what = f"{file.name}: hloom opt -p {pipeline}"
        output = Path("out.hlo.gz")
        output.unlink(missing_ok=True)
        if not run(what, ["opt", str(file), "-p", pipeline, "-o", str(output)], tally) or not output.exists():
            continue
        after = hloom.load(output)
        hloom.verify(after)
        if before is not None and inputs is not None:
            compare(what, before, _numbers(after, inputs), tally)


def commands(module: Module, uses_xla: bool) -> Iterator[tuple[list[str], bool, Callable[[str], object] | None]]:
    """What is run: the arguments but for the file, whether it may be refused, and what reads its output."""

    def same(text: str) -> None:
        if difference := hloom.difference(module, hloom.parse(text)):
            raise HloomError(f"what was printed is another module: {difference}")

    def reads_again(text: str) -> None:
        json.loads(text)
        hloom.verify(hloom.load("out.pb"))

    yield ["inspect"], False, None
    yield ["inspect", "--json"], False, json.loads
    yield ["inspect", "--strict"], False, None
    yield ["print"], False, same
    yield ["print", "--canonical"], False, hloom.parse
    yield ["print", "--short-parsable"], False, hloom.parse
    yield ["print", "--ir"], False, None
    yield ["draw"], False, None
    yield ["draw", "--json"], False, json.loads
    yield ["draw", "-o", "out.graphml"], False, lambda text: ElementTree.parse("out.graphml")
    yield ["cost"], False, None
    yield ["cost", "--by", "scope", "--json"], False, json.loads
    yield ["roofline"], False, None
    yield ["roofline", "--json"], False, json.loads
    yield ["memory"], False, None
    yield ["memory", "--schedule", "list", "--json"], False, json.loads
    yield ["propagate", "--mesh", "x=2", "--enumerate", "--limit", "5"], True, None
    for parameter in module.entry.parameters:
        if isinstance(parameter.type, TensorType) and parameter.type.rank and parameter.type.dims[0] % 2 == 0:
            yield ["propagate", "--mesh", "x=2", "--set", f"{parameter.name}:0=x", "--json"], False, json.loads
            break
    yield ["plan", "--mesh", "x=2", "--seconds", "1", "--json"], True, json.loads
    elides = any(isinstance(node, Constant) and _is_elided(node) for graph in module.graphs for node in graph.nodes)
    yield ["opt", "-p", "simplify,cse,dce", "--report", "--json", "-o", "out.pb"], elides, reads_again
    yield ["opt", "-p", "simplify,cse", "--steps", "--print-changed"], False, None
    yield ["opt", "-p", "microbatch(2)"], True, hloom.parse
    yield ["grad", "--vjp"], True, hloom.parse
    yield ["grad", "--jvp"], True, hloom.parse
    yield ["evaluate", "--json"], True, json.loads
    if uses_xla:
        yield ["run", "--json"], True, json.loads
        yield ["opt", "-p", "simplify-xla,cse,dce", "--verify"], True, None  # callbacks and elided data cannot be run
        yield ["grad", "--vjp", "--check"], True, None


def run(
    what: str,
    arguments: Sequence[str],
    tally: Tally,
    check_output: Callable[[str], object] | None = None,
    *,
    may_refuse: bool = False,
) -> bool:
    """Run one command, and read what it wrote; whether it ended with exit status 0."""
    tally.commands += 1
    started = process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        result = CliRunner().invoke(main, list(arguments))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            tally.failed(what, "".join(traceback.format_exception(result.exception)[-4:]))
        elif result.exit_code == 0 and check_output is not None:
            check_output(result.stdout)
        elif result.exit_code == 1 and may_refuse and result.stderr.startswith("error: "):
            tally.refused(what, result.stderr.strip()[:500])
        elif result.exit_code:
            tally.failed(what, f"exit status {result.exit_code}: {result.stderr.strip()[:1000]}")
        return result.exit_code == 0
    except TooLong:
        tally.failed(what, f"more than {SECONDS} s")
    except (HloomError, ValueError, ElementTree.ParseError) as problem:
        tally.failed(what, f"what was written does not read: {problem}")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if (seconds := process_time() - started) > SLOW_SECONDS:
            print(f"slow     {what}: {seconds:.1f} s", flush=True)
    return False


def compare(what: str, before: Sequence[np.ndarray], after: Sequence[np.ndarray] | None, tally: Tally) -> None:
    """Whether results are the same to the tolerance."""
    if after is None or len(before) != len(after):
        tally.failed(what, f"{len(before)} results before, {None if after is None else len(after)} after")
        return
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        wide = np.complex128 if one.dtype.kind == "c" else np.float64
        first, second = one.astype(wide), other.astype(wide)
        with np.errstate(all="ignore"):
            scale = np.abs(first[np.isfinite(first)]).max(initial=0)
            is_near = np.abs(first - second) <= RELATIVE * (scale + np.abs(first)) + ABSOLUTE
        is_same = (first == second) | (np.isnan(first) & np.isnan(second)) | is_near
        if not is_same.all():
            tally.failed(what, f"result {number}: {first[~is_same][:4]} became {second[~is_same][:4]}")


def _is_elided(constant: Constant) -> bool:
    return isinstance(constant.value, Literal) and constant.value.is_elided


def _inputs(module: Module) -> list[np.ndarray] | None:
    """Random inputs; None where a parameter's size is not known."""
    leaves = [leaf for parameter in module.entry.parameters if parameter.type for leaf in parameter.type.leaves()]
    types = [leaf for leaf in leaves if isinstance(leaf, TensorType) and leaf.is_static]
    return random_inputs(types) if len(types) == sum(leaf is not TOKEN for leaf in leaves) else None


def _numbers(module: Module, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """The results by numpy; None where an instruction cannot be evaluated."""
    try:
        return hloom.evaluate(module, inputs, steps=1_000_000)
    except HloomError:
        return None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TooLong


if __name__ == "__main__":
    sys.exit(main_of(sys.argv[1:]))
