"""Tests the equivalence of a rewrite rule: runs both sides of many random programs in which it fires through XLA.

    found = check_rule(MY_RULE)
    assert found.firings >= 20

A declared rule makes its own programs from its pattern (`rewrite.instances`), one as text from each of its forms; a
native one is given a function that makes them. All programs of a rule are run as one, so that XLA compiles once.

Random inputs tell programs apart: ordinary numbers, special values (NaN, infinities, zeros), extreme ones. To try
others, add a function to INPUT_SETS.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np

from hloom.formats.hlo import parse, to_text
from hloom.ir import DType, DTypeKind, Module, TensorType, dtype_of, verify
from hloom.rewrite import Rule, RuleError, RuleIndex, anywhere, apply_at, instances, rewrite
from hloom.runtime import ProgramRun, XlaError, arbitrate, compare, run
from hloom.testing.joined_program import device_counts, join_programs
from hloom.text import HloomError

Domain = Callable[[Random], str | Module]
"""Makes a random program in which a rule fires."""
Lower = Callable[[Module], Module]
"""Lowers a dialect's program to HLO."""

TOLERANCES: Mapping[str, float] = {
    "f64": 1e-12, "c128": 1e-12, "f32": 2e-6, "c64": 2e-6, "f16": 4e-3, "bf16": 3.2e-2,
}  # fmt: skip
"""Relative tolerance of results: a few roundings. Narrower floats get NARROW."""
NARROW = 0.26
"""Relative tolerance of floats narrower than 16 bits: two roundings of f8e5m2, of 1/8 each, and some more."""
LOOSEST = 0.3
"""The greatest relative tolerance that any type gets: at a third, wrong factors such as 1.5 would pass."""
TRIES = 8
"""How many programs may be made for each in which the rule fires, before its domain is called wrong."""
PATTERN_TRIES = 60
"""The same of programs made from a pattern."""


ROUNDS = 4
"""How often programs that XLA refuses are exchanged for others, where they were made from a pattern."""
NARROW_IT = "narrow the programs to those in which it fires: p.equivalence(...), or the domain"


class NotEquivalent(HloomError, AssertionError):
    """A rule that changes what a program computes: the program, its inputs, and the outputs that differ."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What a check of a rule found: how many programs were made, in how many the rule fired and how often in all.

    `worst` is the greatest relative error of a float result; `compared` counts the output arrays of all runs.
    """

    rule: str
    programs: int
    firings: int
    rewrites: int
    compared: int
    worst: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Pair:
    """One program before and after."""

    before: Module
    after: Module
    rewrites: int


def check_rule(
    rule: Rule,
    *,
    firings: int = 20,
    seed: int = 0,
    domain: Domain | None = None,
    lower: Lower | None = None,
    narrowed: Mapping[str, Any] | None = None,
) -> Equivalence:
    """Check that a rule preserves what programs compute, on `firings` random programs in which it fires.

    `domain` makes programs of a random generator: HLO text, or modules; a declared rule needs none. `lower` makes HLO
    of them where the rule is of a dialect. `narrowed` is as `p.equivalence(...)`, for native rules. Raises
    NotEquivalent where numbers differ, RuleError where the rule does not fire often enough.
    """
    started = perf_counter()
    rule = anywhere(rule)
    settings = {**rule.domain, **(narrowed or {})}
    programs = _Programs(rule, seed, domain, lower)
    pairs = programs.pairs(firings)
    for _ in range(ROUNDS):
        try:
            compared, worst = _run_all(rule, pairs, seed, settings)
            break
        except XlaError:
            kept = [pair for pair in pairs if domain is not None or _refusal(pair.before) is None]
            if len(kept) == len(pairs):
                raise _blame(rule, pairs) from None
            pairs = kept + programs.pairs(firings - len(kept))
    else:
        raise RuleError(f"rule {rule}: XLA takes few of the programs made from its pattern", hint=NARROW_IT)
    rewrites = sum(pair.rewrites for pair in pairs)
    return Equivalence(rule.name, programs.made, len(pairs), rewrites, compared, worst, perf_counter() - started)


def _run_all(rule: Rule, pairs: Sequence[_Pair], seed: int, settings: Mapping[str, Any]) -> tuple[int, float]:
    compared, worst = 0, 0.0
    for group in _groups(pairs):
        for name in ("ordinary",) if settings.get("finite") else ("ordinary", "special", "extreme"):
            count, error = _run(rule, group, name, seed, settings)
            compared, worst = compared + count, max(worst, error)
    return compared, worst


def _refusal(program: Module) -> str | None:
    """What XLA says against a program; None where it runs it."""
    try:
        run(program)
    except HloomError as error:
        return error.message
    return None


def _blame(rule: Rule, pairs: Sequence[_Pair]) -> NotEquivalent:
    """The error that says which program XLA refuses."""
    for pair in pairs:
        for side, program in (("before", pair.before), ("after", pair.after)):
            problem = _refusal(program)
            if problem is not None:
                return NotEquivalent(
                    f"rule {rule}: the program {side} it cannot be run: {problem}\n{_both(pair.before, pair.after)}"
                )
    return NotEquivalent(f"rule {rule}: its programs cannot be run together")


