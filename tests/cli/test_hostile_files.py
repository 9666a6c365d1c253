"""Every subcommand on files that nobody should hand to it: soon over, in little memory, with one plain message or none.

The subcommands and their options for files are found by looking at all of them, so that a new one is tried as well. The
quick sample tries each file with one of the readers; the long sweep each with all, and the large ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import cycle
from pathlib import Path

import click
import numpy as np
import pytest

from hloom.cli import main
from hloom.cli.main import COMMANDS
from tests.cli.conftest import ROOT
from tests.cli.hostile_files import FILES, LARGE, MODULES

MOST_SECONDS = 10.0
"""Of the processor."""
MOST_KILOBYTES = 1_200_000
MOST_MESSAGE = 4_000
NEEDED = {
    "compile": ("--for", "cpu"),
    "propagate": ("--mesh", "m=2", "--set", "x:0=m"),
    "plan": ("--mesh", "m=2"),
    "grep": ("negate or dot",),
    "minimize": ("--failing", "true {}"),
    "opt": ("-p", "dce"),
    "grad": ("--vjp",),
    "pipeline": ("--devices", "2"),
    "fit": ("--devices", "2"),
    "quantize": ("--only", "w"),
    "prune": ("--only", "w", "--sparsity", "0.5"),
}
"""What subcommands need besides their FILE."""
BESIDE = {
    ("quantize", "--inputs"): ("--check",),
    ("quantize", "--calibrate"): ("--activations", "static"),
    ("prune", "--inputs"): ("--check",),
    ("prune", "--calibrate"): ("--method", "wanda", "--weights", "good.npz"),
    ("grad", "--inputs"): ("--check",),
    ("minimize", "--inputs"): ("--differs-from-evaluator",),
    ("minimize", "--load"): ("--passes", "dce"),
}
"""What an option for a file is for."""
TEXT_FOR_FILES = {("page", "--numerics"), ("view", "--numerics"), ("run", "--check"), ("opt", "--passes")}
"""Options that take a file's name or something else."""
WRITTEN = {"output", "save_inputs", "save_masks"}
SLOW = {"run", "fit", "minimize", "pipeline", "plan"}
"""Those that are left to the long sweep: on a program that reads, they search."""
Case = list[str]

FORKS = """
import json, os, resource, shutil, signal, sys, time
from importlib import import_module
from pathlib import Path
from hloom.cli.main import COMMANDS, main
for name in COMMANDS:
    import_module("hloom.cli." + name.replace("-", "_"))
base, results = Path.cwd(), []
for number, arguments in enumerate(json.loads(sys.stdin.read())):
    work = base / f"work{number}"
    work.mkdir()
    shutil.copy(base / "good.npz", work)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(work)
        os.environ["TMPDIR"] = str(base)
        resource.setrlimit(resource.RLIMIT_CPU, (40, 41))
        signal.alarm(120)
        for kind, descriptor in (("out", 1), ("err", 2)):
            os.dup2(os.open(base / kind, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", closefd=False)
        sys.argv, code = ["hloom", *arguments], 99
        try:
            main(prog_name="hloom")
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status, used = os.wait4(child, 0)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    left = sorted(path.name for path in work.iterdir() if path.name != "good.npz")
    shutil.rmtree(work)
    error = (base / "err").read_bytes()
    results.append([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss, left, error[:4000].decode("utf-8", "replace"), len(error)])
print(json.dumps(results))
"""
"""Each case in a process of its own, which has everything imported already: status, seconds, kilobytes, files, messages."""


def parameters(name: str) -> list[click.Parameter]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command.params


def on_the_program(folder: Path, names: Iterable[str]) -> Iterator[Case]:
    """FILE is hostile."""
    for name in names:
        takes = [parameter.name for parameter in parameters(name) if isinstance(parameter, click.Argument)]
        if takes:
            second = [str(folder / "step.hlo")] if name == "diff" else []
            yield [name, "HOSTILE", *second, *NEEDED.get(name, ())]


def on_options(folder: Path, names: Iterable[str]) -> Iterator[Case]:
    """An option's file is hostile."""
    for name in names:
        for parameter in parameters(name):
            option = parameter.opts[-1]
            is_file = isinstance(parameter.type, click.Path | click.Tuple) or (name, option) in TEXT_FOR_FILES
            if not isinstance(parameter, click.Option) or not is_file or parameter.name in WRITTEN:
                continue
            values = ["HOSTILE"] if parameter.nargs == 1 else ["HOSTILE", "HOSTILE" if name == "diff" else "new.npz"]
            given = () if name == "minimize" or (name, option) == ("opt", "--passes") else NEEDED.get(name, ())
            second = [str(folder / "step.hlo")] if name == "diff" else []
            yield [name, str(folder / "step.hlo"), *second, *given, *BESIDE.get((name, option), ()), option, *values]


