"""Verifies declared rules when they are defined: names, arity, attributes, connectedness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hloom.ir import Op
from hloom.ops import OPS
from hloom.rewrite.expressions import Expression
from hloom.rewrite.match_steps import match_steps_of
from hloom.rewrite.match_variants import variants_of
from hloom.rewrite.pattern import (
    Bind,
    Computes,
    Make,
    MakeConstant,
    MakeOperation,
    OperationTerm,
    Pattern,
    Reference,
    Term,
    ValueTerm,
)
from hloom.rewrite.registry import RuleError


def check_operation(term: OperationTerm, terms: Sequence[Term], rows: Mapping[str, Op]) -> None:
    """Raise RuleError if an operation of a pattern does not conform to its op's row."""
    rests = [operand for operand in term.operands if _is_variadic(terms[operand.term])]
    if len(rests) > 1:
        raise RuleError(f"two handles of '{term.name}' stand for any number of operands: where one ends is not known")
    for opcode in term.opcodes:
        row = _row(opcode, rows)
        _check_arity(row, term.operands, terms)
        if not row.is_known:
            continue
        for name, _ in term.attributes:
            _check_attribute(row, name)
        given = {name for name, _ in term.attributes}
        lacking = row.lacking(given)
        if lacking is not None:
            raise RuleError(f"{opcode} needs '{lacking}', which the pattern does not name", hint=f"write {lacking}=ANY")


def check_made(make: MakeOperation, makes: Sequence[Make], rows: Mapping[str, Op]) -> None:
    """Raise RuleError if an operation that a rule makes does not conform to its op's row."""
    row = _row(make.opcode, rows)
    for name, _ in make.attributes:
        _check_attribute(row, name)
    given = {name for name, _ in make.attributes}
    lacking = row.lacking(given)
    if lacking is not None:
        raise RuleError(f"{make.opcode} needs '{lacking}', which the rewrite does not give")


def check_pattern(
    pattern: Pattern, variables: set[str], rows: Mapping[str, Op], *, values_may_be_unused: bool = False
) -> None:
    """Raise RuleError for names bound but never used or used but never bound, and for disconnected parts.

    The second of a pair of functions need not use all values of the first: `values_may_be_unused`.
    """
    if not pattern.replaced:
        raise RuleError("it replaces nothing", hint="with p.rewrite() as r: r.replace({old: new})")
    for old, _ in pattern.replaced:
        term = pattern.terms[old.term]
        if not isinstance(term, OperationTerm):
            raise RuleError(f"'{term.name}' is replaced, but is not an operation of the pattern")
        if term.optional:
            raise RuleError(f"'{term.name}' is replaced, but is optional")
        if term.results > 1 and old.result < 0:
            raise RuleError(f"'{term.name}' has several results: replace each of them")
    if len({old for old, _ in pattern.replaced}) < len(pattern.replaced):
        raise RuleError("a result is replaced twice")
    _check_variables(pattern, variables)
    _check_values(pattern)
    if not values_may_be_unused:
        _check_unused(pattern)
    _check_operands_of_made(pattern, rows)
    match_steps_of(pattern, variants_of(pattern)[0], rows)


def _check_variables(pattern: Pattern, variables: set[str]) -> None:
    bound: dict[str, int] = {}
    for term in pattern.terms:
        if isinstance(term, OperationTerm):
            for _, attribute in term.attributes:
                if isinstance(attribute, Bind):
                    bound[attribute.name] = bound.get(attribute.name, 0) + 1
        elif term.shape:
            for size in term.shape:
                if isinstance(size, str):
                    bound[size] = bound.get(size, 0) + 1
    used = {name for expression in _expressions(pattern) for name in expression.names()}
    for name in sorted(used | variables):
        if name not in bound:
            raise RuleError(f"'{name}' is used but never bound", hint="give it to an attribute of an operation")
        if name not in used and bound[name] < 2:
            raise RuleError(f"'{name}' is bound but never used", hint="write ANY where any value will do")


