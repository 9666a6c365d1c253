"""What NumPy itself returns for arrays of ones: element types, and which results are views."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.library_arguments import filled
from hloom.functions.values import AbstractValue, Array, Ref, Tuple
from hloom.functions.view_maps import READ_ONLY, CallMap, ComplexPartMap, StridedLayout, zeros_like
from hloom.functions.views import is_row_major, row_major, strides_of

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

LARGEST_EXAMPLE = 1 << 16
"""The maximum number of elements in a call's arrays for NumPy to be tried."""
VIEW_FUNCTIONS = frozenset({
    "array", "array_split", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray",
    "astype", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "conj", "conjugate", "diag",
    "diagonal", "diff", "dsplit", "einsum", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "imag", "ix_",
    "matrix_power", "matrix_transpose", "meshgrid", "moveaxis", "nan_to_num", "permute_dims", "polyder", "polyint",
    "ravel", "real", "real_if_close", "require", "reshape", "rollaxis", "rot90", "sliding_window_view", "split",
    "squeeze", "swapaxes", "transpose", "trim_zeros", "unstack", "view", "vsplit", "T", "mT",
})  # fmt: skip
"""NumPy's functions, methods and properties that may give views: asked even for arrays of many elements."""
BY_LAYOUT = frozenset({
    "array", "asarray", "ascontiguousarray", "asfortranarray", "ravel", "require", "reshape", "view",
})  # fmt: skip
"""Functions that give a view or a copy, depending on the layout in memory."""
BY_OPTION = frozenset({"array", "astype", "nan_to_num", "meshgrid", "diff", "matrix_power", "polyder", "polyint"})
"""Functions that copy unless an option says otherwise."""
COPIES = frozenset({"ascontiguousarray", "asfortranarray", "require"})
"""Functions whose results always have their argument's elements."""
NOT_CHANGEABLE = {
    "type": "it is a view of an array of another type",
    "overlap": "several of its elements are one element of the array that it is a view of",
}


