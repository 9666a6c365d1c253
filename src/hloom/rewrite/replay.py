"""Doing the steps of a report again, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hloom.ir import Module
from hloom.rewrite.driver import apply_at
from hloom.rewrite.report import Step
from hloom.rewrite.rule import Rule, RuleError


def replay(module: Module, rules: Iterable[Rule], steps: Iterable[Step]) -> Iterator[Step]:
    """Take the steps in a module as it was before them, in place; each is given out after it was taken.

    Raises RuleError where a step's rule is not among the rules, or does not fire where it fired.
    """
    by_name = {rule.name: rule for rule in rules}
    for step in steps:
        rule = by_name.get(step.rule)
        if rule is None:
            raise RuleError(f"cannot take the step '{step}': its rule is not among those given")
        node = module[step.graph][step.node]
        if not apply_at(module, rule, node):
            raise RuleError(
                f"cannot take the step '{step}': the rule does not fire there", hint="give the module as it was"
            )
        yield step
