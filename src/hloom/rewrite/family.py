"""Families: the rules on one subject, as lines of text and as native functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping

from hloom.ir import Op
from hloom.ops import OPS
from hloom.rewrite.registry import Origin, RuleError, origin_of, register
from hloom.rewrite.requirements import Requirement
from hloom.rewrite.rule import NativeRewrite, Rule
from hloom.rewrite.rule_text import RuleText, TextRewrite

_LINE = re.compile(r"([\w-]+)(?: \[(\d+)(?:, depth (\d+))?(?:, formerly ([\w-]+))?\])?: (.*?) +# (.*)")
"""A rule: its name, benefit, depth, former name, text and reason."""


class Family:
    """The rules on one subject, in order of definition: lines of text, and native functions for what texts cannot say.

        SHAPING = Family("shaping")

        @SHAPING.rewrites("reshape", because="skips all reshapes below")
        def reshape_of_reshape(build, node):
            '''reshape(reshape(x)) -> reshape(x)'''
            inner = node.operands[0]
            if inner.opcode != "reshape":
                return None
            return build.reshape(inner.operands[0], node.type)

    Most are lines of a `table`. A native one is named after its function, with dashes. Each is registered as
    `family.name`; also under the family's former name, so that previously saved rules still load. `because` says why
    its native rules are not lines; a rule may say so itself.
    """

    def __init__(self, name: str, *, formerly: str = "", because: str = "") -> None:
        self.name = name
        self.because = because
        self._names = (name, formerly) if formerly else (name,)
        self.rules: list[Rule] = []

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, name: str) -> Rule:
        """The rule with this name; raises KeyError if there is none."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(name)

    def table(self, lines: str, rows: Mapping[str, Op] = OPS) -> None:
        """Add rules as text (`rule_text`): a name, the benefit if it is not 1, the rule, and why it holds.

            SHAPING.table('''
            reverse-of-reverse [3]: reverse(reverse(x, dimensions=d), dimensions=d) -> x  # each undoes the other
            ''')

        Lines that begin with a space go on with the rule before them. `[2, depth 3]` is for conditions that look three
        levels down, `[2, formerly NAME]` names it as it was. Raises RuleError for lines that are no rule.
        """
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        assert caller is not None, "a table is made by a module"
        for offset, line in _joined(lines):
            origin = Origin(caller.f_code.co_filename, caller.f_lineno + offset)
            head = _LINE.fullmatch(line)
            if head is None:
                raise RuleError(f"{origin}: a rule is written NAME [BENEFIT]: PATTERN -> REPLACEMENT  # REASON")
            name, benefit, depth, formerly, text, reason = head.groups()
            rule_text = RuleText(text, rows)
            self._register(TextRewrite(rule_text, origin), name, formerly)
            made = Rule(
                name, rule_text.roots, native=f"{self.name}.{name}", benefit=int(benefit or 1),
                depth=int(depth or rule_text.depth), family=self.name, statement=f"{text}: {reason}.", rows=rows,
                origin=origin, requires=(rule_text.requirement,), text=rule_text,
            )  # fmt: skip
            self.rules.append(made)

    def rewrites(
        self,
        *roots: str,
        benefit: int = 1,
        depth: int = 2,
        effects: bool = False,
        rows: Mapping[str, Op] = OPS,
        formerly: str = "",
        because: str = "",
        requires: Requirement | tuple[Requirement, ...] = (),
    ) -> Callable[[NativeRewrite], Rule]:
        """Turn a function of a Builder and a node with one of these opcodes into a rule.

        The function returns the node that replaces the given one (an existing or a new one), or None. `formerly` is the
        rule's former name. `because` says in a clause what no line of a table can do ("computes the padding").
        `requires` states the rule's first checks in a form the index can test, so that hopeless attempts are skipped.
        """

        def define(function: NativeRewrite) -> Rule:
            name = function.__name__.strip("_").replace("_", "-")
            origin = origin_of(function)
            if not function.__doc__:
                raise RuleError(f"rule {name} ({origin}) says nothing about itself: give it a docstring")
            unknown = [root for root in roots if root not in rows and root not in OPS]
            if unknown or not roots:
                raise RuleError(f"rule {name} ({origin}): no op is called '{unknown[0] if unknown else ''}'")
            self._register(function, name, formerly)
            made = Rule(
                name, roots, native=f"{self.name}.{name}", benefit=benefit, depth=depth, effects=effects,
                family=self.name, statement=function.__doc__, rows=rows, origin=origin,
                because=because or self.because, requires=requires if isinstance(requires, tuple) else (requires,),
            )  # fmt: skip
            self.rules.append(made)
            return made

        return define

    def add(self, rule: Rule) -> Rule:
        """Add a declared rule as well."""
        self.rules.append(rule)
        return rule

    def _register(self, function: NativeRewrite, name: str, formerly: str | None) -> None:
        for family in self._names:
            for own_name in (name, formerly) if formerly else (name,):
                register(f"{family}.{own_name}", function)


def _joined(lines: str) -> list[tuple[int, str]]:
    """The rules of a table, each in one line, with the numbers of their first lines."""
    joined: list[tuple[int, str]] = []
    for offset, line in enumerate(lines.split("\n")):
        if line[:1].isspace() and joined:
            joined[-1] = joined[-1][0], f"{joined[-1][1]} {line.strip()}"
        elif line.strip():
            joined.append((offset, line.strip()))
    return joined