class NumpyExample:
    """One call of NumPy's, made with ones in place of the arrays."""

    def __init__(
        self, function: Any, name: str, arguments: Any, keywords: Any, arrays: Sequence[Array], has_types: bool = True
    ) -> None:
        self.function = function
        self.name = name
        self.arguments = arguments
        self.keywords = keywords
        self.arrays = tuple(arrays)
        size = sum(array.type.element_count for array in arrays)
        self.is_small = size <= LARGEST_EXAMPLE
        self.is_asked = callable(function) and (self.is_small or self._may_give_views())
        self.has_types = has_types and self.is_small and callable(function)

    def _may_give_views(self) -> bool:
        """Whether the call may give a view; calls that compute are not made for arrays of many elements."""
        if self.name in BY_OPTION:
            return bool(self.keywords) or len(self.arguments) > 1
        if isinstance(self.function, type):  # a number's type, which gives an array of it as it is
            return issubclass(self.function, np.generic)
        return self.name in VIEW_FUNCTIONS and (self.name != "einsum" or len(self.arrays) == 1)

    @cached_property
    def ones(self) -> list[np.ndarray]:
        """The arrays that stand for those of the call, laid out as they are."""
        return [self._one(array) for array in self.arrays]

    def _one(self, array: Array) -> np.ndarray:
        strides, element = strides_of(array), array.dtype.numpy
        fresh: Callable[..., np.ndarray] = np.ones if self.is_small else np.empty
        if strides == row_major(array.dims) or 0 in array.dims:
            return fresh(array.dims, element)
        reaches = [(size - 1) * stride for size, stride in zip(array.dims, strides, strict=True)]
        first = -sum(reach for reach in reaches if reach < 0)
        whole = fresh(1 + sum(map(abs, reaches)), element)
        steps = tuple(stride * whole.itemsize for stride in strides)
        return np.lib.stride_tricks.as_strided(whole[first:], array.dims, steps)

    @cached_property
    def result(self) -> Any:
        """NumPy's result, or the error that it raises; None if it is not tried."""
        if not self.is_asked:
            return None
        table = {
            number: one if one.shape or array.weak or array.identity.is_boxed else one[()]
            for number, (one, array) in enumerate(zip(self.ones, self.arrays, strict=True))
        }
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.function(*filled(self.arguments, table), **filled(self.keywords, table))
        except Exception as error:
            return error

    @property
    def of_types(self) -> Any:
        """The result where its element types count, or the error; else None."""
        return self.result if self.has_types else None

    # Views

    def noted(
        self, interpreter: Interpreter, result: AbstractValue, call: Callable[[Sequence[Array]], AbstractValue] | None
    ) -> AbstractValue:
        """The result of the call, whose arrays are noted to be views where NumPy's are."""
        if isinstance(result, Array):
            return self._noted(interpreter, result, self.result, (), call)
        if isinstance(result, Tuple) and isinstance(self.result, (tuple, list)):
            items = self._items(interpreter, result.items, call)
            return Tuple(tuple(items), result.cls)
        if isinstance(result, Ref) and isinstance(self.result, (tuple, list)):
            fields = interpreter.contents(result)
            return interpreter.new_list(list(self._items(interpreter, fields.items, call)))
        return result

    def gathered(self, interpreter: Interpreter) -> AbstractValue | None:
        """The result as a view whose elements are taken one by one; None where it is not one of an array."""
        example = self.result
        number = self._owner_of(example) if isinstance(example, np.ndarray) else None
        if number is None and self.name in COPIES and isinstance(example, np.ndarray) and len(self.arrays) == 1:
            made = self.arrays[0].copied(interpreter.emitter.graph)
            made.is_row_major = example.flags.c_contiguous
            return made if example.dtype == self.ones[0].dtype and example.shape == made.dims else None
        if number is None or example.dtype != self.ones[number].dtype:
            return None
        owner = self.arrays[number]
        way = self._map(number, example, (), None)
        strides = tuple(stride // example.itemsize for stride in example.strides)
        return interpreter.views.made(way.read(interpreter, owner), owner, way, strides)

    def _items(self, interpreter: Interpreter, items: Sequence[AbstractValue], call: Any) -> Iterator[AbstractValue]:
        if len(items) != len(self.result):
            yield from items
            return
        for number, (item, example) in enumerate(zip(items, self.result, strict=True)):
            is_array = isinstance(item, Array)
            yield self._noted(interpreter, item, example, (number,), call) if is_array else item

    def _noted(
        self, interpreter: Interpreter, made: Array, example: Any, path: tuple[int, ...], call: Any
    ) -> AbstractValue:
        if not isinstance(example, np.ndarray) or made.root is not None or made.view is not None:
            if self.result is None and not all(map(is_row_major, self.arrays)):
                made.is_row_major = False
            return made
        number = self._owner_of(example)
        if number is None:
            made.is_boxed = not made.dims
            made.is_row_major = example.flags.c_contiguous or not example.size
            if not _is_writeable(example):
                interpreter.protected[made] = READ_ONLY
            if self.name in BY_LAYOUT:
                self._note_layout(interpreter, made)
            return made
        owner, one = self.arrays[number], self.ones[number]
        if owner.identity.is_fixed:
            made.is_fixed = True
            return made
        if owner.weak or example.shape != made.dims:
            return made
        if not owner.memory.is_row_major and self.name in BY_LAYOUT:
            self._note_layout(interpreter, made)
            return made
        if example is one:
            return owner
        strides = tuple(stride // example.itemsize for stride in example.strides)
        return interpreter.views.made(made, owner, self._map(number, example, path, call), strides)

    def _note_layout(self, interpreter: Interpreter, made: Array) -> None:
        """Of what is a view or a copy by a layout that is not known: that it may be a view."""
        for array in self.arrays:
            if array.has_elements and not array.memory.is_row_major:
                interpreter.aliases.may_share(made, array.memory)

    def _owner_of(self, example: np.ndarray) -> int | None:
        """Which of the arrays NumPy's result shares elements with."""
        if not example.size:
            return None
        return next((n for n, one in enumerate(self.ones) if one.size and np.may_share_memory(one, example)), None)

    def _map(self, number: int, example: np.ndarray, path: tuple[int, ...], call: Any) -> Any:
        one = self.ones[number]
        if one.dtype.kind == "c" and example.dtype.itemsize * 2 == one.dtype.itemsize and example.shape == one.shape:
            own, part = StridedLayout.of(one), StridedLayout.of(example)
            return ComplexPartMap(own.start == part.start)
        problem = None
        if not _is_writeable(example):
            problem = READ_ONLY
        elif example.dtype != one.dtype:
            problem = NOT_CHANGEABLE["type"]
        others = self.arrays

        def again(interpreter: Interpreter, owner: Array) -> Array:
            assert call is not None
            zeros = zeros_like(interpreter, others)
            made = call([owner if other is others[number] else zero for other, zero in zip(others, zeros, strict=True)])
            for position in path:
                made = list(interpreter.iterators.items(made))[position]
            assert isinstance(made, Array)
            return made

        key = None
        if len(others) == 1:
            key = self.name, repr(self.arguments), repr(self.keywords), path, others[0].type
        way = CallMap(key, None if call is None else again, StridedLayout.of(one), StridedLayout.of(example), problem)
        if problem is None and not way.is_one_to_one():
            return CallMap(key, way.call, way.owner, way.part, NOT_CHANGEABLE["overlap"])
        return way


def _is_writeable(array: np.ndarray) -> bool:
    with warnings.catch_warnings():  # NumPy warns of views of broadcast_arrays, which it means to make read-only
        warnings.simplefilter("ignore")
        return array.flags.writeable