class _Programs:
    """Random programs in which a rule fires, as many as are asked for."""

    def __init__(self, rule: Rule, seed: int, domain: Domain | None, lower: Lower | None) -> None:
        self.rule = rule
        self.index = RuleIndex([rule])  # compiled once: a rule of many commutative ops has many variants
        self.lower = lower
        self.is_given = domain is not None
        self.source = _programs(rule, seed, domain)
        self.made = 0

    def pairs(self, count: int) -> list[_Pair]:
        pairs: list[_Pair] = []
        most = self.made + count * (TRIES if self.is_given else PATTERN_TRIES)
        while len(pairs) < count:
            before = next(self.source, None) if self.made < most else None
            if before is None:
                raise RuleError(
                    f"rule {self.rule} fired in {len(pairs)} of {self.made} programs made for it, not in {count}",
                    hint=NARROW_IT,
                )
            self.made += 1
            after, rewrites = _rewritten(self.index, before)
            if rewrites:
                _verify(self.rule, before, after)
                pairs += self.lowered(_Pair(before, after, rewrites))
        return pairs

    def lowered(self, pair: _Pair) -> list[_Pair]:
        """The pair as HLO; none where a program that was made from a pattern is nothing that can be lowered."""
        if self.lower is None:
            return [pair]
        try:
            before = self.lower(pair.before)
        except HloomError:
            if self.is_given:
                raise
            return []
        return [_Pair(before, self.lower(pair.after), pair.rewrites)]


def _programs(rule: Rule, seed: int, domain: Domain | None) -> Iterator[Module]:
    """Random programs of a domain, or of a pattern; the same ones for the same seed."""
    random = Random(zlib.crc32(f"{seed} {rule.family} {rule.name}".encode()))
    if domain is None and not rule.patterns:
        raise RuleError(f"rule {rule} is native: its check needs a domain", hint="check_rule(rule, domain=...)")
    if domain is None:
        forms = [instances(replace(rule, pattern=pattern), random) for pattern in rule.patterns]
        for programs in zip(*forms, strict=False):  # each form in turn, until one has no more programs
            yield from programs
        return
    while True:
        made = domain(random)
        yield parse(made) if isinstance(made, str) else made


def _rewritten(index: RuleIndex, before: Module) -> tuple[Module, int]:
    """A program after a rule, and how often the rule fired: once only where the rule alone would never end."""
    after = before.clone()
    try:
        return after, rewrite(after, index).matched
    except RuleError:
        after = before.clone()
    for node in list(after.nodes()):
        if apply_at(after, index, node):
            return after, 1
    return after, 0


def _verify(rule: Rule, before: Module, after: Module) -> None:
    try:
        verify(after)
    except HloomError as error:
        raise NotEquivalent(f"rule {rule} makes a broken program: {error}\n{_both(before, after)}") from None


def _groups(pairs: Sequence[_Pair]) -> list[list[_Pair]]:
    """The programs that can be run as one."""
    groups: dict[tuple, list[_Pair]] = {}
    for pair in pairs:
        groups.setdefault(device_counts(pair.before), []).append(pair)
    return list(groups.values())


def _run(rule: Rule, pairs: Sequence[_Pair], name: str, seed: int, settings: Mapping[str, Any]) -> tuple[int, float]:
    """Run programs before and after on the same inputs; how many arrays were compared and the greatest error."""
    joined = join_programs([(pair.before, pair.after) for pair in pairs])
    inputs = draw_inputs(name, joined.input_types, seed, positive=bool(settings.get("positive")))
    outputs = run(joined.module, inputs).outputs
    worst = 0.0
    for number, pair in enumerate(pairs):
        left, right = ([outputs[index] for index in joined.output_indices[2 * number + side]] for side in (0, 1))
        problem = _differences(left, right, settings)
        if problem:
            own = _inputs_of(inputs, pairs, number)
            verdict = arbitrate(
                ProgramRun("the program before", pair.before, own, left),
                ProgramRun("the program after", pair.after, own, right),
                settings.get("tolerance"),
            )
            both, given = _both(pair.before, pair.after), _input_lines(own)
            raise NotEquivalent(
                f"rule {rule} changes what a program computes:\n  {problem}\n  {verdict}\n{both}{given}"
            )
        worst = max([worst, *map(_error, left, right)])
    return len(outputs) // 2, worst


def _differences(left: list[np.ndarray], right: list[np.ndarray], settings: Mapping[str, Any]) -> str:
    lines = []
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        relative = 0.0 if settings.get("exact") else _tolerance(one, settings.get("tolerance"))
        lines += [f"output {index}: {difference.reason}" for difference in compare([one], [other], relative)]
        if settings.get("exact") and not lines and one.dtype.kind != "c" and _signs_differ(one, other):
            lines.append(f"output {index}: the signs of zeros differ")
    if len(left) != len(right):
        lines.append(f"{len(left)} outputs became {len(right)}")
    return "\n  ".join(lines[:5])


