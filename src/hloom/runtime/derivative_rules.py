"""Preserves jax's derivative rules (`jax.custom_vjp`, `custom_jvp`, `lax.custom_linear_solve`, `stop_gradient`) in HLO.

    b = custom_vjp_call[...] a   ->   b = rule_call[hloom_rule_7] a   ->   b = call(a), to_apply=hloom_rule_7, marked

HLO has no such rules: jax lowers a function with rules to its plain program, and a stopped gradient to nothing. Here
each equation with a rule becomes a call marked as a function with its own derivative, which `hloom.vjp` and `jvp` then
use (`rewrite/function_calls.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise
from typing import Any

from hloom.formats.hlo import load
from hloom.ir import Apply, Module
from hloom.rewrite import mark_call
from hloom.runtime.jax_internals import implementation_of_key, inner_jaxpr, jax_internals, refuse_callbacks

RULED = ("custom_vjp_call", "custom_jvp_call", "custom_linear_solve", "linear_call", "random_gamma", "stop_gradient")
"""The primitives that hold rules, or whose derivative is not their program's, which rejects samples."""
SHIFTS = frozenset({"softmax", "_softmax", "_softmax_deprecated", "log_softmax", "logsumexp", "_logsumexp"})
"""jax's own functions whose rules are those of their programs: they stop the gradient of a shift that cancels out."""
_SHIFT_FILES = ("jax/_src/nn/functions.py", "jax/_src/ops/special.py")
OWN_RULES = frozenset({"_stop_gradient_batch_rule", "_stop_gradient_jvp_rule"})
"""By which `jax.lax.stop_gradient` calls itself once more."""
_PREFIX = "hloom_rule_"
_NAME = re.compile(rf"{_PREFIX}\d+")
"""How computations of rules are named; jax puts `_0` behind the name of a second one, XLA `.3`."""
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class _Rules:
    """The functions of equations with rules, by name; those that are at `without` stay as they are."""

    without: frozenset[str]
    functions: dict[str, Callable[..., Any]]
    rewritten: dict[int, Any]


def lowered_with_rules(jaxpr: Any, without: Iterable[str] = ()) -> Module:
    """The module of a closed jaxpr, its rules as marked calls but for those at some places (`rules_of`).

    Raises Unsupported for callbacks.
    """
    internals = jax_internals()
    refuse_callbacks(jaxpr)
    rules = _Rules(frozenset(without), {}, {})
    function = internals.core.jaxpr_as_fun(_rewritten(jaxpr, rules))
    types = [internals.jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals]
    module = load(internals.jax.jit(lambda *values: function(*values), keep_unused=True).lower(*types))
    for node in module.nodes():
        if isinstance(node, Apply) and node.opcode == "call":
            (graph,) = node.called_graphs
            named = _NAME.match(graph.name)
            ruled = rules.functions.get(named[0]) if named is not None else None
            if ruled is not None:
                mark_call(node, ruled)
    return module


def rules_of(jaxpr: Any) -> list[str]:
    """The functions with rules in a jaxpr, by name, file and line, each once."""
    core = jax_internals().core
    pending, places = [jaxpr.jaxpr], dict[str, None]()
    while pending:
        part = pending.pop()
        for equation in part.eqns:
            if _has_rule(equation) and not _is_shift(equation):
                places[_where(equation)] = None
        pending += core.subjaxprs(part)
    return list(places)


def _rewritten(jaxpr: Any, rules: _Rules) -> Any:
    """A jaxpr, closed or not, with its equations with rules as calls of functions, at any depth."""
    if id(jaxpr) in rules.rewritten:
        return rules.rewritten[id(jaxpr)][1]
    if (inner := inner_jaxpr(jaxpr)) is not None:
        made: Any = jaxpr.replace(jaxpr=_rewritten(inner, rules))
    else:
        made = jaxpr.replace(eqns=[_equation(equation, rules) for equation in jaxpr.eqns])
    rules.rewritten[id(jaxpr)] = jaxpr, made
    return made


def _equation(equation: Any, rules: _Rules) -> Any:
    if _has_rule(equation) and not equation.effects:
        is_open = _is_shift(equation) or _where(equation) in rules.without
        return equation if is_open else _call(equation, rules)
    if equation.primitive.name == "pallas_call":  # a kernel's jaxpr operates on references and is not a program
        return equation
    return equation.replace(params={name: _parameter(value, rules) for name, value in equation.params.items()})


