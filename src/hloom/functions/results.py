"""How a program's results are returned: a template of Python's structure, with outputs in place of arrays.

A function that was defined inside the program comes out as a Python function, whose cells hold what it captures.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from hloom.functions.code import compiled_code
from hloom.functions.container_classes import is_container, option_of, rebuilt_container
from hloom.functions.operators import known_range
from hloom.functions.store import MISSING
from hloom.functions.values import (
    ITERATOR,
    UNBOUND,
    AbstractValue,
    Array,
    Const,
    FunctionClosure,
    MessageText,
    PartialCall,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    Variable,
    described,
    is_slice,
)
from hloom.text import Unsupported

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class Static:
    """An argument or a part of a result that is known when the program is compiled."""

    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class Result:
    """Where a part of the result is: the number of an output, whether it is Python's own number."""

    number: int
    weak: bool


@dataclass(frozen=True, eq=False, slots=True)
class Container:
    """A part of the result that is made of others."""

    cls: type
    keys: tuple[Any, ...] | None
    parts: tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ResultChoice:
    """A part of the result that is one of several objects: the number of the output that says which."""

    number: int
    parts: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class ResultCell:
    """A variable that functions among the results capture: what it is bound to, or None where to nothing."""

    content: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class ResultFunction:
    """A function that was defined inside the program."""

    code: CodeType
    scope: dict[str, Any]
    """The globals."""
    cells: tuple[ResultCell | CellType, ...]
    """By the order of the code's free variables; those from outside of the program as they are."""
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]


@dataclass(frozen=True, eq=False, slots=True)
class ResultPartial:
    """A function with some arguments given."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


class Templates:
    """The making of one template: the arrays of a result become outputs."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.outputs: list[Any] = []
        self._cells: dict[Variable, ResultCell] = {}

    def of(self, value: Any) -> Any:
        """What a part of the result is made of; raises Unsupported for what cannot leave the program."""
        interpreter = self.interpreter
        if isinstance(value, Array):
            current = interpreter.now(value)
            self.outputs.append(current.node)
            return Result(len(self.outputs) - 1, current.weak)
        if isinstance(value, Const):
            if isinstance(value.value, MessageText):
                self._refuse(f"the text {value.value!r} holds numbers that only the run knows", "return the numbers")
            return Static(value.value)
        if is_slice(value):
            bounds = [interpreter.static(item, "a bound of a slice that is returned") for item in value.items]
            return Static(slice(*bounds))
        if isinstance(value, Tuple):
            return Container(value.cls, None, tuple(map(self.of, value.items)))
        if isinstance(value, Ref) and value.cell.cls is not ITERATOR:
            fields = interpreter.contents(value)
            if isinstance(option_of(value.cell.cls), AbstractValue):
                text = f"the result is {described(value)} whose default_factory only lives inside the program"
                self._refuse(text, "return dict(it)")
            return Container(value.cell.cls, fields.keys, tuple(map(self.of, fields.items)))
        known = known_range(value)
        if known is not None:
            return Static(known)
        if isinstance(value, Series) and value.rule != "range":
            text = f"the result is an iterator ({value.rule}), which only lives inside the program"
            self._refuse(text, "return a list")
        if isinstance(value, ValueChoice):
            self.outputs.append(value.tag.node)
            return ResultChoice(len(self.outputs) - 1, tuple(map(self.of, value.options)))
        if isinstance(value, FunctionClosure):
            return Static(value.original) if value.original is not None else self._function(value)
        if isinstance(value, PartialCall) and _is_pythons(value.function):
            keywords = {name: self.of(item) for name, item in value.keywords.items()}
            return ResultPartial(self.of(value.function), tuple(map(self.of, value.arguments)), keywords)
        self._refuse(
            f"the result is {described(value)}, which only lives inside the program",
            "return numbers, arrays and containers of them, or functions defined by def and lambda",
        )

    def _refuse(self, message: str, hint: str) -> NoReturn:
        raise Unsupported(message, self.interpreter.returned_at, hint=hint)

    def _function(self, closure: FunctionClosure) -> ResultFunction:
        scope, outer = closure.scope, None
        while scope is not None and outer is None:
            scope, outer = scope.parent, scope.code.compiled if scope.code is not None else None
        compiled = None if outer is None else compiled_code(outer, closure.code)
        names = closure.scope.globals
        if compiled is None or str(names.get("__name__", "")).partition(".")[0] == "hloom":
            self._refuse(
                f"the result is {described(closure)}, which only lives inside the program",
                "define the function by def or lambda in the function that is compiled",
            )
        cells = tuple(self._cell(closure, name) for name in compiled.co_freevars)
        keyword_defaults = {name: self.of(item) for name, item in closure.keyword_defaults.items()}
        return ResultFunction(compiled, names, cells, tuple(map(self.of, closure.defaults)), keyword_defaults)

    def _cell(self, closure: FunctionClosure, name: str) -> ResultCell | CellType:
        """What a free variable of a function is: functions that share one share its cell."""
        interpreter = self.interpreter
        variable = closure.scope.find(name)
        if variable is None:
            return closure.scope.find_outside(name) or CellType()
        known = self._cells.get(variable)
        if known is None:
            known = self._cells[variable] = ResultCell()
            held = interpreter.store.get(variable)
            if held is not MISSING and held is not UNBOUND:
                known.content = self.of(interpreter.current(interpreter.settled(held, name)))
        return known


