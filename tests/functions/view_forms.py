"""The forms of NumPy's that give views, always or by their arguments, as texts of programs."""

from __future__ import annotations

import linecache
import types
from collections.abc import Callable
from typing import Any

import numpy as np

MATRIX = "np.array(a)"
CUBE = "np.stack([a, a + 20.0])"
VECTOR = "np.array(a[1])"
SQUARE = "a[:, :3] * 1.0"
COMPLEX = "a + 1j * a"
WHOLE = "np.array(a).astype(int)"

FORMS: dict[str, tuple[str, str]] = {
    "number": (MATRIX, "x[1]"), "negative": (MATRIX, "x[-1]"), "slice": (MATRIX, "x[1:]"), "step": (MATRIX, "x[::2]"),
    "reversed": (MATRIX, "x[::-1]"), "column": (MATRIX, "x[:, 1]"), "block": (MATRIX, "x[1:, ::-2]"),
    "newaxis": (MATRIX, "x[:, None]"), "ellipsis": (MATRIX, "x[..., 0]"), "whole": (MATRIX, "x[...]"),
    "all": (MATRIX, "x[:]"), "empty index": (MATRIX, "x[()]"), "boxed": (MATRIX, "x[0, 0, ...]"),
    "moving": (MATRIX, "x[i]"), "moving column": (MATRIX, "x[:, i]"), "moving both": (CUBE, "x[i, :, i]"),
    "moving slice": (MATRIX, "x[i : i + 2]"), "moving block": (MATRIX, "x[i : i + 1, i]"),
    "moving and reversed": (MATRIX, "x[i, ::-1]"), "moving newaxis": (MATRIX, "x[i, None, 1:]"),
    "view of a view": (MATRIX, "x[1:][i][::-1]"), "negative moving": (MATRIX, "x[-i]"),
    "scalar array": (MATRIX, "x[np.array(1)]"), "numpy number": (MATRIX, "x[np.int32(1)]"),
    "reshape": (MATRIX, "np.reshape(x, (2, 6))"), "method reshape": (MATRIX, "x.reshape(-1)"),
    "reshape of transpose": (MATRIX, "x.T.reshape(-1)"), "reshape in columns": (MATRIX, "x.reshape((6, 2), order='F')"),
    "reshape of columns": (MATRIX, "x[:, 1:].reshape(-1)"), "reshape of a column": (MATRIX, "x[:, 1].reshape(3, 1)"),
    "reshape of rows": (MATRIX, "x[1:].reshape(-1)"), "reshape of a moving row": (MATRIX, "x[i].reshape(2, 2)"),
    "ravel": (MATRIX, "np.ravel(x)"), "method ravel": (MATRIX, "x.ravel()"), "ravel in columns": (MATRIX, "x.ravel('F')"),
    "ravel of transpose": (MATRIX, "np.ravel(x.T)"), "ravel as laid out": (MATRIX, "x.T.ravel(order='K')"),
    "flatten": (MATRIX, "x.flatten()"), "transpose": (MATRIX, "np.transpose(x)"), "T": (MATRIX, "x.T"),
    "mT": (CUBE, "x.mT"), "method transpose": (CUBE, "x.transpose(2, 0, 1)"), "permute_dims": (CUBE, "np.permute_dims(x, (1, 0, 2))"),
    "matrix_transpose": (CUBE, "np.matrix_transpose(x)"), "linalg.matrix_transpose": (CUBE, "np.linalg.matrix_transpose(x)"),
    "swapaxes": (CUBE, "np.swapaxes(x, 0, 2)"), "method swapaxes": (CUBE, "x.swapaxes(0, 1)"),
    "moveaxis": (CUBE, "np.moveaxis(x, 0, -1)"), "rollaxis": (CUBE, "np.rollaxis(x, 2)"),
    "squeeze": (MATRIX, "np.squeeze(x[:1])"), "method squeeze": (MATRIX, "x[:1].squeeze()"), "squeeze of nothing": (MATRIX, "np.squeeze(x)"),
    "squeeze to a box": (MATRIX, "np.squeeze(x[:1, :1])"),
    "expand_dims": (MATRIX, "np.expand_dims(x, 1)"), "atleast_1d": (MATRIX, "np.atleast_1d(x)"),
    "atleast_2d": (VECTOR, "np.atleast_2d(x)"), "atleast_3d": (MATRIX, "np.atleast_3d(x)"),
    "atleast_2d of two": (VECTOR, "np.atleast_2d(x, x[1:])[1]"),
    "split": (MATRIX, "np.split(x, 3)[1]"), "split at": (MATRIX, "np.split(x, [1, 2])[2]"),
    "array_split": (MATRIX, "np.array_split(x, 2)[1]"), "hsplit": (MATRIX, "np.hsplit(x, 2)[1]"),
    "vsplit": (MATRIX, "np.vsplit(x, 3)[2]"), "dsplit": (CUBE, "np.dsplit(x, 2)[0]"), "unstack": (CUBE, "np.unstack(x)[1]"),
    "flip": (MATRIX, "np.flip(x)"), "flip rows": (MATRIX, "np.flip(x, 0)"), "flipud": (MATRIX, "np.flipud(x)"),
    "fliplr": (MATRIX, "np.fliplr(x)"), "rot90": (MATRIX, "np.rot90(x)"), "rot90 twice": (MATRIX, "np.rot90(x, 2)"),
    "rot90 back": (MATRIX, "np.rot90(x, -1)"), "rot90 by nothing": (MATRIX, "np.rot90(x, 0)"),
    "diagonal": (SQUARE, "np.diagonal(x)"), "method diagonal": (SQUARE, "x.diagonal(1)"), "diag": (SQUARE, "np.diag(x)"),
    "diag of a vector": (VECTOR, "np.diag(x)"), "linalg.diagonal": (CUBE, "np.linalg.diagonal(x)"),
    "broadcast_to": (VECTOR, "np.broadcast_to(x, (2, 4))"), "broadcast_to itself": (MATRIX, "np.broadcast_to(x, (3, 4))"),
    "broadcast_arrays": (VECTOR, "np.broadcast_arrays(x, np.zeros((2, 1)))[0]"),
    "broadcast_arrays of one shape": (VECTOR, "np.broadcast_arrays(x, x[::-1])[1]"),
    "meshgrid of views": (VECTOR, "np.meshgrid(x, x, copy=False)[0]"), "meshgrid": (VECTOR, "np.meshgrid(x, x)[0]"),
    "real": (COMPLEX, "np.real(x)"), "imag": (COMPLEX, "np.imag(x)"), "property real": (COMPLEX, "x.real"),
    "property imag": (COMPLEX, "x.imag"), "real of reals": (MATRIX, "np.real(x)"), "property of reals": (MATRIX, "x.real"),
    "imag of reals": (MATRIX, "x.imag"), "real_if_close": (MATRIX, "np.real_if_close(x)"), "conj": (MATRIX, "x.conj()"),
    "conj of complex": (COMPLEX, "x.conj()"), "conjugate": (MATRIX, "x.conjugate()"), "conjugate function": (MATRIX, "np.conjugate(x)"),
    "part of the real": (COMPLEX, "x.real[1]"), "real of a part": (COMPLEX, "x[i].real"),
    "view": (MATRIX, "x.view()"), "view as integers": (MATRIX, "x.view(np.int64)"),
    "asarray": (MATRIX, "np.asarray(x)"), "asarray of integers": (WHOLE, "np.asarray(x, dtype=float)"),
    "asarray of a view": (MATRIX, "np.asarray(x[i])"), "asanyarray": (MATRIX, "np.asanyarray(x)"),
    "asarray_chkfinite": (MATRIX, "np.asarray_chkfinite(x)"),
    "ascontiguousarray": (MATRIX, "np.ascontiguousarray(x)"), "ascontiguousarray of transpose": (MATRIX, "np.ascontiguousarray(x.T)"),
    "asfortranarray": (MATRIX, "np.asfortranarray(x)"), "asfortranarray of transpose": (MATRIX, "np.asfortranarray(x.T)"),
    "require": (MATRIX, "np.require(x)"), "array": (MATRIX, "np.array(x)"), "array without copy": (MATRIX, "np.array(x, copy=False)"),
    "array if needed": (MATRIX, "np.array(x, copy=None)"), "copy": (MATRIX, "np.copy(x)"), "method copy": (MATRIX, "x.copy()"),
    "astype": (MATRIX, "x.astype(float)"), "astype without copy": (MATRIX, "x.astype(float, copy=False)"),
    "astype of integers": (WHOLE, "x.astype(float, copy=False)"), "function astype": (MATRIX, "np.astype(x, np.float64, copy=False)"),
    "float64": (MATRIX, "np.float64(x)"),
    "nan_to_num": (MATRIX, "np.nan_to_num(x / x)"), "nan_to_num in place": (MATRIX, "np.nan_to_num(x, copy=False)"),
    "nan_to_num of a row": (MATRIX, "np.nan_to_num(x[i], copy=False)"),
    "einsum diagonal": (SQUARE, "np.einsum('ii->i', x)"), "einsum transpose": (MATRIX, "np.einsum('ij->ji', x)"),
    "einsum itself": (MATRIX, "np.einsum('ij', x)"), "einsum sum": (MATRIX, "np.einsum('ij->i', x)"),
    "sliding_window_view": (VECTOR, "np.lib.stride_tricks.sliding_window_view(x, 2)"),
    "writeable windows": (VECTOR, "np.lib.stride_tricks.sliding_window_view(x, 2, writeable=True)"),
    "as_strided": (VECTOR, "np.lib.stride_tricks.as_strided(x, (2,), (16,))"),
    "matrix_power": (SQUARE, "np.linalg.matrix_power(x, 1)"), "diff of order zero": (MATRIX, "np.diff(x, n=0)"),
    "polyder of order zero": (VECTOR, "np.polyder(x, 0)"), "polyint of order zero": (VECTOR, "np.polyint(x, 0)"),
    "ix_": (WHOLE, "np.ix_(x[1])[0]"), "trim_zeros": (VECTOR, "np.trim_zeros(x)"),
    "take": (MATRIX, "np.take(x, 1, axis=0)"), "fancy": (MATRIX, "x[[0, 1]]"), "mask": (MATRIX, "x[np.array([True, False, True])]"),
    "fancy and slice": (MATRIX, "x[[1], 1:]"), "boolean": (MATRIX, "x[True]"), "unary plus": (MATRIX, "+x"), "abs": (MATRIX, "abs(x)"),
    "positive": (MATRIX, "np.positive(x)"), "where": (MATRIX, "np.where(True, x, x)"), "concatenate": (MATRIX, "np.concatenate([x])"),
    "stack": (MATRIX, "np.stack([x])"), "tile": (MATRIX, "np.tile(x, 1)"), "repeat": (MATRIX, "np.repeat(x, 1)"), "roll": (MATRIX, "np.roll(x, 0)"),
    "resize": (MATRIX, "np.resize(x, (3, 4))"), "clip": (MATRIX, "np.clip(x, None, None)"), "round": (WHOLE, "np.round(x)"),
    "sort": (MATRIX, "np.sort(x)"), "cumsum": (MATRIX, "x[:1].cumsum(0)"), "sum of nothing": (MATRIX, "x.sum(axis=())"),
    "max of nothing": (MATRIX, "x.max(axis=())"), "pad by nothing": (MATRIX, "np.pad(x, 0)"), "delete nothing": (MATRIX, "np.delete(x, [])"),
    "tril": (SQUARE, "np.tril(x)"), "np.block": (MATRIX, "np.block([x])"), "select": (MATRIX, "np.select([True], [x])"),
    "laid out as columns": (MATRIX, "(x.T + 1.0).T"), "zeros_like": (MATRIX, "np.zeros_like(x)"),
    "deep copy": (MATRIX, "copy.deepcopy(x)"), "shallow copy": (MATRIX, "copy.copy(x)"), "add nothing": (MATRIX, "x + 0.0"),
    "row of a list": (MATRIX, "[x[0], x[i]][1]"), "row of a dict": (MATRIX, "{'row': x[i]}['row']"),
    "row of a loop": (MATRIX, "[row for row in x][1]"), "row of zip": (MATRIX, "list(zip(x, x))[1][0]"),
    "row of enumerate": (MATRIX, "list(enumerate(x))[2][1]"), "row of reversed": (MATRIX, "list(reversed(x))[0]"),
    "row of iter": (MATRIX, "next(iter(x))"), "row of map": (MATRIX, "list(map(lambda row: row[1:], x))[1]"),
    "row of sorted": (MATRIX, "sorted(x, key=lambda row: 0)[1]"), "row of tuple": (MATRIX, "tuple(x)[1]"),
    "conditional": (MATRIX, "(x[0] if i > 0 else x[1])"), "conditional moving": (MATRIX, "(x[i] if i > 1 else x[i - 1])"),
    "or": (MATRIX, "(None or x[i])"), "getitem": (MATRIX, "operator.getitem(x, i)"), "itemgetter": (MATRIX, "operator.itemgetter(1)(x)"),
    "dunder": (MATRIX, "x.__getitem__(i)"), "walrus": (MATRIX, "(z := x[i])"), "lambda": (MATRIX, "(lambda r: r[i])(x)"),
}  # fmt: skip
"""By name: what the base `x` is, and the form, whose value is changed through `x` and changed itself."""


