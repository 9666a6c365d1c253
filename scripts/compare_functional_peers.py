"""Count how many functions of the corpus other compilers of Python functions compute as CPython does.

    python scripts/compare_functional_peers.py --peer jax --peer mindspore=/tmp/mindspore-venv/bin/python --sample 150

A peer is `hloom`, `jax`, `mindspore` or `tensorflow`, with the interpreter that has it where that is not this one.
The functions are those of `tests/functions/programs` that must compute a value (and, in the family of gradients, a
gradient); of each at most three calls. Each way of passing numbers that a peer has is tried, with NumPy as the
functions import it and with the peer's own NumPy in its place, until one gives CPython's values; data types are not
compared, numbers within 1e-5. A call that takes over 20 s is stopped, with the process that it runs in.
"""

# The peers are optional, and have interpreters of their own.
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import inspect
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 20
STARTUP_SECONDS = 120
MOST_CASES = 3
TOLERANCE = 1e-5
RIGHT, WRONG, SLOW, REFUSED = "right", "wrong", "over 20 s", "refused"
VERDICTS = (RIGHT, WRONG, SLOW, REFUSED)
LEFT_OUT = (
    "decorated", "derivative_rules", "errors", "jax_functions", "jax_library", "overflow", "printing", "refusals",
    "transformations",
)  # fmt: skip
"""Families that are about hloom's own functions, jax's library, or what must not compute."""
CONSTANTS = "constants"
NUMBERS = {
    "hloom": ("data",),
    "jax": ("data",),
    "mindspore": ("tensors", "tensors of 32 bits", "mutable scalars", CONSTANTS),
    "tensorflow": ("tensors", "tensors of 32 bits", CONSTANTS),
}
"""How Python's numbers are passed: as data, or as constants that the function is compiled for."""
LIBRARIES = {peer: ("numpy",) if peer == "hloom" else ("numpy", "own") for peer in NUMBERS}
"""What the functions' `np` and `math` are: as they import them, or the peer's own."""


# The parent: one process per peer, way and batch, restarted behind what hangs it or kills it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", required=True, metavar="NAME[=PYTHON]")
    parser.add_argument("--sample", type=int, help="how many functions, drawn at random; all where it is not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gradients", action="store_true", help="gradients of the family of gradients")
    parser.add_argument("--json", type=Path, help="write the verdicts of all functions, and why, here too")
    options = parser.parse_args()
    names = chosen_names(options.sample, options.seed, options.gradients)
    table: dict[str, dict[str, str]] = {}
    reasons: dict[str, list[str]] = {}
    for peer in options.peer:
        name, _, python = peer.partition("=")
        table |= compare(name, python or sys.executable, names, options.gradients, reasons)
    for title, verdicts in table.items():
        counts = Counter(verdicts.values())
        figures = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
        sys.stdout.write(f"{title}: {figures}, of {len(verdicts)}\n")
    if options.json:
        options.json.write_text(json.dumps({"verdicts": table, "reasons": reasons}, indent=1))


def chosen_names(sample: int | None, seed: int, gradients: bool) -> list[str]:
    names = [entry.name for entry in load_programs() if (entry.family == "gradients") is gradients]
    return sorted(random.Random(seed).sample(names, sample)) if sample and sample < len(names) else names


def compare(
    peer: str, python: str, names: Sequence[str], gradients: bool, reasons: dict[str, list[str]]
) -> dict[str, dict[str, str]]:
    """By title the verdicts by function: the best of the ways so far, after those of numbers as data and after all."""
    best: dict[str, str] = {}
    table: dict[str, dict[str, str]] = {}
    for numbers in NUMBERS[peer]:
        title = f"{peer}, or numbers as constants" if numbers == CONSTANTS else f"{peer}, numbers as data"
        for library in LIBRARIES[peer]:
            left = [name for name in names if best.get(name) != RIGHT]
            for name, verdict in run_way(peer, python, (numbers, library), left, gradients, reasons).items():
                if name not in best or VERDICTS.index(verdict) < VERDICTS.index(best[name]):
                    best[name] = verdict
            table[title] = dict(best)
    return table


def run_way(
    peer: str,
    python: str,
    way: tuple[str, str],
    names: Sequence[str],
    gradients: bool,
    reasons: dict[str, list[str]],
) -> dict[str, str]:
    verdicts: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        started = read_verdicts(peer, python, way, waiting, gradients, verdicts, reasons)
        if started is not None and started not in verdicts:
            verdicts[started] = REFUSED
        done = len(waiting)
        waiting = [name for name in waiting if name not in verdicts]
        if len(waiting) == done:
            raise SystemExit(f"{peer} does not start with {python}")
    return verdicts


