"""Calls: binding of arguments, functions interpreted where they are called, recursion as graphs that call themselves.

A recursive call of unlike constants is unrolled within limits; else numbers of the source become numbers of the run,
and the function one graph per types, whose result type is a fixed point over the paths that do not recurse.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.autodiff import Emitter
from hloom.frontend import Code
from hloom.functional.builtin_functions import BUILTINS, Handler, call_derived_outside, call_method
from hloom.functional.container_classes import is_container, is_sequence, plain_class
from hloom.functional.control_flow import MAX_ROUNDS, Arm
from hloom.functional.gradients import call_derived
from hloom.functional.joins import (
    ABSENT,
    CellSpec,
    Join,
    JoinSpec,
    LeafSpec,
    NoCommonType,
    PartsSpec,
    SameSpec,
    count_alternatives,
    same,
)
from hloom.functional.library import has_own_rules, is_library
from hloom.functional.prelude import NUMPY_PRELUDE, PRELUDE
from hloom.functional.specialisation import Specialisations
from hloom.functional.state import NORMAL, CallFrame, Completion, PathEnds, RecursionMet
from hloom.functional.store import MISSING, Store
from hloom.functional.values import (
    NONE,
    UNBOUND,
    AbstractValue,
    Array,
    Cell,
    Const,
    Derived,
    Fields,
    FunctionClosure,
    Method,
    PartialCall,
    Ref,
    Scope,
    Series,
    Tuple,
    ValueChoice,
    Variable,
    described,
    walk,
)
from hloom.ir import Graph, Parameter, TensorType, TupleType, dtype
from hloom.ops import OPS

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter

MAX_DEPTH = 120
"""How many calls may nest while a program is compiled: each takes a dozen or two frames of Python's stack."""
UNROLLED_DEPTH = 24
"""How deep a function may call itself with numbers that are known, before it becomes a graph that calls itself."""
UNROLLED_CALLS = 128
"""How many calls such a recursion may come to."""
UNLIKE_GRAPHS = 8
"""For how many unlike types of its arguments a function may become a graph that calls itself."""
LARGEST = 1024
"""How many parts the arguments of a function that calls itself may have."""
NUMBERS = (bool, int, float, complex)
MODULES_IN_C = ("math", "cmath", "operator", "_operator", "builtins", "_functools")
"""Modules of functions that are called while compiling where their arguments are known."""


@dataclass(eq=False)
class Specialisation:
    """A function as a graph, for arguments of certain types."""

    key: Any
    parent: Graph
    parameters: dict[str, JoinSpec]
    graph: Graph | None = None
    result: JoinSpec | None = None
    written: dict[Any, JoinSpec] = field(default_factory=dict)
    captured: dict[Variable, Any] = field(default_factory=dict)
    errors: Any = None
    """The list of error sites that its numbers of errors are of."""
    frame: CallFrame | None = None
    """The call that its body is being interpreted as."""

    def error_place(self, error: Variable) -> tuple[int, int] | None:
        """Which output and which parameter hold the number of an error."""
        output = len(list(self.result.leaves())) if self.result is not None else 0
        parameter = sum(1 for spec in self.parameters.values() for _ in spec.leaves())
        for key, spec in self.written.items():
            count = len(list(spec.leaves()))
            if key is error:
                return (output, parameter) if count else None
            output, parameter = output + count, parameter + count
        return None


