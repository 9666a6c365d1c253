"""Abstract interpretation of Python functions: each expression yields a known value or a node of a graph.

Branches and loops on data become graphs nested in the one around, whose nodes they use as free variables
(`closure_conversion.py` closes them afterwards). Every call is specialised to what is known of its arguments.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from hloom.autodiff import Emitter
from hloom.functions.aliases import Aliases
from hloom.functions.builtin_functions import BUILTINS
from hloom.functions.calls import Calls
from hloom.functions.captured import Captured, CapturedContents, attributes_of, captured_contents
from hloom.functions.classes import Classes
from hloom.functions.code import Code, code_of
from hloom.functions.container_classes import class_of_container, is_container
from hloom.functions.control_flow import Control
from hloom.functions.expressions import Expressions
from hloom.functions.indexing import Indexing
from hloom.functions.iterators import Iterators
from hloom.functions.library import Library, is_library, is_single_dispatch
from hloom.functions.library_protocols import LibraryTracing
from hloom.functions.loops import Loops
from hloom.functions.members import Members
from hloom.functions.numbers import Numbers
from hloom.functions.operators import Operators
from hloom.functions.patterns import Patterns
from hloom.functions.print_log import Printing
from hloom.functions.recursive_calls import RecursiveCalls
from hloom.functions.state import CallFrame, PathEnds, Refusal
from hloom.functions.statements import Statements
from hloom.functions.store import MISSING, Store
from hloom.functions.values import (
    S32,
    UNBOUND,
    AbstractValue,
    Array,
    Cell,
    ConflictingValue,
    Const,
    ErrorSite,
    Fields,
    FunctionClosure,
    Maybe,
    Ref,
    Scope,
    Tuple,
    Variable,
    walk,
)
from hloom.functions.views import Views, memory_order
from hloom.ir import DType, Graph, Module, Node, dtype_of
from hloom.text import HloomError, Location

OVERFLOW = ErrorSite(RecursionError, "maximum recursion depth exceeded", None)
"""The first of the errors, number 1: a recursion is deeper than its stack."""
MAX_STEPS = 500_000
"""The maximum number of expressions and statements to interpret: programs beyond it do not terminate, or are too large.
"""


@dataclass
class Settings:
    """How programs are made: the width of Python's own numbers, and jax behind a wall."""

    tracing: LibraryTracing
    precision: int = 64
    depth: int = 1024
    """The maximum number of calls on the stack of a recursion."""
    transformations: dict[int, str] = field(default_factory=dict)
    """The name of a transformation such as `hloom.grad`, by the identity of its Python function."""

    def element_of(self, numpy_type: Any) -> DType:
        """The element type of an argument; raises HloomError where XLA has none such."""
        try:
            return dtype_of(numpy_type)
        except KeyError:
            message = f"arrays of {np.dtype(numpy_type)} cannot be compiled"
            raise HloomError(message, hint="pass numbers, or name the argument in static=") from None


