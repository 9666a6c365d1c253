"""Whether Python, and hloom, give what the table of programs says."""

from __future__ import annotations

import contextlib
import copy
import io
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import hloom
from tests.functions import differences
from tests.functions.table import OWN_DERIVATIVES, Case, Program, marked_lines

GRADIENT_TOLERANCE = 1e-6
"""Of differences of f64 numbers, relative to the largest element or to 1."""


class Failure(Exception):
    """A case that does not give what the table says."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What Python gives: a value and what was printed, or an error with its line in the program's file."""

    value: Any = None
    printed: str = ""
    error: Exception | None = None
    line: int = 0


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Failure(message)


@contextlib.contextmanager
def plain_python() -> Iterator[None]:
    """Python alone: differences for hloom's transformations, recursion to any depth, no warnings of NumPy."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        with contextlib.ExitStack() as stack:
            for name, function in differences.TRANSFORMATIONS.items():
                stack.enter_context(patch.object(hloom, name, function, create=True))
            stack.enter_context(np.errstate(all="ignore"))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.setrecursionlimit(limit)


def called(function: Callable[..., Any], case: Case) -> Any:
    return function(*copy.deepcopy(case.arguments), **copy.deepcopy(dict(case.keywords)))


def line_raised(error: BaseException, path: str) -> int:
    """The innermost line of a file in an error's traceback."""
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == path:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def python_outcome(entry: Program, case: Case) -> Outcome:
    """What the plain function gives, with `reference` for its value where the table has one."""
    output = io.StringIO()
    with plain_python(), contextlib.redirect_stdout(output):
        try:
            value = called(case.reference or entry.function, case)
        except Exception as error:
            return Outcome(error=error, line=line_raised(error, entry.path))
    return Outcome(value, output.getvalue())


def difference(actual: Any, expected: Any, tolerance: float, at: str = "the value") -> str | None:
    """Where two results differ, in structure, in data type or in numbers; None where they do not."""
    if expected is None or isinstance(expected, (str, bytes, range, slice)):
        same = type(actual) is type(expected) and actual == expected
        return None if same else f"{at} is {actual!r}, not {expected!r}"
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or list(actual) != list(expected):
            return f"{at} is {actual!r}, not a dict with the keys {list(expected)}"
        pairs = [(f"{at}[{key!r}]", actual[key], expected[key]) for key in expected]
    elif isinstance(expected, (tuple, list, deque)):
        if type(actual) is not type(expected) or len(actual) != len(expected):
            return f"{at} is {actual!r}, not {expected!r}"
        pairs = [(f"{at}[{index}]", *pair) for index, pair in enumerate(zip(actual, expected, strict=True))]
    elif is_dataclass(expected):
        if type(actual) is not type(expected):
            return f"{at} is {actual!r}, not {expected!r}"
        names = [item.name for item in fields(expected)]
        pairs = [(f"{at}.{name}", getattr(actual, name), getattr(expected, name)) for name in names]
    else:
        return difference_of_arrays(actual, expected, tolerance, at)
    differences_of_items = (difference(left, right, tolerance, name) for name, left, right in pairs)
    return next((text for text in differences_of_items if text), None)


def difference_of_arrays(actual: Any, expected: Any, tolerance: float, at: str) -> str | None:
    if not isinstance(actual, (bool, int, float, complex, np.generic, np.ndarray)) and not hasattr(actual, "dtype"):
        return f"{at} is {actual!r}, not {expected!r}"
    left, right = np.asarray(actual), np.asarray(expected)
    if left.dtype != right.dtype or left.shape != right.shape:
        return f"{at} is {left.dtype}{list(left.shape)} {actual!r}, not {right.dtype}{list(right.shape)} {expected!r}"
    if right.dtype.kind not in "fc":
        return None if np.array_equal(left, right) else f"{at} is {actual!r}, not {expected!r}"
    relative = max(tolerance, 1e-5) if right.dtype.itemsize == 4 else tolerance
    size = np.max(np.abs(right[np.isfinite(right)]), initial=1.0)
    same = np.allclose(left, right, rtol=relative, atol=relative * size, equal_nan=True)
    return None if same else f"{at} is {actual!r}, not {expected!r}"


def expected_lines(entry: Program, case: Case, mark: str) -> set[int]:
    lines = marked_lines(case.marked or entry.function, mark)
    expect(bool(lines), f"{entry.name}: no line is marked `# {mark}`")
    return lines