def read_verdicts(
    peer: str,
    python: str,
    way: tuple[str, str],
    names: Sequence[str],
    gradients: bool,
    verdicts: dict[str, str],
    reasons: dict[str, list[str]],
) -> str | None:
    """Read a worker's lines until it ends or takes too long; the function that it had begun last."""
    reading, writing = os.pipe()
    arguments = [python, "-P", __file__, "--peer", peer, *(["--gradients"] if gradients else [])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *([str(ROOT / "src")] if peer == "hloom" else [])]),
        "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "GLOG_v": "4",
        "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    worker = subprocess.Popen(
        [*arguments, "--worker", *way, str(writing)], pass_fds=[writing], env=environment, text=True,
        cwd=tempfile.gettempdir(),  # MindSpore leaves files where it runs
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writing)
    assert worker.stdin is not None
    worker.stdin.write("\n".join(names))
    worker.stdin.close()
    started, seconds, rest = None, STARTUP_SECONDS, b""
    while True:
        ready, _, _ = select.select([reading], [], [], seconds)
        data = os.read(reading, 1 << 16) if ready else b""
        if not data:
            if not ready and started is not None:
                verdicts[started] = SLOW
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            name, verdict, reason = line.decode("utf-8", "replace").split("\t")
            started, seconds = name, SECONDS
            if verdict in VERDICTS:
                verdicts[name] = verdict
                line_of_way = f"{peer}, numbers as {way[0]}, {way[1]}: {verdict} {reason}"
                reasons.setdefault(name, []).append(line_of_way.strip())
    worker.kill()
    worker.wait()
    os.close(reading)
    return started


# The worker, in the peer's interpreter


def load_programs() -> list[Any]:
    """The functions that must compute a value, without importing hloom."""
    if "hloom" not in sys.modules:
        sys.modules["hloom"] = types.ModuleType("hloom")
    sys.path.insert(0, str(ROOT))
    warnings.simplefilter("ignore")
    from tests.functions import table

    return [
        entry
        for name in sorted(path.stem for path in table.FOLDER.glob("*.py"))
        if name not in (*LEFT_OUT, "__init__")
        for entry in table.programs_of(__import__(f"tests.functions.programs.{name}", fromlist=["_"]))
        if cases_of(entry)
    ]


def cases_of(entry: Any) -> list[Any]:
    cases = [case for case in entry.cases if not (case.raises or case.refused is not None or case.or_refused)]
    return cases[:MOST_CASES]


def work(peer: str, numbers: str, library: str, gradients: bool, output: int) -> None:
    names = sys.stdin.read().split("\n")
    if peer == "hloom":
        sys.path.insert(0, str(ROOT / "src"))
        import hloom  # noqa: F401
    entries = {entry.name: entry for entry in load_programs()}
    entries = {name: entries[name] for name in names}
    expected = {
        name: [expected_value(entry, case, gradients) for case in cases_of(entry)] for name, entry in entries.items()
    }
    backend = BACKENDS[peer](numbers, gradients)
    if library == "own":
        for entry in entries.values():
            scope = entry.function.__globals__
            scope.update({name: module for name, module in backend.modules.items() if name in scope})
    for name, entry in entries.items():
        verdict = reason = ""
        for case, value in zip(cases_of(entry), expected[name], strict=True):
            os.write(output, f"{name}\tstart\t\n".encode())
            verdict, reason = verdict_of(backend, entry, case, value, gradients)
            if verdict != RIGHT:
                break
        os.write(output, f"{name}\t{verdict}\t{reason}\n".encode())


@dataclasses.dataclass
class Unavailable:
    """A value that the peer's NumPy, an older one, does not give: it has not the function."""

    reason: str


def expected_value(entry: Any, case: Any, gradients: bool) -> Any:
    """What CPython gives; the gradient by central differences."""
    import numpy as np

    from tests.functions import differences

    function = differences.grad(entry.function, case.gradient) if gradients else case.reference or entry.function
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        with np.errstate(all="ignore"), open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            value = function(*copy.deepcopy(case.arguments), **copy.deepcopy(dict(case.keywords)))
    except AttributeError as error:
        return Unavailable(str(error))
    finally:
        sys.setrecursionlimit(before)
    return [leaf for leaf in leaves(value) if leaf is not None] if gradients else value