@pytest.fixture
def folder(tmp_path: Path, step: Path) -> Path:
    np.savez(tmp_path / "good.npz", x=np.ones((4, 8), np.float32), w=np.ones((8, 2), np.float32))
    return tmp_path


def tried(folder: Path, cases: Iterable[Case]) -> None:
    """Run the cases, and assert what holds for each; the failures together."""
    listed = list(cases)
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        input=json.dumps(listed),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    problems = []
    for case, (code, seconds, kilobytes, left, error, length) in zip(listed, json.loads(done.stdout), strict=True):
        said = error.split("error: ", 1)[-1] if code == 2 else error
        wrong = {
            "status": code not in (0, 1, 2),
            "traceback": "Traceback" in error,
            "seconds": seconds > MOST_SECONDS,
            "memory": kilobytes > MOST_KILOBYTES,
            "no message": code == 2 and "error: " not in error.lower(),
            "a long message": code == 2 and length > MOST_MESSAGE,
            "a partial file": code == 2 and bool(left),
            "escapes": "\x1b" in error,
        }
        if titles := [title for title, holds in wrong.items() if holds]:
            problems.append((titles, " ".join(case)[-150:], code, round(seconds, 1), kilobytes, said[:300]))
    assert not problems, "\n".join(map(str, problems))


def written(folder: Path, files: dict) -> list[str]:
    paths = []
    for title, make in files.items():
        path = folder / title.replace(" ", "_")
        path.write_bytes(make())
        paths.append(str(path))
    return paths


def filled(case: Case, path: str) -> Case:
    return [path if part == "HOSTILE" else part for part in case]


READERS = [name for name in COMMANDS if name not in ("calibrate", "doctor")]


def test_each_file_with_one_subcommand(folder: Path):
    quick = cycle(on_the_program(folder, [name for name in READERS if name not in SLOW]))
    tried(folder, [filled(next(quick), path) for path in written(folder, {**FILES, **MODULES}) if "mlir" not in path])


def test_each_option_with_one_file(folder: Path):
    paths = cycle(written(folder, FILES))
    tried(folder, [filled(case, next(paths)) for case in on_options(folder, READERS) for _ in range(3)])


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_every_file_with_every_subcommand(folder: Path, name: str):
    paths = written(folder, {**FILES, **MODULES})
    tried(folder, [filled(case, path) for case in on_the_program(folder, [name]) for path in paths])


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_every_file_with_every_option(folder: Path, name: str):
    paths = written(folder, FILES)
    tried(folder, [filled(case, path) for case in on_options(folder, [name]) for path in paths])


@pytest.mark.long
@pytest.mark.parametrize("title", LARGE)
def test_large_files(folder: Path, title: str):
    (path,) = written(folder, {title: LARGE[title]})
    cases = [*on_the_program(folder, ["inspect"]), *on_options(folder, ["plan", "roofline", "run", "opt", "prune", "cost"])]
    tried(folder, [filled(case, path) for case in cases])


UNUSUAL = ("directory", "loop", "dangling", "zeros", "memory", "name that is far too long")


def test_paths_that_are_no_files(folder: Path):
    """A directory, a symbolic link to itself, one to nothing, devices, a name of 5,000 characters."""
    (folder / "directory").mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dangling").symlink_to(folder / "nothing")
    paths = [str(folder / "directory"), str(folder / "loop"), str(folder / "dangling"), "/dev/zero", "/dev/full", "a" * 5000]
    programs, options = (list(cases(folder, READERS)) for cases in (on_the_program, on_options))
    tried(folder, [filled(case, path) for case, path in zip([*programs, *options], cycle(paths), strict=False)])


def test_what_is_written_is_whole_or_not_there(folder: Path):
    """-o into a directory, a full disk, a folder that is missing, a name too long."""
    targets = [str(folder), "/dev/full", str(folder / "missing" / "x.hlo"), "a" * 300 + ".hlo", ""]
    names = [name for name in READERS if name not in SLOW and any(p.name == "output" for p in parameters(name))]
    cases = [filled(case, str(folder / "step.hlo")) for case in on_the_program(folder, [n for n in names if n != "passes"])]
    tried(folder, [[*case, "-o", target] for case, target in zip(cases, cycle(targets), strict=False)])
    assert {path.name for path in folder.iterdir()} <= {"step.hlo", "good.npz", "out", "err"}
