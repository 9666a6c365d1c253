"""Calls of array functions in replacements: `r.call(jax.nn.dot_product_attention, q, k, v)`.

    softmax(q k) v   ->   call(q, k, v), to_apply=dot_product_attention

A function is traced for the types that a rule matched, and its program becomes a computation of the module. The tracer
is in a package above this one (`runtime`, for jax functions), which registers it here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Protocol, cast
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

import numpy as np

from hloom.ir import DTYPES, Apply, Graph, Module, Node, TensorType, TupleType, dtype_of, legal_name
from hloom.rewrite.builder import Builder
from hloom.rewrite.registry import REGISTERED, RuleError, register
from hloom.text import HloomError

PREFIX = "call "
"""The prefix of the registered names of call builders; the function's own name follows."""
EXECUTED = "hloom_own_passes_"
"""The module-name prefix of files executed by path: their functions are named as if they were imported."""
COMPUTATION = "rule."
"""The name prefix of computations that rules made; the function's name follows.

The prefix survives copying, writing and reading, so that a rule does not match inside its own output.
"""


class FunctionLowering(Protocol):
    """Traces a function of arrays for given types and other arguments; it returns an array or a tuple.

    May return the same module for the same request; do not change it. Raises HloomError if the function fails.
    """

    def __call__(
        self, function: Callable[..., Any], types: Sequence[TensorType], keywords: Mapping[str, Any]
    ) -> Module:
        """The module."""
        ...


@dataclass(frozen=True, slots=True)
class GradientParts:
    """A function's gradient, as two modules.

    `forward` returns `results` arrays followed by `residuals` more; `backward` takes the latter, and a cotangent for
    each floating-point result, and returns the cotangents of the operands numbered in `moving`.
    """

    forward: Module
    backward: Module
    results: int
    residuals: int
    moving: tuple[int, ...]


class FunctionGradients(Protocol):
    """Derivatives of functions of arrays, for given types and other arguments; raises HloomError if there is none."""

    def has_own(self, function: Callable[..., Any], types: Sequence[TensorType], keywords: Mapping[str, Any]) -> bool:
        """Whether a function defines its own derivative."""
        ...

    def parts(
        self,
        function: Callable[..., Any],
        types: Sequence[TensorType],
        keywords: Mapping[str, Any],
        moving: Sequence[int] | None = None,
    ) -> GradientParts:
        """Its gradient with respect to the numbered operands; None means all floating-point ones."""
        ...

    def forward(
        self,
        function: Callable[..., Any],
        types: Sequence[TensorType],
        keywords: Mapping[str, Any],
        moving: Sequence[int] | None = None,
    ) -> Module:
        """A module from the operands and tangents of `moving` ones to the results and tangents of floating-point ones.
        """
        ...


MARK, KEYWORDS = "hloom_function", "hloom_keywords"
"""The frontend attributes of a call of a function with its own derivative: its name, and its keywords as JSON."""
_FUNCTIONS: dict[str, list[Callable[..., Any]]] = {}
"""For each name, the functions registered under it, in order."""
RULE = "rule."
"""The label prefix of functions that have a number but no name."""
_NUMBERS = count()
_GRADIENTS: list[Callable[[], FunctionGradients]] = []
_LOWERINGS: list[Callable[[], FunctionLowering]] = []
_COMPUTATIONS: WeakKeyDictionary[Module, dict[Module, Graph]] = WeakKeyDictionary()
"""For each module and traced program, the computation shared by its calls."""


def provide_lowering(get: Callable[[], FunctionLowering]) -> None:
    """Register how to get the function lowering when first needed; the last registration wins."""
    _LOWERINGS.append(get)


def provide_gradients(get: Callable[[], FunctionGradients]) -> None:
    """Register how to get derivatives of functions when first needed; the last registration wins."""
    _GRADIENTS.append(get)


