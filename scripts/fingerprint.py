"""Digest what hloom answers about many programs, so that a refactor can show that it changed none of it.

    python scripts/fingerprint.py --programs FOLDER --out before.json [--quick] [--texts FOLDER]
    python scripts/fingerprint.py --programs FOLDER --out after.json
    python scripts/fingerprint.py --compare before.json after.json

FOLDER gets the programs as `.hlo` files on first use: the test corpus, the programs of the benchmarks, and the modules
that tests of the planner and the analyses are written on; further `.hlo` files in it are read too. Each answer (a
print, a cost report, a rewritten module, a plan) has two digests: of its text, and of the numbers in it. Reports whose
texts differ and whose numbers agree are reworded; all other differences, and any difference in a printed module, count
as changes, and `--compare` then exits with 1. Only the public API and the command line are used, so the same script
runs on two versions of hloom: set PYTHONPATH to the sources of one, then of the other.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FINISHED = ".finished"
"""The file that says that a folder of programs is complete."""
TEST_MODULES = ("analysis", "distribute/partitioner", "distribute/planner", "distribute/propagation", "targets/cpu")
"""Tests whose modules are taken as programs."""
LARGE, HUGE = 8_000, 40_000
"""Instructions (lines with ` = `) above which a program gets only the linear products, and only its prints and cost."""
SOLVER_SECONDS = 600.0
"""Time for each solution of the planner: more than any of these programs needs, so that no clock ends a search."""
QUICK_SHARE = 8
"""With --quick, one program of so many is taken."""
FORMS = ("hlo", "short", "canonical", "ir")
PIPELINES = {
    "simplify,cse,dce": ["simplify", "cse", "dce"],
    "simplify-xla": ["simplify-xla"],
    "fast-math": ["fast-math"],
    "fold": ["fold"],
    "inline": ["inline"],
    "inline-fusions": ["inline-fusions"],
    "hoist": ["hoist"],
    "sink": ["sink"],
    "outline": ["outline"],
    "unroll": ["unroll"],
}
PLANS = {
    "plan on 8": ["--mesh", "x=8"],
    "plan on 2x4": ["--mesh", "data=2,model=4"],
}
FURTHER_PLANS = {
    "plan on 2x4, overlapped, of h100": ["--mesh", "data=2,model=4", "--overlap", "--device", "h100"],
    "plan on 2x4 in 30 % of the memory": ["--mesh", "data=2,model=4", "--memory"],
    "experts' plan on 2x4": ["--mesh", "data=2,model=4", "--planner", "expert"],
    "recursive plan on 2x4": ["--mesh", "data=2,model=4", "--planner", "recursive"],
}
"""Plans of few programs, for they take longer."""
MEMORY_SHARE = 0.3
PLANNED = re.compile(
    r"tests/distribute/planner/|tests/distribute/partitioner/|extra/|benchmarks/tiny$"
    r"|lowered/before/(models|sharding|contraction\.(attention|dot))"
)
PLANNED_FURTHER = re.compile(r"tests/distribute/planner/|benchmarks/tiny$")
MEASURED_KEYS = re.compile(r"^(\w+ing|search)_?\w*seconds$")
"""Keys of reports whose values are times of this run."""
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


class Answer(NamedTuple):
    """What hloom answered: the text, and the numbers in it; of a printed module the numbers are its text."""

    text: str
    numbers: str

    @property
    def digests(self) -> list[str]:
        return [hashlib.sha256(part.encode()).hexdigest()[:16] for part in self]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, help="the folder of programs, filled if it is not there")
    parser.add_argument("--out", type=Path, help="write the digests here")
    parser.add_argument("--quick", action="store_true", help="a sample of the programs, under a minute")
    parser.add_argument("--texts", type=Path, help="write the answers themselves into this folder, to look for causes")
    parser.add_argument("--only", default="", help="only programs in whose name this regular expression is found")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args(arguments)
    if options.compare:
        return compare(*(json.loads(path.read_text()) for path in options.compare))
    if not options.programs or not options.out:
        parser.error("--programs and --out, or --compare")
    if not (options.programs / FINISHED).exists():
        write_programs(options.programs)
    digests = dict(fingerprint(options.programs, re.compile(options.only), options.quick, options.texts))
    options.out.write_text(json.dumps(digests, indent=0, sort_keys=True) + "\n")
    return 0


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """List what differs; a quick run is compared with the part of a full run that it covers."""
    changed, reworded, compared = [], Counter[str](), 0
    programs = sorted(before.keys() & after.keys())
    for program in programs:
        for product in sorted(before[program].keys() | after[program].keys()):
            old, new = before[program].get(product), after[program].get(product)
            compared += 1
            if old is None or new is None:
                changed.append(f"{program}: {product}: only {'after' if old is None else 'before'}")
            elif old[1] != new[1]:
                changed.append(f"{program}: {product}")
            elif old[0] != new[0]:
                reworded[product] += 1
    for line in changed:
        print(f"changed: {line}")
    for product, count in reworded.items():
        print(f"reworded, same numbers: {product} of {count} programs")
    left_out = len(before.keys() ^ after.keys())
    if left_out:
        print(f"{left_out} programs are in one of the files only")
    print(f"{compared} answers on {len(programs)} programs: {len(changed)} changed, {sum(reworded.values())} reworded")
    return 1 if changed or not programs else 0


def fingerprint(folder: Path, only: re.Pattern[str], quick: bool, texts: Path | None) -> Iterator[tuple[str, Any]]:
    """The name of each program, and the digests of every answer by product."""
    programs = [path for path in sorted(folder.rglob("*.hlo")) if only.search(name_of(path, folder))]
    sizes = {path: path.read_bytes().count(b" = ") for path in programs}
    if quick:
        programs = [path for path in programs if sizes[path] <= 2_000][::QUICK_SHARE]
    began = time.process_time()
    for path in programs:
        name = name_of(path, folder)
        started = time.process_time()
        digests: dict[str, list[str]] = {}
        for product, answer in answers(path, name, sizes[path]):
            digests[product] = answer.digests
            if texts is not None:
                target = texts / name / f"{product}.txt"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(answer.text)
        yield name, digests
        seconds = time.process_time() - started
        if seconds > 1:
            print(f"{name}: {sizes[path]:,} instructions, {seconds:.1f} s", file=sys.stderr)
    print(f"{len(programs)} programs, {time.process_time() - began:.0f} s of processor time", file=sys.stderr)


def name_of(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def answers(path: Path, name: str, size: int) -> Iterator[tuple[str, Answer]]:
    """Every product of one program; a refusal is an answer too."""
    import hloom

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = hloom.parse(path.read_bytes().decode())
    except hloom.HloomError as error:
        yield "read", refusal(error)
        return
    print_module = functools.partial(hloom.print, module)
    yield from _printed(print_module)
    yield "cost", answer_of(lambda: report(hloom.cost(module)))
    if size > HUGE:
        return
    yield "proto", answer_of(lambda: _saved(module))
    yield "graph as JSON", answer_of(lambda: _as_text(hloom.to_json(module)))
    yield "graph as DOT", answer_of(lambda: _as_text(hloom.to_dot(module)))
    yield "summary", answer_of(lambda: report(hloom.summary(module)))  # pyright: ignore[reportAttributeAccessIssue] older versions know this name
    yield "memory", answer_of(lambda: report(hloom.memory(module)))
    yield "memory, text order", answer_of(lambda: report(hloom.memory(module, schedule="text")))
    for device in ("h100", "tpu_v4"):
        yield f"roofline on {device}", answer_of(lambda device=device: report(hloom.roofline(module, device)))
    settings = [] if size > LARGE else _settings(module)
    if settings:
        yield "propagation", command("propagate", path, "--mesh", "data=2,model=4", "--json", *settings)
    for product, passes in PIPELINES.items():
        if size <= LARGE or product not in ("outline", "fast-math", "unroll"):
            yield product, answer_of(lambda passes=passes: _rewritten(module, passes))
    if not PLANNED.search(name):
        return
    plans = dict(PLANS)
    if PLANNED_FURTHER.search(name) and size <= LARGE:
        plans |= FURTHER_PLANS
    for product, options in plans.items():
        yield from _planned(module, path, product, options)
    if PLANNED_FURTHER.search(name) and size <= LARGE:
        yield "explanation of the plan on 2x4", answer_of(lambda: _explained(module))


def answer_of(question: Callable[[], Answer]) -> Answer:
    """The answer, or what it was refused with."""
    import hloom

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return question()
    except hloom.HloomError as error:
        return refusal(error)
    except Exception as error:  # what expects a verified module may break on others, the same way
        return Answer(f"{type(error).__name__}: {error}", type(error).__name__)


def refusal(error: Exception) -> Answer:
    """The class and the location are kept as numbers: the message is prose."""
    location = re.match(r"\S*?:(\d+):(\d+):", str(error))
    return Answer(f"{type(error).__name__}: {error}", f"{type(error).__name__} {location.groups() if location else ''}")


def report(record: Any) -> Answer:
    """A report by its JSON."""
    return of_json(record.to_json())


def of_json(value: Any) -> Answer:
    text = json.dumps(without_times(value), indent=1, default=str)
    return Answer(text, " ".join(NUMBER.findall(text)))


def without_times(value: Any) -> Any:
    """JSON without what the clock measured."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if not MEASURED_KEYS.match(str(key))}
    if isinstance(value, (list, tuple)):
        return [without_times(inner) for inner in value]
    return value


