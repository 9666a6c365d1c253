"""Python functions compiled: `hloom.function`, and derivatives of functions beside those of modules."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, TypeVarTuple, Unpack, overload

import numpy as np

from hloom import autodiff, runtime
from hloom.api.arguments import NUMBERS, abstract, check_static, frozen, positions
from hloom.api.differentiable import module_derivatives
from hloom.api.inside_jax import InsideJax
from hloom.api.run_errors import error_of
from hloom.formats.hlo import is_lowering
from hloom.functions import (
    BUILTINS,
    DEFAULT_DEPTH,
    AbstractValue,
    CompiledFunction,
    Const,
    Derived,
    Interpreter,
    Settings,
    Static,
    Tuple,
    compile_program,
    printed_lines,
    rebuilt,
)
from hloom.inspection.viz import to_dot
from hloom.ir import Module, ModuleLike, as_module, dump
from hloom.passes import apply as apply_passes
from hloom.text import Display, Displayed, HloomError, unwritable

DEEPEST = 1 << 21
"""How deep a recursion's stack may become."""
KEPT_PROGRAMS = 256
"""The maximum number of compiled programs that a function caches."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Primals = TypeVarTuple("Primals")

Entry = Callable[[Interpreter, list[AbstractValue], dict[str, AbstractValue]], AbstractValue]


class FunctionOptions(NamedTuple):
    """How a function is compiled: static arguments, bits of Python's numbers, and where it runs."""

    static: tuple[str | int, ...] = ()
    precision: int = 64
    isolated: bool = False


DEFAULT_OPTIONS = FunctionOptions()