def _signs_differ(one: np.ndarray, other: np.ndarray) -> bool:
    if not dtype_of(one.dtype).is_float:
        return False
    zeros = (one == 0) & (other == 0)
    return bool((np.signbit(one) != np.signbit(other))[zeros].any())


def _tolerance(array: np.ndarray, given: float | None) -> float:
    """The tolerance of an array's type; one that is given is that of f32, and the others grow as much."""
    element_type = dtype_of(array.dtype)
    if not (element_type.is_float or element_type.is_complex):
        return 0.0
    factor = 1.0 if given is None else given / TOLERANCES["f32"]
    return min(TOLERANCES.get(element_type.name, NARROW) * factor, LOOSEST)


def _error(one: np.ndarray, other: np.ndarray) -> float:
    """The greatest relative error of finite results."""
    element_type = dtype_of(one.dtype)
    if not (element_type.is_float or element_type.is_complex) or not one.size:
        return 0.0
    wide = np.complex128 if element_type.is_complex else np.float64
    with np.errstate(all="ignore"):
        left, right = one.astype(wide), other.astype(wide)
        ratio = np.abs(left - right) / np.maximum(np.maximum(np.abs(left), np.abs(right)), 1e-30)
    return float(np.max(ratio, where=np.isfinite(ratio), initial=0.0))


def _both(before: Module, after: Module) -> str:
    return f"before:\n{to_text(before, 'short')}\nafter:\n{to_text(after, 'short')}"


def _inputs_of(inputs: Sequence[np.ndarray], pairs: Sequence[_Pair], number: int) -> Sequence[np.ndarray]:
    def leaves(pair: _Pair) -> int:
        return sum(len(list(parameter.type.leaves())) for parameter in pair.before.entry.parameters if parameter.type)

    start = sum(map(leaves, pairs[:number]))
    return inputs[start : start + leaves(pairs[number])]


def _input_lines(inputs: Sequence[np.ndarray]) -> str:
    shown = [
        f"\n  input {index}: {dtype_of(array.dtype)}[{','.join(map(str, array.shape))}] "
        f"{np.array2string(array, threshold=64)}"
        for index, array in enumerate(inputs)
    ]
    return "\ninputs:" + "".join(shown)


DrawValues = Callable[[DType, tuple[int, ...], np.random.Generator], np.ndarray]

_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -0.5)


def draw_inputs(name: str, kinds: Sequence[TensorType], seed: int, *, positive: bool = False) -> list[np.ndarray]:
    """One array per type, of one of SETS; with `positive`, no number is below a small one above zero."""
    generator = np.random.default_rng(seed)
    return [_draw_array(INPUT_SETS[name], array_type, generator, positive) for array_type in kinds]


def _draw_array(
    draw_values: DrawValues, array_type: TensorType, generator: np.random.Generator, positive: bool
) -> np.ndarray:
    if array_type.dtype.kind is DTypeKind.BOOLEAN:
        return np.asarray(generator.integers(0, 2, array_type.dims)).astype(bool)
    with np.errstate(all="ignore"):
        values = draw_values(array_type.dtype, array_type.dims, generator)
        if positive:
            values = np.abs(values) + (1 if array_type.dtype.is_integer else 0.125)
        return np.asarray(values).astype(array_type.dtype.numpy)


def _draw_ordinary(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        return generator.integers(max(low, -9), min(high, 9), dims, endpoint=True)
    if element.is_complex:
        return generator.standard_normal(dims) + 1j * generator.standard_normal(dims)
    return generator.standard_normal(dims)


def _draw_special(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        choices = np.array([low, high, 0, 1, max(low, -1), high // 2, low + 1], object)
        chosen = generator.choice(len(choices), dims)
        return np.asarray(choices[chosen]).astype(np.uint64 if low == 0 else np.int64)
    ordinary = _draw_ordinary(element, dims, generator)
    chosen = np.asarray(generator.choice(_SPECIAL, dims))
    if element.is_complex:
        chosen = chosen + 0j
    return np.where(generator.random(dims) < 0.6, chosen, ordinary)


def _draw_extreme(element: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if element.is_integer:
        low, high = bounds(element)
        return generator.integers(low, high, dims, np.uint64 if low == 0 else np.int64, endpoint=True)
    if element.is_complex:
        return _draw_ordinary(element, dims, generator)
    limits = ml_dtypes.finfo(element.numpy)
    largest, smallest = float(limits.max), float(limits.tiny)
    choices = np.array([largest * 0.75, largest**0.5, smallest * 4, smallest**0.5])
    chosen = np.asarray(generator.choice(choices, dims)) * generator.choice([-1.0, 1.0], dims)
    return np.where(generator.random(dims) < 0.5, chosen, generator.standard_normal(dims))


def bounds(element: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if element.kind is DTypeKind.UNSIGNED:
        return 0, (1 << element.bits) - 1
    return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1


INPUT_SETS: Mapping[str, DrawValues] = {"ordinary": _draw_ordinary, "special": _draw_special, "extreme": _draw_extreme}
