"""`RegisterPass`: functions that return pairs of functions become passes, traced when they are first asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from hloom.dialects.paddle.pass_reader import rules_of
from hloom.dialects.paddle.protos import PADDLE
from hloom.dialects.paddle.traced_pair import TracedPair
from hloom.ir import Module
from hloom.rewrite import Report, Rule, RuleError, origin_of, rewrite

Pair = tuple[Callable[..., Any], Callable[..., Any]]

PASSES: dict[str, PaddlePass] = {}
"""The passes that were registered, by name."""


class PaddlePass:
    """A named pass: rules, each applied all over a program before the next one is."""

    def __init__(self, name: str, rules: Iterable[Rule] = ()) -> None:
        self.name = name
        self._rules = tuple(rules)

    def __repr__(self) -> str:
        return f"<pass {self.name}>"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules, in the order in which they are applied."""
        return self._rules

    def apply(self, module: Module) -> list[Report]:
        """Apply it to an imported program, in place."""
        return [rewrite(module, [rule], name=self.name) for rule in self.rules]


class TracedPass(PaddlePass):
    """A pass of pairs of functions."""

    def __init__(self, name: str, pairs: Sequence[Pair], input_specs: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.pairs = pairs
        self.input_specs = input_specs

    @cached_property
    def _traced(self) -> list[TracedPair]:
        counts: dict[str, int] = {}
        traced = []
        for pattern, replacement in self.pairs:
            try:
                traced.append(TracedPair(pattern, replacement, self.input_specs, counts))
            except RuleError as error:
                where = f"pass {self.name} ({origin_of(pattern)})"
                raise RuleError(f"{where}: {error.message}", hint=error.hint) from None
        return traced

    @cached_property
    def _traced_rules(self) -> tuple[Rule, ...]:
        message = PADDLE["MultiPassDesc"](pass_type=self.name)
        for pair in self._traced:
            try:
                pair.describe(message.pass_descs.add())
            except RuleError as error:
                raise RuleError(f"pass {self.name} ({pair.origin}): {error.message}", hint=error.hint) from None
        return tuple(rules_of(message, [pair.origin for pair in self._traced]))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules; raises RuleError where the functions cannot be traced."""
        return self._traced_rules

    def serialised(self, name: str | None = None) -> Any:
        """The MultiPassDesc that Paddle's own Python makes of the functions, under another name if one is given."""
        message = PADDLE["MultiPassDesc"](pass_type=name or self.name)
        for pair in self._traced:
            pair.serialise(message.pass_descs.add())
        return message

    def left_out(self) -> list[str]:
        """What the patterns say of attributes and those bytes do not, in sentences."""
        return [text for pair in self._traced for text in pair.left_out()]


class RegisterPassHelper:
    """Paddle's own helper: pairs of functions and what is known of their inputs."""

    def __init__(
        self, pass_pairs: Sequence[Pair], pass_type: str = "", input_specs: Mapping[str, Any] | None = None
    ) -> None:
        self.traced = TracedPass(pass_type, pass_pairs, input_specs or {})

    def SerializeMultiPassDesc(self) -> bytes:  # noqa: N802 - Paddle's name
        """The bytes that Paddle's own helper gives, whether or not the runtime honours what they say."""
        return self.traced.serialised().SerializeToString()


def RegisterPass(function: Any = None, input_specs: Mapping[str, Any] | None = None) -> Any:  # noqa: N802
    """Make a pass of a function without parameters that returns a pair, or several, of functions: pattern, replacement.

    Its name is the function's. `input_specs` gives an InputSpec by the name of an argument: its dimensions must match.
    Raises RuleError for a function with parameters, or one that returns anything else.
    """

    def decorated(python_function: Callable[[], Any]) -> Callable[[], Any]:
        name, origin = python_function.__name__, origin_of(python_function)
        if inspect.signature(python_function).parameters:
            raise RuleError(
                f"pass {name} ({origin}): a function of a pass takes no parameters",
                hint="the values that it matches are parameters of the functions that it returns",
            )
        definition = python_function()
        pairs = [definition] if _is_pair(definition) else definition
        if not isinstance(pairs, (list, tuple)) or not pairs or not all(map(_is_pair, pairs)):
            raise RuleError(
                f"pass {name} ({origin}): it must return a pair of functions (pattern, replace), or several",
            )
        PASSES[name] = TracedPass(name, pairs, input_specs or {})
        return python_function

    return decorated(function) if inspect.isfunction(function) else decorated


def get_pass(name: str | Callable[..., Any]) -> PaddlePass:
    """The registered pass of a name, or of the function that defined it; raises RuleError where there is none."""
    key = name if isinstance(name, str) else name.__name__
    if key not in PASSES:
        raise RuleError(f"no pass is called '{key}'", hint=f"registered: {', '.join(PASSES) or 'none'}")
    return PASSES[key]


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(inspect.isfunction, value))