def call_name(function: Callable[..., Any]) -> str:
    """The name under which saved rules refer to calls of a function, registered on first use; RuleError for
    non-functions.

    >>> call_name(sorted)
    'call builtins.sorted'
    """
    names = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not callable(function) or None in names:
        raise RuleError(
            f"{function!r:.80} is not a function with a name",
            hint="define one with def, and give it values of other arguments as keywords of r.call",
        )
    name = f"{PREFIX}{'.'.join(map(str, names)).removeprefix(EXECUTED)}"
    functions = _FUNCTIONS.setdefault(name, [])
    if not any(known is function for known in functions):
        functions.append(function)
    known = REGISTERED.get(name)
    if known is None:
        register(name, partial(_build_call, function, name))
    elif not (isinstance(known, partial) and known.args[0] is function):
        REGISTERED[name] = partial(_build_call, function, name)
    return name


def build_call(
    build: Builder, function: Callable[..., Any], *operands: Node, results: int = 1, **keywords: Any
) -> Node | tuple[Node, ...] | None:
    """`r.call` for native rules: the results of a call, or None with the reason recorded in the builder."""
    return _build_call(function, call_name(function), build, results, tuple(keywords), *keywords.values(), *operands)


def _build_call(
    function: Callable[..., Any], name: str, build: Builder, count: int, names: tuple[str, ...], *arguments: Any
) -> Node | tuple[Node, ...] | None:
    """The results of a call: as many as the rule says, of the types that the function returns.

    `arguments` are the values of the keywords in `names`, followed by the operands.
    """
    computation = _computation_name(name)
    if build.graph.name == computation or build.graph.name.startswith(f"{computation}."):
        return build.decline("it stands in what the rule itself has made")
    keywords, operands = dict(zip(names, arguments[: len(names)], strict=True)), arguments[len(names) :]
    types: list[TensorType] = []
    for operand in operands:
        if not isinstance(operand, Node) or not isinstance(operand.type, TensorType):
            return build.decline(f"an operand of {name} is not an array")
        types.append(TensorType(operand.type.dtype, operand.type.dims))
    program = _lowering()(function, types, keywords)
    graph = _computation(build, program, computation)
    yielded = len(graph.root.type.elements) if isinstance(graph.root.type, TupleType) else 1
    if yielded != count:
        return build.decline(f"{name} yields {yielded} arrays, not {count}")
    marks: dict[str, Any] = {}
    if _GRADIENTS and _GRADIENTS[-1]().has_own(function, types, keywords):
        written = _written(keywords)
        if written is None:
            return build.decline(f"{name} has a derivative of its own, and a keyword that cannot be written down")
        marks["frontend_attributes"] = ((MARK, _mark(function, name)), (KEYWORDS, written))
    called = build.op("call", *operands, to_apply=graph, **marks)
    if not isinstance(graph.root.type, TupleType):
        return called
    results = tuple(build.get(called, index) for index in range(count))
    return results[0] if count == 1 else results


def _lowering() -> FunctionLowering:
    if not _LOWERINGS:
        raise RuleError("nothing is there that traces functions", hint="import hloom.runtime, which traces jax's")
    return _LOWERINGS[-1]()


def _computation(build: Builder, program: Module, name: str) -> Graph:
    """The computation of a traced program in the module; made at the first call."""
    module = build.graph.module
    known = _COMPUTATIONS.setdefault(module, {})
    graph = known.get(program)
    if graph is None or graph.name not in module or module[graph.name] is not graph:
        graph = known[program] = build.copy_module(program, name)
    return graph


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """The function with its own derivative behind a call, with the types and keywords it was traced for."""

    name: str
    function: Callable[..., Any]
    types: tuple[TensorType, ...]
    keywords: dict[str, Any]

    @property
    def computation(self) -> str:
        """The name of its computations."""
        return _computation_name(self.name)

    def parts(self, moving: Sequence[int] | None = None) -> GradientParts:
        """Its gradient with respect to the moving operands; None means all floating-point ones."""
        return _GRADIENTS[-1]().parts(self.function, self.types, self.keywords, moving)

    @property
    def has_forward_mode(self) -> bool:
        """Whether it has a forward-mode derivative; if not, `forward` raises."""
        try:
            self.forward()
        except HloomError:
            return False
        return True

    def forward(self, moving: Sequence[int] | None = None) -> Module:
        """Its forward-mode derivative along tangents of the moving operands; None means all floating-point ones."""
        return _GRADIENTS[-1]().forward(self.function, self.types, self.keywords, moving)


