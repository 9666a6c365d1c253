"""Calls into array libraries: NumPy's functions through jax.numpy, jax's own directly; each is traced to HLO once.

The tracer is passed in (`LibraryTracing`), since this package does not depend on jax.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.container_classes import is_dict, is_list, is_sequence
from hloom.functions.library_arguments import (
    exception_of,
    filled,
    for_counterpart,
    has_lists,
    is_plain,
    is_wider,
    name_of,
    needs_known_values,
    without_ignored,
    without_lists,
)
from hloom.functions.library_protocols import LibraryTracing, Placeholder, Traced
from hloom.functions.numpy_examples import VIEW_FUNCTIONS, NumpyExample
from hloom.functions.values import (
    ITERATOR,
    NONE,
    S32,
    AbstractValue,
    Arguments,
    Array,
    Const,
    Fields,
    FunctionClosure,
    Keywords,
    PartialCall,
    Ref,
    Series,
    Tuple,
    described,
    is_number,
    walk,
)
from hloom.functions.views import is_row_major
from hloom.ir import Graph, Module, Node, TupleType
from hloom.ops import OPS
from hloom.text import HloomError

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

LIBRARIES = frozenset({"numpy", "jax", "jaxlib", "scipy", "ml_dtypes"})
RANDOM = ("numpy.random",)
IN_PLACE = frozenset({"sort", "fill", "resize", "put", "partition", "itemset", "setfield", "byteswap", "setflags"})
IDENTITIES = (np.asarray, np.asanyarray, np.ascontiguousarray)
NUMPY_KEYWORDS: dict[str, dict[str, Any]] = {
    "cholesky": {"symmetrize_input": False}, "eigh": {"symmetrize_input": False},
    "eigvalsh": {"symmetrize_input": False},
}  # fmt: skip
"""What jax is told so that it does as NumPy does: these read one triangle of a matrix."""
SINGULAR: dict[Any, str] = {
    np.linalg.solve: "Singular matrix", np.linalg.inv: "Singular matrix",
    np.linalg.cholesky: "Matrix is not positive definite",
}  # fmt: skip
SINGLE_DISPATCH = getattr(functools.singledispatch(lambda value: value), "__code__", None)
"""The code of all functions of `functools.singledispatch`."""
SMALL = 24
"""The maximum number of instructions of a traced function that is inlined rather than called."""


def is_library(function: Any) -> bool:
    """Whether a function is of a library that is called, not interpreted."""
    module = getattr(function, "__module__", None) or type(function).__module__ or ""
    return module.partition(".")[0] in LIBRARIES


def is_single_dispatch(held: Any) -> bool:
    """Whether an object is a function that `functools.singledispatch` made."""
    return isinstance(held, FunctionType) and held.__code__ is SINGLE_DISPATCH


def has_own_rules(held: Any) -> bool:
    """Whether an object is a function that was given derivative rules by `jax.custom_jvp` or `jax.custom_vjp`."""
    cls = type(held)
    return cls.__name__ in ("custom_jvp", "custom_vjp") and cls.__module__.partition(".")[0] == "jax"


class Library:
    """The library calls of one program."""

    def __init__(self, interpreter: Interpreter, tracing: LibraryTracing) -> None:
        self.interpreter = interpreter
        self.tracing = tracing
        self._graphs: dict[int, tuple[Module, Graph]] = {}

    def result_type(self, examples: Sequence[Any]) -> Any:
        return self.tracing.result_type(examples)

    def has_method(self, name: str) -> bool:
        return self.tracing.method(name) is not None

    # Calls

    def call(self, function: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """A call of a library's function."""
        interpreter = self.interpreter
        module = str(getattr(function, "__module__", None) or type(function).__module__)
        is_numpy = not (module.startswith("jax") or has_own_rules(function))
        if function in (np.shares_memory, np.may_share_memory):
            interpreter.refuse(f"{name_of(function)}: how arrays are laid out in memory is not part of it")
        if str(getattr(function, "__module__", "")).startswith(RANDOM):
            interpreter.refuse("numpy.random has a state outside the program", hint="use jax.random with a key")
        if is_numpy:
            keywords = without_ignored(function, keywords)
            known = self._known(function, arguments, keywords)
            if known is not None:
                return known
        made = function if has_own_rules(function) else self.tracing.counterpart(function)
        arrays: list[Array] = []
        if made is None:
            return self._without_counterpart(function, arguments, keywords)
        plain_arguments, plain_keywords = self._plain_call(arguments, keywords, arrays)
        plain_given = plain_keywords
        if is_numpy:
            further = NUMPY_KEYWORDS.get(name_of(function), {})
            plain_keywords = {**further, **for_counterpart(function, made, plain_given)}

        def with_arrays() -> AbstractValue | None:
            if function in IDENTITIES and self._is_flat(arguments[0]):
                return None
            rows = [self._arrayed(value) for value in arguments]
            is_same = all(row is value for row, value in zip(rows, arguments, strict=True))
            return None if is_same else self.call(function, rows, keywords)

        name = name_of(function)
        example = self._example(function, name, plain_arguments, plain_given, arrays) if is_numpy else None
        result = self._traced(made, plain_arguments, plain_keywords, arrays, name, with_arrays, example)
        if example is None:
            return _fixed(result)
        noted = example.noted(
            interpreter, result, lambda given: self._traced(made, plain_arguments, plain_keywords, given, name)
        )
        result = self._changed_in_place(function, result, noted, [*arguments, NONE][0])
        if function in SINGULAR:
            self._check_finite(result, arrays, SINGULAR[function])
        if isinstance(result, Array) and result.dtype is S32 and "dtype" not in keywords:
            is_given = any(array.dtype is S32 and not array.weak for array in arrays)
            if not is_given and result.view is None:
                return Array(interpreter.numbers.convert(result.node, interpreter.numbers.of_python[int]))
        return result

    def _arrayed(self, value: AbstractValue) -> AbstractValue:
        """A sequence that holds sequences with those as arrays; one of numbers and arrays as an array."""
        if not isinstance(value, Tuple) and not (is_list(value)):
            return value
        items = list(self.interpreter.iterators.items(value))
        rows = [self._arrayed(item) for item in items]
        if any(row is not item for row, item in zip(rows, items, strict=True)):
            return self.interpreter.new_list(rows)
        return self.as_array(value) if items and self._is_flat(value) else value

    def _is_flat(self, value: AbstractValue) -> bool:
        """Whether a value is a sequence of numbers and arrays that are of one shape."""
        if not isinstance(value, Tuple) and not (is_list(value)):
            return False
        items = list(self.interpreter.iterators.items(value))
        shapes = {item.dims if isinstance(item, Array) else () for item in items}
        return len(shapes) <= 1 and all(isinstance(item, Array) or is_number(item) for item in items)

    def _check_finite(self, result: AbstractValue, arrays: Sequence[Array], message: str) -> None:
        """Raise LinAlgError, as NumPy does, if finite matrices give results that are not finite."""
        interpreter = self.interpreter
        emitter = interpreter.emitter

        def is_finite(array: Array) -> Node:
            whole = self.call(np.all, [self.call(np.isfinite, [array], {})], {})
            return interpreter.numbers.array(whole).node

        if isinstance(result, Array) and result.type.element_count:
            fine = is_finite(result)
            for array in arrays:
                fine = emitter.elementwise("or", fine, emitter.elementwise("not", is_finite(array)))
            interpreter.check(fine, np.linalg.LinAlgError, message)

    def _known(self, function: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue | None:
        """A call whose arguments are all known, computed now by NumPy itself; None where one is not."""
        interpreter = self.interpreter
        if not all(is_plain(value, interpreter) for value in (*arguments, *keywords.values())):
            return None
        if not callable(function) or getattr(function, "__module__", "") == "numpy.random":
            return None
        plain = [interpreter.static(value, "an argument") for value in arguments]
        named = {name: interpreter.static(value, "an argument") for name, value in keywords.items()}
        with interpreter.errors_raised(), np.errstate(all="ignore"):
            made = function(*plain, **named)
        result = self._embedded(made)
        is_view = name_of(function) in VIEW_FUNCTIONS and any(isinstance(value, Array) for value in arguments)
        return self._known_view(function, result, arguments, keywords) if is_view else result

    def _known_view(
        self,
        function: Any,
        result: AbstractValue,
        arguments: Arguments,
        keywords: Keywords,
    ) -> AbstractValue:
        """A result that is known, and that may be a view of an argument, whose elements may change."""
        arrays: list[Array] = []
        name, counterpart = name_of(function), self.tracing.counterpart(function)
        plain, named = self._plain_call(arguments, keywords, arrays)
        taken = {} if counterpart is None else for_counterpart(function, counterpart, named)

        def again(given: Sequence[Array]) -> AbstractValue:
            return self._traced(counterpart, plain, taken, given, name)

        example = self._example(function, name, plain, named, arrays)
        noted = example.noted(self.interpreter, result, None if counterpart is None else again)
        return self._changed_in_place(function, result, noted, arguments[0])

    def _embedded(self, made: Any) -> AbstractValue:
        if isinstance(made, np.ndarray):
            array = self.interpreter.numbers.literal(made)
            array.is_boxed = not made.shape
            array.is_row_major = made.flags.c_contiguous
            return array
        if isinstance(made, tuple):
            return Tuple(tuple(map(self._embedded, made)))
        if isinstance(made, list):
            return self.interpreter.new_list([self._embedded(item) for item in made])
        return Const(made)

    def _plain(self, value: AbstractValue, arrays: list[Array]) -> Any:
        """A value as a Python object in which placeholders stand for arrays."""
        interpreter = self.interpreter
        if isinstance(value, Array):
            value = interpreter.now(value)
            for number, known in enumerate(arrays):
                if known.node is value.node and known.weak == value.weak and known.memory is value.memory:
                    return Placeholder(number)
            arrays.append(value)
            return Placeholder(len(arrays) - 1)
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Tuple):
            if value.cls is slice:
                return slice(*(self._plain(item, arrays) for item in value.items))
            items = [self._plain(item, arrays) for item in value.items]
            return tuple(items) if value.cls is tuple else value.cls(*items)
        if isinstance(value, Ref) and (is_sequence(value.cell.cls) or value.cell.cls is ITERATOR):
            return [self._plain(item, arrays) for item in interpreter.iterators.items(value)]
        if is_dict(value):
            fields = interpreter.contents(value)
            return {key: self._plain(item, arrays) for key, item in fields.pairs}
        if isinstance(value, Series):
            return [self._plain(item, arrays) for item in interpreter.iterators.items(value)]
        if isinstance(value, FunctionClosure) and value.original is not None:
            return value.original
        if isinstance(value, (FunctionClosure, PartialCall)):
            interpreter.refuse(
                f"{described(value)} cannot be given to a library's function",
                hint="define the function outside, or write the loop or the call here",
            )
        interpreter.refuse(f"{described(value)} cannot be given to a library's function")

    def _plain_call(
        self, arguments: Arguments, keywords: Keywords, arrays: list[Array]
    ) -> tuple[list[Any], dict[str, Any]]:
        plain = [self._plain(value, arrays) for value in arguments]
        return plain, {name: self._plain(value, arrays) for name, value in keywords.items()}

    def _traced(
        self,
        function: Any,
        arguments: Any,
        keywords: Any,
        arrays: Sequence[Array],
        name: str,
        with_arrays: Callable[[], AbstractValue | None] = lambda: None,
        example: NumpyExample | None = None,
    ) -> AbstractValue:
        types = [(array.dims, array.dtype.numpy, array.weak) for array in arrays]
        try:
            traced = self.tracing.trace(function, arguments, keywords, types)
        except HloomError as error:
            made = with_arrays() if isinstance(error.__cause__, TypeError) else None  # jax takes no lists for arrays
            if made is not None:
                return made
            if isinstance(error.__cause__, TypeError) and has_lists((arguments, keywords)):
                plain, named = without_lists(arguments), without_lists(keywords)
                return self._traced(function, plain, named, arrays, name, example=example)
            known = [(number, array.literal) for number, array in enumerate(arrays) if array.literal is not None]
            if not known:
                self._problem(error, name, example)
            table = dict(known)
            try:
                traced = self.tracing.trace(function, filled(arguments, table), filled(keywords, table), types)
            except HloomError as further:
                self._problem(further, name, example)
        result = self.embed(traced, [array.node for array in arrays], name)
        if example is None:
            return result
        numpys = example.of_types
        if isinstance(result, Array) and isinstance(numpys, (np.ndarray, np.generic)) and is_wider(numpys, result):
            numbers, element = self.interpreter.numbers, self.interpreter.settings.element_of(numpys.dtype)
            wide = [array if array.dtype.is_float else Array(numbers.convert(array.node, element)) for array in arrays]
            if any(a is not b for a, b in zip(wide, arrays, strict=True)):  # jax computes means of bools in 32 bits
                return self._as_numpys(self._traced(function, arguments, keywords, wide, name), numpys)
        return self._as_numpys(result, numpys)

    def _example(
        self, function: Any, name: str, arguments: Any, keywords: Any, arrays: Sequence[Array]
    ) -> NumpyExample:
        return NumpyExample(function, name, arguments, keywords, arrays, self.interpreter.settings.precision == 64)

    def _without_counterpart(self, function: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """A function that jax does not have: of those that give views NumPy says which elements they have."""
        interpreter = self.interpreter
        name = name_of(function)
        arrays: list[Array] = []
        if name in VIEW_FUNCTIONS and name not in IN_PLACE:
            plain, named = self._plain_call(arguments, keywords, arrays)
            example = self._example(function, name, plain, named, arrays)
            if isinstance(example.result, Exception):
                interpreter.raise_error(type(example.result), str(example.result))
            made = example.gathered(interpreter)
            if made is not None:
                return made
        interpreter.refuse(f"{name} has no counterpart that can be compiled")

    def _changed_in_place(
        self, function: Any, made: AbstractValue, result: AbstractValue, argument: AbstractValue
    ) -> AbstractValue:
        """The result of a function that may change its argument and give it, as `nan_to_num(x, copy=False)` does."""
        if function is not np.nan_to_num or not isinstance(made, Array) or not isinstance(argument, Array):
            return result
        assert isinstance(result, Array)
        owner = argument.identity
        if result.identity is not owner and (result.view is None or result.view.owner is not owner):
            return result
        self.interpreter.views.check_changeable(owner, "this array cannot be changed in place")
        self.interpreter.change_array(owner, Array(made.node))
        return self.interpreter.now(owner)

    def _as_numpys(self, result: AbstractValue, example: Any) -> AbstractValue:
        """A result with the element types that NumPy gives."""
        interpreter = self.interpreter
        if isinstance(result, Array) and isinstance(example, (np.ndarray, np.generic)):
            is_number = example.dtype.kind in "biufc"
            if is_number and example.shape == result.dims and example.dtype != np.dtype(result.dtype.numpy):
                return Array(interpreter.numbers.convert(result.node, interpreter.settings.element_of(example.dtype)))
        if isinstance(result, Array) and not result.dims and type(example) in interpreter.numbers.of_python:
            return Array(interpreter.numbers.convert(result.node, interpreter.numbers.of_python[type(example)]), True)
        if isinstance(result, Tuple) and isinstance(example, (tuple, list)) and len(example) == len(result.items):
            rows = zip(result.items, example, strict=True)
            return Tuple(tuple(self._as_numpys(item, own) for item, own in rows), result.cls)
        return result

    def _problem(self, error: HloomError, name: str, example: NumpyExample | None = None) -> Any:
        cause = error.__cause__
        if needs_known_values(error):
            self.interpreter.refuse(
                f"{name}: the shape of its result, or an option, would depend on data",
                hint="give what decides the shape as a constant, such as minlength= or size=, or as a static argument",
            )
        numpys = example.of_types if example is not None else None
        if isinstance(numpys, Exception):
            self.interpreter.raise_error(type(numpys), str(numpys))
        if numpys is not None:
            self.interpreter.refuse(f"{name}: {error.message}", hint="NumPy takes this, jax does not")
        if (
            isinstance(cause, (TypeError, ValueError, IndexError, ZeroDivisionError))
            and "oncre" not in type(cause).__name__
        ):
            self.interpreter.raise_error(exception_of(cause), f"{name}: {error.message}")
        self.interpreter.refuse(f"{name}: {error.message}", hint=error.hint)

    def embed(self, traced: Traced, nodes: Sequence[Any], name: str) -> AbstractValue:
        """The results of a traced module, called in the present graph, or put in place where it is small."""
        emitter = self.interpreter.emitter
        graph = self._graph_of(traced.module, name)
        if len(graph.nodes) <= SMALL:
            root = emitter.copy_graph(graph, nodes)
        else:
            root = emitter.graph.add_apply(OPS["call"], nodes, graph.root.type, {"to_apply": graph})
        if isinstance(root.type, TupleType):
            outputs = [emitter.element(root, number) for number in range(len(root.type.elements))]
        else:
            outputs = [root]
        return self._lifted(traced.structure, outputs)

    def _graph_of(self, module: Module, name: str) -> Graph:
        """The entry of a traced module as a graph of the program's; each is copied once."""
        held = self._graphs.get(id(module))
        if held is None:
            graph = import_graphs(self.interpreter.module, module, name)
            held = self._graphs[id(module)] = module, graph
        return held[1]

    def _lifted(self, structure: Any, outputs: Sequence[Any]) -> AbstractValue:
        interpreter = self.interpreter
        if isinstance(structure, Placeholder):
            made = Array(outputs[structure.number])
            made.home = interpreter.emitter.graph
            return made
        if isinstance(structure, tuple):
            items = tuple(self._lifted(item, outputs) for item in structure)
            return Tuple(items, type(structure))
        if isinstance(structure, list):
            return interpreter.new_list([self._lifted(item, outputs) for item in structure])
        if isinstance(structure, dict):
            return interpreter.new_object(
                dict, Fields(tuple(structure), tuple(self._lifted(item, outputs) for item in structure.values()))
            )
        if structure is None:
            return NONE
        return interpreter.embed(structure)

    # Arrays

    def as_array(self, value: AbstractValue) -> Array:
        """A sequence of numbers and arrays as one array."""
        made = self.call(np.asarray, [value], {})
        if isinstance(made, Const):
            made = self.interpreter.numbers.array(made)
        assert isinstance(made, Array)
        return made

    def property(self, owner: Array, name: str) -> Array:
        """A property of an array that is an array."""
        function = self.tracing.method(name)
        made = self._traced(function, [Placeholder(0)], {}, [owner], name)
        example = self._example(operator.attrgetter(name), name, [Placeholder(0)], {}, [owner])
        made = example.noted(
            self.interpreter, made, lambda given: self._traced(function, [Placeholder(0)], {}, given, name)
        )
        assert isinstance(made, Array)
        return made

    def subscript(self, owner: Array, parts: Sequence[Any]) -> Array:
        """`owner[parts]`"""
        arrays = [owner]
        plain = [self._plain(part, arrays) if isinstance(part, Array) else part for part in parts]
        made = self._traced(self.tracing.subscript, [Placeholder(0), *plain], {}, arrays, "indexing")
        assert isinstance(made, Array)
        return made

    def update(self, owner: Array, parts: Sequence[Any], value: Array) -> Array:
        """`owner` with other elements at `parts`."""
        arrays = [owner]
        given = self._plain(value, arrays)
        plain = [self._plain(part, arrays) if isinstance(part, Array) else part for part in parts]
        made = self._traced(self.tracing.update, [Placeholder(0), given, *plain], {}, arrays, "assignment of elements")
        assert isinstance(made, Array)
        return made

    def method(self, owner: Array, name: str, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """`owner.name(...)`"""
        interpreter = self.interpreter
        owner = self.interpreter.now(owner)
        if name == "copy":
            made = owner.copied(interpreter.emitter.graph)
            orders = [interpreter.static(value, "order") for value in (*arguments, *keywords.values())]
            made.is_row_major = orders in ([], ["C"]) or is_row_major(owner)
            return made
        if name == "item":
            if arguments:
                flat = Array(interpreter.emitter.reshape(owner.node, (owner.type.element_count,)))
                position = arguments if len(owner.dims) != len(arguments) else [Tuple(tuple(arguments))]
                chosen = interpreter.indexing.get(owner if len(owner.dims) == len(arguments) else flat, position[0])
                assert isinstance(chosen, Array)
                return Array(chosen.node, True)
            if owner.type.element_count != 1:
                interpreter.raise_error(ValueError, "can only convert an array of size 1 to a Python scalar")
            return Array(interpreter.emitter.reshape(owner.node, ()), True)
        if name == "tolist":
            return self._listed(owner)
        if name in ("fill", "sort"):
            interpreter.views.check_changeable(owner, f"{name}() changes an array")
            if name == "fill":
                made = Array(
                    interpreter.numbers.as_type(interpreter.numbers.array(arguments[0], owner.dtype), owner.type)
                )
            else:
                made = self.call(np.sort, [owner, *arguments], keywords)
            assert isinstance(made, Array)
            interpreter.change_array(owner, made)
            return NONE
        if name in IN_PLACE:
            interpreter.refuse(f"{name}() changes an array in place and cannot be compiled", hint=f"use numpy.{name}")
        keywords = without_ignored(getattr(np, name, None), keywords)
        function = self.tracing.method(name)
        if function is None:
            interpreter.raise_error(AttributeError, f"an array has no method '{name}'")
        arrays = [owner]
        plain, named = self._plain_call(arguments, keywords, arrays)
        numpys = getattr(np.ndarray, name, None)
        example = self._example(numpys, name, [Placeholder(0), *plain], named, arrays) if owner.dims else None
        made = self._traced(function, [Placeholder(0), *plain], named, arrays, name, example=example)
        if owner.identity.is_fixed:
            return _fixed(made)
        if example is None:
            return made
        return example.noted(
            interpreter, made, lambda given: self._traced(function, [Placeholder(0), *plain], named, given, name)
        )

    def update_at(self, owner: Array, index: AbstractValue, name: str, arguments: Arguments) -> AbstractValue:
        """`owner.at[index].name(value)`, as jax has it."""
        parts = self.interpreter.indexing.parts(owner, index)
        arrays = [owner]
        given = [self._plain(value, arrays) for value in arguments]
        plain = [self._plain(part, arrays) if isinstance(part, Array) else part for part in parts]
        function = self.tracing.update_at(name)
        return _fixed(self._traced(function, [Placeholder(0), tuple(given), *plain], {}, arrays, f"at[...].{name}"))

    def unbuffered(self, function: np.ufunc, arguments: Arguments) -> AbstractValue:
        """`numpy.add.at(x, i, v)` and the like: every index counts, repeated ones too."""
        interpreter = self.interpreter
        names = {"add": "add", "subtract": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}
        name = names.get(function.__name__)
        owner, index, *values = arguments
        if name is None or not isinstance(owner, Array) or len(values) != 1:
            interpreter.refuse(f"numpy.{function.__name__}.at cannot be compiled")
        owner = self.interpreter.now(owner)
        interpreter.views.check_changeable(owner, "at() changes an array")
        value = values[0] if isinstance(values[0], (Array, Const)) else self.as_array(values[0])
        if function.__name__ == "subtract":
            value = interpreter.operators.unary("-", value)
        made = self.update_at(owner, index, name, [value])
        assert isinstance(made, Array)
        interpreter.change_array(owner, Array(made.node))
        return NONE

    def _listed(self, owner: Array) -> AbstractValue:
        if not owner.dims:
            return Array(owner.node, True)
        rows = [self.subscript(owner, [number]) for number in range(owner.dims[0])]
        return self.interpreter.new_list([self._listed(row) for row in rows])


def _fixed(value: AbstractValue) -> AbstractValue:
    """Mark the arrays of a jax result as immutable."""
    for part in walk(value):
        if isinstance(part, Array):
            part.is_fixed = True
    return value


def import_graphs(target: Module, module: Module, name: str) -> Graph:
    """Copy a module's graphs into another module; the copy of its entry."""
    legal = str.maketrans(" ", "_", "[]")
    copies = target.copy_graphs(module, lambda graph: (name if module.is_entry(graph) else graph.name).translate(legal))
    for copy in copies.values():
        for node in copy.nodes:
            copy.set_metadata(node, None)
    return copies[module.entry]
