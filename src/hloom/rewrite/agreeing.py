"""Whether what a rule makes has the type of what it replaces, tried on a few programs when the rule is defined.

Where a type depends on more than the pattern says, it is a condition of matching; a rule whose types agree in no
program that can be made for it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from hloom.ir import Apply, Module, Node, TypeProblem, same_shape
from hloom.rewrite.builder import Builder
from hloom.rewrite.instances import instance
from hloom.rewrite.matching import attempts_of
from hloom.rewrite.rule import Rule, RuleError

_PROGRAMS = 4
"""How many programs are made, and in how many types must differ before a rule is refused."""
_REDRAWS = 6


def check_types(rule: Rule) -> None:
    """Raise RuleError where the types of a declared rule's replacement are others in every program tried."""
    problem = ""
    for seed in range(_PROGRAMS):
        try:
            found = _problem(rule, seed)
        except Exception:  # a native part that is not registered yet, or that these programs do not suit
            return
        if not found:
            return
        problem = found
    raise RuleError(problem, hint="make what has the type of what it replaces, or give type=...")


def _problem(rule: Rule, seed: int) -> str:
    """How types differ in one program; empty where they agree, or where nothing can be said."""
    module = instance(rule, Random(seed), _REDRAWS)
    if module is None:
        return ""
    for node in list(module.entry.nodes):
        if node.opcode not in rule.roots or not isinstance(node, Apply):
            continue
        for opcode, attempt, _ in attempts_of(rule):
            build = Builder(node, rule.rows)
            try:
                replacement = attempt(build, node) if opcode == node.opcode else None
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
