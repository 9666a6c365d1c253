"""Times of compiled functions under `mindspore.jit`, as JSON on the last line; run by an interpreter with MindSpore.

    HLOOM_MINDSPORE_PYTHON -m benchmarks.mindspore.function_times

Floats are tensors of 64 bits, counts of rounds are mutable numbers, as `range` wants them: data both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from types import FunctionType
from typing import Any

from benchmarks.function_programs import divided, multiplied, newton

mindspore: Any = import_module("mindspore")  # which pyright takes for the package that this file is in

ROUNDS = 10_000
"""How many rounds a loop has: a hundredth of ours, which take as long."""
CALLS = 100
SAMPLES = 5


def tensor(number: float) -> Any:
    return mindspore.Tensor(number, mindspore.float64)


def seconds(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    start = perf_counter()
    function(*arguments).asnumpy()
    return perf_counter() - start


def fresh(function: FunctionType) -> Any:
    """The function compiled anew when it is called."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    return mindspore.jit(copy)


def main() -> None:
    programs: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "newton": (newton, (tensor(2.0),)),
        "multiplied": (multiplied, (tensor(0.3), mindspore.mutable(1))),
        "divided": (divided, (tensor(0.3), mindspore.mutable(1))),
    }
    for function, arguments in programs.values():
        fresh(function)(*arguments).asnumpy()
    times: dict[str, list[float]] = {}
    for name, (function, arguments) in programs.items():
        times[f"compile {name}"] = [seconds(fresh(function), arguments) for _ in range(SAMPLES)]
    called = mindspore.jit(newton)
    called(tensor(2.0)).asnumpy()
    times["call newton"] = [seconds(called, (tensor(2.0),)) for _ in range(CALLS)]
    for name in ("multiplied", "divided"):
        compiled = mindspore.jit(programs[name][0])
        arguments = (tensor(0.3), mindspore.mutable(ROUNDS))
        compiled(*arguments).asnumpy()
        times[f"round {name}"] = [seconds(compiled, arguments) / ROUNDS for _ in range(SAMPLES)]
    sys.stdout.write(f"\n{json.dumps({'version': mindspore.__version__, 'times': times})}\n")


if __name__ == "__main__":
    main()