def verdict_of(backend: Any, entry: Any, case: Any, value: Any, gradients: bool) -> tuple[str, str]:
    """The verdict of one call, and why."""
    if isinstance(value, Unavailable):
        return REFUSED, value.reason
    arguments, keywords = copy.deepcopy(case.arguments), copy.deepcopy(dict(case.keywords))
    try:
        names = list(inspect.signature(entry.function).parameters)
        named = [(names[min(index, len(names) - 1)], argument) for index, argument in enumerate(arguments)]
        arguments = tuple(arg if name in entry.static else backend.argument(arg) for name, arg in named)
        keywords = {name: arg if name in entry.static else backend.argument(arg) for name, arg in keywords.items()}
        if gradients:
            actual: Any = backend.gradient(entry, case.gradient)(*arguments, **keywords)
            actual = [leaf for leaf in leaves(actual) if has_derivative(leaf)]
        else:
            actual = backend.compiled(entry)(*arguments, **keywords)
        if agrees(actual, value):
            return RIGHT, ""
        return WRONG, " ".join(f"{case} gives {actual!r}, Python {value!r}".split())[:300]
    except Exception as error:
        return REFUSED, " ".join(f"{case} {type(error).__name__}: {error}".split())[:300]


def has_derivative(leaf: Any) -> bool:
    """Whether a part of a gradient is a number: that of an integer is None in hloom, of type float0 in jax."""
    return leaf is not None and str(getattr(leaf, "dtype", "")) not in ("float0", "void", "[('float0', 'V')]")


def leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for key in sorted(tree, key=str):
            yield from leaves(tree[key])
    elif isinstance(tree, (tuple, list)):
        for value in tree:
            yield from leaves(value)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for item in dataclasses.fields(tree):
            yield from leaves(getattr(tree, item.name))
    else:
        yield tree


def agrees(actual: Any, expected: Any) -> bool:
    """Whether two results are the same parts in the same order: numbers within the tolerance, shapes alike.

    Tuples and lists are not told apart; an array may stand for a tuple of its rows.
    """
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or {*actual} != {*expected}:
            return False
        return all(agrees(actual[key], value) for key, value in expected.items())
    if dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        names = [item.name for item in dataclasses.fields(expected)]
        return all(hasattr(actual, name) and agrees(getattr(actual, name), getattr(expected, name)) for name in names)
    if isinstance(expected, (tuple, list)):
        try:
            parts = list(actual)
        except TypeError:
            return False
        return len(parts) == len(expected) and all(map(agrees, parts, expected))
    if expected is None or isinstance(expected, (str, bytes)):
        return actual is expected or actual == expected
    return agrees_in_numbers(actual, expected)


def agrees_in_numbers(actual: Any, expected: Any) -> bool:
    import numpy as np

    made = np.asarray(actual.asnumpy() if hasattr(actual, "asnumpy") else actual)
    wanted = np.asarray(expected)
    if made.dtype == object or made.dtype.kind in "US" or wanted.dtype == object or made.shape != wanted.shape:
        return False
    size = max(1.0, float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0)))
    return bool(np.allclose(made, wanted, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True))


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with each leaf that a function changes."""
    if isinstance(tree, dict):
        return {key: mapped(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(function, value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(mapped(function, value) for value in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        values = {item.name: mapped(function, getattr(tree, item.name)) for item in dataclasses.fields(tree)}
        return type(tree)(**values)
    return function(tree)


class Substitute:
    """A module in another's place: its names, and the other's where it has none."""

    def __init__(self, *modules: Any) -> None:
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def constant_types(numbers: str, gradients: bool) -> tuple[type, ...]:
    """The types of Python's numbers that are passed as they are: not floats where gradients are wanted."""
    if numbers != CONSTANTS:
        return ()
    return (bool, int) if gradients else (bool, int, float)


class Hloom:
    """hloom itself."""

    def __init__(self, numbers: str, gradients: bool) -> None:
        import hloom

        self.hloom = hloom
        self.modules: dict[str, Any] = {}

    def argument(self, argument: Any) -> Any:
        return argument

    def compiled(self, entry: Any) -> Callable[..., Any]:
        return self.hloom.function(entry.function, static=entry.static)

    def gradient(self, entry: Any, wrt: Any) -> Callable[..., Any]:
        return self.hloom.grad(self.compiled(entry), wrt)


