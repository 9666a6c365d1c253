"""Checks when a rule is defined that the replacement has the type of what it replaces.

It is tried on a few random programs. If a type depends on more than the pattern specifies, equal types become a
condition of matching; a rule whose types agree in no generated program is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from hloom.ir import Apply, Module, Node, TypeNotGiven, TypeProblem, same_shape
from hloom.rewrite.builder import Builder
from hloom.rewrite.function_calls import PREFIX
from hloom.rewrite.instances import anywhere, instance
from hloom.rewrite.pattern import MakeNative
from hloom.rewrite.registry import RuleError
from hloom.rewrite.rule import Rule
from hloom.rewrite.rule_compiler import attempt_at, compile_rule

_PROGRAM_COUNT = 4
"""The number of programs to generate; a rule is rejected if types differ in all of them."""
_MAX_REDRAWS = 6
"""The maximum number of redraws per operation; small because definitions of rules wait for this check."""


def check_types(rule: Rule) -> None:
    """Raise RuleError if the types of a declared rule's replacement differ in every program tried."""
    assert rule.pattern is not None, "a declared rule"
    if any(isinstance(make, MakeNative) and make.function.startswith(PREFIX) for make in rule.pattern.makes):
        return  # functions are only traced when the rule matches
    rule = anywhere(rule)
    problem = ""
    for seed in range(_PROGRAM_COUNT):
        try:
            difference = _problem(rule, seed)
        except Exception:  # a native part is not registered yet, or does not suit these programs
            return
        if not difference:
            return
        problem = difference
    raise RuleError(problem, hint="make what has the type of what it replaces, or give type=...")


def _problem(rule: Rule, seed: int) -> str:
    """How types differ in one program; empty if they agree, or if it is undecided."""
    module = instance(rule, Random(seed), _MAX_REDRAWS)
    if module is None:
        return ""
    for node in list(module.entry.nodes):
        if node.opcode not in rule.roots or not isinstance(node, Apply):
            continue
        for opcode, attempt, _ in compile_rule(rule):
            build = Builder(node, rule.rows)
            try:
                replacement = attempt_at(attempt, build, node) if opcode == node.opcode else None
            except TypeNotGiven as problem:
                return f"the replacement can never be built: {problem.message}"
            except TypeProblem:
                return ""
            if replacement:
                return _difference(module, replacement)
    return ""


def _difference(module: Module, replacement: Mapping[Node, Node]) -> str:
    pairs = [(old, fresh) for old, fresh in replacement.items() if old.is_used]
    wrong = [(old, fresh) for old, fresh in pairs if not same_shape(old.type, fresh.type)]
    if not wrong or len(wrong) < len(pairs):
        return ""
    old, fresh = wrong[0]
    return f"{old.opcode} yields {old.type}, but what replaces it, {fresh.opcode}, yields {fresh.type}"