class Function(Displayed, Generic[Parameters, Result]):
    """A Python function that is compiled for the types of its arguments and run by XLA.

    Numbers and arrays are data; strings, None, functions and arguments named in `static` are compile-time constants.
    Results have Python's structure: Python numbers where Python would return them, else NumPy arrays.
    """

    def __init__(
        self,
        original: Callable[..., Any],
        entry: Entry,
        name: str,
        options: FunctionOptions = DEFAULT_OPTIONS,
    ) -> None:
        functools.update_wrapper(self, original, updated=())
        self.hloom_function = original
        self.hloom_derived: tuple[str, Any, dict[str, Any]] | None = None
        self.name = name
        self.options = options
        self.static, self.precision, _ = options
        self._entry = entry
        self._programs: dict[Any, tuple[CompiledFunction, Callable[..., Any]]] = {}
        self._positions = positions(original)
        self._other_precision: Function | None = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def display(self) -> Display:
        return Display(f"<hloom.function {self.name}>")

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        arrays: list[Any] = []
        key = self.key(args, kwargs, arrays)
        held = self._programs.get(key)
        if held is None or not held[0].is_current():
            held = self._compile(key, DEFAULT_DEPTH)
        while True:
            program, run = held
            outputs = [np.asarray(output) for output in run(*arrays)]
            number = int(outputs[-1]) if program.has_error else 0
            if program.printed and not (number and number == program.overflow):
                for line in printed_lines(program.printed, outputs[0], int(outputs[1])):
                    print(line)  # noqa: T201  what it is for
            if number == 0:
                return rebuilt(program.template, outputs[2:] if program.printed else outputs)
            if number == program.overflow and program.depth < DEEPEST:
                held = self._compile(key, program.depth * 8)
                continue
            raise error_of(program, number)

    # Looking at the program

    def program(self, *args: Any, **kwargs: Any) -> CompiledFunction:
        """The compiled program for arguments of these types."""
        key = self.key(args, kwargs, [])
        held = self._programs.get(key)
        if held is None or not held[0].is_current():
            return self.make(key, DEFAULT_DEPTH)
        return held[0]

    def ir(self, *args: Any, **kwargs: Any) -> str:
        """The typed functional graphs, with closures, as text."""
        return dump(self.program(*args, **kwargs).functional)

    def dot(self, *args: Any, **kwargs: Any) -> str:
        """The functional graphs as a picture in the DOT language."""
        return to_dot(self.program(*args, **kwargs).functional)

    def hlo(self, *args: Any, **kwargs: Any) -> Module:
        """The module that XLA gets; where errors are checked, its last result is their number."""
        return self.program(*args, **kwargs).module

    def stages(self, *args: Any, directory: str | Path, **kwargs: Any) -> list[Path]:
        """Write the program after every stage that changed it, as `.ir` and `.dot`; returns the files in order."""
        program = self.make(self.key(args, kwargs, []), DEFAULT_DEPTH, simplify=False)
        folder = Path(directory)
        written: list[Path] = []
        stages = [("functional", program.functional), ("first-order", program.module)]
        for name in PASSES:
            stages.append((name, apply_passes(stages[-1][1], [name])[0]))
        former = ""
        for number, (name, result) in enumerate(stages):
            text = dump(result)
            if text == former:
                continue
            former = text
            for suffix, content in ((".ir", text), (".dot", to_dot(result))):
                path = folder / f"{number:02}_{name}{suffix}"
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    path.write_text(content, encoding="utf-8", errors="surrogateescape")
                except OSError as problem:
                    raise unwritable(path, problem) from None
                written.append(path)
        return written

    def as_jax(
        self, *args: Any, raise_errors: bool = True, depth: int = DEFAULT_DEPTH, **kwargs: Any
    ) -> Callable[..., Any]:
        """A function of jax's arrays, for use inside `jax.jit`, `vmap` and `grad`, compiled once per types.

        With arguments, it only accepts arguments of these types, to which others are converted. Results have Python's
        structure, with jax arrays. Where jax has no 64-bit types (`jax_enable_x64`), Python's numbers have 32 bits.
        Errors are raised by a host callback when they occur, like those of `jax.debug.callback`, unless `raise_errors`
        is False; `depth` is the maximum recursion depth. Raises HloomError.
        """
        if not 0 < depth <= DEEPEST:
            raise HloomError(f"the depth of recursion cannot be {depth}", hint=f"from 1 to {DEEPEST}")
        return InsideJax(self, raise_errors, depth).function(args, kwargs)

    # Compiling

    def at_precision(self, precision: int) -> Function:
        """The same function where Python's own numbers have that many bits."""
        if precision == self.precision:
            return self
        if self._other_precision is None:
            options = self.options._replace(precision=precision)
            self._other_precision = Function(self.hloom_function, self._entry, self.name, options)
        return self._other_precision

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any], arrays: list[Any]) -> Any:
        """The cache key of a program; collects the arrays among the arguments."""
        table = NUMBERS[self.precision]
        described = []
        for number, argument in enumerate(args):
            name = self._positions[number] if number < len(self._positions) else None
            is_static = number in self.static or name in self.static
            described.append(Static(frozen(argument)) if is_static else abstract(argument, arrays, table))
        named = []
        for name, argument in kwargs.items():
            named.append((name, Static(frozen(argument)) if name in self.static else abstract(argument, arrays, table)))
        return tuple(described), tuple(named)

    def _compile(self, key: Any, depth: int) -> tuple[CompiledFunction, Callable[..., Any]]:
        program = self.make(key, depth)
        if self.options.isolated:
            run = runtime.compiled_in_child(program.module)
        else:
            run = runtime.compiled(program.module, self.name, module_derivatives())
        if len(self._programs) >= KEPT_PROGRAMS:
            self._programs.clear()
        self._programs[key] = program, run
        return program, run

    def make(self, key: Any, depth: int, *, simplify: bool = True) -> CompiledFunction:
        """The program for a key, whose recursion has a stack of that depth."""
        arguments, named = key
        settings = Settings(_tracing(), self.precision, depth, _transformations())
        program = compile_program(self._entry, self.name, arguments, dict(named), settings, depth=depth)
        if simplify:
            program.module = apply_passes(program.module, list(PASSES))[0]
        return program


PASSES = ("inline", "simplify", "cse", "dce")


class _Decorator(Protocol):
    def __call__(self, function: Callable[Parameters, Result], /) -> Function[Parameters, Result]: ...


@overload
def function(
    function: Callable[Parameters, Result],
    *,
    static: Sequence[str | int] | str | int = (),
    precision: int = 64,
    isolated: bool = False,
) -> Function[Parameters, Result]: ...


@overload
def function(
    function: None = None,
    *,
    static: Sequence[str | int] | str | int = (),
    precision: int = 64,
    isolated: bool = False,
) -> _Decorator: ...