def _check_values(pattern: Pattern) -> None:
    inside = _uses_in_operations(pattern)
    for term_index, term in enumerate(pattern.terms):
        if not isinstance(term, ValueTerm):
            replaced = any(old.term == term_index for old, _ in pattern.replaced)
            if not replaced and term_index not in inside and term_index not in pattern.inner:
                raise RuleError(f"operation '{term.name}' is not part of what is replaced")
            continue
        if term_index not in inside and term_index not in pattern.inner:
            raise RuleError(f"'{term.name}' is not an operand of the pattern")


def _check_unused(pattern: Pattern) -> None:
    inside, elsewhere = _uses_in_operations(pattern), _uses_elsewhere(pattern)
    for term_index, term in enumerate(pattern.terms):
        if not isinstance(term, ValueTerm) or not term.name or term_index in pattern.inner:
            continue
        says_something = term.is_constant or not (term.is_plain or term.variadic)
        if not says_something and inside.get(term_index, 0) + elsewhere.get(term_index, 0) < 2:
            raise RuleError(f"'{term.name}' is bound but never used", hint="write p.any() where any value will do")


def _uses_in_operations(pattern: Pattern) -> dict[int, int]:
    counts: dict[int, int] = {}
    for term in pattern.terms:
        if isinstance(term, OperationTerm):
            computed = [attribute.output for _, attribute in term.attributes if isinstance(attribute, Computes)]
            for reference in (*term.operands, *computed):
                counts[reference.term] = counts.get(reference.term, 0) + 1
    return counts


def _uses_elsewhere(pattern: Pattern) -> dict[int, int]:
    counts: dict[int, int] = {}
    references = [fresh for _, fresh in pattern.replaced]
    references += [operand for make in pattern.makes if isinstance(make, MakeOperation) for operand in make.operands]
    leaves = [leaf for expression in _expressions(pattern) for leaf in expression.walk()]
    terms = [reference.term for reference in references if not reference.made]
    terms += [leaf.arguments[0] for leaf in leaves if leaf.operator in ("node", "feature")]
    for term in terms:
        counts[term] = counts.get(term, 0) + 1
    return counts


def _expressions(pattern: Pattern) -> Iterator[Expression]:
    for condition in pattern.conditions:
        yield condition.test
    for make in pattern.makes:
        if isinstance(make, MakeOperation):
            yield from (value for _, value in make.attributes)
            yield from [make.type] if make.type is not None else []
        elif isinstance(make, MakeConstant):
            yield make.value
            yield from [make.type] if make.type is not None else []
        else:
            yield from make.arguments


def _check_operands_of_made(pattern: Pattern, rows: Mapping[str, Op]) -> None:
    for make in pattern.makes:
        if isinstance(make, MakeOperation):
            _check_arity(_row(make.opcode, rows), make.operands, pattern.terms)


def _check_arity(row: Op, operands: Sequence[Reference], terms: Sequence[Term]) -> None:
    least = most = 0
    for reference in operands:
        term = None if reference.made else terms[reference.term]
        if term is not None and _is_variadic(term):
            return
        most += 1
        least += not (isinstance(term, ValueTerm) and term.optional)
    if not (row.accepts(least) or row.accepts(most)):
        raise RuleError(f"{row} does not take {most} operands")


def _is_variadic(term: Term) -> bool:
    return isinstance(term, ValueTerm) and term.variadic


def _check_attribute(row: Op, name: str) -> None:
    if row.is_known and name not in row.attributes:
        known = ", ".join(list(row.attributes)[:8])
        raise RuleError(f"{row} has no attribute '{name}'", hint=f"it has {known}" if known else None)


def _row(opcode: str, rows: Mapping[str, Op]) -> Op:
    row = rows.get(opcode) or OPS.get(opcode)
    if row is None:
        raise RuleError(f"no op is called '{opcode}'")
    return row