class Interpreter:
    """The making of one module."""

    def __init__(self, module: Module, settings: Settings) -> None:
        self.module = module
        self.settings = settings
        self.emitter = Emitter(module.entry)
        self.store = Store()
        self.error = Variable("error")
        self.store.set(self.error, Const(0))
        self.frame: CallFrame | None = None
        self.errors: list[ErrorSite] = [OVERFLOW]
        self.captured: list[Captured | CapturedContents] = []
        self.protected: dict[Array, str] = {}
        self.steps = 0
        self.returned_at: Location | None = None
        self.entry: Code | None = None
        """The function that the program is made of."""
        self._outside: dict[int, tuple[Any, AbstractValue]] = {}
        self._free_names: dict[Code, tuple[str, ...]] = {}
        self.aliases = Aliases(self)
        self.numbers = Numbers(self, settings.precision)
        self.library = Library(self, settings.tracing)
        self.operators = Operators(self)
        self.indexing = Indexing(self)
        self.iterators = Iterators(self)
        self.members = Members(self)
        self.control = Control(self)
        self.loops = Loops(self)
        self.classes = Classes(self)
        self.recursive_calls = RecursiveCalls(self)
        self.calls = Calls(self)
        self.views = Views(self)
        self.patterns = Patterns(self)
        self.printing = Printing(self)
        expressions, statements = Expressions(self), Statements(self)
        self.evaluate, self.starred = expressions.evaluate, expressions.starred
        self.consumed = expressions.consumed
        self.static, self.define = expressions.static, expressions.define
        self.execute, self.assign = statements.execute, statements.assign

    @property
    def here(self) -> CallFrame:
        """The call that is being interpreted."""
        assert self.frame is not None
        return self.frame

    @contextmanager
    def frame_kept(self) -> Iterator[None]:
        """Interpret something that may leave calls half done: afterwards the interpreter is where it was."""
        frame = self.frame
        scope, part = (frame.scope, frame.part) if frame is not None else (None, None)
        try:
            yield
        finally:
            self.frame = frame
            if frame is not None and scope is not None and part is not None:
                frame.scope, frame.part = scope, part

    # Errors and refusals

    @contextmanager
    def errors_raised(self) -> Iterator[None]:
        """Compute something in Python now: what it raises is raised where the program runs."""
        try:
            yield
        except (PathEnds, HloomError):
            raise
        except Exception as error:
            self.raise_error(type(error), str(error))

    def location(self) -> Location | None:
        """Where the interpreter is; before a call has begun, where the function is defined."""
        if self.frame is not None:
            return self.frame.code.location(self.frame.part)
        return None if self.entry is None else self.entry.location(self.entry.node)

    def chain(self) -> tuple[Location, ...]:
        """The calls that led here, innermost first; within a graph that several calls use, from its function on."""
        locations: list[Location] = []
        frame = self.frame
        while frame is not None and not frame.is_shared and frame.caller is not None and len(locations) < 8:
            frame = frame.caller
            locations.append(frame.code.location(frame.part))
        return tuple(locations)

    def refuse(self, message: str, exception: type[BaseException] | None = None, hint: str | None = None) -> NoReturn:
        """Say that the program cannot be compiled; with `exception`, that Python would raise it here."""
        if exception is not None:
            self.raise_error(exception, message)
        chain = [f"called from {position}" for position in self.chain()]
        raise Refusal(message, self.location(), hint="\n  ".join([*([hint] if hint else []), *chain]) or None)

    def check(self, condition: Node, exception: type[BaseException], message: str) -> None:
        """Leave a check in the program: where the condition is false, the error is raised at this line."""
        emitter = self.emitter
        known = Array(condition).literal
        if known is not None:
            if not known.all():
                self.raise_error(exception, message)
            return
        current = self.store.get(self.error)
        number = emitter.constant(self._site(exception, message), S32)
        if isinstance(current, Const):
            before = emitter.constant(0, S32)
            made = emitter.select(condition, before, number)
        else:
            before = current.node
            is_first = emitter.compare("EQ", before, emitter.constant(0, S32))
            fails = emitter.elementwise("and", emitter.elementwise("not", condition), is_first)
            made = emitter.select(fails, number, before)
        self.store.set(self.error, Array(made))

    def merge_error(self, number: Node) -> None:
        """Record the number of an error, zero for none; the first error of a run wins."""
        emitter = self.emitter
        current = self.store.get(self.error)
        if not isinstance(current, Const):
            is_first = emitter.compare("EQ", current.node, emitter.constant(0, S32))
            number = emitter.select(is_first, number, current.node)
        self.store.set(self.error, Array(number))

    def raise_error(self, exception: type[BaseException], message: str) -> NoReturn:
        """Let the program raise an error here; this path of control flow ends."""
        self.merge_error(self.emitter.constant(self._site(exception, message), S32))
        raise PathEnds

    def raise_python(self, error: BaseException) -> NoReturn:
        """Raise, where the program runs, what Python raised for values that were known now."""
        if isinstance(error, AssertionError):
            self.refuse(f"this cannot be compiled: {error}" if str(error) else "this cannot be compiled")
        message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        self.raise_error(type(error), message)

    def _site(self, exception: type[BaseException], message: str) -> int:
        site = ErrorSite(exception, message, self.location(), self.chain())
        if site in self.errors:
            return self.errors.index(site) + 1
        self.errors.append(site)
        return len(self.errors)

    def overflow_number(self) -> int:
        """The number of the error that a recursion is deeper than its stack."""
        return self.errors.index(OVERFLOW) + 1

    def step(self) -> None:
        """Count work, so that programs that never stop compiling are refused."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            self.refuse(
                f"the program takes more than {MAX_STEPS:,} steps to compile",
                hint="a loop or a recursion over values that are known now may not end; pass the count as an argument",
            )

    # Graphs

    def is_visible(self, node: Node) -> bool:
        """Whether a node is of the present graph or one around it."""
        return self.is_around(node.graph)

    def is_made_outside(self, array: Array) -> bool:
        """Whether an array is of the present graph or one around it: it was there before the path interpreted last."""
        return self.is_around(array.home or array.node.graph)

    def is_around(self, home: Graph | None) -> bool:
        """Whether a graph is the present one or around it."""
        graph: Graph | None = self.emitter.graph
        while graph is not None:
            if home is graph:
                return True
            graph = graph.parent
        return False

    @contextmanager
    def within(self, emitter: Emitter, store: Store) -> Iterator[None]:
        """Work in another graph and on another layer of the store."""
        before = self.emitter, self.store
        self.emitter, self.store = emitter, store
        try:
            yield
        finally:
            self.emitter, self.store = before

    # Variables and objects

    def references(self, cell: Cell, but: Collection[Any] = ()) -> int:
        """How many bindings hold a reference to an object, those of some variables not counted."""
        count = 0
        seen: set[Any] = set(but)
        layer: Store | None = self.store
        while layer is not None:
            for key, value in layer.entries.items():
                if key in seen:
                    continue
                seen.add(key)
                count += any(isinstance(part, Ref) and part.cell is cell for part in walk(value))
            layer = layer.parent
        return count

    def contents(self, ref: Ref) -> Fields:
        """What a mutable object holds."""
        held = self.store.get(ref.cell)
        if isinstance(held, ConflictingValue):
            self.refuse(held.reason)
        assert isinstance(held, Fields)
        return held

    def change(self, ref: Ref, fields: Fields) -> None:
        """Change what a mutable object holds."""
        if ref.cell.frozen:
            self.refuse(f"{ref!r} cannot be changed here: {ref.cell.frozen}", hint="copy it first")
        self.store.set(ref.cell, fields)

    def change_array(self, array: Array, elements: Array) -> None:
        """Change the elements of an array, which all of its names and views see."""
        self.views.change(array.identity, elements)

    def new_object(self, cls: type, fields: Fields) -> Ref:
        """A new mutable object."""
        cell = Cell(cls)
        self.store.set(cell, fields)
        return Ref(cell)

    def new_list(self, items: Sequence[AbstractValue]) -> Ref:
        """A new list."""
        return self.new_object(list, Fields(None, tuple(items)))

    def new_dict(self, items: dict[Any, AbstractValue]) -> Ref:
        """A new dict."""
        return self.new_object(dict, Fields(tuple(items), tuple(items.values())))

    def settled(self, value: AbstractValue, name: str) -> AbstractValue:
        """A variable's value as it may be used: bound, and of one type."""
        if value is UNBOUND:
            self.raise_error(UnboundLocalError, f"variable '{name}' is used before it is bound")
        if isinstance(value, Maybe):
            self.check(value.flag.node, UnboundLocalError, f"variable '{name}' is used before it is bound")
            return value.value
        if isinstance(value, ConflictingValue):
            if value.location is not None:
                raise Refusal(value.reason, value.location, hint=f"'{name}' is used at {self.location()}")
            self.refuse(f"'{name}': {value.reason}")
        return value

    def current(self, value: AbstractValue) -> AbstractValue:
        """An array as it is now, after changes of its elements."""
        if isinstance(value, ConflictingValue):
            self.refuse(value.reason)
        if not isinstance(value, Array):
            return value
        root = value.identity
        if root.view is not None:
            return self.views.reading(root)
        changed = self.store.get(root)
        if isinstance(changed, ConflictingValue):
            self.refuse(changed.reason)
        return root if changed is MISSING else changed

    def now(self, array: Array) -> Array:
        current = self.current(array)
        assert isinstance(current, Array)
        return current

    def load(self, name: str) -> AbstractValue:
        """The value of a name: a variable, a cell of a Python closure, a global or a builtin."""
        assert self.frame is not None
        scope = self.frame.scope
        variable = scope.find(name)
        if variable is not None:
            value = self.store.get(variable)
            if value is not MISSING:
                return self.settled(value, name)
            self.raise_error(UnboundLocalError, f"variable '{name}' is used before it is bound")
        cell = scope.find_outside(name)
        if cell is not None:
            try:
                held = cell.cell_contents
            except ValueError:
                self.raise_error(NameError, f"'{name}' is used before it is bound")
            self.captured.append(Captured(cell, None, held))
            return self.embed(held, name)
        if name in scope.globals:
            held = scope.globals[name]
            if not isinstance(held, (ModuleType, type)):
                self.captured.append(Captured(scope.globals, name, held))
            return self.embed(held, name)
        if hasattr(builtins, name):
            return Const(getattr(builtins, name))
        self.raise_error(NameError, f"name '{name}' is not defined")

    def embed(self, held: Any, name: str | None = None) -> AbstractValue:
        """A Python object from outside the program; containers and arrays are constants, not to be changed.

        With a name, one that others hold too, who may change it before the next run.
        """
        known = self._outside.get(id(held))
        if known is not None:
            return known[1]
        value = self._embedded(held, name or "a value")
        contents = captured_contents(held) if name is not None and not isinstance(held, AbstractValue) else None
        if contents is not None:
            self.captured.append(contents)
        if not isinstance(held, (bool, int, float, complex, str, type(None))):
            self._outside[id(held)] = held, value
        return value

    def _embedded(self, held: Any, name: str) -> AbstractValue:
        if isinstance(held, AbstractValue):
            return held
        if type(held) is tuple or is_container(type(held)) or (isinstance(held, tuple) and hasattr(held, "_fields")):
            if isinstance(held, tuple):
                return Tuple(tuple(self.embed(item, name) for item in held), type(held))
            cell = Cell(class_of_container(held), f"{name} is from outside the function")
            keys, items = (tuple(held), held.values()) if isinstance(held, dict) else (None, held)
            self.store_below(cell, Fields(keys, tuple(self.embed(item, name) for item in items)))
            return Ref(cell)
        if isinstance(held, np.ndarray) or self.settings.tracing.is_array(held):
            with self.within(Emitter(self.module.entry), self.store):
                value = self.numbers.literal(np.array(held))
                self.protected[value] = f"{name} is from outside the function"
                order = memory_order(held.shape, held.strides) if isinstance(held, np.ndarray) else None
                return value if order is None else self.views.ordered(value, order)
        if (
            isinstance(held, FunctionType)
            and held not in BUILTINS
            and not is_library(held)
            and not is_single_dispatch(held)
            and id(held) not in self.settings.transformations
        ):
            return self.closure_of(held)
        fields = attributes_of(held)
        if fields is not None:
            cell = Cell(type(held), f"{name} is from outside the function")
            keys = tuple(fields)
            self.store_below(
                cell, Fields(keys, tuple(self.embed(item, f"{name}.{key}") for key, item in fields.items()))
            )
            return Ref(cell)
        return Const(held)

    def store_below(self, key: Any, value: Any) -> None:
        """Bind in the lowest layer of the store: something that existed before the program began."""
        layer = self.store
        while layer.parent is not None:
            layer = layer.parent
        layer.set(key, value)

    def closure_of(self, function: FunctionType) -> FunctionClosure:
        """A Python function as a value of the program."""
        code = code_of(function)
        if self.frame is None:
            self.entry = code
        names = function.__code__.co_freevars
        outside = dict(zip(names, function.__closure__ or (), strict=True))
        scope = Scope(None, None, globals=function.__globals__, outside=outside)
        defaults = tuple(self.embed(value, "a default") for value in function.__defaults__ or ())
        keyword_defaults = {name: self.embed(value, name) for name, value in (function.__kwdefaults__ or {}).items()}
        return FunctionClosure(code, scope, defaults, keyword_defaults, function)

    def captured_variables(self, closure: FunctionClosure) -> dict[str, Variable]:
        """The program's variables that a function reads from around it, by name."""
        names = self._free_names.get(closure.code)
        if names is None:
            collected: dict[str, None] = {}
            for part in ast.walk(closure.code.node):
                if isinstance(part, ast.Name):
                    collected[part.id] = None
            names = self._free_names[closure.code] = tuple(collected)
        local = closure.code.local_names
        inner = closure.code.declared_nonlocal
        variables: dict[str, Variable] = {}
        for name in names:
            if name in local and name not in inner and not _nested_uses(closure.code, name):
                continue
            variable = closure.scope.find(name)
            if variable is not None:
                variables[name] = variable
        return variables


def _nested_uses(code: Code, name: str) -> bool:
    """Whether a function nested in this one has a `nonlocal` of this name."""
    return any(isinstance(part, ast.Nonlocal) and name in part.names for part in ast.walk(code.node))