def function(
    function: Callable[..., Any] | None = None,
    *,
    static: Sequence[str | int] | str | int = (),
    precision: int = 64,
    isolated: bool = False,
) -> Any:
    """A Python function, compiled for the types of its arguments and run by XLA; without a function, a decorator.

        @hloom.function
        def newton(a, tolerance=1e-12):
            x = a
            while abs(x * x - a) > tolerance:
                x = 0.5 * (x + a / x)
            return x

    `static` names compile-time constant arguments; `precision` is the number of bits of Python's own numbers. With
    `isolated` it runs in a child process, so that a crash of XLA raises XlaCrash here; calls take longer. Raises
    HloomError, at the line, for code that cannot be compiled, and, at run time, errors of Python's own classes that are
    also HloomErrors.
    """
    names = (static,) if isinstance(static, (str, int)) else tuple(static)
    if precision not in (32, 64):
        raise HloomError(f"precision is 32 or 64, not {precision}")
    if function is None:
        return functools.partial(globals()["function"], static=names, precision=precision, isolated=isolated)
    if isinstance(function, Function):
        return function
    if not callable(function):
        raise HloomError(f"expected a function to compile, not {type(function).__name__}")
    original = function
    check_static(original, names)

    def entry(
        interpreter: Interpreter, arguments: list[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        return interpreter.calls.call(interpreter.embed(original, _name(original)), arguments, keywords)

    return Function(original, entry, _name(original), FunctionOptions(names, precision, isolated))


@overload
def grad(target: ModuleLike, wrt: autodiff.Which = None, **options: Any) -> Module: ...


@overload
def grad(target: Callable[Parameters, Any], wrt: Any = None, **options: Any) -> Function[Parameters, Any]: ...


def grad(target: Any, wrt: Any = None, **options: Any) -> Any:
    """The gradient of a module, as a module, or of a function, as a function, depending on the argument's type.

    For a function, `wrt` is the number of an argument, or a tuple of numbers for a tuple of gradients. For a module,
    see `hloom.autodiff.grad`. Raises HloomError.
    """
    return _derived("grad", target, wrt, options)


@overload
def value_and_grad(target: ModuleLike, wrt: autodiff.Which = None, **options: Any) -> Module: ...


@overload
def value_and_grad(
    target: Callable[Parameters, Result], wrt: Any = None, **options: Any
) -> Function[Parameters, tuple[Result, Any]]: ...


def value_and_grad(target: Any, wrt: Any = None, **options: Any) -> Any:
    """The same as `grad`, with the value before the gradient."""
    return _derived("value_and_grad", target, wrt, options)


def _derived(name: str, target: Any, wrt: Any, options: dict[str, Any]) -> Any:
    if not _is_function(target):
        return _of_module(name, target, wrt, **options)
    original, how = _original(target)
    chosen = {
        "wrt": 0 if wrt is None else tuple(wrt) if isinstance(wrt, list) else wrt,
        "has_aux": bool(options.pop("has_aux", False)),
    }
    if options:
        raise HloomError(f"{name} of a function has no option '{next(iter(options))}'", hint="it has wrt and has_aux")

    def entry(
        interpreter: Interpreter, arguments: list[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        derived = Derived(name, interpreter.embed(original, _name(original)), chosen)
        return interpreter.calls.call(derived, arguments, keywords)

    made = Function(_shell(original), entry, f"{name}_{_name(original)}", how)
    made.hloom_derived = name, original, chosen
    return made


@overload
def jvp(target: ModuleLike, wrt: autodiff.Which = None, **options: Any) -> Module: ...


@overload
def jvp(target: Callable[..., Result], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Result, Result]: ...


def jvp(target: Any, *args: Any, **options: Any) -> Any:
    """`jvp(function, primals, tangents)`: the value and its derivative along the tangents; of a module, a module."""
    if not _is_function(target):
        return _of_module("jvp", target, *args, **options)
    original, how = _original(target)
    unknown = next((name for name in options if name not in ("primals", "tangents")), None)
    given = [*args, *(options[name] for name in ("primals", "tangents") if name in options)]
    if unknown is not None or len(given) != 2 or not all(isinstance(part, (tuple, list)) for part in given):
        raise HloomError("jvp of a function takes the function, a tuple of primals and a tuple of tangents")
    primals, tangents = given

    def entry(
        interpreter: Interpreter, arguments: list[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        return BUILTINS["jvp"](interpreter, [interpreter.embed(original, _name(original)), *arguments], {})

    return _cached("jvp", original, entry, how)(tuple(primals), tuple(tangents))


@overload
def vjp(target: ModuleLike, wrt: autodiff.Which = None, **options: Any) -> Module: ...


@overload
def vjp(
    target: Callable[[Unpack[Primals]], Result], *primals: *Primals
) -> tuple[Result, Callable[[Any], tuple[Any, ...]]]: ...


def vjp(target: Any, *primals: Any, **options: Any) -> Any:
    """`vjp(function, *primals)`: the value, and a function from cotangents of it to those of the primals.

    For a module, returns a module: see `hloom.autodiff.vjp`.
    """
    if not _is_function(target):
        return _of_module("vjp", target, *primals, **options)
    original, how = _original(target)

    def forward(
        interpreter: Interpreter, arguments: list[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        return interpreter.calls.call(interpreter.embed(original, _name(original)), arguments, keywords)

    def backward(
        interpreter: Interpreter, arguments: list[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        *given, cotangent = arguments
        pair = BUILTINS["vjp"](interpreter, [interpreter.embed(original, _name(original)), *given], {})
        assert isinstance(pair, Tuple)
        return interpreter.calls.call(pair.items[1], [cotangent], {})

    value = _cached("value", original, forward, how)(*primals)
    pulled = _cached("vjp", original, backward, how)

    def pull_back(cotangent: Any) -> Any:
        return pulled(*primals, cotangent)

    return value, pull_back


def jacobian(target: Callable[Parameters, Any], wrt: int | tuple[int, ...] = 0) -> Function[Parameters, Any]:
    """The function of the derivatives of each element of a function's result: with respect to an argument, or several.

    Its result has the dimensions of the function's result, then those of the argument.
    """
    return _matrix("jacobian", target, wrt)


def hessian(target: Callable[Parameters, Any], wrt: int = 0) -> Function[Parameters, Any]:
    """The function of the second derivatives of a scalar function."""
    return _matrix("hessian", target, wrt)


def _matrix(name: str, target: Any, wrt: Any) -> Any:
    original, how = _original(target)

    def entry(
        interpreter: Interpreter, arguments: list[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        made = BUILTINS[name](interpreter, [interpreter.embed(original, _name(original)), Const(wrt)], {})
        return interpreter.calls.call(made, arguments, keywords)

    function = Function(_shell(original), entry, f"{name}_{_name(original)}", how)
    function.hloom_derived = name, original, {"wrt": wrt}
    return function


_CACHE: dict[Any, Function] = {}


def _cached(name: str, original: Any, entry: Entry, how: FunctionOptions) -> Function:
    """The function made before for the same one, so that it is compiled once."""
    options = how._replace(static=())  # its arguments are others
    key = name, original, options
    try:
        held = _CACHE.get(key)
    except TypeError:
        return Function(_shell(original), entry, f"{name}_{_name(original)}", options)
    if held is None:
        if len(_CACHE) >= KEPT_PROGRAMS:
            _CACHE.clear()
        held = _CACHE[key] = Function(_shell(original), entry, f"{name}_{_name(original)}", options)
    return held


def _is_function(target: Any) -> bool:
    return callable(target) and not isinstance(target, Module) and not is_lowering(target)


def _of_module(name: str, target: Any, *args: Any, **options: Any) -> Module:
    """The derivative of a module; raises HloomError for options that are not those of modules."""
    derive = getattr(autodiff, name)
    parameters = inspect.signature(derive).parameters
    unknown = next((option for option in options if option not in parameters), None)
    if unknown is not None:
        known = ", ".join(list(parameters)[1:])
        raise HloomError(f"{name} of a module has no option '{unknown}'", hint=f"it has {known}")
    if len(args) > 1:
        hint = "it returns a module: run that with the other arguments"
        raise HloomError(f"{name} of a module takes the module and wrt", hint=hint)
    return derive(as_module(target), *args, **options)


def _original(target: Any) -> tuple[Any, FunctionOptions]:
    """What a function is made of, for one of `hloom.function` the Python function, and how it is compiled."""
    if isinstance(target, Function):
        original = target if target.hloom_derived is not None else target.hloom_function
        return original, target.options
    if not _is_function(target):
        raise HloomError(
            f"expected a function, not {type(target).__name__}",
            hint="modules have grad, value_and_grad, vjp and jvp; jvp(grad(module)) gives products with the Hessian",
        )
    return target, DEFAULT_OPTIONS


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", type(target).__name__))


def _shell(original: Any) -> Callable[..., Any]:
    def shell(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    shell.__name__ = _name(original)
    with contextlib.suppress(TypeError, ValueError):
        shell.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    shell.__doc__ = getattr(original, "__doc__", None)
    return shell


def print_value(value: Any, label: str = "") -> Any:
    """Print a value when a compiled function runs, and return it."""
    print(f"{label}: {value}" if label else value)  # noqa: T201  what it is for
    return value


@functools.cache
def _tracing() -> Any:
    return runtime.JaxTracing()


@functools.cache
def _transformations() -> dict[int, str]:
    return {id(row): row.__name__ for row in (grad, value_and_grad, jvp, vjp, jacobian, hessian, print_value, function)}