class Jax:
    """jax.jit; static arguments are those that the table names, and what is not a number and no array."""

    def __init__(self, numbers: str, gradients: bool) -> None:
        import math

        import jax
        import jax.numpy as jnp

        self.jax = jax
        self.modules = {"np": jnp, "math": Substitute(jnp, math)}

    def argument(self, argument: Any) -> Any:
        return argument

    def compiled(self, entry: Any) -> Callable[..., Any]:
        return self.jax.jit(entry.function, static_argnames=entry.static or None)

    def gradient(self, entry: Any, wrt: Any) -> Callable[..., Any]:
        return self.jax.jit(self.jax.grad(entry.function, wrt, allow_int=True), static_argnames=entry.static or None)


class MindSpore:
    """mindspore.jit, which reads the function's source."""

    def __init__(self, numbers: str, gradients: bool) -> None:
        import mindspore
        import mindspore.numpy
        import mindspore.ops
        import numpy as np

        self.mindspore, self.numpy = mindspore, np
        self.constants = constant_types(numbers, gradients)
        self.numbers = numbers
        self.modules = {"np": mindspore.numpy, "math": mindspore.ops}

    def argument(self, argument: Any) -> Any:
        return mapped(self.tensor, argument)

    def tensor(self, leaf: Any) -> Any:
        if type(leaf) in (bool, int, float):
            return self.number(leaf)
        is_array = isinstance(leaf, (self.numpy.ndarray, self.numpy.generic))
        return self.mindspore.Tensor(self.numpy.asarray(leaf)) if is_array else leaf

    def number(self, number: Any) -> Any:
        if self.numbers == "mutable scalars":
            return self.mindspore.mutable(number)
        if type(number) in self.constants:
            return number
        bits = 32 if "32" in self.numbers else 64
        types = {bool: "bool_", int: f"int{bits}", float: f"float{bits}"}
        return self.mindspore.Tensor(number, getattr(self.mindspore, types[type(number)]))

    def compiled(self, entry: Any) -> Callable[..., Any]:
        return self.mindspore.jit(entry.function)

    def gradient(self, entry: Any, wrt: Any) -> Callable[..., Any]:
        return self.mindspore.jit(self.mindspore.grad(entry.function, wrt))


class TensorFlow:
    """tf.function, whose AutoGraph rewrites the function's source."""

    def __init__(self, numbers: str, gradients: bool) -> None:
        import math

        import numpy as np
        import tensorflow as tf
        import tensorflow.experimental.numpy as tnp

        tnp.experimental_enable_numpy_behavior()
        self.tf, self.numpy = tf, np
        self.constants = constant_types(numbers, gradients)
        self.bits = 32 if "32" in numbers else 64
        self.modules = {"np": tnp, "math": Substitute(tf.math, tnp, math)}

    def argument(self, argument: Any) -> Any:
        return mapped(self.tensor, argument)

    def tensor(self, leaf: Any) -> Any:
        if type(leaf) in (bool, int, float):
            types = {bool: "bool", int: f"int{self.bits}", float: f"float{self.bits}"}
            is_constant = type(leaf) in self.constants
            return leaf if is_constant else self.tf.constant(leaf, getattr(self.tf, types[type(leaf)]))
        is_array = isinstance(leaf, (self.numpy.ndarray, self.numpy.generic))
        return self.tf.constant(leaf) if is_array else leaf

    def compiled(self, entry: Any) -> Callable[..., Any]:
        return self.tf.function(entry.function)

    def gradient(self, entry: Any, wrt: Any) -> Callable[..., Any]:
        function = self.compiled(entry)

        def gradient(*arguments: Any, **keywords: Any) -> Any:
            chosen = [arguments[position] for position in ((wrt,) if isinstance(wrt, int) else wrt)]
            floats = [leaf for leaf in leaves(chosen) if self.tf.is_tensor(leaf) and leaf.dtype.is_floating]
            with self.tf.GradientTape() as tape:
                tape.watch(floats)
                value = function(*arguments, **keywords)
            gradients = tape.gradient(value, floats, unconnected_gradients=self.tf.UnconnectedGradients.ZERO)
            return [self.tf.convert_to_tensor(leaf) for leaf in gradients]

        return gradient


BACKENDS: dict[str, Callable[[str, bool], Any]] = {
    "hloom": Hloom,
    "jax": Jax,
    "mindspore": MindSpore,
    "tensorflow": TensorFlow,
}


if __name__ == "__main__":
    if "--worker" in sys.argv:
        at = sys.argv.index("--worker")
        peer_name = sys.argv[sys.argv.index("--peer") + 1]
        work(peer_name, sys.argv[at + 1], sys.argv[at + 2], "--gradients" in sys.argv, int(sys.argv[at + 3]))
        os._exit(0)
    main()