def _is_pythons(function: AbstractValue) -> bool:
    """Whether a function that has some arguments given can leave the program."""
    if isinstance(function, Const):
        module = getattr(function.value, "__module__", None) or ""
        return callable(function.value) and module.partition(".")[0] != "hloom"
    return isinstance(function, FunctionClosure)


def rebuilt(template: Any, outputs: Sequence[Any], of_output: Callable[[Result, Any], Any] | None = None) -> Any:
    """The Python result of a program's outputs; `of_output` says what an output becomes: NumPy's array, or a number."""
    return _Rebuilding(outputs, of_output or _numpy_output, {}).of(template)


def has_choice(template: Any) -> bool:
    """Whether its structure depends on an output: on what only the run knows."""
    pending, visited = [template], set[int]()
    while pending:
        part = pending.pop()
        if isinstance(part, ResultChoice):
            return True
        if id(part) in visited:
            continue
        visited.add(id(part))
        if isinstance(part, Container):
            pending += part.parts
        elif isinstance(part, ResultPartial):
            pending += [part.function, *part.arguments, *part.keywords.values()]
        elif isinstance(part, ResultFunction):
            pending += [*part.defaults, *part.keyword_defaults.values()]
            pending += [cell.content for cell in part.cells if isinstance(cell, ResultCell)]
    return False


def _numpy_output(result: Result, output: Any) -> Any:
    return output.item() if result.weak else output[()] if not output.shape else output


@dataclass(frozen=True, slots=True)
class _Rebuilding:
    outputs: Sequence[Any]
    of_output: Callable[[Result, Any], Any]
    cells: dict[ResultCell, CellType]

    def of(self, template: Any) -> Any:
        if isinstance(template, Result):
            return self.of_output(template, self.outputs[template.number])
        if isinstance(template, Static):
            return template.value
        if isinstance(template, ResultChoice):
            return self.of(template.parts[int(self.outputs[template.number])])
        if isinstance(template, ResultFunction):
            return self._function(template)
        if isinstance(template, ResultPartial):
            arguments = map(self.of, template.arguments)
            keywords = {name: self.of(part) for name, part in template.keywords.items()}
            return functools.partial(self.of(template.function), *arguments, **keywords)
        return _rebuilt_container(template, [self.of(part) for part in template.parts])

    def _function(self, template: ResultFunction) -> Any:
        closure: list[CellType] = []
        for cell in template.cells:
            if isinstance(cell, ResultCell) and cell not in self.cells:
                self.cells[cell] = CellType()
                if cell.content is not None:
                    self.cells[cell].cell_contents = self.of(cell.content)
            closure.append(self.cells[cell] if isinstance(cell, ResultCell) else cell)
        defaults = tuple(map(self.of, template.defaults))
        made = FunctionType(template.code, template.scope, template.code.co_name, defaults or None, tuple(closure))
        made.__kwdefaults__ = {name: self.of(part) for name, part in template.keyword_defaults.items()} or None
        made.__qualname__ = template.code.co_qualname
        return made


def _rebuilt_container(template: Container, parts: list[Any]) -> Any:
    cls = template.cls
    if cls is tuple:
        return tuple(parts)
    if is_container(cls):
        return rebuilt_container(cls, template.keys, parts)
    if issubclass(cls, tuple):
        return cls(*parts)
    made = object.__new__(cls)
    for key, part in zip(template.keys or (), parts, strict=True):
        object.__setattr__(made, key, part)
    return made
