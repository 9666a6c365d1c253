"""Functions of arrays in replacements: `r.call(jax.nn.dot_product_attention, q, k, v)`.

    softmax(q k) v   ->   call(q, k, v), to_apply=dot_product_attention

A function is traced for the types that a rule matched, and its program becomes a computation of the module. The package
that traces (`runtime`, for jax's functions) is above this one, and provides what does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from hloom.ir import Graph, Module, Node, TensorType, TupleType
from hloom.rewrite.builder import Builder
from hloom.rewrite.registry import REGISTERED, RuleError, register

PREFIX = "call "
"""What the registered names of builders of calls begin with; the function's own name follows."""
COMPUTATION = "rule."
"""What the names of computations that rules made begin with; that of the function follows.

So they are known after the module was copied, or written and read: a rule does not match in what it made itself.
"""


class FunctionLowering(Protocol):
    """Traces a function of arrays for types, with values of other arguments; what it yields is an array or a tuple.

    The module may be given again for the same demand, and is not changed. Raises HloomError where the function refuses.
    """

    def __call__(
        self, function: Callable[..., Any], types: Sequence[TensorType], keywords: Mapping[str, Any]
    ) -> Module:
        """The module."""
        ...


_LOWERINGS: list[Callable[[], FunctionLowering]] = []
_COMPUTATIONS: WeakKeyDictionary[Module, dict[Module, Graph]] = WeakKeyDictionary()
"""By module and traced program, the computation that calls have in common."""


def provide_lowering(get: Callable[[], FunctionLowering]) -> None:
    """Say what gives the lowering of functions, when one is first needed; the latest that was said counts."""
    _LOWERINGS.append(get)


def call_name(function: Callable[..., Any]) -> str:
    """The name by which saved rules refer to calls of a function, registered with the first; RuleError for no function.

    >>> call_name(sorted)
    'call builtins.sorted'
    """
    names = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not callable(function) or None in names:
        raise RuleError(
            f"{function!r:.80} is no function with a name",
            hint="define one with def, and give it values of other arguments as keywords of r.call",
        )
    name = f"{PREFIX}{'.'.join(map(str, names))}"
    known = REGISTERED.get(name)
    if known is None:
        register(name, partial(_build_call, function, name))
    elif not (isinstance(known, partial) and known.args[0] is function):
        REGISTERED[name] = partial(_build_call, function, name)
    return name


def build_call(
    build: Builder, function: Callable[..., Any], *operands: Node, results: int = 1, **keywords: Any
) -> Node | tuple[Node, ...] | None:
    """`r.call` for native rules: the results of a call of a function, or None with the reason in the builder."""
    return _build_call(function, call_name(function), build, results, tuple(keywords), *keywords.values(), *operands)


def _build_call(
    function: Callable[..., Any], name: str, build: Builder, count: int, names: tuple[str, ...], *arguments: Any
) -> Node | tuple[Node, ...] | None:
    """The results of a call: as many as the rule says, of the types that the function yields.

    `arguments` are the values of keywords of these names, and then the operands.
    """
    computation = f"{COMPUTATION}{name.rpartition('.')[-1]}"
    if build.graph.name == computation or build.graph.name.startswith(f"{computation}."):
        return build.decline("it stands in what the rule itself has made")
    keywords, operands = dict(zip(names, arguments[: len(names)], strict=True)), arguments[len(names) :]
    types: list[TensorType] = []
    for operand in operands:
        if not isinstance(operand, Node) or not isinstance(operand.type, TensorType):
            return build.decline(f"an operand of {name} is no array")
        types.append(TensorType(operand.type.dtype, operand.type.dims))
    program = _lowering()(function, types, keywords)
    graph = _computation(build, program, computation)
    yielded = len(graph.root.type.elements) if isinstance(graph.root.type, TupleType) else 1
    if yielded != count:
        return build.decline(f"{name} yields {yielded} arrays, not {count}")
    called = build.op("call", *operands, to_apply=graph)
    if not isinstance(graph.root.type, TupleType):
        return called
    results = tuple(build.get(called, index) for index in range(count))
    return results[0] if count == 1 else results


def _lowering() -> FunctionLowering:
    if not _LOWERINGS:
        raise RuleError("nothing is there that traces functions", hint="import hloom.runtime, which traces jax's")
    return _LOWERINGS[-1]()


def _computation(build: Builder, program: Module, name: str) -> Graph:
    """The computation of a traced program in the module: a new one with the first call."""
    module = build.graph.module
    known = _COMPUTATIONS.setdefault(module, {})
    graph = known.get(program)
    if graph is None or graph.name not in module or module[graph.name] is not graph:
        graph = known[program] = build.copy_module(program, name)
    return graph