def command(name: str, path: Path, *arguments: str) -> Answer:
    """What a subcommand writes as JSON."""
    from click.testing import CliRunner

    from hloom.cli import main as command_line

    result = CliRunner().invoke(command_line, [name, str(path), *arguments])
    start = result.stdout.find("{")
    if start < 0:
        return Answer(result.output, f"exit status {result.exit_code}")
    return of_json(json.loads(result.stdout[start:]))


def _printed(print_module: Callable[[str], str]) -> Iterator[tuple[str, Answer]]:
    for form in FORMS:
        yield f"print {form}", answer_of(lambda form=form: _as_text(print_module(form)))


def _as_text(text: str) -> Answer:
    return Answer(text, text)


def _saved(module: Any) -> Answer:
    import hloom

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.hlo.pb"
        hloom.save(module, path)
        return _as_text(hashlib.sha256(path.read_bytes()).hexdigest())


def _rewritten(module: Any, passes: list[str]) -> Answer:
    """The module after the passes, and how often rules fired."""
    import hloom

    changed, account = hloom.apply(module, passes)  # pyright: ignore[reportAttributeAccessIssue] older versions know this name
    return _as_text(f"{account.matched} rules fired\n{hloom.print(changed)}")


def _settings(module: Any) -> list[str]:
    """Splits to propagate: dimension 0 of every other array parameter over `data`, the rest's last over `model`."""
    arrays = [
        (node.name, node.type.dims)
        for node in module.entry.parameters
        if getattr(node.type, "dims", None) and all(isinstance(size, int) for size in node.type.dims)
    ]
    settings: list[str] = []
    for index, (name, dims) in enumerate(arrays):
        if index % 2 == 0 and dims[0] % 2 == 0:
            settings += ["--set", f"{name}:0=data"]
        elif index % 2 and dims[-1] % 4 == 0:
            settings += ["--set", f"{name}:{len(dims) - 1}=model"]
    return settings


