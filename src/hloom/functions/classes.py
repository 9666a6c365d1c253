"""Classes: their instances made as Python makes them, and the class that a value has."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable
from types import (
    FunctionType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.container_classes import plain_class
from hloom.functions.iterators import CLASSES, is_iterator
from hloom.functions.library import is_library
from hloom.functions.values import (
    AbstractValue,
    Arguments,
    Array,
    Cell,
    Const,
    Fields,
    Keywords,
    PartialCall,
    Ref,
    Series,
    Tuple,
    ValueChoice,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


class Classes:
    """The classes of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self._initializing: set[Cell] = set()

    def construct(self, cls: type, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        interpreter = self.interpreter
        if issubclass(cls, BaseException):
            return PartialCall(Const(cls), tuple(arguments), keywords)
        if issubclass(cls, enum.Enum):
            return self.known_object(cls, arguments, keywords)
        if is_library(cls):
            return self.library_type(cls, arguments, keywords)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            names = cls._fields  # type: ignore[attr-defined]
            values = dict(zip(names, arguments, strict=False))
            values.update(keywords)
            for name, default in cls._field_defaults.items():  # type: ignore[attr-defined]
                values.setdefault(name, interpreter.embed(default))
            if len(arguments) > len(names) or set(values) != set(names):
                interpreter.raise_error(TypeError, f"{cls.__name__} takes the fields {', '.join(names)}")
            return Tuple(tuple(values[name] for name in names), cls)
        if dataclasses.is_dataclass(cls) and _is_generated(cls):
            return self.dataclass(cls, arguments, keywords)
        initialize = getattr(cls, "__init__", None)
        made = interpreter.new_object(cls, Fields((), ()))
        if isinstance(initialize, FunctionType):
            self.initialize(made, interpreter.embed(initialize), arguments, keywords)
        elif arguments or keywords or (cls is not object and cls.__module__ == "builtins"):
            interpreter.refuse(f"{cls.__name__} cannot be made in a compiled function")
        return made

    def known_object(self, held: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """A call of a Python object with arguments that are known, made now."""
        interpreter = self.interpreter
        given = [interpreter.static(value, f"an argument of {held.__name__}") for value in arguments]
        named = {name: interpreter.static(value, name) for name, value in keywords.items()}
        with interpreter.errors_raised():
            return interpreter.embed(held(*given, **named))

    def initialize(self, made: Ref, function: AbstractValue, arguments: Arguments, keywords: Keywords) -> None:
        self._initializing.add(made.cell)
        try:
            self.interpreter.calls.call(function, [made, *arguments], keywords)
        finally:
            self._initializing.discard(made.cell)

    def is_initializing(self, owner: Ref) -> bool:
        """Whether an instance is being made by its own `__init__`."""
        return False if dataclasses.is_dataclass(owner.cell.cls) else owner.cell in self._initializing

    def dataclass(self, cls: type, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        interpreter = self.interpreter
        fields = [row for row in dataclasses.fields(cls) if row.init]
        positional = [row for row in fields if not row.kw_only]
        if len(arguments) > len(positional):
            interpreter.raise_error(
                TypeError, f"{cls.__name__} takes {len(positional)} arguments, {len(arguments)} are given"
            )
        values: dict[str, AbstractValue] = {row.name: value for row, value in zip(positional, arguments, strict=False)}
        for name, value in keywords.items():
            if name in values or name not in {row.name for row in fields}:
                interpreter.raise_error(TypeError, f"{cls.__name__} got an unexpected argument '{name}'")
            values[name] = value
        for row in dataclasses.fields(cls):
            if row.name in values:
                continue
            if row.default is not dataclasses.MISSING:
                values[row.name] = interpreter.embed(row.default)
            elif row.default_factory is not dataclasses.MISSING:
                values[row.name] = interpreter.calls.call(interpreter.embed(row.default_factory), [], {})
            elif row.init:
                interpreter.raise_error(TypeError, f"{cls.__name__} is missing the argument '{row.name}'")
        names = [row.name for row in dataclasses.fields(cls) if row.name in values]
        made = interpreter.new_object(cls, Fields(tuple(names), tuple(values[name] for name in names)))
        after = getattr(cls, "__post_init__", None)
        if isinstance(after, FunctionType):
            self.initialize(made, interpreter.embed(after), [], {})
        return made

    def library_type(self, cls: type, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """`numpy.float32(x)` and the like."""
        if issubclass(cls, np.generic) and len(arguments) == 1 and not keywords:
            (value,) = arguments
            if isinstance(value, Const):
                return Const(cls(value.value))
            return self.interpreter.library.call(np.asarray, [value], {"dtype": Const(cls)})
        return self.interpreter.library.call(cls, arguments, keywords)

    def is_instance(self, value: AbstractValue, classes: AbstractValue) -> AbstractValue:
        """`isinstance(value, classes)`, decided by what is known of types."""
        interpreter = self.interpreter
        wanted = interpreter.static(classes, "the classes of isinstance")
        if isinstance(value, ValueChoice):
            return interpreter.control.choices(value, lambda option: self.is_instance(option, classes))
        cls = self.class_of(value)
        with interpreter.errors_raised():
            return Const(issubclass(cls, wanted) or (cls is FunctionType and wanted is Callable))

    def class_of(self, value: AbstractValue) -> type:
        """The Python class of a value."""
        if isinstance(value, Array):
            if value.weak:
                table = self.interpreter.numbers.of_python
                return next((cls for cls, made in table.items() if made is value.dtype), float)
            return np.ndarray if value.dims else np.dtype(value.dtype.numpy).type
        if isinstance(value, Const):
            return type(value.value)
        if isinstance(value, Tuple):
            return value.cls
        if is_iterator(value):
            return self.interpreter.iterators.class_of(value)
        if isinstance(value, Ref):
            return plain_class(value.cell.cls)
        if isinstance(value, Series):
            return CLASSES[value.rule]
        if isinstance(value, PartialCall):
            return functools.partial
        return FunctionType


def _is_generated(cls: type) -> bool:
    """Whether a dataclass has the `__init__` that was made for it."""
    function = vars(cls).get("__init__")
    return isinstance(function, FunctionType) and function.__code__.co_filename.startswith("<")
