"""Abstract interpretation of Python functions: each expression yields a value that is known, or a node of a graph.

Branches and loops on data become graphs nested in the one around, whose nodes they use as free variables
(`closure_conversion.py` closes them afterwards). Every call is specialised to what is known of its arguments.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from hloom.autodiff import Emitter
from hloom.frontend import Code, code_of, nested_code
from hloom.functional.builtin_functions import BUILTINS
from hloom.functional.calls import Calls
from hloom.functional.control import Control
from hloom.functional.indexing import Indexing
from hloom.functional.library import Library, LibraryTracing, is_library
from hloom.functional.members import Members
from hloom.functional.numbers import Numbers
from hloom.functional.operators import Operators
from hloom.functional.patterns import Patterns
from hloom.functional.print_log import Printing
from hloom.functional.state import BREAK, CONTINUE, RETURN, CallFrame, Captured, Completion, PathEnds, Refusal
from hloom.functional.store import MISSING, Store
from hloom.functional.values import (
    NONE,
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
    MessageText,
    PartialCall,
    Ref,
    Scope,
    Tuple,
    Variable,
    described,
    walk,
)
from hloom.ir import DType, Graph, Module, Node, dtype, dtype_of
from hloom.text import Location

PREDICATE = dtype("pred")
S32 = dtype("s32")
MAX_DEPTH = 120
"""How many calls may nest while a program is compiled: each takes a dozen frames of Python's stack."""
MAX_STEPS = 500_000
"""How many expressions and statements are interpreted in all: what needs more does not end, or is too large."""