def _computation_name(name: str) -> str:
    """What the computation of a function with this registered name is called."""
    return f"{COMPUTATION}{legal_name(name.rpartition('.')[-1])}"


class _Label(str):
    """A mark and its function."""

    function: Callable[..., Any]


def mark_call(node: Apply, function: Callable[..., Any]) -> None:
    """Mark a call as computing this function of arrays, which has its own derivative.

    The mark refers to the function object, so it only works in this process; `inline` leaves such calls alone.
    """
    label = _Label(f"{RULE}{next(_NUMBERS)}")
    label.function = function
    marks = (*(node.attributes.get("frontend_attributes") or ()), ("inlineable", "false"), (MARK, label))
    node.graph.set_attributes(node, node.attributes.changed({"frontend_attributes": marks}))


def has_own_derivative(node: Node) -> bool:
    """Whether a call is marked with a function that has its own derivative."""
    return any(name == MARK for name, _ in node.attributes.get("frontend_attributes") or ())


def marked_calls(module: Module) -> Counter[str]:
    """The names of functions with their own derivatives that rules put into a module, with the number of calls.

    Calls marked by `mark_call` are not included.
    """
    calls = Counter[str]()
    for node in module.nodes():
        if node.opcode == "call" and has_own_derivative(node):
            label = unquote(dict(node.attributes["frontend_attributes"])[MARK])
            if not label.startswith(RULE):
                calls[label.removeprefix(PREFIX).partition("#")[0]] += 1
    return calls


def called_function(node: Apply) -> CalledFunction | None:
    """The function with its own derivative behind a call; None if there is none.

    Raises RuleError if the module was read from a file and the function has not been defined.
    """
    if not has_own_derivative(node):
        return None
    marks = dict(node.attributes["frontend_attributes"])
    label, _, number = unquote(marks[MARK]).partition("#")
    functions = [marks[MARK].function] if isinstance(marks[MARK], _Label) else _FUNCTIONS.get(label, [])
    index = int(number) if number.isdecimal() and len(number) < 9 else 0
    if index >= len(functions) or not _GRADIENTS:
        name = label.removeprefix(PREFIX)
        raise RuleError(
            f"{node.name} is a call of {name}, which has a derivative of its own and is not defined here",
            hint="import what defines it and say hloom.rewrite.call_name(function) (hloom grad --load FILE.py), or "
            "inline the call first: its program is differentiated then",
        )
    given = [operand.type for operand in node.operands if isinstance(operand.type, TensorType)]
    types = tuple(TensorType(value_type.dtype, value_type.dims) for value_type in given)
    return CalledFunction(label, functions[index], types, _read_keywords(marks.get(KEYWORDS, ""), node.name))


def _mark(function: Callable[..., Any], name: str) -> str:
    """A function's name, and its number among the functions with that name."""
    number = next(number for number, known in enumerate(_FUNCTIONS[name]) if known is function)
    return quote(f"{name}#{number}" if number else name)


def _written(keywords: Mapping[str, Any]) -> str | None:
    """Keywords as JSON that can be quoted; None if JSON cannot express them."""
    try:
        return quote(json.dumps({name: _plain(value) for name, value in keywords.items()}))
    except TypeError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return list(map(_plain, cast("Sequence[Any]", value)))
    if isinstance(value, np.generic):
        array: Any = np.asarray(cast(Any, value))
        return {"dtype": dtype_of(array.dtype).name, "value": array.item()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(type(value).__name__)


def _read_keywords(written: str, name: str) -> dict[str, Any]:
    try:
        values = json.loads(unquote(written) or "{}")
        return {key: _value(value) for key, value in values.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RuleError(f"{name}: the keywords of its function do not read: {error}") from None


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_value, cast("list[Any]", value)))
    if isinstance(value, dict):
        scalar = cast("dict[str, Any]", value)
        return np.dtype(DTYPES[scalar["dtype"]].numpy).type(scalar["value"])
    return value