def _parameter(value: Any, rules: _Rules) -> Any:
    core = jax_internals().core
    if isinstance(value, (core.Jaxpr, core.ClosedJaxpr)):
        return _rewritten(value, rules)
    if isinstance(value, (tuple, list)) and any(isinstance(part, (core.Jaxpr, core.ClosedJaxpr)) for part in value):
        parts = [_parameter(part, rules) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _call(equation: Any, rules: _Rules) -> Any:
    """The equation as a call of a function that computes the same."""
    core = jax_internals().core
    name = f"{_PREFIX}{next(_NUMBERS)}"
    operands = list(dict.fromkeys(atom for atom in equation.invars if not isinstance(atom, core.Literal)))
    inner = core.Jaxpr([], operands, equation.outvars, [equation], frozenset(), _debug_info(equation))
    if any(isinstance(variable, core.DropVar) for variable in equation.outvars):
        fresh = [core.Var(variable.aval) for variable in equation.outvars]
        inner = inner.replace(outvars=fresh, eqns=[equation.replace(outvars=fresh)])
    rules.functions[name] = _of_plain_arrays(inner, _where(equation))
    params = {"name": name, "jaxpr": core.ClosedJaxpr(inner, [])}
    return equation.replace(primitive=rule_call(), invars=operands, params=params)


@lru_cache(1)
def rule_call() -> Any:
    """The primitive of a call that keeps all its operands and results: jax drops those of a `jit` that nobody reads."""
    internals = jax_internals()
    made = internals.core.Primitive("rule_call")
    made.multiple_results = True
    made.def_abstract_eval(lambda *inputs, name, jaxpr: jaxpr.out_avals)
    internals.mlir.register_lowering(made, _lower_rule)
    return made


def _lower_rule(context: Any, *arguments: Any, name: str, jaxpr: Any) -> Any:
    internals = jax_internals()
    function = internals.core.jaxpr_as_fun(jaxpr)

    def apply(*arrays: Any) -> list[Any]:
        return function(*arrays)

    apply.__name__ = apply.__qualname__ = name
    return internals.mlir.lower_fun(internals.jax.jit(apply), multiple_results=True)(context, *arguments)


def _debug_info(equation: Any) -> Any:
    """What jax says of a jaxpr in its errors: here, of one that has a single equation."""
    return jax_internals().core.DebugInfo("hloom.jit", _where(equation), None, None)


def _of_plain_arrays(jaxpr: Any, name: str) -> Callable[..., Any]:
    """What a jaxpr computes, of and with keys of random numbers as the arrays that they are of."""

    def apply(*arrays: Any) -> list[Any]:
        given = arrays_or_keys(arrays, [variable.aval for variable in jaxpr.invars])
        return plain_arrays(jax_internals().core.eval_jaxpr(jaxpr, [], *given))

    apply.__name__ = name
    apply.has_64_bits = jax_internals().jax.config.jax_enable_x64  # pyright: ignore[reportFunctionMemberAccess]
    return apply


def plain_arrays(values: Iterable[Any]) -> list[Any]:
    """Values of jax, keys of random numbers as the arrays that they are of."""
    random = jax_internals().jax.random
    return [random.key_data(value) if is_key(value) else value for value in values]


def arrays_or_keys(arrays: Iterable[Any], avals: Iterable[Any]) -> list[Any]:
    """The values of these types that arrays stand for."""
    random = jax_internals().jax.random
    return [
        random.wrap_key_data(array, impl=implementation_of_key(aval.dtype)) if is_key(aval) else array
        for array, aval in zip(arrays, avals, strict=True)
    ]


def is_key(value: Any) -> bool:
    """Whether a value, or a type, is of keys of random numbers."""
    jax = jax_internals().jax
    return jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _is_shift(equation: Any) -> bool:
    """Whether the rule is of one of jax's functions whose programs have the same derivative."""
    if equation.primitive.name == "stop_gradient":
        frame = _caller(equation)
        return frame is not None and frame.function_name in SHIFTS and frame.file_name.endswith(_SHIFT_FILES)
    name, _, file = _function_of(equation).partition(" at ")
    return name in SHIFTS and file.rpartition(":")[0].endswith(_SHIFT_FILES)


def _has_rule(equation: Any) -> bool:
    return equation.primitive.name in RULED


def _caller(equation: Any) -> Any:
    """The frame of what called `jax.lax.stop_gradient`, but for its own rules; None where jax says nothing."""
    traceback = equation.source_info.traceback
    frames = traceback.frames if traceback is not None else []
    for inner, frame in pairwise(frames):
        if inner.function_name == "stop_gradient" and frame.function_name not in OWN_RULES:
            return frame
    return None


def _function_of(equation: Any) -> str:
    """The function with a rule, its file and line, as jax says them."""
    jaxpr = equation.params.get("call_jaxpr", equation.params.get("jaxpr"))
    info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
    return getattr(info, "func_src_info", None) or equation.primitive.name


def _where(equation: Any) -> str:
    """What has the rule, for errors."""
    if equation.primitive.name != "stop_gradient":
        return _function_of(equation)
    frame = _caller(equation)
    return "jax.lax.stop_gradient" + (f" at {frame.file_name}:{frame.line_num}" if frame is not None else "")