@dataclass
class Settings:
    """How programs are made: the width of Python's own numbers, and jax behind a wall."""

    tracing: LibraryTracing
    precision: int = 64
    depth: int = 1024
    """How many calls the stack of a recursion holds."""
    transformations: dict[int, str] = field(default_factory=dict)
    """By identity of a Python function such as `hloom.grad`: the name of its transformation."""

    def element_of(self, numpy_type: Any) -> DType:
        """The element type of an argument."""
        return dtype_of(numpy_type)


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
        self.errors: list[ErrorSite] = []
        self.captured: list[Captured] = []
        self.protected: dict[Array, str] = {}
        self.steps = 0
        self.returned_at: Location | None = None
        self._outside: dict[int, tuple[Any, AbstractValue]] = {}
        self._free_names: dict[Code, tuple[str, ...]] = {}
        self._folds: dict[ast.AST, Code] = {}
        self.numbers = Numbers(self, settings.precision)
        self.library = Library(self, settings.tracing)
        self.operators = Operators(self)
        self.indexing = Indexing(self)
        self.members = Members(self)
        self.control = Control(self)
        self.calls = Calls(self)
        self.patterns = Patterns(self)
        self.printing = Printing(self)

    # Errors and refusals

    def location(self) -> Location | None:
        """Where the interpreter is."""
        return self.frame.code.location(self.frame.part) if self.frame else None

    def chain(self) -> tuple[Location, ...]:
        """The calls that led here, innermost first."""
        places: list[Location] = []
        frame = self.frame.caller if self.frame else None
        while frame is not None and len(places) < 8:
            places.append(frame.code.location(frame.part))
            frame = frame.caller
        return tuple(places)

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

    def raise_error(self, exception: type[BaseException], message: str) -> NoReturn:
        """Raise, where the program runs: this path ends."""
        emitter = self.emitter
        number = emitter.constant(self._site(exception, message), S32)
        current = self.store.get(self.error)
        if not isinstance(current, Const):
            is_first = emitter.compare("EQ", current.node, emitter.constant(0, S32))
            number = emitter.select(is_first, number, current.node)
        self.store.set(self.error, Array(number))
        raise PathEnds

    def _site(self, exception: type[BaseException], message: str) -> int:
        site = ErrorSite(exception, message, self.location(), self.chain())
        if site in self.errors:
            return self.errors.index(site) + 1
        self.errors.append(site)
        return len(self.errors)

    def overflow_number(self) -> int:
        """The number of the error that a recursion is deeper than its stack."""
        site = ErrorSite(RecursionError, "maximum recursion depth exceeded", None)
        if site not in self.errors:
            self.errors.append(site)
        return self.errors.index(site) + 1

    def step(self) -> None:
        """Count work, so that what does not end is refused."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            self.refuse(
                f"the program takes more than {MAX_STEPS:,} steps to compile",
                hint="a loop or a recursion over values that are known now may not end; pass the count as an argument",
            )

    # Graphs

    def is_visible(self, node: Node) -> bool:
        """Whether a node is of the present graph or one around it."""
        graph: Graph | None = self.emitter.graph
        while graph is not None:
            if node.graph is graph:
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

    def references(self, cell: Cell) -> int:
        """How many bindings hold a reference to an object."""
        count = 0
        seen: set[Any] = set()
        layer: Store | None = self.store
        while layer is not None:
            for key, value in layer.entries.items():
                if key in seen:
                    continue
                seen.add(key)
                count += any(isinstance(part, Ref) and part.cell is cell for part in walk(value))
            layer = layer.parent
        return count

    def is_bound(self, array: Array) -> bool:
        """Whether a variable or an object holds an array, or the program was given it."""
        if array in self.protected:
            return True
        layer: Store | None = self.store
        while layer is not None:
            if any(part is array for value in layer.entries.values() for part in walk(value)):
                return True
            layer = layer.parent
        return False

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

    def new_object(self, cls: type, fields: Fields) -> Ref:
        """A new mutable object."""
        cell = Cell(cls)
        self.store.set(cell, fields)
        return Ref(cell)

    def new_list(self, items: Sequence[AbstractValue]) -> Ref:
        """A new list."""
        return self.new_object(list, Fields(None, tuple(items)))

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
        if not isinstance(value, Array):
            return value
        if value.base is not None:
            root, version = value.base
            if self.current(root) is not version:
                self.refuse("this is a view of an array whose elements were changed since", hint="copy() it first")
        root = value.root or value
        changed = self.store.get(root)
        if isinstance(changed, ConflictingValue):
            self.refuse(changed.reason)
        return root if changed is MISSING else changed

    def load(self, name: str) -> AbstractValue:
        """What a name means."""
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

    def embed(self, held: Any, name: str = "a value") -> AbstractValue:
        """A Python object from outside the program; containers and arrays are constants, not to be changed."""
        known = self._outside.get(id(held))
        if known is not None:
            return known[1]
        value = self._embedded(held, name)
        if not isinstance(held, (bool, int, float, complex, str, type(None))):
            self._outside[id(held)] = held, value
        return value

    def _embedded(self, held: Any, name: str) -> AbstractValue:
        if isinstance(held, AbstractValue):
            return held
        if type(held) in (tuple, list, dict) or (isinstance(held, tuple) and hasattr(held, "_fields")):
            if isinstance(held, tuple):
                return Tuple(tuple(self.embed(item, name) for item in held), type(held))
            cell = Cell(type(held), f"{name} is from outside the function")
            keys, items = (None, held) if isinstance(held, list) else (tuple(held), held.values())
            self.store_below(cell, Fields(keys, tuple(self.embed(item, name) for item in items)))
            return Ref(cell)
        if isinstance(held, np.ndarray) or self.settings.tracing.is_array(held):
            with self.within(Emitter(self.module.entry), self.store):
                value = self.numbers.literal(np.array(held))
            self.protected[value] = f"{name} is from outside the function"
            return value
        if (
            isinstance(held, FunctionType)
            and held not in BUILTINS
            and not is_library(held)
            and id(held) not in self.settings.transformations
        ):
            return self.closure_of(held)
        fields = self.members.fields_of(held)
        if fields is not None:
            cell = Cell(type(held), f"{name} is from outside the function")
            keys = tuple(fields)
            self.store_below(
                cell, Fields(keys, tuple(self.embed(item, f"{name}.{key}") for key, item in fields.items()))
            )
            return Ref(cell)
        return Const(held)

    def store_below(self, key: Any, value: Any) -> None:
        """Bind something that was always there: in the lowest layer."""
        layer = self.store
        while layer.parent is not None:
            layer = layer.parent
        layer.set(key, value)

    def closure_of(self, function: FunctionType) -> FunctionClosure:
        """A Python function as a value of the program."""
        code = code_of(function)
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

    # Expressions

    def evaluate(self, node: ast.expr) -> AbstractValue:
        """The value of an expression."""
        self.step()
        frame = self.frame
        assert frame is not None
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            frame.part = node
            self.refuse(f"{type(node).__name__} cannot be compiled")
        before = frame.part
        frame.part = node
        value = handler(self, node)
        frame.part = before
        return self.current(value) if isinstance(value, Array) else value

    def _constant(self, node: ast.Constant) -> AbstractValue:
        return Const(node.value)

    def _name(self, node: ast.Name) -> AbstractValue:
        return self.load(node.id)

    def _tuple(self, node: ast.Tuple) -> AbstractValue:
        return Tuple(tuple(self.starred(node.elts)))

    def _list(self, node: ast.List) -> AbstractValue:
        return self.new_list(self.starred(node.elts))

    def _set(self, node: ast.Set) -> AbstractValue:
        items = self.starred(node.elts)
        if all(isinstance(item, Const) for item in items):
            return Const(frozenset(item.value for item in items))  # type: ignore[attr-defined]
        self.refuse("sets of values that only the run knows cannot be compiled", hint="use a tuple or a list")

    def starred(self, nodes: Sequence[ast.expr]) -> list[AbstractValue]:
        """The values of expressions, those with a star spread out."""
        values: list[AbstractValue] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.members.items(self.evaluate(node.value)))
            else:
                values.append(self.evaluate(node))
        return values

    def _dict(self, node: ast.Dict) -> AbstractValue:
        fields = Fields((), ())
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                other = self.evaluate(item)
                if not (isinstance(other, Ref) and other.cell.cls is dict):
                    self.refuse(f"** takes a dict, not {described(other)}", TypeError)
                for name, value in zip(self.contents(other).keys or (), self.contents(other).items, strict=True):
                    fields = fields.changed(name, value)
                continue
            made = self.evaluate(key)
            fields = fields.changed(self.static(made, "the key of a dict"), self.evaluate(item))
        return self.new_object(dict, fields)

    def static(self, value: AbstractValue, what: str) -> Any:
        """The Python object that a value is, which must be known now."""
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Tuple):
            items = tuple(self.static(item, what) for item in value.items)
            return items if value.cls is tuple else value.cls(*items)
        if isinstance(value, Array):
            known = value.literal
            if known is not None:
                return known.item() if not known.shape else known
        if isinstance(value, Ref) and value.cell.cls is list:
            return [self.static(item, what) for item in self.contents(value).items]
        if isinstance(value, Ref) and value.cell.cls is dict:
            fields = self.contents(value)
            return {key: self.static(item, what) for key, item in zip(fields.keys or (), fields.items, strict=True)}
        if isinstance(value, FunctionClosure) and value.original is not None:
            return value.original
        self.refuse(
            f"{what} must be known when the program is compiled, but is {described(value)}",
            hint="make it a constant, or pass it as a static argument",
        )

    def _binary(self, node: ast.BinOp) -> AbstractValue:
        left = self.evaluate(node.left)
        right = self.evaluate(node.right)
        return self.operators.binary(_SYMBOLS[type(node.op)], left, right)

    def _unary(self, node: ast.UnaryOp) -> AbstractValue:
        operand = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.operators.truth(operand)
            if isinstance(truth, bool):
                return Const(not truth)
            return Array(self.emitter.elementwise("not", truth), True)
        return self.operators.unary(_SYMBOLS[type(node.op)], operand)

    def _boolean(self, node: ast.BoolOp) -> AbstractValue:
        """`and` and `or`: the rest is computed only where it is needed, as Python does."""
        is_and = isinstance(node.op, ast.And)
        return self._short_circuit(node.values, is_and)

    def _short_circuit(self, nodes: Sequence[ast.expr], is_and: bool) -> AbstractValue:
        value = self.evaluate(nodes[0])
        if len(nodes) == 1:
            return value
        truth = self.operators.truth(value)
        if isinstance(truth, bool):
            return self._short_circuit(nodes[1:], is_and) if truth is is_and else value
        rest = nodes[1:]
        return self.control.choose(
            truth,
            (lambda: self._short_circuit(rest, is_and)) if is_and else (lambda: value),
            (lambda: value) if is_and else (lambda: self._short_circuit(rest, is_and)),
        )

    def _compare(self, node: ast.Compare) -> AbstractValue:
        left = self.evaluate(node.left)
        return self._chained(left, list(zip(node.ops, node.comparators, strict=True)))

    def _chained(self, left: AbstractValue, rest: list[tuple[ast.cmpop, ast.expr]]) -> AbstractValue:
        operator, comparator = rest[0]
        right = self.evaluate(comparator)
        value = self.operators.compare(_COMPARISONS[type(operator)], left, right)
        if len(rest) == 1:
            return value
        truth = self.operators.truth(value)
        if isinstance(truth, bool):
            return self._chained(right, rest[1:]) if truth else value
        return self.control.choose(truth, lambda: self._chained(right, rest[1:]), lambda: value)

    def _if_expression(self, node: ast.IfExp) -> AbstractValue:
        truth = self.operators.truth(self.evaluate(node.test))
        if isinstance(truth, bool):
            return self.evaluate(node.body if truth else node.orelse)
        return self.control.choose(truth, lambda: self.evaluate(node.body), lambda: self.evaluate(node.orelse))

    def _call(self, node: ast.Call) -> AbstractValue:
        function = self.evaluate(node.func)
        if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp) and isinstance(function, Const):
            rounds = _ROUNDS.get(function.value) if isinstance(function.value, type(sum)) else None
            if rounds is not None and not node.keywords:
                return self._fold(node.args[0], rounds)
        arguments = self.starred(node.args)
        keywords: dict[str, AbstractValue] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, Ref) and value.cell.cls is dict:
                fields = self.contents(value)
                keywords.update(zip(fields.keys or (), fields.items, strict=True))
            else:
                self.refuse(f"** takes a dict, not {described(value)}", TypeError)
        return self.calls.call(function, arguments, keywords)

    def _attribute(self, node: ast.Attribute) -> AbstractValue:
        return self.members.attribute(self.evaluate(node.value), node.attr)

    def _subscript(self, node: ast.Subscript) -> AbstractValue:
        return self.indexing.get(self.evaluate(node.value), self.evaluate(node.slice))

    def _slice(self, node: ast.Slice) -> AbstractValue:
        bounds = [NONE if part is None else self.evaluate(part) for part in (node.lower, node.upper, node.step)]
        return Tuple(tuple(bounds), slice)

    def _lambda(self, node: ast.Lambda) -> AbstractValue:
        return self.define(node)

    def define(self, node: ast.FunctionDef | ast.Lambda) -> FunctionClosure:
        """A function defined in the program."""
        frame = self.frame
        assert frame is not None
        defaults = tuple(self.evaluate(default) for default in node.args.defaults)
        keyword_defaults = {
            argument.arg: self.evaluate(default)
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        }
        return FunctionClosure(nested_code(node, frame.code.filename), frame.scope, defaults, keyword_defaults)

    def _walrus(self, node: ast.NamedExpr) -> AbstractValue:
        value = self.evaluate(node.value)
        self.assign(node.target, value)
        return value

    def _joined_string(self, node: ast.JoinedStr) -> AbstractValue:
        pieces: list[str] = []
        is_message = False
        for part in node.values:
            if isinstance(part, ast.Constant):
                pieces.append(str(part.value))
                continue
            assert isinstance(part, ast.FormattedValue)
            value = self.evaluate(part.value)
            if isinstance(value, Array):
                pieces.append(f"<{ast.unparse(part.value)}>")
                is_message = True
                continue
            held = self.static(value, "what is formatted") if not isinstance(value, FunctionClosure) else value
            held = {97: ascii, 114: repr, 115: str}.get(part.conversion, lambda held: held)(held)
            specification = ""
            if part.format_spec is not None:
                specification = str(self.static(self.evaluate(part.format_spec), "a format"))
            pieces.append(format(held, specification))
        return Const(MessageText("".join(pieces)) if is_message else "".join(pieces))

    def _list_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> AbstractValue:
        collected: list[AbstractValue] = []
        self._comprehend(node.generators, lambda: collected.append(self.evaluate(node.elt)))
        return self.new_list(collected)

    def _dict_comprehension(self, node: ast.DictComp) -> AbstractValue:
        made = self.new_object(dict, Fields((), ()))

        def add() -> None:
            key = self.static(self.evaluate(node.key), "the key of a dict")
            self.change(made, self.contents(made).changed(key, self.evaluate(node.value)))

        self._comprehend(node.generators, add)
        return made

    def _set_comprehension(self, node: ast.SetComp) -> AbstractValue:
        collected: list[Any] = []
        self._comprehend(
            node.generators, lambda: collected.append(self.static(self.evaluate(node.elt), "an element of a set"))
        )
        return Const(frozenset(collected))

    def _comprehend(self, generators: Sequence[ast.comprehension], emit: Callable[[], None]) -> None:
        """Run what a comprehension yields once per round, in a scope of its own; lengths are known now."""
        frame = self.frame
        assert frame is not None
        names = {
            part.id for generator in generators for part in ast.walk(generator.target) if isinstance(part, ast.Name)
        }
        first = self.evaluate(generators[0].iter)
        scope = Scope(frame.code, frame.scope, names)
        for variable in scope.variables.values():
            self.store.set(variable, UNBOUND)
        before, frame.scope = frame.scope, scope
        try:
            self._rounds(generators, 0, first, emit)
        finally:
            frame.scope = before

    def _rounds(
        self, generators: Sequence[ast.comprehension], depth: int, source: AbstractValue, emit: Callable[[], None]
    ) -> None:
        generator = generators[depth]
        for item in self.members.items(source):
            self.assign(generator.target, item)
            if not all(self._keeps(condition) for condition in generator.ifs):
                continue
            if depth + 1 == len(generators):
                emit()
            else:
                self._rounds(generators, depth + 1, self.evaluate(generators[depth + 1].iter), emit)

    def _fold(self, node: ast.GeneratorExp, rounds: str) -> AbstractValue:
        """`sum`, `any` and `all` over a generator expression, as the loop that they are."""
        template = ast.parse(rounds).body[0]
        assert isinstance(template, ast.FunctionDef)
        (slot,) = [part for part in ast.walk(template) if isinstance(part, ast.For)]
        body: list[ast.stmt] = list(slot.body)
        for number, generator in reversed(list(enumerate(node.generators))):
            for condition in reversed(generator.ifs):
                body = [ast.If(condition, body, [])]
            source: ast.expr = ast.Name("hloom_source", ast.Load()) if number == 0 else generator.iter
            body = [ast.For(generator.target, source, body, [])]
        template.body[template.body.index(slot)] = body[0]
        for part in ast.walk(template):
            for name, value in ast.iter_fields(part):
                if isinstance(value, ast.Name) and value.id == "hloom_element":
                    setattr(part, name, node.elt)
        for part in ast.walk(template):
            if not hasattr(part, "lineno") or part.lineno <= 8:  # type: ignore[attr-defined]
                ast.copy_location(part, node)
        source_value = self.evaluate(node.generators[0].iter)
        frame = self.frame
        assert frame is not None
        held = self._folds.get(node)
        if held is None:
            held = self._folds[node] = nested_code(template, frame.code.filename)
        return self.calls.call(FunctionClosure(held, frame.scope, (), {}), [source_value], {})

    def _keeps(self, condition: ast.expr) -> bool:
        truth = self.operators.truth(self.evaluate(condition))
        if not isinstance(truth, bool):
            self.refuse(
                "which elements a comprehension keeps must be known when the program is compiled",
                hint="the length of the result would depend on data: use numpy.where, or a sum of products",
            )
        return truth

    # Statements

    def execute(self, statements: Sequence[ast.stmt]) -> None:
        """Run statements until they end or are left by `break`, `continue` or `return`."""
        frame = self.frame
        assert frame is not None
        for number, statement in enumerate(statements):
            frame.part = statement
            self.emitter.metadata = frame.code.metadata(statement)
            self.step()
            rest = statements[number + 1 :]
            if isinstance(statement, ast.If):
                if self._if(statement, rest):
                    return
            elif isinstance(statement, ast.Match):
                self.patterns.match(statement)
            else:
                handler = _STATEMENTS.get(type(statement))
                if handler is None:
                    self.refuse(f"{type(statement).__name__} cannot be compiled")
                handler(self, statement)
            tag = self.store.get(frame.tag)
            if isinstance(tag, Const):
                if tag.value is not Completion.NORMAL:
                    return
            elif rest:
                self.control.if_normal(tag, lambda rest=rest: self.execute(rest))
                return

    def _if(self, statement: ast.If, rest: Sequence[ast.stmt]) -> bool:
        """Run an `if`; whether what follows it was run too, where only one branch goes on."""
        truth = self.operators.truth(self.evaluate(statement.test))
        if isinstance(truth, bool):
            self.execute(statement.body if truth else statement.orelse)
            return False
        frame = self.frame
        assert frame is not None
        control = self.control
        first = control.run_arm("true", lambda: self.execute(statement.body))
        takes_rest = bool(rest) and not control.goes_on(first)
        second = control.run_arm("false", lambda: self.execute([*statement.orelse, *(rest if takes_rest else ())]))
        if rest and not takes_rest and not control.goes_on(second):
            takes_rest = True
            control.run_again(first, lambda: self.execute(rest))
        frame.part = statement
        control.merge(truth, [first, second])
        return takes_rest

    def _expression_statement(self, statement: ast.Expr) -> None:
        self.evaluate(statement.value)

    def _assignment(self, statement: ast.Assign) -> None:
        value = self.evaluate(statement.value)
        for target in statement.targets:
            self.assign(target, value)

    def _annotated(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self.assign(statement.target, self.evaluate(statement.value))

    def _augmented(self, statement: ast.AugAssign) -> None:
        symbol = _SYMBOLS[type(statement.op)]
        target = statement.target
        if isinstance(target, ast.Name):
            left = self.current(self.load(target.id))
            self.assign(target, self.operators.augmented(symbol, left, self.evaluate(statement.value)))
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value)
            left = self.members.attribute(owner, target.attr)
            value = self.operators.augmented(symbol, left, self.evaluate(statement.value))
            self.members.set_attribute(owner, target.attr, value)
        else:
            owner, index = self.evaluate(target.value), self.evaluate(target.slice)
            right = self.evaluate(statement.value)
            if isinstance(owner, Array):
                self.indexing.augment(owner, index, lambda left: self.operators.binary(symbol, left, right))
                return
            value = self.operators.augmented(symbol, self.indexing.get(owner, index), right)
            self.indexing.set(owner, index, value)

    def assign(self, target: ast.expr, value: AbstractValue) -> None:
        """Bind a target: a name, an element, an attribute, or several of them."""
        frame = self.frame
        assert frame is not None
        if isinstance(target, ast.Name):
            variable = frame.scope.find(target.id)
            if variable is None:
                self.refuse(f"'{target.id}' is a variable outside the program, which cannot be assigned to")
            self.store.set(variable, value)
            self.store.lines[variable] = f"line {getattr(target, 'lineno', frame.part.lineno)}"  # type: ignore[attr-defined]
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Subscript):
            self._assign_element(target, value)
        elif isinstance(target, ast.Attribute):
            self.members.set_attribute(self.evaluate(target.value), target.attr, value)
        else:
            self.refuse(f"{type(target).__name__} cannot be assigned to")

    def _assign_element(self, target: ast.Subscript, value: AbstractValue) -> None:
        """`x[i] = v`, and `x[i][j] = v` of an array, whose row is a view of it."""
        if isinstance(target.value, ast.Subscript):
            whole, outer = self.evaluate(target.value.value), self.evaluate(target.value.slice)
            row = self.indexing.get(whole, outer)
            if isinstance(whole, Array) and isinstance(row, Array) and row.base is not None:
                copy = Array(row.node)
                self.indexing.set(copy, self.evaluate(target.slice), value)
                self.indexing.set(whole, outer, self.current(copy))
                return
            self.indexing.set(row, self.evaluate(target.slice), value)
            return
        self.indexing.set(self.evaluate(target.value), self.evaluate(target.slice), value)

    def _unpack(self, targets: Sequence[ast.expr], value: AbstractValue) -> None:
        items = list(self.members.items(value))
        star = next((number for number, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
        if star is None:
            if len(items) != len(targets):
                problem = "too many" if len(items) > len(targets) else "not enough"
                self.raise_error(ValueError, f"{problem} values to unpack (expected {len(targets)}, got {len(items)})")
            for target, item in zip(targets, items, strict=True):
                self.assign(target, item)
            return
        after = len(targets) - star - 1
        if len(items) < star + after:
            self.raise_error(
                ValueError, f"not enough values to unpack (expected at least {star + after}, got {len(items)})"
            )
        starred = targets[star]
        assert isinstance(starred, ast.Starred)
        for target, item in zip(targets[:star], items, strict=False):
            self.assign(target, item)
        self.assign(starred.value, self.new_list(items[star : len(items) - after]))
        for target, item in zip(targets[star + 1 :], items[len(items) - after :], strict=True):
            self.assign(target, item)

    def _return(self, statement: ast.Return) -> None:
        frame = self.frame
        assert frame is not None
        value = NONE if statement.value is None else self.evaluate(statement.value)
        if frame.caller is None:
            self.returned_at = frame.code.location(statement.value or statement)
        self.store.set(frame.result, value)
        self.store.set(frame.tag, RETURN)

    def _break(self, statement: ast.Break) -> None:
        assert self.frame is not None
        self.store.set(self.frame.tag, BREAK)

    def _continue(self, statement: ast.Continue) -> None:
        assert self.frame is not None
        self.store.set(self.frame.tag, CONTINUE)

    def _pass(self, statement: ast.stmt) -> None:
        pass

    def _while(self, statement: ast.While) -> None:
        self.control.while_loop(statement)

    def _for(self, statement: ast.For) -> None:
        self.control.for_loop(statement)

    def _function(self, statement: ast.FunctionDef) -> None:
        function: AbstractValue = self.define(statement)
        for decorator in reversed(statement.decorator_list):
            function = self.calls.call(self.evaluate(decorator), [function], {})
        self.assign(ast.Name(statement.name, ast.Store()), function)

    def _assert(self, statement: ast.Assert) -> None:
        truth = self.operators.truth(self.evaluate(statement.test))
        if truth is True:
            return
        if truth is False:
            self.raise_error(AssertionError, self._message(statement.msg))
        if statement.msg is None:
            self.check(truth, AssertionError, "")
            return
        control = self.control
        arms = [
            control.run_arm("true", lambda: NONE),
            control.run_arm("false", lambda: self.raise_error(AssertionError, self._message(statement.msg))),
        ]
        control.merge(truth, arms)

    def _message(self, node: ast.expr | None) -> str:
        """What an error says: text, with placeholders where the run alone knows the values."""
        if node is None:
            return ""
        value = self.evaluate(node)
        if isinstance(value, Array):
            return f"<{ast.unparse(node)}>"
        return str(self.static(value, "the message of an error"))

    def _raise(self, statement: ast.Raise) -> None:
        if statement.exc is None:
            self.refuse("raise without an exception cannot be compiled")
        node = statement.exc
        if isinstance(node, ast.Call):
            exception = self.evaluate(node.func)
            message = ", ".join(
                self._message(argument) for argument in node.args if not isinstance(argument, ast.Starred)
            )
        else:
            exception, message = self.evaluate(node), ""
        if isinstance(exception, PartialCall):
            message = ", ".join(str(self.static(item, "a message")) for item in exception.arguments)
            exception = exception.function
        held = exception.value if isinstance(exception, Const) else None
        if not (isinstance(held, type) and issubclass(held, BaseException)):
            self.refuse(f"exceptions must derive from BaseException, not {described(exception)}", TypeError)
        self.raise_error(held, message)

    def _delete(self, statement: ast.Delete) -> None:
        frame = self.frame
        assert frame is not None
        for target in statement.targets:
            if isinstance(target, ast.Name):
                variable = frame.scope.find(target.id)
                if variable is None:
                    self.refuse(f"'{target.id}' is no local variable")
                self.load(target.id)
                self.store.set(variable, UNBOUND)
            elif isinstance(target, ast.Subscript):
                self.indexing.delete(self.evaluate(target.value), self.evaluate(target.slice))
            else:
                self.refuse("attributes cannot be deleted in compiled functions")

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        frame = self.frame
        assert frame is not None
        for alias in statement.names:
            if isinstance(statement, ast.ImportFrom):
                if statement.level or not statement.module:
                    self.refuse("relative imports inside compiled functions are not taken", hint="import at the top")
                held: Any = importlib.import_module(statement.module)
                held = getattr(held, alias.name)
                name = alias.asname or alias.name
            else:
                held = importlib.import_module(alias.name)
                name = alias.asname or alias.name.split(".")[0]
                if not alias.asname:
                    held = importlib.import_module(name)
            self.assign(ast.Name(name, ast.Store()), self.embed(held, name))


def _nested_uses(code: Code, name: str) -> bool:
    """Whether a function nested in this one has a `nonlocal` of this name."""
    return any(isinstance(part, ast.Nonlocal) and name in part.names for part in ast.walk(code.node))


_ROUNDS = {
    sum: """def sum(hloom_source):
    hloom_total = 0
    for hloom_item in ():
        hloom_total = hloom_total + hloom_element
    return hloom_total
