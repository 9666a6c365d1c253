"""Rules from a pair of functions: one computes the pattern, the other its replacement.

    def pattern(x, w, b):
        return ops.add(ops.dot(x, w, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,)), b)

    def replace(x, w, b):
        return ops.custom_call(x, w, b, custom_call_target="linear", type=...)

    linear = rule_from(pattern, replace, x="f32[?,?]", w="f32[?,?]", b="f32[?,?]")

Both are called once with placeholder values; their calls of `hloom.ops` are recorded. They compile to the same rules as
the declarative API.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hloom.ir import DTYPES, Node, Op
from hloom.ops import OPS
from hloom.rewrite.declaration import Handle, PatternBuilder, finish_rule
from hloom.rewrite.registry import RuleError, origin_of
from hloom.rewrite.rule import Rule
from hloom.rewrite.type_guards import as_tuple

Function = Callable[..., Any]

_SPECIFICATION = re.compile(r"([a-z0-9*]+)\[([^\]]*)\]|\*")


def rule_from(
    pattern: Function,
    replace: Function,
    *,
    name: str | None = None,
    benefit: int = 1,
    shared: Sequence[str] = (),
    where: Callable[..., Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    cost: Callable[[Node], float] | None = None,
    rows: Mapping[str, Op] = OPS,
    **specifications: str,
) -> Rule:
    """A rule from two functions of the same values, by keyword or position; raises RuleError if it is not valid.

    What `pattern` returns (a value, or a tuple of several) is replaced by what `replace` returns. Each value may have a
    specification: `f32[2,?]` (an element type or `*`, and sizes, `?` for any), `f32[*]` (any rank), or `*`. `where`
    gets the same values and returns the conditions on them; `attributes` are variables for both functions, by name.
    """
    session, origin = PatternBuilder(rows), origin_of(pattern)
    title = name or pattern.__name__.strip("_").replace("_", "-")
    try:
        variables = {key: session.attribute(key) for key in _variables(pattern)}
        names = [parameter for parameter in _parameters(pattern) if parameter not in variables]
        values = [_value(session, value_name, specifications.pop(value_name, "*")) for value_name in names]
        if specifications:
            raise RuleError(f"'{next(iter(specifications))}' is specified, but is not a value of the pattern")
        outputs = as_tuple(pattern(*values, **variables))
        if where is not None:
            conditions = where(*values, **{key: variables[key] for key in _variables(where)})
            session.where(*as_tuple(conditions))
        _check_names(replace, names)
        with session.rewrite() as made:
            session.are_free = True
            results = as_tuple(replace(*values, **{key: variables[key] for key in _variables(replace)}))
            if len(results) != len(outputs):
                raise RuleError(f"the pattern yields {len(outputs)} values, the replacement {len(results)}")
            made.replace(dict(zip(outputs, results, strict=True)))
        return finish_rule(
            session, title, origin, benefit=benefit, cost=cost, rows=rows, statement=pattern.__doc__ or "", family=""
        )
    except RuleError as error:
        raise RuleError(f"rule {title} ({origin}): {error.message}", hint=error.hint) from None


def _parameters(function: Function) -> list[str]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        parameter.name for parameter in inspect.signature(function).parameters.values() if parameter.kind in positional
    ]


def _variables(function: Function) -> list[str]:
    """The attribute variables of a function: its keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]


def _check_names(replace: Function, names: list[str]) -> None:
    if _parameters(replace) != names:
        raise RuleError(f"the replacement takes {', '.join(_parameters(replace))}, the pattern {', '.join(names)}")


def _value(session: PatternBuilder, name: str, specification: str) -> Handle:
    match = _SPECIFICATION.fullmatch(specification.strip())
    if match is None or (match[1] and match[1] != "*" and match[1] not in DTYPES):
        raise RuleError(f"'{name}' is specified as '{specification}'", hint="write f32[2,?], f32[*], *[2,?] or *")
    if match[1] is None:
        return session.value(name)
    dtype = () if match[1] == "*" else match[1]
    if match[2].strip() == "*":
        return session.value(name, dtype=dtype)
    sizes = [size.strip() for size in match[2].split(",")] if match[2].strip() else []
    return session.value(name, dtype=dtype, shape=[_size(session, size) for size in sizes])


def _size(session: PatternBuilder, text: str) -> Any:
    if text == "?":
        return None
    return int(text) if text.isdecimal() else session.dimension(text)
