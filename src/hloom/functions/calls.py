"""Calls: argument binding, inline interpretation of functions, and recursion as recursive graphs.

A recursive call of unlike constants is unrolled within limits; else numbers of the source become numbers of the run,
and the function one graph per types, whose result type is a fixed point over the paths that do not recurse.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterator, Sequence
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

from hloom.functions.builtin_functions import BUILTINS, Handler, bound_arguments, call_derived_outside, call_method
from hloom.functions.code import Code
from hloom.functions.container_classes import is_list, is_object
from hloom.functions.gradients import call_derived
from hloom.functions.library import has_own_rules, is_library, is_single_dispatch
from hloom.functions.prelude import NUMPY_PRELUDE, PRELUDE
from hloom.functions.specialisation import Specialisations
from hloom.functions.state import NORMAL, CallFrame, Completion, PathEnds, RecursionMet
from hloom.functions.store import Store
from hloom.functions.values import (
    NONE,
    UNBOUND,
    AbstractValue,
    Arguments,
    Const,
    Derived,
    FunctionClosure,
    Keywords,
    Method,
    PartialCall,
    Scope,
    Tuple,
    ValueChoice,
    Variable,
    described,
    walk,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

MAX_DEPTH = 120
"""The maximum nesting of calls of one function while compiling. Calls of distinct functions terminate by themselves and
may nest as deep as Python's stack allows (`program.RECURSION_LIMIT`), about 1,500 calls.
"""
UNROLLED_DEPTH = 24
"""How deep a function may call itself with numbers that are known, before it becomes a graph that calls itself."""
UNROLLED_CALLS = 128
"""The maximum number of calls of such a recursion."""
UNLIKE_GRAPHS = 8
"""For how many unlike types of its arguments a function may become a graph that calls itself."""
LARGEST = 1024
"""The maximum number of parts of a recursive function's arguments."""
MODULES_IN_C = ("math", "cmath", "operator", "_operator", "builtins", "_functools")
"""Modules of functions that are called while compiling where their arguments are known."""