class Calls:
    """The calls of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.active: dict[Any, Specialisation] = {}
        self.done: dict[Any, list[Specialisation]] = {}
        self.specialisations = Specialisations(interpreter)
        self._initializing: set[Cell] = set()
        self._broadened: Counter[Code] = Counter()

    def call(
        self, function: AbstractValue, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        """`function(*arguments, **keywords)`"""
        interpreter = self.interpreter
        interpreter.step()
        if isinstance(function, FunctionClosure):
            return self._closure(function, arguments, keywords)
        if isinstance(function, PartialCall):
            if isinstance(function.function, Const) and isinstance(function.function.value, type) and issubclass(
                function.function.value, BaseException
            ):  # fmt: skip
                interpreter.raise_error(TypeError, "an exception cannot be called")
            return self.call(function.function, [*function.arguments, *arguments], {**function.keywords, **keywords})
        if isinstance(function, Method):
            return call_method(interpreter, function, arguments, keywords)
        if isinstance(function, Derived):
            return call_derived(interpreter, function, arguments, keywords)
        if isinstance(function, ValueChoice):
            return interpreter.control.choices(function, lambda option: self.call(option, arguments, keywords))
        if isinstance(function, Ref) and not is_container(function.cell.cls):
            method = interpreter.members.class_attribute(function, "__call__")
            if method is not None:
                return self.call(method, arguments, keywords)
        if isinstance(function, Const):
            return self._object(function.value, arguments, keywords)
        interpreter.raise_error(TypeError, f"{described(function)} is not callable")

    def _object(
        self, held: Any, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        """A call of a Python object from outside the program."""
        interpreter = self.interpreter
        transformation = interpreter.settings.transformations.get(id(held))
        if transformation is not None:
            return BUILTINS[transformation](interpreter, arguments, keywords)
        try:
            handler = BUILTINS.get(held)
        except TypeError:
            handler = None
        if handler is not None:
            return self._builtin(held, handler, arguments, keywords)
        numpys = NUMPY_PRELUDE.get(held) if isinstance(held, (type, FunctionType)) or callable(held) else None
        if numpys is not None:
            return self.call(interpreter.embed(numpys), arguments, keywords)
        if isinstance(held, type):
            return self._construct(held, arguments, keywords)
        derived = getattr(held, "hloom_derived", None)
        if derived is not None:
            return call_derived_outside(interpreter, derived, arguments, keywords)
        wrapped = getattr(held, "hloom_function", None)
        if wrapped is not None:
            return self.call(interpreter.embed(wrapped), arguments, keywords)
        if isinstance(held, functools.partial):
            function = interpreter.embed(held.func)
            given = [interpreter.embed(value, "a partial's argument") for value in held.args]
            named = {name: interpreter.embed(value, name) for name, value in held.keywords.items()}
            return self.call(function, [*given, *arguments], {**named, **keywords})
        if type(held) in (operator.itemgetter, operator.attrgetter):
            cls, given = held.__reduce__()
            return self.call(self.call(Const(cls), [interpreter.embed(value) for value in given], {}), arguments, {})
        if isinstance(held, MethodType):
            owner = interpreter.embed(held.__self__, type(held.__self__).__name__)
            return self.call(interpreter.embed(held.__func__), [owner, *arguments], keywords)
        owner = getattr(held, "__self__", None)
        if isinstance(owner, np.ufunc) and getattr(held, "__name__", "") == "at":
            return interpreter.library.unbuffered(owner, arguments)
        if isinstance(owner, np.ufunc):
            return interpreter.library.call(held, arguments, keywords)
        if is_library(held):
            name = getattr(held, "__name__", "")
            if str(getattr(held, "__module__", "")).startswith("jax"):
                if name in TRANSFORMATIONS:
                    return BUILTINS[TRANSFORMATIONS[name]](interpreter, arguments, keywords)
                if name in ("jit", "checkpoint", "remat") and len(arguments) == 1:
                    return arguments[0]
                prelude = PRELUDE.get("tree_map" if held.__module__.endswith(".tree") and name == "map" else name)
                given = [*arguments, *keywords.values()]
                if prelude is not None and any(map(_is_of_program, self._flat(given))):
                    return self.call(interpreter.embed(prelude), arguments, keywords)
            return interpreter.library.call(held, arguments, keywords)
        if has_own_rules(held):
            return interpreter.library.call(held, arguments, keywords)
        if isinstance(held, FunctionType):
            return self.call(interpreter.closure_of(held), arguments, keywords)
        if isinstance(held, (MethodDescriptorType, WrapperDescriptorType)):
            return self._unbound_method(held, arguments, keywords)
        if isinstance(held, (BuiltinFunctionType, BuiltinMethodType)):
            return self.known_call(held, arguments, keywords)
        underlying = getattr(held, "__wrapped__", None)
        if isinstance(underlying, FunctionType):
            return self.call(interpreter.closure_of(underlying), arguments, keywords)
        call = next((vars(base)["__call__"] for base in type(held).__mro__ if "__call__" in vars(base)), None)
        if isinstance(call, FunctionType):
            return self.call(interpreter.embed(call), [Const(held), *arguments], keywords)
        interpreter.refuse(f"{held!r} cannot be called in a compiled function")

    def _builtin(
        self, held: Any, handler: Handler, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        """A call of a built-in function, which raises what Python raises for arguments that it does not take."""
        interpreter = self.interpreter
        name = getattr(held, "__name__", str(held))
        signature = _signature(held)
        if signature is not None:
            try:
                bound = signature.bind(*arguments, **keywords)
            except TypeError as error:
                interpreter.raise_error(TypeError, f"{name}(): {error}")
            arguments, keywords = bound.args, bound.kwargs
        try:
            return handler(interpreter, arguments, keywords)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            interpreter.raise_error(type(error), str(error))

    def _unbound_method(
        self, held: Any, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        """`str.upper(text)`: a method of a built-in class, called with its object."""
        interpreter = self.interpreter
        name, cls = held.__name__, held.__objclass__
        if not arguments or not issubclass(self.class_of(arguments[0]), cls):
            given = f"not {described(arguments[0])}" if arguments else "and none is given"
            interpreter.raise_error(TypeError, f"{name}() takes a {cls.__name__} first, {given}")
        method = interpreter.members.attribute(arguments[0], name)
        return self.call(method, arguments[1:], keywords)

    def known_call(
        self, held: Any, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        """A function written in C: computed now where its arguments are known."""
        interpreter = self.interpreter
        is_of_number = getattr(held, "__self__", None) in (int, float, str, bytes)
        if is_of_number or getattr(held, "__module__", None) in MODULES_IN_C:
            return self._known_object(held, arguments, keywords)
        interpreter.refuse(f"{getattr(held, '__name__', held)} cannot be called in a compiled function")

    def _flat(self, values: Sequence[AbstractValue]) -> Iterator[AbstractValue]:
        """Arguments, and the items of those that are tuples and lists."""
        for value in values:
            if isinstance(value, Tuple):
                yield from value.items
            elif isinstance(value, Ref) and is_sequence(value.cell.cls):
                yield from self.interpreter.contents(value).items
            else:
                yield value

    # Classes

    def _construct(
        self, cls: type, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        interpreter = self.interpreter
        if issubclass(cls, BaseException):
            return PartialCall(Const(cls), tuple(arguments), keywords)
        if issubclass(cls, enum.Enum):
            return self._known_object(cls, arguments, keywords)
        if is_library(cls):
            return self._library_type(cls, arguments, keywords)
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
            return self._dataclass(cls, arguments, keywords)
        initialize = getattr(cls, "__init__", None)
        made = interpreter.new_object(cls, Fields((), ()))
        if isinstance(initialize, FunctionType):
            self._initialize(made, interpreter.embed(initialize), arguments, keywords)
        elif arguments or keywords or (cls is not object and cls.__module__ == "builtins"):
            interpreter.refuse(f"{cls.__name__} cannot be made in a compiled function")
        return made

    def _known_object(
        self, held: Any, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        """A call of a Python object with arguments that are known, made now."""
        interpreter = self.interpreter
        given = [interpreter.static(value, f"an argument of {held.__name__}") for value in arguments]
        named = {name: interpreter.static(value, name) for name, value in keywords.items()}
        try:
            return interpreter.embed(held(*given, **named))
        except Exception as error:
            interpreter.raise_error(type(error), str(error))

    def _initialize(
        self, made: Ref, function: AbstractValue, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> None:
        self._initializing.add(made.cell)
        try:
            self.call(function, [made, *arguments], keywords)
        finally:
            self._initializing.discard(made.cell)

    def is_initializing(self, owner: Ref) -> bool:
        """Whether an instance is being made by its own `__init__`."""
        return False if dataclasses.is_dataclass(owner.cell.cls) else owner.cell in self._initializing

    def _dataclass(
        self, cls: type, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
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
                values[row.name] = self.call(interpreter.embed(row.default_factory), [], {})
            elif row.init:
                interpreter.raise_error(TypeError, f"{cls.__name__} is missing the argument '{row.name}'")
        names = [row.name for row in dataclasses.fields(cls) if row.name in values]
        made = interpreter.new_object(cls, Fields(tuple(names), tuple(values[name] for name in names)))
        after = getattr(cls, "__post_init__", None)
        if isinstance(after, FunctionType):
            self._initialize(made, interpreter.embed(after), [], {})
        return made

    def _library_type(
        self, cls: type, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        """`numpy.float32(x)` and the like."""
        interpreter = self.interpreter
        if issubclass(cls, np.generic) and len(arguments) == 1 and not keywords:
            (value,) = arguments
            if isinstance(value, Const):
                return Const(cls(value.value))
            return interpreter.library.call(np.asarray, [value], {"dtype": Const(cls)})
        return interpreter.library.call(cls, arguments, keywords)

    def is_instance(self, value: AbstractValue, classes: AbstractValue) -> AbstractValue:
        """`isinstance(value, classes)`, decided by what is known of types."""
        interpreter = self.interpreter
        wanted = interpreter.static(classes, "the classes of isinstance")
        if isinstance(value, ValueChoice):
            return interpreter.control.choices(value, lambda option: self.is_instance(option, classes))
        cls = self.class_of(value)
        try:
            return Const(issubclass(cls, wanted) or (cls is FunctionType and wanted is Callable))
        except TypeError as error:
            interpreter.raise_error(TypeError, str(error))

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
        if isinstance(value, Ref):
            return plain_class(value.cell.cls)
        if isinstance(value, Series):
            return {"range": range, "zip": zip, "enumerate": enumerate, "map": map}.get(value.rule, reversed)
        if isinstance(value, PartialCall):
            return functools.partial
        return FunctionType

    # Functions

    def bind(
        self, closure: FunctionClosure, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> dict[str, AbstractValue]:
        """The values of a function's parameters, by Python's rules."""
        interpreter = self.interpreter
        rules = closure.code.node.args
        name = closure.code.name
        bound: dict[str, AbstractValue] = {}
        positional = [*rules.posonlyargs, *rules.args]
        for parameter, value in zip(positional, arguments, strict=False):
            bound[parameter.arg] = value
        extra = list(arguments[len(positional) :])
        if rules.vararg is not None:
            bound[rules.vararg.arg] = Tuple(tuple(extra))
        elif extra:
            interpreter.raise_error(
                TypeError, f"{name}() takes {len(positional)} positional arguments but {len(arguments)} were given"
            )
        further: dict[str, AbstractValue] = {}
        by_keyword = {parameter.arg for parameter in (*rules.args, *rules.kwonlyargs)}
        for keyword, value in keywords.items():
            if keyword in by_keyword:
                if keyword in bound:
                    interpreter.raise_error(TypeError, f"{name}() got multiple values for argument '{keyword}'")
                bound[keyword] = value
            elif rules.kwarg is not None:
                further[keyword] = value
            else:
                interpreter.raise_error(TypeError, f"{name}() got an unexpected keyword argument '{keyword}'")
        if rules.kwarg is not None:
            made = interpreter.new_object(dict, Fields(tuple(further), tuple(further.values())))
            bound[rules.kwarg.arg] = made
        defaults = positional[len(positional) - len(closure.defaults) :] if closure.defaults else []
        for parameter, value in zip(defaults, closure.defaults, strict=True):
            bound.setdefault(parameter.arg, value)
        for keyword, value in closure.keyword_defaults.items():
            bound.setdefault(keyword, value)
        missing = [parameter.arg for parameter in (*positional, *rules.kwonlyargs) if parameter.arg not in bound]
        if missing:
            interpreter.raise_error(TypeError, f"{name}() is missing the argument '{missing[0]}'")
        return bound

    def _closure(
        self, closure: FunctionClosure, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        interpreter = self.interpreter
        bound = self.bind(closure, arguments, keywords)
        exact = (closure.code, id(closure.scope), tuple((name, self.signature(value)) for name, value in bound.items()))
        broad = (*exact[:2], tuple((name, self.signature(value, broaden=True)) for name, value in bound.items()))
        for key in (exact, broad):
            specialisation = self.active.get(key) or self._finished(key)
            if specialisation is not None:
                return self._call_graph(specialisation, bound)
        row, shared = self.specialisations.call(closure, bound)
        if shared is not None:
            return shared
        outermost: CallFrame | None = None
        depth = 0
        frame = interpreter.frame
        while frame is not None:
            if frame.code is closure.code and frame.arguments is not None and frame.arguments[1] == exact[1]:
                if frame.arguments == exact:
                    raise RecursionMet(frame, broaden=False)
                outermost = frame
                depth += 1
            frame = frame.caller
        if outermost is not None:
            outermost.steps += 1
            if depth > 2 and sum(1 for value in bound.values() for _ in islice(walk(value), LARGEST)) >= LARGEST:
                interpreter.refuse(
                    f"{closure.code.name}() calls itself with ever larger arguments: unbounded polymorphic recursion"
                )
            if depth > UNROLLED_DEPTH or outermost.steps > UNROLLED_CALLS:
                self._broadened[closure.code] += 1
                if self._broadened[closure.code] > UNLIKE_GRAPHS:
                    interpreter.refuse(
                        f"{closure.code.name}() calls itself with arguments of ever other types: unbounded polymorphic "
                        "recursion", hint="keep the types of the arguments from call to call",
                    )  # fmt: skip
                raise RecursionMet(outermost, broaden=True)
        if interpreter.frame is not None and interpreter.frame.depth >= MAX_DEPTH:
            interpreter.refuse(
                f"calls nest deeper than {MAX_DEPTH} while the program is compiled",
                hint="a recursion whose arguments differ in type or function from call to call does not end",
            )
        if self.specialisations.is_due(row):
            made = self._shared(row, closure, bound, exact)
            if made is not None:
                return made
        return self._interpret(closure, bound, exact)

    def _shared(
        self, row: Any, closure: FunctionClosure, bound: dict[str, AbstractValue], exact: Any
    ) -> AbstractValue | None:
        """Make a function a graph of its own and call it; None where it has to be interpreted here."""
        before = self.interpreter.frame
        try:
            shared = self.specialisations.make(row, closure, bound, exact)
        except RecursionMet as met:
            if met.frame.code is closure.code and met.frame.caller is before and met.frame.is_shared:
                return None
            raise
        return None if shared is None else self.specialisations.emit(shared, bound)

    def _interpret(self, closure: FunctionClosure, bound: dict[str, AbstractValue], key: Any) -> AbstractValue:
        """Interpret a function where it is called; as a graph that calls itself where that turns out to be needed."""
        interpreter = self.interpreter
        before = interpreter.frame
        scope_before = before.scope if before else None
        part = before.part if before else None
        layer = Store(interpreter.store)
        frame = self.new_frame(closure, key)
        try:
            with interpreter.within(interpreter.emitter, layer):
                try:
                    value = self.run(frame, closure, bound)
                except PathEnds:
                    interpreter.store.parent.entries.update(layer.entries)  # type: ignore[union-attr]
                    raise
        except RecursionMet as met:
            interpreter.frame = before
            if before is not None and scope_before is not None and part is not None:
                before.scope, before.part = scope_before, part
            if met.frame is not frame:
                raise
            return self._recursive(closure, bound, met.broaden)
        finally:
            interpreter.frame = before
        interpreter.store.entries.update(layer.entries)
        return value

    def new_frame(self, closure: FunctionClosure, key: Any) -> CallFrame:
        """The frame of a call from here."""
        interpreter = self.interpreter
        caller = interpreter.frame
        scope = Scope(closure.code, closure.scope, closure.code.local_names)
        depth = caller.depth + 1 if caller else 0
        return CallFrame(
            closure.code, scope, Variable("left off"), Variable("result"), closure.code.node, caller, depth, 0, key
        )

    def run(self, frame: CallFrame, closure: FunctionClosure, bound: dict[str, AbstractValue]) -> AbstractValue:
        """Run the statements of a call; its result."""
        interpreter = self.interpreter
        store = interpreter.store
        for name, variable in frame.scope.variables.items():
            store.set(variable, bound.get(name, UNBOUND))
        store.set(frame.tag, NORMAL)
        store.set(frame.result, UNBOUND)
        interpreter.frame = frame
        interpreter.execute(closure.code.body)
        tag = interpreter.store.get(frame.tag)
        result = interpreter.store.get(frame.result)
        if isinstance(tag, Const):
            made = result if tag.value is Completion.RETURN else NONE
        else:
            made = interpreter.control.choose(
                interpreter.control.is_normal(tag), lambda: NONE, lambda: interpreter.settled(result, "the result")
            )
        made = interpreter.settled(made, f"the result of {closure.code.name}()")
        interpreter.frame = frame.caller
        return interpreter.current(made)

    # Recursion

    def signature(self, value: AbstractValue, *, broaden: bool = False) -> Any:
        """What a function is specialised to of an argument."""
        interpreter = self.interpreter
        if isinstance(value, Array):
            return "array", value.type, value.weak
        if isinstance(value, Const):
            if isinstance(value.value, NUMBERS) and broaden:
                return "array", TensorType(interpreter.numbers.weak_dtype(value.value)), True
            try:
                hash(value.value)
            except TypeError:
                return "object", id(value.value)
            return "const", type(value.value), repr(value.value) if isinstance(value.value, float) else value.value
        if isinstance(value, Tuple):
            return ("tuple", value.cls, *(self.signature(item, broaden=broaden) for item in value.items))
        if isinstance(value, Ref):
            fields = interpreter.store.get(value.cell)
            if not isinstance(fields, Fields):
                return "conflict", id(value)
            return "cell", value.cell.cls, fields.keys, tuple(
                self.signature(item, broaden=broaden) for item in fields.items
            )  # fmt: skip
        if isinstance(value, FunctionClosure):
            given = (*value.defaults, *value.keyword_defaults.values())
            return "function", value.code, id(value.scope), *(self.signature(item) for item in given)
        if isinstance(value, PartialCall):
            parts = (value.function, *value.arguments, *value.keywords.values())
            return "partial", tuple(value.keywords), *(self.signature(part, broaden=broaden) for part in parts)
        if isinstance(value, Derived):
            return "derived", value.transformation, repr(value.options), self.signature(value.function)
        if isinstance(value, Method):
            return "method", value.name, self.signature(value.owner, broaden=broaden)
        if isinstance(value, Series):
            return "series", value.rule, *(self.signature(part, broaden=broaden) for part in value.parts)
        if isinstance(value, ValueChoice):
            return "choice", *(self.signature(option, broaden=broaden) for option in value.options)
        return "value", id(value)

    def parameter_spec(self, value: Any, join: Join, *, broaden: bool) -> JoinSpec:
        """How an argument goes into a graph that is called: its arrays as parameters."""
        interpreter = self.interpreter
        if isinstance(value, Array):
            return LeafSpec(value.type, value.weak)
        if isinstance(value, Const):
            if broaden and isinstance(value.value, NUMBERS):
                return LeafSpec(TensorType(interpreter.numbers.weak_dtype(value.value)), True)
            return SameSpec(value)
        if isinstance(value, Tuple):
            cls = value.cls
            parts = tuple(self.parameter_spec(item, join, broaden=broaden) for item in value.items)
            return PartsSpec(parts, lambda given, store: given.items, lambda inner, items: Tuple(tuple(items), cls))
        if isinstance(value, Ref):
            cell = Cell(value.cell.cls, "it is an argument of a function that calls itself")
            return CellSpec(cell, self.parameter_spec(interpreter.store.get(value.cell), join, broaden=broaden))
        if isinstance(value, Fields):
            keys = value.keys
            parts = tuple(self.parameter_spec(item, join, broaden=broaden) for item in value.items)
            return PartsSpec(parts, lambda given, store: given.items, lambda inner, items: Fields(keys, tuple(items)))
        if isinstance(value, PartialCall):
            names = list(value.keywords)
            count = len(value.arguments)
            rows = [value.function, *value.arguments, *value.keywords.values()]
            parts = tuple(self.parameter_spec(item, join, broaden=broaden) for item in rows)
            return PartsSpec(
                parts,
                lambda given, store: [given.function, *given.arguments, *given.keywords.values()],
                lambda inner, items: PartialCall(
                    items[0], tuple(items[1 : 1 + count]), dict(zip(names, items[1 + count :], strict=True))
                ),
            )
        if isinstance(value, Series):
            rule = value.rule
            parts = tuple(self.parameter_spec(item, join, broaden=broaden) for item in value.parts)
            return PartsSpec(parts, lambda given, store: given.parts, lambda inner, items: Series(rule, tuple(items)))
        if isinstance(value, ValueChoice):
            rows = [value.tag, *value.options]
            parts = tuple(self.parameter_spec(item, join, broaden=broaden) for item in rows)
            return PartsSpec(
                parts,
                lambda given, store: [given.tag, *given.options],
                lambda inner, items: ValueChoice(items[0], tuple(items[1:])),
            )
        return SameSpec(value)

    def _recursive(self, closure: FunctionClosure, bound: dict[str, AbstractValue], broaden: bool) -> AbstractValue:
        """A function that calls itself, as a graph: interpreted until the types of its result settle."""
        interpreter = self.interpreter
        join = Join(interpreter, interpreter.store)
        key = (
            closure.code,
            id(closure.scope),
            tuple((name, self.signature(value, broaden=broaden)) for name, value in bound.items()),
        )
        parameters = {name: self.parameter_spec(value, join, broaden=broaden) for name, value in bound.items()}
        one = Specialisation(key, interpreter.emitter.graph, parameters)
        results: list[tuple[Any, Store]] = []
        written: dict[Any, list[tuple[Any, Store]]] = {interpreter.error: []}
        interpreter.overflow_number()
        self.active[key] = one
        arm: Arm
        try:
            for _ in range(MAX_ROUNDS):
                arm, value = self._round(closure, bound, one)
                is_stable = True
                for changed in self._changed(arm):
                    if changed not in written:
                        written[changed] = []
                        is_stable = False
                for changed, former in written.items():
                    if changed in arm.store.entries or not former:
                        former.append((interpreter.control._held(arm, changed), arm.store))  # pyright: ignore[reportPrivateUsage]
                if value is not ABSENT:
                    results.append((value, arm.store))
                result = self._result_spec(results)
                specs = {changed: self._written_spec(changed, former) for changed, former in written.items()}
                if not _equal(result, one.result) or any(
                    changed not in one.written or not _equal(spec, one.written[changed])
                    for changed, spec in specs.items()
                ):
                    is_stable = False
                if is_stable:
                    self._close(one, arm, value)
                    break
                one.result, one.written = result, specs
            else:
                interpreter.refuse(f"the type of the result of {closure.code.name}() does not settle")
        except RecursionMet as met:
            if met.frame is not one.frame or broaden:
                raise
            is_too_deep = True
        else:
            is_too_deep = False
        finally:
            del self.active[key]
        if is_too_deep:
            return self._recursive(closure, bound, True)
        if one.result is None and not self.active and not _raises(arm, interpreter.error):
            interpreter.refuse(
                f"{closure.code.name}() is a recursion without end: no path returns without a further call"
            )
        one.captured = self._captured_values(closure)
        one.errors = interpreter.errors
        self.done.setdefault(key, []).append(one)
        return self._call_graph(one, bound)

    def _round(self, closure: FunctionClosure, bound: dict[str, AbstractValue], one: Specialisation) -> tuple[Arm, Any]:
        interpreter = self.interpreter
        module = interpreter.module
        graph = module.add_graph(module.unique_graph_name(_identifier(closure.code.name)), parent=one.parent)
        arm = Arm(Emitter(graph), Store(interpreter.store))
        before = interpreter.frame
        one.graph = graph
        try:
            with interpreter.within(arm.emitter, arm.store):
                inside = Join(interpreter, arm.store)
                nodes = self._parameters(graph, one)
                given = {name: spec.lift(inside, nodes) for name, spec in one.parameters.items()}
                for value in given.values():
                    if isinstance(value, Array):
                        interpreter.protected[value] = "it is an argument of a function that calls itself"
                for key, spec in one.written.items():
                    arm.store.set(key, spec.lift(inside, nodes))
                one.frame = self.new_frame(closure, one.key)
                value: Any = self.run(one.frame, closure, given)
        except PathEnds:
            arm.alive = False
            value = ABSENT
        finally:
            interpreter.frame = before
        return arm, value

    def _parameters(self, graph: Graph, one: Specialisation) -> Iterator[Any]:
        specs = [*one.parameters.items(), *((getattr(key, "name", "state"), spec) for key, spec in one.written.items())]
        nodes = [graph.add_parameter(leaf.type, _identifier(name)) for name, spec in specs for leaf in spec.leaves()]
        return iter(nodes)

    def _changed(self, arm: Arm) -> list[Any]:
        interpreter = self.interpreter
        if not arm.alive:
            return [key for key in arm.store.entries if key is interpreter.error]
        return list(interpreter.control.changed_keys(arm))

    def _result_spec(self, results: Sequence[tuple[Any, Store]]) -> JoinSpec | None:
        interpreter = self.interpreter
        if not results:
            return None
        try:
            return Join(interpreter, interpreter.store).unify(
                [value for value, _ in results], [store for _, store in results], widen=True
            )
        except NoCommonType as problem:
            interpreter.refuse(f"the results of a recursive function have no type in common: {problem}")

    def _written_spec(self, key: Any, former: Sequence[tuple[Any, Store]]) -> JoinSpec:
        interpreter = self.interpreter
        entry = interpreter.store.get(key)
        entry = key if entry is MISSING and isinstance(key, Array) else entry
        rows = [(entry, interpreter.store), *former]
        if key is interpreter.error:
            return LeafSpec(TensorType(dtype("s32")), False)
        try:
            return Join(interpreter, interpreter.store).unify(
                [value for value, _ in rows], [store for _, store in rows], widen=True
            )
        except NoCommonType as problem:
            interpreter.refuse(f"what a recursive function changes has no one type: {problem}")

    def _close(self, one: Specialisation, arm: Arm, value: Any) -> None:
        interpreter = self.interpreter
        with interpreter.within(arm.emitter, arm.store):
            join = Join(interpreter, arm.store)
            outputs: list[Any] = []
            if one.result is not None:
                outputs += one.result.absent(join) if value is ABSENT else one.result.lower(join, value, arm.store)
            for key, spec in one.written.items():
                held = interpreter.control._held(arm, key)  # pyright: ignore[reportPrivateUsage]
                is_there = arm.alive or key is interpreter.error
                outputs += spec.lower(join, held, arm.store) if is_there else spec.absent(join)
            arm.graph.set_output(arm.emitter.tuple(outputs))

    def _call_graph(self, one: Specialisation, bound: dict[str, AbstractValue]) -> AbstractValue:
        """A call of a function that is a graph."""
        interpreter = self.interpreter
        emitter, store = interpreter.emitter, interpreter.store
        if one.key in self.active:
            self.specialisations.meets_active(one.key)
        if one.key in self.active and one.result is None:
            # nothing is known of the result yet: this path does not count, but for the errors that it may meet
            raise PathEnds
        join = Join(interpreter, store)
        nodes: list[Any] = []
        for name, spec in one.parameters.items():
            nodes += spec.lower(join, bound[name], store)
        for key, spec in one.written.items():
            held = store.get(key)
            nodes += spec.lower(join, key if held is MISSING else held, store)
        leaves = [
            *(one.result.leaves() if one.result else ()),
            *(leaf for spec in one.written.values() for leaf in spec.leaves()),
        ]
        made = TupleType([leaf.type for leaf in leaves])
        call = emitter.graph.add_apply(
            OPS["call"], nodes, made, {"to_apply": one.graph}, metadata=emitter.metadata
        )
        outputs = iter([emitter.element(call, number) for number in range(len(leaves))])
        value = one.result.renewed({}).lift(join, outputs) if one.result is not None else None
        for key, spec in one.written.items():
            store.set(key, spec.lift(join, outputs))
        if value is None:
            raise PathEnds
        return value

    def recursive_graphs(self) -> dict[Graph, tuple[int, int, int]]:
        """Of the graphs that call themselves: which output and parameter hold the number of an error, and which number
        stands for a stack that is too small."""
        interpreter = self.interpreter
        table: dict[Graph, tuple[int, int, int]] = {}
        for rows in self.done.values():
            for one in rows:
                places = one.error_place(interpreter.error)
                if places is not None and one.graph is not None:
                    table[one.graph] = *places, interpreter.overflow_number()
        return table

    def _captured_values(self, closure: FunctionClosure) -> dict[Variable, Any]:
        """What the variables that a function reads from around it are bound to, those of functions in them included."""
        interpreter = self.interpreter
        held: dict[Variable, Any] = {}
        pending: list[Any] = [closure]
        while pending:
            value = pending.pop()
            if isinstance(value, FunctionClosure):
                for variable in interpreter.captured_variables(value).values():
                    if variable not in held:
                        held[variable] = interpreter.store.get(variable)
                        pending.append(held[variable])
            elif isinstance(value, (PartialCall, Tuple, Derived)):
                pending.extend(
                    value.items if isinstance(value, Tuple) else
                    (value.function,) if isinstance(value, Derived) else
                    (value.function, *value.arguments)
                )  # fmt: skip
        return held

    def _finished(self, key: Any) -> Specialisation | None:
        """A graph made before, where what it captures is as it was, and its graph can be called from here."""
        interpreter = self.interpreter
        for one in self.done.get(key, ()):
            graph: Graph | None = interpreter.emitter.graph
            while graph is not None and graph is not one.parent:
                graph = graph.parent
            if (
                graph is not None
                and one.errors is interpreter.errors
                and all(
                    interpreter.store.get(variable) is value or same(interpreter.store.get(variable), value)
                    for variable, value in one.captured.items()
                )
            ):
                return one
        return None


def _raises(arm: Arm, error: Variable) -> bool:
    """Whether a path of a function's body sets the number of an error."""
    number = arm.store.get(error)
    return isinstance(number, Array) and not isinstance(number.node, Parameter)