def _planned(module: Any, path: Path, product: str, options: Iterable[str]) -> Iterator[tuple[str, Answer]]:
    """The annotated module byte for byte, and the costs; which other plans are tried depends on the clock."""
    arguments = ["--seconds", str(SOLVER_SECONDS), *options]
    if arguments[-1] == "--memory":
        arguments.append(str(round(MEMORY_SHARE * _peak_bytes(module))))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "planned.hlo"
        yield product, command("plan", path, "--json", "-o", str(output), *arguments)
        if output.exists():
            yield f"{product}: text", _as_text(output.read_text())


def _explained(module: Any) -> Answer:
    """Every collective of the plan with its cause."""
    import hloom

    return report(hloom.plan(module, PLANS["plan on 2x4"][1], seconds=SOLVER_SECONDS).explanation)


def _peak_bytes(module: Any) -> int:
    import hloom

    return max(value for value in _numbers(hloom.memory(module).to_json()))


def _numbers(value: Any) -> Iterator[int]:
    for inner in value.values():
        if isinstance(inner, int):
            yield inner


def write_programs(folder: Path) -> None:
    """Write every program into the folder; JAX lowers some, in processes of their own."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from tests.corpus import aborts, handwritten, refused
    from tests.corpus.cache import ENVIRONMENT

    folder.mkdir(parents=True, exist_ok=True)
    for group, texts in (("handwritten", handwritten()), ("refused", refused()), ("aborts", aborts())):
        for name, text in texts.items():
            _write(folder / group / f"{name}.hlo", text)
    subprocess.run(
        [sys.executable, "-m", "tests.corpus.build", str((folder / "lowered").resolve())],
        cwd=ROOT,
        env=os.environ | ENVIRONMENT,
        check=True,
    )
    for path, text in _modules_of_tests():
        _write(folder / path, text)
    for name, text in _programs_of_benchmarks():
        _write(folder / "benchmarks" / f"{name}.hlo", text)
    (folder / FINISHED).touch()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def _modules_of_tests() -> Iterator[tuple[str, str]]:
    """Modules that stand as constants in tests, each once."""
    seen: set[str] = set()
    for package in TEST_MODULES:
        for source in sorted((ROOT / "tests" / package).rglob("*.py")):
            for node in ast.walk(ast.parse(source.read_text())):
                if not isinstance(node, ast.Constant):
                    continue
                text = node.value
                if isinstance(text, str) and re.search(r"^ENTRY \S+ .*\{$", text, re.MULTILINE) and text not in seen:
                    seen.add(text)
                    yield f"tests/{package}/{source.stem}_{node.lineno}.hlo", text


def _programs_of_benchmarks() -> Iterator[tuple[str, str]]:
    from benchmarks.programs import Plan, all_different, all_equal, called, repeated, training_step, unrolled
    from scripts.lower_gpt2 import Config

    sizes = {"tiny": Config(2, 64, 4, 256, 32, 8), "small": Plan().small, "large": Plan().large}
    for name, config in sizes.items():
        for metadata in (False, True):
            yield f"{name}{'_metadata' if metadata else ''}", training_step(config, metadata).text
    small = training_step(sizes["small"], False)
    for make in (repeated, called, unrolled):
        yield make.__name__, make(small, 3).text
    yield "alike", all_equal(1000).text
    yield "unlike", all_different(1000).text
    yield "repeated_often", repeated(training_step(sizes["large"], False), 4).text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
