"""Rules: what they match, what replaces it, and how they are identified.

A rule is data: a pattern and a replacement (`declaration`, `traced_rule`), or the name of a registered native function
that looks at a node and builds what replaces it. Both run in the same driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hloom.ir import Apply, Node, Op
from hloom.ops import OPS
from hloom.rewrite.builder import Builder
from hloom.rewrite.pattern import Pattern
from hloom.rewrite.registry import Origin, RuleError, origin_of, register, registered
from hloom.rewrite.requirements import Requirement
from hloom.text import Display, Displayed

NativeRewrite = Callable[[Builder, Apply], Node | None]
"""A native rule: inspects a node and builds its replacement, or returns None if it does not apply."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rule(Displayed):
    """One rewriting rule.

    `roots` are the opcodes of nodes it is tried at. Either `pattern` describes the match and the replacement, or
    `native` names the registered function that performs both. Among several matching rules, the one with the highest
    `benefit` wins, then the first. `depth` is how far below the root it looks: rules are retried that many levels above
    a changed node. A rule with `effects` may replace a root with an effect. `family` is the subject it belongs to;
    `statement` is its docstring. `domain` restricts its equivalence test. With `cost` it fires only if what it makes
    costs less than what it makes dead. A native rule is not tried unless everything in `requires` holds.
    """

    name: str
    roots: tuple[str, ...]
    pattern: Pattern | None = None
    native: str | None = None
    benefit: int = 1
    depth: int = 2
    effects: bool = False
    family: str = ""
    statement: str = ""
    rows: Mapping[str, Op] = field(default_factory=lambda: OPS, repr=False)
    domain: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    cost: Callable[[Node], float] | None = field(default=None, repr=False)
    origin: Origin | None = None
    requires: tuple[Requirement, ...] = ()

    def display(self) -> Display:
        return Display(repr(self), text=f"{self}: {self.statement}")

    def __str__(self) -> str:
        return f"{self.name} ({self.origin})" if self.origin else self.name

    def __repr__(self) -> str:
        return f"<rule {self}>"

    @property
    def function(self) -> NativeRewrite:
        """The native function; raises RuleError if nothing with that name is registered."""
        return registered(self.native or "")


class Family:
    """Native rules on one subject, in order of definition.

        SHAPING = Family("shaping")

        @SHAPING.rewrites("reshape")
        def reshape_of_reshape(build, node):
            '''reshape(reshape(x)) -> reshape(x)'''
            inner = node.operands[0]
            if inner.opcode != "reshape":
                return None
            return build.reshape(inner.operands[0], node.type)

    A rule is named after its function, with dashes, and registered as `family.name`; also under the family's former
    name, so that previously saved rules still load.
    """

    def __init__(self, name: str, *, formerly: str = "") -> None:
        self.name = name
        self._names = (name, formerly) if formerly else (name,)
        self.rules: list[Rule] = []

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def rewrites(
        self,
        *roots: str,
        benefit: int = 1,
        depth: int = 2,
        effects: bool = False,
        rows: Mapping[str, Op] = OPS,
        formerly: str = "",
        requires: Requirement | tuple[Requirement, ...] = (),
    ) -> Callable[[NativeRewrite], Rule]:
        """Turn a function of a Builder and a node with one of these opcodes into a rule.

        The function returns the node that replaces the given one (an existing or a new one), or None. `formerly` is the
        rule's former name. `requires` states the rule's first checks in a form the index can test, so that hopeless
        attempts are skipped.
        """

        def define(function: NativeRewrite) -> Rule:
            name = function.__name__.strip("_").replace("_", "-")
            origin = origin_of(function)
            if not function.__doc__:
                raise RuleError(f"rule {name} ({origin}) says nothing about itself: give it a docstring")
            unknown = [root for root in roots if root not in rows and root not in OPS]
            if unknown or not roots:
                raise RuleError(f"rule {name} ({origin}): no op is called '{unknown[0] if unknown else ''}'")
            for family in self._names:
                for own_name in (name, formerly) if formerly else (name,):
                    register(f"{family}.{own_name}", function)
            made = Rule(
                name, roots, native=f"{self.name}.{name}", benefit=benefit, depth=depth, effects=effects,
                family=self.name, statement=function.__doc__, rows=rows, origin=origin,
                requires=requires if isinstance(requires, tuple) else (requires,),
            )  # fmt: skip
            self.rules.append(made)
            return made

        return define

    def add(self, rule: Rule) -> Rule:
        """Add a declared rule as well."""
        self.rules.append(rule)
        return rule