""",
    any: """def any(hloom_source):
    for hloom_item in ():
        if hloom_element:
            return True
    return False
""",
    max: """def max(hloom_source):
    hloom_first = True
    for hloom_item in ():
        hloom_value = hloom_element
        if hloom_first or hloom_value > hloom_best:
            hloom_best = hloom_value
        hloom_first = False
    if hloom_first:
        raise ValueError("max() arg is an empty sequence")
    return hloom_best
""",
    min: """def min(hloom_source):
    hloom_first = True
    for hloom_item in ():
        hloom_value = hloom_element
        if hloom_first or hloom_value < hloom_best:
            hloom_best = hloom_value
        hloom_first = False
    if hloom_first:
        raise ValueError("min() arg is an empty sequence")
    return hloom_best
""",
    all: """def all(hloom_source):
    for hloom_item in ():
        if not hloom_element:
            return False
    return True
""",
}
"""What folds a generator expression, as the function that Python runs."""
_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
}  # fmt: skip
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
# pyright: reportPrivateUsage=false
_EXPRESSIONS: dict[type[ast.AST], Callable[[Interpreter, Any], AbstractValue]] = {
    ast.Constant: Interpreter._constant,
    ast.Name: Interpreter._name,
    ast.Tuple: Interpreter._tuple,
    ast.List: Interpreter._list,
    ast.Set: Interpreter._set,
    ast.Dict: Interpreter._dict,
    ast.BinOp: Interpreter._binary,
    ast.UnaryOp: Interpreter._unary,
    ast.BoolOp: Interpreter._boolean,
    ast.Compare: Interpreter._compare,
    ast.IfExp: Interpreter._if_expression,
    ast.Call: Interpreter._call,
    ast.Attribute: Interpreter._attribute,
    ast.Subscript: Interpreter._subscript,
    ast.Slice: Interpreter._slice,
    ast.Lambda: Interpreter._lambda,
    ast.NamedExpr: Interpreter._walrus,
    ast.JoinedStr: Interpreter._joined_string,
    ast.ListComp: Interpreter._list_comprehension,
    ast.GeneratorExp: Interpreter._list_comprehension,
    ast.DictComp: Interpreter._dict_comprehension,
    ast.SetComp: Interpreter._set_comprehension,
}
_STATEMENTS: dict[type[ast.AST], Callable[[Interpreter, Any], None]] = {
    ast.Expr: Interpreter._expression_statement,
    ast.Assign: Interpreter._assignment,
    ast.AnnAssign: Interpreter._annotated,
    ast.AugAssign: Interpreter._augmented,
    ast.Return: Interpreter._return,
    ast.Break: Interpreter._break,
    ast.Continue: Interpreter._continue,
    ast.Pass: Interpreter._pass,
    ast.Nonlocal: Interpreter._pass,
    ast.While: Interpreter._while,
    ast.For: Interpreter._for,
    ast.FunctionDef: Interpreter._function,
    ast.Assert: Interpreter._assert,
    ast.Raise: Interpreter._raise,
    ast.Delete: Interpreter._delete,
    ast.Import: Interpreter._import,
    ast.ImportFrom: Interpreter._import,
}