def _equal(a: JoinSpec | None, b: JoinSpec | None) -> bool:
    """Whether two specs carry the same arrays, of as many alternatives."""
    if a is None or b is None:
        return a is b
    if type(a) is not type(b):
        return False
    if isinstance(a, SameSpec) and isinstance(b, SameSpec):
        return same(a.value, b.value)
    left, right = list(a.leaves()), list(b.leaves())
    same_leaves = [(leaf.type, leaf.weak) for leaf in left] == [(leaf.type, leaf.weak) for leaf in right]
    return same_leaves and count_alternatives(a) == count_alternatives(b)


TRANSFORMATIONS = {
    "grad": "grad", "value_and_grad": "value_and_grad", "jvp": "jvp", "vjp": "vjp", "jacrev": "jacobian",
    "jacfwd": "jacobian", "jacobian": "jacobian", "hessian": "hessian",
}  # fmt: skip
"""hloom's derivatives by the names of jax's."""
CALLABLE = (FunctionClosure, PartialCall, Derived, ValueChoice)


@functools.cache
def _signature(function: Any) -> inspect.Signature | None:
    """The parameters of a built-in function; None where they are not written down."""
    try:
        return None if isinstance(function, str) else inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _is_of_program(value: AbstractValue) -> bool:
    """Whether a value is a function that is interpreted, not the library's own."""
    return isinstance(value, CALLABLE) or (isinstance(value, Const) and hasattr(value.value, "hloom_function"))


def _is_generated(cls: type) -> bool:
    """Whether a dataclass has the `__init__` that was made for it."""
    function = vars(cls).get("__init__")
    return isinstance(function, FunctionType) and function.__code__.co_filename.startswith("<")


def _identifier(name: str) -> str:
    made = "".join(character if character.isalnum() or character in "_." else "_" for character in name)
    return made if made and not made[0].isdigit() else f"f{made}"
