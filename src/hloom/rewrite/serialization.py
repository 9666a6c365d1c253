"""Saves rules as JSON and loads them with the checks of a definition.

Loading only creates data. Native functions are referred to by name and must be registered before the file is loaded;
nothing else is looked up, and nothing runs. Expressions are lists of an operator and its arguments (`["less",
["variable", "rate"], 1]`); values are as in `codecs.py`; a reference to a term is its number, with a result `{"term":
2, "result": 1}`, and to something made `{"made": 0}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hloom.ir import Op
from hloom.ops import OPS
from hloom.rewrite.codecs import encode_value
from hloom.rewrite.deserialization import RuleDecoder
from hloom.rewrite.expressions import Expression
from hloom.rewrite.family import Family
from hloom.rewrite.json_reader import JsonReader
from hloom.rewrite.pattern import (
    OPERATION_FLAGS,
    VALUE_FIELDS,
    Absent,
    Anything,
    Bind,
    Computes,
    Holds,
    Make,
    MakeConstant,
    MakeNative,
    OneOf,
    Pattern,
    Reference,
    Same,
    Term,
    ValueTerm,
)
from hloom.rewrite.registry import REGISTERED, RuleError
from hloom.rewrite.rule import Rule
from hloom.rewrite.type_guards import is_list, is_mapping, is_object
from hloom.text import HloomError, read_limited, unwritable

FORMAT = "hloom rules 1"
RULES_BYTES = 1 << 24
"""The maximum size of a rule file in bytes: a rule takes about 1,000."""


def to_json(rule: Rule | Family | Iterable[Rule]) -> dict[str, Any]:
    """One rule as JSON, or several as `{"format": ..., "rules": [...]}`.

    Raises RuleError for rules that cannot be saved: unregistered cost functions, values without a codec.
    """
    if isinstance(rule, Rule):
        return _rule_to_json(rule)
    return {"format": FORMAT, "rules": [_rule_to_json(item) for item in rule]}


def rule_from_json(data: Any, rows: Mapping[str, Op] = OPS) -> Rule:
    """The rule that `to_json` saved; raises RuleError that names the faulty part of the data."""
    return _located(data, "rule", rows)


def save_rules(rules: Family | Iterable[Rule], path: str | Path) -> None:
    """Save rules to a file; raises HloomError if it cannot be written."""
    text = json.dumps(to_json(tuple(rules)), indent=1) + "\n"
    try:
        Path(path).write_text(text)
    except OSError as problem:
        raise unwritable(path, problem) from None


def load_rules(source: str | Path, rows: Mapping[str, Op] = OPS) -> list[Rule]:
    """Load rules from a file, or from a text that begins with `{`; raises RuleError that names the faulty part."""
    is_text = isinstance(source, str) and source.lstrip()[:1] == "{"
    name = "rules" if is_text else str(source)
    try:
        data: object = json.loads(str(source) if is_text else read_limited(source, RULES_BYTES))
    except HloomError as error:
        raise RuleError(error.message, hint=error.hint) from None
    except (ValueError, RecursionError) as error:
        raise RuleError(f"{name} is not JSON: {error}") from None
    rules = data.get("rules") if is_object(data) and data.get("format") == FORMAT else None
    if not is_list(rules):
        raise RuleError(f"{name} is not a file of rules", hint=f'it must hold {{"format": "{FORMAT}", "rules": [...]}}')
    where = "" if is_text else f"{name}: "
    return [_located(rule, f"{where}rules[{index}]", rows) for index, rule in enumerate(rules)]


def same_rule(a: Rule, b: Rule) -> bool:
    """Whether two rules are equal, wherever they were written."""
    left, right = to_json(a), to_json(b)
    return json.dumps({**left, "origin": None}, sort_keys=True) == json.dumps({**right, "origin": None}, sort_keys=True)


def _located(data: object, path: str, rows: Mapping[str, Op]) -> Rule:
    name = data.get("name") if is_object(data) else None
    title = f"{path} ({name})" if isinstance(name, str) and len(name) < 200 else path
    try:
        return RuleDecoder(rows).rule(JsonReader(data, ""))
    except RuleError as error:
        raise RuleError(f"{title}: {error.message}", hint=error.hint) from None


# Saving


def _rule_to_json(rule: Rule) -> dict[str, Any]:
    try:
        data: dict[str, Any] = {"name": rule.name, "benefit": rule.benefit, "statement": rule.statement}
        if rule.family:
            data["family"] = rule.family
        if rule.domain:
            data["domain"] = _domain_to_json(rule.domain)
        if rule.cost is not None:
            data["cost"] = _cost_name(rule)
        if rule.origin is not None:
            data["origin"] = [rule.origin.file, rule.origin.line]
        if rule.native:
            natively = {"native": rule.native, "roots": list(rule.roots), "depth": rule.depth, "effects": rule.effects}
            return {**data, **natively, **({"because": rule.because} if rule.because else {})}
        assert rule.pattern is not None, f"rule {rule} has no pattern"
        return {**data, **_pattern_to_json(rule.pattern)}
    except RuleError as error:
        raise RuleError(f"rule {rule} cannot be saved: {error.message}", hint=error.hint) from None


def _cost_name(rule: Rule) -> str:
    name = next((name for name, function in REGISTERED.items() if function is rule.cost), None)
    if name is None:
        raise RuleError(f"its cost is the Python function {rule.cost!r}", hint="register(name, function) gives it one")
    return name


def _domain_to_json(domain: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: {name: encode_value(item) for name, item in value.items()} if is_mapping(value) else encode_value(value)
        for key, value in domain.items()
    }


def _pattern_to_json(pattern: Pattern) -> dict[str, Any]:
    data: dict[str, Any] = {"terms": [_term_to_json(term) for term in pattern.terms]}
    if pattern.inner:
        data["inner"] = sorted(pattern.inner)
    if pattern.conditions:
        data["conditions"] = [_expression_to_json(condition.test) for condition in pattern.conditions]
    data["makes"] = [_make_to_json(make) for make in pattern.makes]
    data["replaced"] = [[_reference_to_json(old), _reference_to_json(fresh)] for old, fresh in pattern.replaced]
    return data


def _term_to_json(term: Term) -> dict[str, Any]:
    if isinstance(term, ValueTerm):
        plain = ValueTerm(term.name)
        data: dict[str, Any] = {"value": term.name}
        for name in VALUE_FIELDS:
            own = getattr(term, name)
            if type(own) is not type(getattr(plain, name)) or own != getattr(plain, name):
                data[name] = encode_value(own)
        return data
    data = {"operation": term.name, "opcodes": list(term.opcodes)}
    data["operands"] = [_reference_to_json(operand) for operand in term.operands]
    if term.attributes:
        data["attributes"] = {name: _attribute_to_json(attribute) for name, attribute in term.attributes}
    if term.results != 1:
        data["results"] = term.results
    data |= {name: True for name in OPERATION_FLAGS if getattr(term, name)}
    return data


def _attribute_to_json(term: Any) -> Any:
    return _ATTRIBUTES_TO_JSON[type(term)](term)


_ATTRIBUTES_TO_JSON: dict[type, Callable[[Any], Any]] = {
    Same: lambda attribute: {"same": encode_value(attribute.value)},
    Bind: lambda attribute: {"bind": attribute.name},
    Anything: lambda attribute: "any",
    Absent: lambda attribute: "absent",
    OneOf: lambda attribute: {"one-of": encode_value(attribute.values)},
    Holds: lambda attribute: {"holds": attribute.predicate},
    Computes: lambda attribute: {
        "computes": {"parameters": list(attribute.parameters), "output": _reference_to_json(attribute.output)}
    },
}


def _reference_to_json(reference: Reference) -> Any:
    key = "made" if reference.made else "term"
    if reference.result >= 0:
        return {key: reference.term, "result": reference.result}
    return {key: reference.term} if reference.made else reference.term


def _expression_to_json(expression: Expression) -> Any:
    if expression.operator == "known":
        value = encode_value(expression.arguments[0])
        return ["known", value] if isinstance(value, list) else value
    arguments = [
        _expression_to_json(argument) if isinstance(argument, Expression) else encode_value(argument)
        for argument in expression.arguments
    ]
    return [expression.operator, *arguments]


def _make_to_json(make: Make) -> dict[str, Any]:
    if isinstance(make, MakeConstant):
        return {"constant": _expression_to_json(make.value), **_type_to_json(make.type)}
    if isinstance(make, MakeNative):
        data: dict[str, Any] = {"native": make.function}
        data["arguments"] = [_expression_to_json(argument) for argument in make.arguments]
    else:
        data = {"operation": make.opcode, "operands": [_reference_to_json(operand) for operand in make.operands]}
        if make.attributes:
            data["attributes"] = {name: _expression_to_json(attribute) for name, attribute in make.attributes}
        data |= _type_to_json(make.type)
        if make.carry is not None:
            data["carry"] = make.carry
        if make.drop:
            data["drop"] = list(make.drop)
    if make.results != 1:
        data["results"] = make.results
    return data


def _type_to_json(type_expression: Expression | None) -> dict[str, Any]:
    return {} if type_expression is None else {"type": _expression_to_json(type_expression)}