def check_python(entry: Program, case: Case) -> None:
    """Python itself gives a value, or raises what the table says at a marked line."""
    if case.refused is not None or case.or_refused:
        expected_lines(entry, case, "refused")
    if case.refused is not None:
        return
    expected = case.raises
    outcome = python_outcome(entry, case)
    if case.reference and entry.family not in OWN_DERIVATIVES:
        check_reference(entry, case, outcome)
    if expected is None:
        expect(outcome.error is None, f"{case}: {outcome.error!r} at line {outcome.line}")
        positions = [outcome.printed.find(text) for text in case.prints]
        expect(-1 not in positions and positions == sorted(positions), f"{case}: printed {outcome.printed!r}")
        return
    expect(isinstance(outcome.error, expected), f"{case}: {outcome.error!r} instead of {expected.__name__}")
    expect(case.message in str(outcome.error), f"{case}: {outcome.error!r}")
    lines = Path(entry.path).read_text().splitlines()
    expect(lines[outcome.line - 1].endswith("# raises"), f"{case}: line {outcome.line} raises and has no mark")


def check_reference(entry: Program, case: Case, outcome: Outcome) -> None:
    """The function under Python, with differences for derivatives, agrees with its reference, if it runs at all."""
    with plain_python(), contextlib.redirect_stdout(io.StringIO()):
        value = called(entry.function, case)
        got, want = (differences.leaves(tree) for tree in (value, outcome.value))
        expect(len(got) == len(want), f"{case}: {value!r}, its reference {outcome.value!r}")
        for left, right in zip(got, want, strict=True):
            same = left == right if left is None or right is None else np.allclose(left, right, rtol=1e-4, atol=1e-4)
            expect(bool(same), f"{case}: {value!r}, its reference {outcome.value!r}")


def location(error: BaseException, path: str) -> int:
    """The first line of a file that an error's text names, as in `path.py:12:5`; 0 where it names none."""
    match = re.search(re.escape(Path(path).name) + r":(\d+):\d+", str(error))
    return int(match[1]) if match else 0


def check_error(error: Exception, entry: Program, lines: set[int]) -> None:
    summary = str(error).splitlines()[:1]
    expect(isinstance(error, hloom.HloomError), f"{type(error).__name__} is not a HloomError: {summary}")
    line = location(error, entry.path)
    expect(line in lines, f"{type(error).__name__} names line {line or 'none'}, not {sorted(lines)}: {summary}")


def check_hloom(entry: Program, case: Case, compiled: Callable[..., Any]) -> None:
    """hloom gives what Python gives: the value, the gradient, or the error at its line; or refuses what it must."""
    outcome = Outcome() if case.refused is not None else python_outcome(entry, case)
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            value = called(compiled, case)
    except (Failure, TimeoutError):
        raise
    except Exception as error:
        check_raised(error, entry, case, outcome)
        return
    expect(case.refused is None, f"{case}: gave {value!r} where it should be refused")
    expect(not case.raises, f"{case}: gave {value!r} where Python raises {outcome.error!r}")
    text = difference(value, outcome.value, case.tolerance)
    expect(text is None, f"{case}: {text}")
    positions = [output.getvalue().find(text) for text in case.prints]
    expect(-1 not in positions and positions == sorted(positions), f"{case}: printed {output.getvalue()!r}")
    if case.gradient is not None:
        check_gradient(entry, case, compiled)


def check_raised(error: Exception, entry: Program, case: Case, outcome: Outcome) -> None:
    if case.refused is not None or (case.or_refused and isinstance(error, hloom.HloomError)):
        check_error(error, entry, expected_lines(entry, case, "refused"))
        word = case.refused or ""
        expect(word.lower() in str(error).lower(), f"{case}: no {word!r} in {str(error)!r}")
        return
    text = next(iter(str(error).splitlines()), "")
    expect(case.raises is not None, f"{case}: {type(error).__name__}: {text}")
    assert case.raises is not None
    expect(isinstance(error, case.raises), f"{case}: {type(error).__name__} instead of {case.raises.__name__}: {text}")
    check_error(error, entry, {outcome.line})
    expect(case.message in str(error), f"{case}: no {case.message!r} in {text!r}")


def check_gradient(entry: Program, case: Case, compiled: Callable[..., Any]) -> None:
    assert case.gradient is not None
    with plain_python():
        expected = called(differences.grad(entry.function, case.gradient), case)
    actual = called(public("grad")(compiled, case.gradient), case)
    text = difference(actual, expected, GRADIENT_TOLERANCE, "the gradient")
    expect(text is None, f"{case}: {text}")


def public(name: str) -> Callable[..., Any]:
    """A public name of hloom, as a function of anything."""
    return getattr(hloom, name)


def compiled_function(entry: Program) -> Callable[..., Any]:
    keywords = {"static": entry.static} if entry.static else {}
    return public("function")(entry.function, **keywords)


def check(entry: Program) -> None:
    """Every case of a program through hloom."""
    compiled = compiled_function(entry)
    for case in entry.cases:
        check_hloom(entry, case, compiled)
