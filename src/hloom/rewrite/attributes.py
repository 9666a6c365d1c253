"""How attributes of a pattern's operation are checked: meaning ones by value, carried ones only where asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hloom.ir import Apply
from hloom.rewrite.expressions import number
from hloom.rewrite.pattern import Absent, Bind, Holds, OneOf, OperationTerm, Same
from hloom.rewrite.rule import registered

if TYPE_CHECKING:
    from hloom.rewrite.match import Match


def attribute_check(place: int, term: OperationTerm, title: str) -> Callable[[Match], str]:
    """The check of all attributes of an operation: those named, and that no other changes its meaning."""
    named = {name: each for name, each in term.attributes if not isinstance(each, Absent)}
    checks = [(name, _checks[type(each)](each)) for name, each in named.items() if type(each) in _checks]

    def check(match: Match) -> str:
        node = match.slots[place]
        for name, holds in checks:
            if not holds(node.attribute(name), match):
                return f"{name} of {title} is another"
        for name, value in node.attributes.items() if node.attributes else ():
            if name not in named and not _is_default(node, name, value):
                return f"{title} has {name}, which the pattern does not name"
        return ""

    return check


def _is_default(node: Apply, name: str, value: Any) -> bool:
    """Whether an attribute that the pattern leaves out is carried, or says what its absence says."""
    row = node.op.attributes.get(name)
    return row is not None and (row.carried or value == row.default or number(value) == row.default)


def _same(term: Same) -> Callable[[Any, Match], bool]:
    wanted = number(term.value)
    return lambda value, match: value == term.value or number(value) == wanted


def _bind(term: Bind) -> Callable[[Any, Match], bool]:
    def holds(value: Any, match: Match) -> bool:
        if term.name in match.variables:
            return match.variables[term.name] == value
        match.variables[term.name] = value
        return True

    return holds


def _one_of(term: OneOf) -> Callable[[Any, Match], bool]:
    return lambda value, match: number(value) in term.values


def _holds(term: Holds) -> Callable[[Any, Match], bool]:
    return lambda value, match: bool(registered(term.predicate)(value))


_checks: dict[type, Callable[[Any], Callable[[Any, Match], bool]]] = {
    Same: _same,
    Bind: _bind,
    OneOf: _one_of,
    Holds: _holds,
}
