"""Rules: what they match, what replaces it, and how they are identified.

A rule is data: a pattern and a replacement (`declaration`, `traced_rule`), or the name of a registered native function
that looks at a node and builds what replaces it. Both run in the same driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hloom.ir import Apply, Node, Op
from hloom.ops import OPS
from hloom.rewrite.builder import Builder
from hloom.rewrite.pattern import Pattern
from hloom.rewrite.registry import Origin, registered
from hloom.rewrite.requirements import Requirement
from hloom.text import Display, Displayed

NativeRewrite = Callable[[Builder, Apply], Node | None]
"""A native rule: inspects a node and builds its replacement, or returns None if it does not apply."""


class Forms(Protocol):
    """What a rule as text means."""

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Its forms, in the order in which they are tried."""
        ...

    def attempt(self, opcode: str) -> NativeRewrite:
        """The function that tries it at nodes with an opcode."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rule(Displayed):
    """One rewriting rule.

    `roots` are the opcodes of nodes it is tried at. Either `pattern` describes the match and the replacement, or
    `native` names the registered function that performs both. Among several matching rules, the one with the highest
    `benefit` wins, then the first. `depth` is how far below the root it looks: rules are retried that many levels above
    a changed node. A rule with `effects` may replace a root with an effect. `family` is the subject it belongs to;
    `statement` is its docstring. `domain` restricts its equivalence test. With `cost` it fires only if what it makes
    costs less than what it makes dead. A native rule is not tried unless everything in `requires` holds. The native
    function of a rule with `text` is compiled from that; `because` says why another one is not written as text.
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
    text: Forms | None = field(default=None, repr=False)
    because: str = ""

    def display(self) -> Display:
        because = f"\n\nNative: it {self.because}." if self.because else ""
        return Display(repr(self), text=f"{self}: {self.statement}{because}")

    def __str__(self) -> str:
        return f"{self.name} ({self.origin})" if self.origin else self.name

    def __repr__(self) -> str:
        return f"<rule {self}>"

    @property
    def function(self) -> NativeRewrite:
        """The native function; raises RuleError if nothing with that name is registered."""
        return registered(self.native or "")

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What it matches and makes, as data: one pattern, one for each form of a text, or none of a native rule."""
        if self.pattern is not None:
            return (self.pattern,)
        return () if self.text is None else self.text.patterns