class Calls:
    """The calls of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.specialisations = Specialisations(interpreter)
        self._broadened: Counter[Code] = Counter()

    def call(self, function: AbstractValue, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """`function(*arguments, **keywords)`"""
        return self.interpreter.iterators.owned(self.temporary(function, arguments, keywords))

    def temporary(self, function: AbstractValue, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """The same for a value that is iterated over at once: the result of `zip()` stays a series, no object yet."""
        interpreter = self.interpreter
        interpreter.step()
        arguments = [interpreter.current(value) for value in arguments]
        keywords = {name: interpreter.current(value) for name, value in keywords.items()}
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
        if is_object(function):
            method = interpreter.members.class_attribute(function, "__call__")
            if method is not None:
                return self.call(method, arguments, keywords)
        if isinstance(function, Const):
            return self._object(function.value, arguments, keywords)
        interpreter.raise_error(TypeError, f"{described(function)} is not callable")

    def _object(self, held: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue:
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
            return interpreter.classes.construct(held, arguments, keywords)
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
        if is_single_dispatch(held):
            return self._dispatched(held, arguments, keywords)
        if isinstance(held, FunctionType):
            return self.call(interpreter.closure_of(held), arguments, keywords)
        if isinstance(held, (MethodDescriptorType, WrapperDescriptorType)):
            return self._unbound_method(held, arguments, keywords)
        if isinstance(held, (BuiltinFunctionType, BuiltinMethodType)):
            return self.known_call(held, arguments, keywords)
        underlying = getattr(held, "__wrapped__", None)
        if isinstance(underlying, FunctionType):
            return self.call(interpreter.embed(underlying), arguments, keywords)
        call = next((vars(base)["__call__"] for base in type(held).__mro__ if "__call__" in vars(base)), None)
        if isinstance(call, FunctionType):
            return self.call(interpreter.embed(call), [Const(held), *arguments], keywords)
        if not callable(held):
            interpreter.raise_error(TypeError, f"'{type(held).__name__}' object is not callable")
        interpreter.refuse(f"{held!r} cannot be called in a compiled function")

    def _builtin(self, held: Any, handler: Handler, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """A call of a built-in function, which raises what Python raises for arguments that it does not take."""
        interpreter = self.interpreter
        arguments, keywords = bound_arguments(interpreter, held, arguments, keywords)
        is_known = all(isinstance(value, Const) for value in (*arguments, *keywords.values()))
        if is_known and getattr(held, "__module__", None) in ("math", "cmath"):
            return self.known_call(held, arguments, keywords)
        with interpreter.errors_raised():
            return handler(interpreter, arguments, keywords)

    def _dispatched(self, held: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """A call of a function of `functools.singledispatch`: the class of the first argument says which one it is."""
        interpreter = self.interpreter
        if not arguments:
            interpreter.raise_error(TypeError, f"{held.__name__} requires at least 1 positional argument")
        if isinstance(arguments[0], ValueChoice):
            return interpreter.control.choices(
                arguments[0], lambda option: self._dispatched(held, [option, *arguments[1:]], keywords)
            )
        function = held.dispatch(interpreter.classes.class_of(arguments[0]))
        return self.call(interpreter.embed(function), arguments, keywords)

    def _unbound_method(self, held: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """`str.upper(text)`: a method of a built-in class, called with its object."""
        interpreter = self.interpreter
        name, cls = held.__name__, held.__objclass__
        if not arguments or not issubclass(interpreter.classes.class_of(arguments[0]), cls):
            given = f"not {described(arguments[0])}" if arguments else "and none is given"
            interpreter.raise_error(TypeError, f"{name}() takes a {cls.__name__} first, {given}")
        method = interpreter.members.attribute(arguments[0], name)
        return self.call(method, arguments[1:], keywords)

    def known_call(self, held: Any, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        """A function written in C: computed now where its arguments are known."""
        is_of_number = getattr(held, "__self__", None) in (int, float, str, bytes)
        if is_of_number or getattr(held, "__module__", None) in MODULES_IN_C:
            return self.interpreter.classes.known_object(held, arguments, keywords)
        self.interpreter.refuse(f"{getattr(held, '__name__', held)} cannot be called in a compiled function")

    def _flat(self, values: Sequence[AbstractValue]) -> Iterator[AbstractValue]:
        """Arguments, and the items of those that are tuples and lists."""
        for value in values:
            if isinstance(value, Tuple):
                yield from value.items
            elif is_list(value):
                yield from self.interpreter.contents(value).items
            else:
                yield value

    # Functions

    def bind(self, closure: FunctionClosure, arguments: Arguments, keywords: Keywords) -> dict[str, AbstractValue]:
        """The values of a function's parameters, by Python's rules."""
        interpreter = self.interpreter
        rules = closure.code.node.args
        name = closure.code.name
        bound: Keywords = {}
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
            bound[rules.kwarg.arg] = interpreter.new_dict(further)
        defaults = positional[len(positional) - len(closure.defaults) :] if closure.defaults else []
        for parameter, value in zip(defaults, closure.defaults, strict=True):
            bound.setdefault(parameter.arg, value)
        for keyword, value in closure.keyword_defaults.items():
            bound.setdefault(keyword, value)
        missing = [parameter.arg for parameter in (*positional, *rules.kwonlyargs) if parameter.arg not in bound]
        if missing:
            interpreter.raise_error(TypeError, f"{name}() is missing the argument '{missing[0]}'")
        return bound

    def _closure(self, closure: FunctionClosure, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        interpreter = self.interpreter
        bound = self.bind(closure, arguments, keywords)
        graphs = interpreter.recursive_calls
        exact = (
            closure.code, id(closure.scope), tuple((name, graphs.signature(value)) for name, value in bound.items())
        )  # fmt: skip
        broad = (*exact[:2], tuple((name, graphs.signature(value, broaden=True)) for name, value in bound.items()))
        for key in (exact, broad):
            specialisation = graphs.active.get(key) or graphs.finished(key)
            if specialisation is not None:
                return graphs.call_graph(specialisation, bound)
        row, shared = self.specialisations.call(closure, bound)
        if shared is not None:
            return shared
        outermost: CallFrame | None = None
        depth = nested = 0
        frame = interpreter.frame
        while frame is not None:
            nested += frame.code is closure.code
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
        if nested >= MAX_DEPTH:
            interpreter.refuse(
                f"calls of {closure.code.name}() nest deeper than {MAX_DEPTH} while the program is compiled",
                hint="a recursion whose arguments differ in type or function from call to call does not end",
            )
        if self.specialisations.is_due(row):
            made = self._shared(row, closure, bound, exact)
            if made is not None:
                return made
        return self._interpret(closure, bound, exact)

    def _shared(self, row: Any, closure: FunctionClosure, bound: Keywords, exact: Any) -> AbstractValue | None:
        """Make a function a graph of its own and call it; None where it has to be interpreted here."""
        before = self.interpreter.frame
        try:
            shared = self.specialisations.make(row, closure, bound, exact)
        except RecursionMet as met:
            if met.frame.code is closure.code and met.frame.caller is before and met.frame.is_shared:
                return None
            raise
        return None if shared is None else self.specialisations.emit(shared, bound)

    def _interpret(self, closure: FunctionClosure, bound: Keywords, key: Any) -> AbstractValue:
        """Interpret a function where it is called; as a graph that calls itself where that turns out to be needed."""
        interpreter = self.interpreter
        store, layer = interpreter.store, Store(interpreter.store)
        frame = self.new_frame(closure, key)
        try:
            with interpreter.frame_kept(), interpreter.within(interpreter.emitter, layer):
                value = self.run(frame, closure, bound)
        except PathEnds:
            store.entries.update(layer.entries)
            raise
        except RecursionMet as met:
            if met.frame is not frame:
                raise
            return interpreter.recursive_calls.recursive(closure, bound, met.broaden)
        store.entries.update(layer.entries)
        return value

    def new_frame(self, closure: FunctionClosure, key: Any) -> CallFrame:
        """The frame of a call from here."""
        caller = self.interpreter.frame
        scope = Scope(closure.code, closure.scope, closure.code.local_names)
        depth = caller.depth + 1 if caller else 0
        return CallFrame(
            closure.code, scope, Variable("left off"), Variable("result"), closure.code.node, caller, depth, 0, key
        )

    def run(self, frame: CallFrame, closure: FunctionClosure, bound: Keywords) -> AbstractValue:
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


TRANSFORMATIONS = {
    "grad": "grad", "value_and_grad": "value_and_grad", "jvp": "jvp", "vjp": "vjp", "jacrev": "jacobian",
    "jacfwd": "jacobian", "jacobian": "jacobian", "hessian": "hessian",
}  # fmt: skip
"""hloom's derivatives by the names of jax's."""
CALLABLE = (FunctionClosure, PartialCall, Derived, ValueChoice)


def _is_of_program(value: AbstractValue) -> bool:
    """Whether a value is a function that is interpreted, not the library's own."""
    return isinstance(value, CALLABLE) or (isinstance(value, Const) and hasattr(value.value, "hloom_function"))
