"""Passes by name, and running several of them: what `hloom.apply`, `hloom.jit` and `hloom opt` are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from time import perf_counter
from typing import Any

from hloom.ir import Module, verify
from hloom.rewrite import Family, Report, Rule, RuleIndex, rewrite
from hloom.text import HloomError

MOST_ROUNDS = 20
"""How often a fixpoint goes through its passes at most; it nearly always ends after two or three."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A change of a module, in place: its name, what it does, and one sentence on it."""

    name: str
    run: Callable[[Module], Report] = field(repr=False)
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of each pass: before it starts, and after it ended with its report."""

    before: Callable[[str, Module], None] = lambda name, module: None
    after: Callable[[str, Module, Report], None] = lambda name, module, report: None


PassLike = Pass | Rule | Family | Sequence[Rule] | str | Callable[[Module], Any]
"""What can be given as a pass: one, a rule or several, a name, or a function that changes a module in place."""

PASSES: dict[str, Pass] = {}
"""The passes that can be named."""


def offer(name: str, summary: str, run: Callable[[Module], Report]) -> Pass:
    """Put a pass among those that can be named."""
    if name in PASSES:
        raise HloomError(f"there is a pass named '{name}' already")
    PASSES[name] = Pass(name, run, summary)
    return PASSES[name]


def rules_pass(name: str, rules: Iterable[Rule], summary: str = "") -> Pass:
    """A pass of rules, applied until none fires."""
    listed = tuple(rules)
    index: list[RuleIndex] = []

    def run(module: Module) -> Report:
        if not index:
            index.append(RuleIndex(listed))
        return rewrite(module, index[0], name=name)

    return Pass(name, run, summary)


def fixpoint(name: str, parts: Sequence[PassLike], summary: str = "") -> Pass:
    """Several passes, one after the other, again and again until none changes anything.

    Raises HloomError where that does not come about in 20 rounds.
    """

    def run(module: Module) -> Report:
        passes, total = resolve(parts), Report(name)
        for _ in range(MOST_ROUNDS):
            found = [each.run(module) for each in passes]
            total.passes += found
            if not any(each.changed for each in found):
                return total
        names = ", ".join(each.name for each in found if each.changed)
        raise HloomError(f"{name} found no end in {MOST_ROUNDS} rounds: {names} still change the module")

    return Pass(name, run, summary)


def sequence(name: str, parts: Sequence[PassLike], summary: str = "") -> Pass:
    """Several passes, one after the other."""
    return Pass(name, lambda module: apply_in_place(module, parts, name=name), summary)


def resolve(passes: PassLike | Iterable[PassLike]) -> list[Pass]:
    """The passes that were meant; raises HloomError for names that nothing has."""
    if isinstance(passes, (str, Pass, Rule, Family)) or callable(passes):
        return [_one(passes)]
    return [_one(each) for each in passes]


def apply(module: Module, passes: PassLike | Iterable[PassLike], **options: Any) -> tuple[Module, Report]:
    """A changed copy of a module, and the report; options are those of `apply_in_place`.

    >>> from hloom.hlo import parse
    >>> module = parse("ENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x) ROOT b = f32[2] negate(a) }")
    >>> changed, report = apply(module, "simplify")
    >>> changed.entry.root.opcode, report.matched
    ('parameter', 1)
    """
    copy = module.clone()
    return copy, apply_in_place(copy, passes, **options)


def apply_in_place(
    module: Module,
    passes: PassLike | Iterable[PassLike],
    *,
    name: str = "pipeline",
    verify_each: bool = False,
    watch: Watch | None = None,
) -> Report:
    """Run passes over a module, one after the other.

    With `verify_each` the module is verified after each pass, and the error names the pass that broke it.
    """
    total, started = Report(name), perf_counter()
    for each in resolve(passes):
        if watch:
            watch.before(each.name, module)
        before = perf_counter()
        found = each.run(module)
        found.seconds = found.seconds or perf_counter() - before
        total.passes.append(found)
        if watch:
            watch.after(each.name, module, found)
        if verify_each:
            _verify_after(each.name, module)
    total.seconds = perf_counter() - started
    return total


def _one(item: Any) -> Pass:
    if isinstance(item, Pass):
        return item
    if isinstance(item, str):
        return _named(item)
    if isinstance(item, Rule):
        return rules_pass(item.name, [item], item.statement)
    if isinstance(item, Family):
        return rules_pass(item.name, item)
    if isinstance(item, Sequence):
        return rules_pass("rules", item)
    if callable(item):
        return _function(item)
    raise HloomError(f"{item!r} is no pass: give a name, a rule, a list of rules, or a function of a module")


def _named(name: str) -> Pass:
    if name not in PASSES:
        near = get_close_matches(name, PASSES, 3)
        hint = f"near: {', '.join(near)}" if near else f"known: {', '.join(PASSES)}"
        raise HloomError(f"there is no pass named '{name}'", hint=hint)
    return PASSES[name]


def _function(function: Callable[[Module], Any]) -> Pass:
    name = getattr(function, "__name__", type(function).__name__).replace("_", "-")

    def run(module: Module) -> Report:
        found = function(module)
        if isinstance(found, Report):
            return found
        return Report(name, changes=0 if found is False else 1)

    return Pass(name, run, (function.__doc__ or "").split("\n")[0])


def _verify_after(name: str, module: Module) -> None:
    try:
        verify(module)
    except HloomError as error:
        raise HloomError(f"after pass {name}: {error.message}", error.place, error.hint) from error
