"""Views beside NumPy's: every form that gives one, random programs, and what programs with views are compiled to.

Covers `functions/views.py`, `functions/overlaps.py`, `functions/view_maps.py`, `functions/numpy_examples.py`,
`functions/builtin_functions/transformations.py`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloom
from hloom.functions.numpy_examples import VIEW_FUNCTIONS
from tests.functions.view_forms import FORMS, GRID, REFUSED, form_program, function_of, nested_program
from tests.functions.view_programs import ProgramWriter
from tests.helpers.properties import examples, parameters

NUMBERS = np.array([[3, 1, 2], [9, 7, 8], [4, 6, 5]])
EXTRA: Sequence[tuple[Any, ...]] = (
    (), (0,), (1,), (2,), (0, 1), (1, 0), ((3, 3),), ((1, 3, 3),), ([1],), (None,), (-1,), (float,),
)  # fmt: skip
"""Further arguments that functions of NumPy's are tried with."""
NOT_COMPILED = {"as_strided", "from_dlpack", "frombuffer", "getfield", "byteswap", "double", "float64"}
"""What gives views and is refused when a function is compiled, or is the type of the elements."""
NOT_TRIED = {
    "memmap", "matrix", "asmatrix", "bmat", "test", "save", "savetxt", "savez", "savez_compressed", "tofile", "dump",
    "info", "nditer", "nested_iters", "frompyfunc", "vectorize", "recarray", "record", "seterr", "seterrcall",
    "set_printoptions", "setbufsize", "printoptions", "errstate", "resize", "setflags", "ndarray", "flatiter", "ndindex",
    "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "get_include", "show_config", "show_runtime",
}  # fmt: skip
"""What reads and writes files, changes settings, or makes arrays of other classes."""


def outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """A function's value, or the error that it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except (ValueError, TypeError, IndexError, hloom.HloomError) as error:
            return error


def same(left: Any, right: Any) -> bool:
    if isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return np.array_equal(np.asarray(left), np.asarray(right), equal_nan=True)


def check(function: Callable[..., Any], arguments: Sequence[Any], *, may_be_refused: bool) -> None:
    """hloom gives what Python gives, or its error; where it may, it refuses."""
    expected = outcome(function, [np.array(argument) if np.ndim(argument) else argument for argument in arguments])
    actual = outcome(hloom.function(function), arguments)
    if isinstance(actual, hloom.HloomError):
        is_error = isinstance(expected, Exception) and isinstance(actual, type(expected))
        assert is_error or may_be_refused, actual
        return
    assert not isinstance(expected, Exception), f"{actual!r} instead of {expected!r}"
    assert same(actual, expected), f"{actual!r} instead of {expected!r}"


@pytest.mark.parametrize("name", parameters(FORMS, share=24))
def test_a_form_is_read_and_written_as_numpys(name: str):
    base, form = FORMS[name]
    check(function_of(form_program(base, form), name), (GRID, 1), may_be_refused=name in REFUSED)


@pytest.mark.parametrize("name", parameters(FORMS, share=24, offset=12))
def test_a_form_of_a_view_that_moves(name: str):
    base, form = FORMS[name]
    check(function_of(nested_program(base, form), f"nested {name}"), (GRID, 1), may_be_refused=name in REFUSED)


@examples(5, many=300)
@given(data=st.data(), is_moving=st.booleans(), size=st.integers(3, 8))
def test_random_programs(data: st.DataObject, is_moving: bool, size: int):
    writer = ProgramWriter(lambda options: data.draw(st.sampled_from(list(options))), is_moving)
    text = writer.text(size)
    numbers = [data.draw(st.integers(0, 2)) for _ in range(2)] + [data.draw(st.integers(0, 3))]
    check(function_of(text, f"random {hash(text)}"), (NUMBERS, *numbers), may_be_refused=True)


def shares(value: Any, array: np.ndarray) -> bool:
    if isinstance(value, (tuple, list)):
        return any(shares(item, array) for item in value)
    return isinstance(value, np.ndarray) and np.may_share_memory(value, array)


def gives_a_view(call_of: Callable[[np.ndarray], Callable[..., Any]]) -> bool:
    """Whether some call of a function with an array, or of a method of an array, gives a view of it."""
    for elements in (np.arange(9.0).reshape(3, 3), np.arange(4.0)):
        for further in EXTRA:
            for keywords in ({}, {"copy": False}, {"axis": 0}):
                array = elements.copy()
                try:
                    value = call_of(array)(*further, **keywords)
                except Exception:
                    continue
                if shares(value, array):
                    return True
    return False


def test_every_function_of_numpys_that_gives_views_is_known():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        functions = {
            name
            for owner in (np, np.linalg, np.lib.stride_tricks)
            for name, function in vars(owner).items()
            if callable(function) and not name.startswith("_") and name not in NOT_TRIED
            and gives_a_view(lambda array, function=function: functools.partial(function, array))
        }  # fmt: skip
        methods = {
            name
            for name in dir(np.ndarray)
            if not name.startswith("__") and name not in NOT_TRIED and callable(getattr(np.ndarray, name))
            and gives_a_view(lambda array, name=name: getattr(array, name))
        }  # fmt: skip
    assert functions | methods <= VIEW_FUNCTIONS | NOT_COMPILED
    texts = " ".join(form for _, form in FORMS.values())
    assert [name for name in sorted(VIEW_FUNCTIONS) if name not in texts] == []


def test_an_element_of_a_transpose_is_written_where_it_is():
    def fill(n):
        x = np.zeros((30, 40)).T
        for i in range(n):
            x[i, n - i] = x[n - i, i] + i
        return x

    text = hloom.print(hloom.function(fill).hlo(20))
    loop = text.partition("%body")[2].partition("\n}")[0]
    assert "dynamic-update-slice" in loop or "scatter" in loop
    assert "transpose" not in loop
    assert same(hloom.function(fill)(20), fill(20))


def test_an_element_of_a_row_is_written_where_it_is():
    def fill(n):
        x = np.zeros((30, 40))
        for i in range(n):
            x[i][n - i] = i
        return x

    def fill_by_one_index(n):
        x = np.zeros((30, 40))
        for i in range(n):
            x[i, n - i] = i
        return x

    by_rows, by_one = (hloom.function(function).hlo(20) for function in (fill, fill_by_one_index))
    assert by_rows.node_count == by_one.node_count


@pytest.mark.parametrize("form", ["x.T", "np.reshape(x, -1)", "np.einsum('ij->ji', x)", "np.nan_to_num(x, copy=False)"])
def test_views_of_many_elements(form: str):
    text = form_program("np.array(a)", form)
    check(function_of(text, f"large {form}"), (np.ones((300, 300)), 1), may_be_refused=False)