REFUSED = frozenset({
    "ravel as laid out", "broadcast_arrays", "meshgrid of views", "imag of reals", "property imag of reals",
    "view as integers", "writeable windows", "as_strided", "trim_zeros", "delete nothing",
})  # fmt: skip
"""The forms that are refused at their line, or where they are changed."""


def function_of(text: str, name: str) -> Callable[..., Any]:
    """The function `program` of a program's text, whose lines can be found."""
    filename = f"<view {name}>.py"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType("view_program")
    exec(compile(text, filename, "exec"), module.__dict__)
    return module.__dict__["program"]


HEADER = "import copy\nimport operator\nimport numpy as np\n\n\n"
CHANGES = """    x[0] = 7
    x[-1] = x[-1] * 2
    seen = y.copy()
    y += 1
    first = x.copy()
    y[...] = y * 3
    return seen, first, x, y
"""


def form_program(base: str, form: str) -> str:
    """A view is read after its base has changed, and the base after the view has."""
    return f"{HEADER}def program(a, i):\n    x = {base}\n    y = {form}\n{CHANGES}"


def nested_program(base: str, form: str) -> str:
    """The same of a base that is itself a view at a place that only the run knows."""
    text = f"{HEADER}def program(a, i):\n    whole = np.stack([{base}, {base}])\n    x = whole[i - 1]\n    y = {form}\n"
    return text + CHANGES.replace("return ", "return whole, ")


GRID = np.arange(12.0).reshape(3, 4)
