"""Attributes, items and lengths: of arrays, containers, instances of the user's classes, modules and types."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.builtin_functions import (
    RANGE_METHODS,
    SEQUENCE_OPERATORS,
    SPECIAL_METHODS,
    TUPLE_METHODS,
    VIEW_METHODS,
    methods_of,
)
from hloom.functions.captured import Captured, is_of_users
from hloom.functions.container_classes import (
    is_collection,
    is_container,
    is_dict,
    is_list,
    option_of,
)
from hloom.functions.iterators import VIEWS, is_iterator, is_view
from hloom.functions.values import (
    AbstractValue,
    Array,
    Const,
    Fields,
    FunctionClosure,
    Method,
    Parent,
    PartialCall,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    described,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


IN_MEMORY = frozenset({"base", "flags", "data", "strides", "ctypes", "flat"})
"""The attributes of an array that show its layout in memory, which is not part of a program."""
SET_CHANGES = frozenset(name for name in vars(set) if not hasattr(frozenset, name))
"""The methods that change a set."""


class Members:
    """The parts of values, in one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    # Attributes

    def attribute(self, owner: AbstractValue, name: str) -> AbstractValue:
        """`owner.name`"""
        interpreter = self.interpreter
        if isinstance(owner, ValueChoice):
            return interpreter.control.choices(owner, lambda value: self.attribute(value, name))
        if name.startswith("__") and not isinstance(owner, (Const, Parent)):
            special = self._special(owner, name)
            if special is not None:
                return special
        if isinstance(owner, Array):
            return self._of_array(owner, name)
        if isinstance(owner, Const):
            return self._of_object(owner, name)
        if isinstance(owner, Tuple):
            return self._of_tuple(owner, name)
        if isinstance(owner, Ref):
            return self._of_instance(owner, name)
        if isinstance(owner, Parent):
            return self._of_parent(owner, name)
        if isinstance(owner, FunctionClosure) and name in ("__name__", "__qualname__"):
            return Const(owner.code.name)
        if isinstance(owner, PartialCall) and name in ("func", "args", "keywords"):
            if name == "func":
                return owner.function
            return Tuple(owner.arguments) if name == "args" else interpreter.new_object(
                dict, Fields(tuple(owner.keywords), tuple(owner.keywords.values()))
            )  # fmt: skip
        if isinstance(owner, Method) and owner.name in ("at", "at[]"):
            return Method(owner, name)
        if isinstance(owner, Series) and owner.rule == "range" and name in ("start", "stop", "step"):
            return owner.parts[("start", "stop", "step").index(name)]
        if isinstance(owner, Series) and owner.rule == "range" and name in RANGE_METHODS:
            return Method(owner, name)
        if is_view(owner) and name in VIEW_METHODS:
            return Method(owner, name)
        interpreter.raise_error(AttributeError, f"{described(owner)} has no attribute '{name}'")

    def _special(self, owner: AbstractValue, name: str) -> AbstractValue | None:
        """A method of a built-in class that Python's own functions and operators call; None where it is no such."""
        cls = self.interpreter.classes.class_of(owner)
        if name == "__class__":
            return Const(cls)
        is_sequence_or_mapping = isinstance(owner, Tuple) or is_collection(owner)
        function = SPECIAL_METHODS.get(name)
        if function is None and is_sequence_or_mapping:
            function = SEQUENCE_OPERATORS.get(name)
        is_built_in = is_sequence_or_mapping or isinstance(owner, (Array, Series)) or is_iterator(owner)
        if function is None or not is_built_in or isinstance(getattr(cls, name, None), (FunctionType, type(None))):
            return None
        return PartialCall(Const(function), (owner,), {})

    def _of_array(self, owner: Array, name: str) -> AbstractValue:
        interpreter = self.interpreter
        if owner.weak:
            return self._of_number(owner, name)
        if name == "shape":
            return Tuple(tuple(map(Const, owner.dims)))
        if name == "ndim":
            return Const(owner.type.rank)
        if name == "size":
            return Const(owner.type.element_count)
        if name == "dtype":
            return Const(np.dtype(owner.dtype.numpy))
        if name == "itemsize":
            return Const(np.dtype(owner.dtype.numpy).itemsize)
        if name == "nbytes":
            return Const(np.dtype(owner.dtype.numpy).itemsize * owner.type.element_count)
        if name in IN_MEMORY:
            interpreter.refuse(f"{name} cannot be compiled: how arrays are laid out in memory is not part of it")
        if name in ("T", "mT", "real", "imag"):
            return interpreter.library.property(owner, name)
        if name == "at":
            return Method(owner, "at")
        if hasattr(np.ndarray, name) or interpreter.library.has_method(name):
            return Method(owner, name)
        interpreter.raise_error(AttributeError, f"an array has no attribute '{name}'")

    def _of_number(self, owner: Array, name: str) -> AbstractValue:
        cls = next((cls for cls, made in self.interpreter.numbers.of_python.items() if made is owner.dtype), float)
        if name in ("real", "imag"):
            if owner.dtype.is_complex:
                return Array(self.interpreter.emitter.op(name, owner.node), True)
            return self.interpreter.numbers.as_number(owner) if name == "real" else Const(cls(0) + 0)
        if name in ("numerator", "denominator") and issubclass(cls, int):
            return self.interpreter.numbers.to_python(owner, int) if name == "numerator" else Const(1)
        if name in ("shape", "ndim", "dtype", "T", "size"):  # a number may stand for an array of no dimensions
            return self._of_array(Array(owner.node), name)
        if hasattr(cls, name):
            return Method(owner, name)
        if hasattr(np.ndarray, name):
            return Method(Array(owner.node), name)
        self.interpreter.raise_error(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")

    def _of_object(self, owner: Const, name: str) -> AbstractValue:
        interpreter = self.interpreter
        held = owner.value
        if isinstance(held, frozenset) and name in SET_CHANGES:
            interpreter.refuse(
                f"{name} of a set cannot be compiled: sets are known when the program is, and do not change",
                hint="make another set, as in seen = seen | {item}; or keep a dict or an array of flags",
            )
        if isinstance(held, (str, bytes, frozenset, int, float, complex)) and not isinstance(held, np.generic):
            if not hasattr(held, name):
                interpreter.raise_error(AttributeError, f"'{type(held).__name__}' object has no attribute '{name}'")
            collected = getattr(held, name)
            return Method(owner, name) if callable(collected) else interpreter.embed(collected)
        with interpreter.errors_raised():
            collected = getattr(held, name)
        if isinstance(held, type) and isinstance(collected, FunctionType):
            return interpreter.embed(collected)
        if isinstance(held, (ModuleType, type)):
            module = held.__name__ if isinstance(held, ModuleType) else held.__module__
            is_bound = isinstance(collected, (MethodType, BuiltinMethodType))  # another object each time
            may_change = is_of_users(module) and not is_bound
        else:
            may_change = not callable(collected)
        if may_change:
            interpreter.captured.append(Captured(held, f".{name}", collected))
        return interpreter.embed(collected, name)

    def _of_tuple(self, owner: Tuple, name: str) -> AbstractValue:
        interpreter = self.interpreter
        if owner.cls is slice:
            return owner.items[("start", "stop", "step").index(name)]
        names = getattr(owner.cls, "_fields", ())
        if name in names:
            return owner.items[names.index(name)]
        if name == "_fields":
            return interpreter.embed(names)
        if name in TUPLE_METHODS and hasattr(owner.cls, name):
            return Method(owner, name)
        collected = getattr(owner.cls, name, None)
        if isinstance(collected, FunctionType):
            return PartialCall(interpreter.embed(collected), (owner,), {})
        static = _found(owner.cls.__mro__, name)
        if isinstance(static, property) and isinstance(static.fget, FunctionType):
            return interpreter.calls.call(interpreter.embed(static.fget), [owner], {})
        interpreter.raise_error(AttributeError, f"'{owner.cls.__name__}' object has no attribute '{name}'")

    def _of_parent(self, owner: Parent, name: str) -> AbstractValue:
        """`super().name`"""
        interpreter = self.interpreter
        calls = interpreter.calls
        if isinstance(owner.owner, ValueChoice):
            return interpreter.control.choices(owner.owner, lambda one: self._of_parent(Parent(owner.cls, one), name))
        order = interpreter.classes.class_of(owner.owner).__mro__
        bases = order[order.index(owner.cls) + 1 :] if owner.cls in order else ()
        collected = _found(bases, name)
        if isinstance(collected, property) and isinstance(collected.fget, FunctionType):
            return calls.call(interpreter.embed(collected.fget), [owner.owner], {})
        if isinstance(collected, FunctionType):
            return PartialCall(interpreter.embed(collected), (owner.owner,), {})
        if isinstance(collected, staticmethod):
            return interpreter.embed(collected.__func__)
        if collected is object.__init__:
            return PartialCall(Const(_nothing), (), {})
        if collected is None:
            interpreter.raise_error(AttributeError, f"'super' object has no attribute '{name}'")
        interpreter.refuse(f"super().{name} cannot be compiled")

    def _of_instance(self, owner: Ref, name: str) -> AbstractValue:
        interpreter = self.interpreter
        cls = owner.cell.cls
        methods = methods_of(cls)
        if methods is not None:
            if name in methods:
                return Method(owner, name)
            if name in ("maxlen", "default_factory") and hasattr(cls, name):
                return interpreter.embed(option_of(cls))
            if hasattr(cls, name):
                interpreter.refuse(f"method {name} of {described(owner)} cannot be compiled")
            interpreter.raise_error(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
        static = _found(cls.__mro__, name)
        if isinstance(static, property) and isinstance(static.fget, FunctionType):
            return interpreter.calls.call(interpreter.embed(static.fget), [owner], {})
        held = interpreter.contents(owner).get(name)
        if held is not None:
            return interpreter.settled(held, name)
        if isinstance(static, functools.cached_property):
            made = interpreter.calls.call(interpreter.embed(static.func), [owner], {})
            if not owner.cell.frozen:
                interpreter.change(owner, interpreter.contents(owner).changed(name, made))
            return made
        if name == "__class__":
            return Const(cls)
        collected = self.class_attribute(owner, name)
        if collected is None:
            interpreter.raise_error(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
        return collected

    def class_attribute(self, owner: Ref, name: str) -> AbstractValue | None:
        """What the class of an instance defines under a name, bound to the instance; None where it does not."""
        interpreter = self.interpreter
        cls = owner.cell.cls
        static = _found(cls.__mro__[:-1], name)
        if static is None:
            return None
        if is_of_users(cls.__module__) and getattr(cls, name) is static:
            interpreter.captured.append(Captured(cls, f".{name}", static))
        if isinstance(static, staticmethod):
            return interpreter.embed(static.__func__)
        if isinstance(static, classmethod):
            return PartialCall(interpreter.embed(static.__func__), (Const(cls),), {})
        if isinstance(static, FunctionType):
            if static.__qualname__.startswith("__create_fn__") or static.__code__.co_filename.startswith("<"):
                return None  # what dataclasses generate
            return PartialCall(interpreter.embed(static), (owner,), {})
        return interpreter.embed(static, name)

    def set_attribute(self, owner: AbstractValue, name: str, value: AbstractValue) -> None:
        """`owner.name = value`"""
        interpreter = self.interpreter
        if isinstance(owner, Array) and owner.has_elements and name in ("real", "imag"):
            interpreter.indexing.set(self._of_array(owner, name), Const(Ellipsis), value)
            return
        if not isinstance(owner, Ref) or is_container(owner.cell.cls):
            interpreter.refuse(f"an attribute of {described(owner)} cannot be assigned", AttributeError)
        parameters = getattr(owner.cell.cls, "__dataclass_params__", None)
        if parameters is not None and parameters.frozen and not interpreter.classes.is_initializing(owner):
            interpreter.raise_error(dataclasses.FrozenInstanceError, f"cannot assign to field '{name}'")
        static = _found(owner.cell.cls.__mro__, name)
        if isinstance(static, property):
            if not isinstance(static.fset, FunctionType):
                interpreter.raise_error(AttributeError, f"property '{name}' has no setter")
            interpreter.calls.call(interpreter.embed(static.fset), [owner, value], {})
            return
        interpreter.change(owner, interpreter.contents(owner).changed(name, value))

    # Items

    def length(self, source: AbstractValue) -> int | Array:
        """How many items a value has."""
        interpreter = self.interpreter
        if isinstance(source, Tuple):
            return len(source.items)
        if isinstance(source, Ref):
            if is_container(source.cell.cls):
                return len(interpreter.contents(source).items)
            if is_iterator(source):
                name = interpreter.iterators.class_of(source).__name__
                interpreter.raise_error(TypeError, f"object of type '{name}' has no len()")
            method = self.class_attribute(source, "__len__")
            if method is not None:
                made = interpreter.calls.call(method, [], {})
                return made if isinstance(made, Array) else interpreter.static(made, "a length")
        if isinstance(source, Array):
            if not source.dims:
                interpreter.raise_error(TypeError, f"{described(source)} has no length")
            return source.dims[0]
        if isinstance(source, Const):
            with interpreter.errors_raised():
                return len(interpreter.static(source, "what len() is taken of"))
        if isinstance(source, Series):
            return self._series_length(source)
        interpreter.raise_error(TypeError, f"{described(source)} is not iterable")

    def _series_length(self, source: Series) -> int | Array:
        interpreter = self.interpreter
        if source.rule == "range":
            start, stop, step = source.parts
            if all(isinstance(part, Const) for part in source.parts):
                return len(range(*(part.value for part in source.parts)))  # type: ignore[attr-defined]
            binary = interpreter.operators.binary
            if isinstance(step, Array):
                return self._strided_length(start, stop, step)
            stride = interpreter.static(step, "the step of a range")
            span = binary("-", stop, start) if stride > 0 else binary("-", start, stop)
            if abs(stride) != 1:
                span = binary("//", binary("+", span, Const(abs(stride) - 1)), Const(abs(stride)))
            made = interpreter.numbers.array(span)
            zero = interpreter.emitter.like(0, made.node)
            return Array(interpreter.emitter.elementwise("maximum", made.node, zero), True)
        if source.rule == "reversed":
            size = source.parts[1]
            return size.value if isinstance(size, Const) else interpreter.numbers.array(size)
        if source.rule in ("enumerate", "iter", "watched", *VIEWS):
            return self.length(source.parts[0])
        lengths = [self.length(part) for part in (source.parts[1:] if source.rule == "map" else source.parts)]
        known = [length for length in lengths if isinstance(length, int)]
        if len(known) == len(lengths):
            return min(known, default=0)
        if source.rule == "strict zip":
            interpreter.refuse("zip(strict=True) needs lengths that are known when the program is compiled")
        nodes = [
            interpreter.numbers.array(Const(length) if isinstance(length, int) else length).node for length in lengths
        ]
        result = nodes[0]
        for node in nodes[1:]:
            result = interpreter.emitter.elementwise("minimum", result, node)
        return Array(result, True)

    def _strided_length(self, start: AbstractValue, stop: AbstractValue, step: Array) -> Array:
        """How many numbers a range has whose step only the run knows."""
        interpreter = self.interpreter
        emitter, numbers = interpreter.emitter, interpreter.numbers
        zero, one = emitter.like(0, step.node), emitter.like(1, step.node)
        interpreter.check(emitter.compare("NE", step.node, zero), ValueError, "range() arg 3 must not be zero")
        first, last = (numbers.array(value, step.dtype).node for value in (start, stop))
        is_up = emitter.compare("GT", step.node, zero)
        span = emitter.select(is_up, emitter.sub(last, first), emitter.sub(first, last))
        size = emitter.elementwise("maximum", emitter.op("abs", step.node), one)
        count = emitter.div(emitter.add(span, emitter.sub(size, one)), size)
        return Array(
            emitter.elementwise("maximum", emitter.select(emitter.compare("GT", span, zero), count, zero), zero), True
        )

    def is_indexable(self, source: AbstractValue) -> bool:
        """Whether an item can be taken by a number that only the run knows."""
        if isinstance(source, Array):
            return True
        if isinstance(source, Series):
            if source.rule in ("watched", "strict zip", *VIEWS):
                return False
            parts = source.parts[1:] if source.rule == "map" else source.parts
            parts = parts[:1] if source.rule in ("enumerate", "reversed") else parts
            return source.rule == "range" or all(map(self.is_indexable, parts))
        return False

    def item(self, source: AbstractValue, number: AbstractValue) -> AbstractValue:
        """An item by its number, which is known to be one."""
        interpreter = self.interpreter
        if isinstance(source, Series):
            binary = interpreter.operators.binary
            if source.rule == "range":
                start, _, step = source.parts
                if isinstance(step, Const) and step.value == 1:
                    return number if isinstance(start, Const) and start.value == 0 else binary("+", start, number)
                return binary("+", start, binary("*", number, step))
            if source.rule == "enumerate":
                count = number
                if not (isinstance(source.parts[1], Const) and source.parts[1].value == 0):
                    count = binary("+", source.parts[1], number)
                return Tuple((count, self.item(source.parts[0], number)))
            if source.rule in ("zip", "strict zip"):
                return Tuple(tuple(self.item(part, number) for part in source.parts))
            if source.rule == "reversed":
                last = binary("-", source.parts[1], Const(1))
                return self.item(source.parts[0], binary("-", last, number))
            if source.rule in ("iter", "watched"):
                return self.item(source.parts[0], number)
            if source.rule in VIEWS:
                return self._item_of_view(source, number)
            if source.rule == "map":
                return interpreter.calls.call(
                    source.parts[0], [self.item(part, number) for part in source.parts[1:]], {}
                )
        if is_dict(source):
            return self._item_of_view(Series("keys", (source,)), number)
        if isinstance(number, Const) and isinstance(source, Tuple):
            return source.items[number.value]
        if isinstance(number, Const) and is_list(source):
            return interpreter.contents(source).items[number.value]
        return interpreter.indexing.get(interpreter.current(source), number, is_checked=False)

    def _item_of_view(self, view: Series, number: AbstractValue) -> AbstractValue:
        """A key, a value, or both, of a dict by its number."""
        interpreter = self.interpreter
        owner = view.parts[0]
        assert isinstance(owner, Ref)
        fields = interpreter.contents(owner)
        position = interpreter.static(number, "which item of a dict is meant")
        key, item = (fields.keys or ())[position], fields.items[position]
        if view.rule == "values":
            return item
        return interpreter.embed(key) if view.rule == "keys" else Tuple((interpreter.embed(key), item))

    def parts(self, tree: AbstractValue) -> tuple[AbstractValue, ...]:
        """The items of a tuple or of a container, or the attributes of an object; of other values none."""
        if isinstance(tree, Ref):
            return self.interpreter.contents(tree).items
        return tree.items if isinstance(tree, Tuple) else ()

    def with_parts(self, tree: AbstractValue, parts: Sequence[AbstractValue]) -> AbstractValue:
        """A new tuple, container or object of the same class with other parts; other values as they are."""
        if isinstance(tree, Ref):
            fields = self.interpreter.contents(tree)
            return self.interpreter.new_object(tree.cell.cls, fields.with_children(parts))
        return tree.with_children(parts) if isinstance(tree, Tuple) else tree


def _found(classes: Iterable[type], name: str) -> Any:
    """What the first of some classes that defines a name has under it, as it is: no property is computed."""
    return next((vars(cls)[name] for cls in classes if name in vars(cls)), None)


def _nothing(*_arguments: Any, **_keywords: Any) -> None:
    """`object.__init__`"""
