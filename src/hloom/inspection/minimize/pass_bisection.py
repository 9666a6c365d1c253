"""Bisects passes: finds the one after which a fault shows, in hloom's own pipelines and in XLA's.

A pipeline is run anew up to an application in the middle, until the fault does not show after one application and shows
after the next. That pass is taken apart: the rules of it that are needed, and the smallest module that it breaks.
Of XLA's passes, those are looked for without which the fault goes away (`--xla_disable_hlo_passes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hloom.evaluator import evaluate
from hloom.formats.hlo import print_module
from hloom.inspection.minimize.ddmin import minimize_items
from hloom.inspection.minimize.minimization import STEPS, FaultNotShown, Minimization, minimize
from hloom.inspection.minimize.numeric_predicates import NumericPredicate, Sides
from hloom.inspection.minimize.predicates import TIMEOUT, FaultMessage, FaultPredicate, Verdict
from hloom.inspection.minimize.search import MinimizationProgress
from hloom.ir import Module, verify
from hloom.passes import PASSES, Pass, PassLike, Watch, apply_in_place, resolve, rules_pass
from hloom.rewrite import Report
from hloom.runtime import Arbitration, Inputs, ProgramRun, arbitrate, run, xla_flags
from hloom.text import HloomError

DISABLE = "--xla_disable_hlo_passes"


class PassesChangeNumbers(NumericPredicate):
    """Passes fail, make what does not verify, or a module of other results.

    Results are computed by numpy or, where it refuses, by XLA. What shows for the first module must show for smaller
    ones: a failure of the same message, or other numbers.
    """

    def __init__(
        self,
        passes: PassLike | Iterable[PassLike],
        seed: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        timeout: float = TIMEOUT,
        inputs: Inputs | None = None,
    ) -> None:
        self.passes = resolve(passes)
        names = ", ".join(part.name for part in self.passes)
        super().__init__(f"{names} changes what is computed", seed, rtol, atol, timeout, inputs)
        self._fails: bool | None = None
        self._message = FaultMessage()

    @property
    def compares_numbers(self) -> bool:
        return not self._fails

    def check(self, module: Module, text: str) -> Verdict:
        problem = self._problem(module)
        if problem is None and not self._fails:
            verdict = super().check(module, text)
        else:
            shows = problem is not None and self._fails is not False and self._message.is_same(problem)
            verdict = Verdict(shows, problem or "the passes do not fail")
        if self._fails is None and verdict.shows:
            self._fails = problem is not None
        return verdict

    def sides(self, module: Module, inputs: Sequence[np.ndarray]) -> Sides:
        changed = module.clone()
        apply_in_place(changed, self.passes)
        return results_of(changed, inputs, self.timeout), self.reference(module, inputs)

    def reference(self, module: Module, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return results_of(module, inputs, self.timeout)

    def arbitration(self, module: Module) -> Arbitration:
        """What XLA computes of the module and of what the passes make of it, beside the evaluator."""
        changed, inputs = module.clone(), self.arrays_of(module)
        apply_in_place(changed, self.passes)
        names = "the input", f"what {', '.join(part.name for part in self.passes)} makes of it"
        try:
            first, second = (
                ProgramRun(name, program, inputs, run(program, inputs, timeout=self.timeout).outputs)
                for name, program in zip(names, (module, changed), strict=True)
            )
        except HloomError as error:
            return Arbitration(names, obstacle=f"XLA does not run both: {error.message.partition(chr(10))[0]}")
        return arbitrate(first, second, self.rtol, self.atol)

    def _problem(self, module: Module) -> str | None:
        """What goes wrong when the passes run; None where nothing does."""
        changed = module.clone()
        try:
            apply_in_place(changed, self.passes)
        except Exception as error:  # a pass may raise anything: that is the fault
            return f"{type(error).__name__}: {error}"
        try:
            verify(changed)
        except HloomError as error:
            return f"the result does not verify: {error}"
        return None


class ShowsAfterPasses(FaultPredicate):
    """A fault shows in what passes make of a module, and not in the module."""

    def __init__(self, passes: PassLike | Iterable[PassLike], predicate: FaultPredicate) -> None:
        self.passes = resolve(passes)
        self.predicate = predicate
        self.name = f"after {', '.join(part.name for part in self.passes)}: {predicate.name}"

    def check(self, module: Module, text: str) -> Verdict:
        changed = module.clone()
        try:
            apply_in_place(changed, self.passes)
        except HloomError as error:
            return Verdict(False, str(error), False)
        after = self.predicate.check(changed, print_module(changed))
        if after.shows and self.predicate.check(module, text).shows:
            return Verdict(False, "it shows before the passes too")
        return after


def results_of(module: Module, inputs: Sequence[np.ndarray], timeout: float) -> Sequence[np.ndarray]:
    """What a module computes, by numpy, or where it refuses by XLA."""
    try:
        return evaluate(module, inputs)
    except HloomError:
        return run(module, inputs, timeout=timeout).outputs


@dataclass(frozen=True, slots=True)
class PassFault:
    """The application of a pass with which a fault comes.

    `number` counts the applications of a pipeline from 1, of `count` in all, the parts of fixpoints one by one.
    `guilty` is the pass, of its rules those alone that are needed; `rules` are their names, and `module` is what it was
    given. `reason` is what was seen after it.
    """

    name: str
    number: int
    count: int
    rules: tuple[str, ...]
    guilty: Pass
    module: Module
    reason: str
    json_keys = "name number count rules reason"

    def __str__(self) -> str:
        rules = f", rule {', '.join(self.rules)}" if self.rules else ""
        return f"application {self.number:,} of {self.count:,}, pass {self.name}{rules}: {self.reason}"


def bisect_passes(
    module: Module, passes: PassLike | Iterable[PassLike], predicate: FaultPredicate | None = None
) -> PassFault:
    """The application of a pass after which a predicate first holds; without a predicate, after which numbers differ.

    It is one after which the fault shows and before which it does not; where it comes and goes, there may be others.
    Raises FaultNotShown where the fault does not show in the end, or shows in the module itself.
    """
    named = resolve(passes)
    shows = _state_check(module, predicate)
    before = shows(module)
    if before.shows:
        raise FaultNotShown(f"the fault shows in {module.name} before any pass", hint=before.reason)
    fault = _bisect(module, named, shows)
    while fault is not None and fault.guilty.parts:
        inner = _bisect(fault.module, [fault.guilty], shows)
        if inner is None:
            break
        fault = replace(inner, number=fault.number, count=fault.count, name=f"{fault.name}/{inner.name}")
    if fault is None:
        names = ", ".join(part.name for part in named)
        raise FaultNotShown(f"the fault does not show in {module.name} after {names}")
    guilty, rules = _needed_rules(fault.module, fault.guilty, shows)
    return replace(fault, guilty=guilty, rules=rules)


def _bisect(module: Module, passes: Sequence[Pass], shows: Callable[[Module], Verdict]) -> PassFault | None:
    """The application with which the fault comes, as halves of halves say; None where it does not in the end."""
    parts = _spread(passes)
    last = _state(module, parts, None)
    verdict = last.problem or shows(last.module)
    if not verdict.shows:
        return None
    good, bad = (0 if last.problem is None else last.count - 1), last.count
    while bad - good > 1:
        middle = (good + bad) // 2
        seen = shows(_state(module, parts, middle).module)
        if seen.shows:
            bad, verdict = middle, seen
        else:
            good = middle
    guilty = _state(module, parts, bad).ran
    assert guilty is not None, "a fault that does not show at first comes with a pass"
    return PassFault(
        guilty.name.strip(), bad, last.count, (), guilty, _state(module, parts, good).module, verdict.reason
    )


def minimize_passes(
    module: Module,
    passes: PassLike | Iterable[PassLike],
    predicate: FaultPredicate | None = None,
    *,
    steps: int = STEPS,
    numbers: Callable[[Pass], PassesChangeNumbers] = PassesChangeNumbers,
    told: Callable[[MinimizationProgress], object] | None = None,
) -> tuple[PassFault, Minimization]:
    """The pass of a pipeline with which a fault comes, and the smallest module in which it comes with that pass alone.

    Without a predicate the fault is that results differ, or that the pass fails; `numbers` makes what compares them.
    """
    fault = bisect_passes(module, passes, predicate)
    smaller = numbers(fault.guilty) if predicate is None else ShowsAfterPasses(fault.guilty, predicate)
    return fault, minimize(fault.module, smaller, steps=steps, told=told)


@dataclass(slots=True)
class _State:
    """A module after some applications: how many, the pass that ran last, and what the last one raised."""

    module: Module
    count: int = 0
    ran: Pass | None = None
    problem: Verdict | None = None


class _Enough(Exception):
    """So many applications as were asked for have run."""


def _spread(passes: Sequence[Pass]) -> list[Pass]:
    """The passes by names of their own; what has parts has no name among all passes, so that these are watched."""
    spread: list[Pass] = []
    for part in passes:
        count = sum(other.name.strip() == part.name for other in spread)
        name = f"{part.name} " if part.parts else part.name
        spread.append(replace(part, name=f"{part.name} ({count + 1})" if count else name))
    return spread


def _state(module: Module, passes: Sequence[Pass], applications: int | None) -> _State:
    """A copy of a module after the first applications of passes, or after all."""
    state = _State(module.clone())
    by_name = {leaf.name: leaf for leaf in _leaves(passes)}

    def before(name: str, _: Module) -> None:
        if state.count == applications:
            raise _Enough
        state.count += 1
        state.ran = by_name[name]

    try:
        apply_in_place(state.module, passes, watch=Watch(before=before))
    except _Enough:
        pass
    except Exception as error:  # a pass may raise anything: that is a fault of its own
        state.problem = Verdict(True, f"{type(error).__name__}: {error}")
    return state


def _leaves(passes: Iterable[Pass]) -> Iterator[Pass]:
    """The passes that are watched: in the place of what has no name among all passes, its parts."""
    for part in passes:
        if part.parts and part.name not in PASSES:
            yield from _leaves(part.parts)
        else:
            yield part


def _state_check(module: Module, predicate: FaultPredicate | None) -> Callable[[Module], Verdict]:
    if predicate is not None:
        return lambda state: predicate.check(state, print_module(state))
    comparison = _DiffersFromOriginal(module)
    return lambda state: comparison.check(state, "")


class _DiffersFromOriginal(NumericPredicate):
    """A state computes other numbers than the module did, or does not verify."""

    def __init__(self, module: Module) -> None:
        super().__init__("it computes other numbers", 0, None, None, TIMEOUT, None)
        self._original = module
        self._arrays = [array for leaves in self.inputs_of(module).values() for array in leaves]
        self._expected = results_of(module, self._arrays, TIMEOUT)

    def check(self, module: Module, text: str) -> Verdict:
        try:
            verify(module)
        except HloomError as error:
            return Verdict(True, f"the result does not verify: {error}")
        return super().check(module, text)

    def sides(self, module: Module, inputs: Sequence[np.ndarray]) -> Sides:
        return results_of(module, inputs, self.timeout), self._expected

    def reference(self, module: Module, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return results_of(self._original, inputs, self.timeout)


def _needed_rules(module: Module, guilty: Pass, shows: Callable[[Module], Verdict]) -> tuple[Pass, tuple[str, ...]]:
    """The pass with those of its rules alone that are needed for the fault, and their names."""
    report = _report_of(module, guilty)
    fired = {account.rule: None for account in report.all_rules() if account.matched} if report is not None else {}
    rules = [rule for rule in guilty.rules if rule in fired]
    if not rules:
        return guilty, ()

    def is_enough(kept: Sequence[object]) -> bool:
        state = _state(module, [rules_pass(guilty.name, [rule for rule in rules if rule in set(kept)])], None)
        return (state.problem or shows(state.module)).shows

    if not is_enough(rules):
        return guilty, ()
    kept = minimize_items(rules, is_enough)
    return rules_pass(guilty.name, kept, guilty.summary), tuple(rule.name for rule in kept)


def _report_of(module: Module, guilty: Pass) -> Report | None:
    try:
        return apply_in_place(module.clone(), guilty)
    except Exception:
        return None


@dataclass(frozen=True, slots=True)
class XlaPassFault:
    """XLA's passes without which a fault goes away; none where it stays without all that could be left out.

    `names` are the fewest, `tried` is how many passes were tried, `steps` how often XLA was asked.
    """

    names: tuple[str, ...]
    tried: int
    steps: int

    def __str__(self) -> str:
        asked = f"{self.tried} passes, {self.steps} runs of XLA"
        if not self.names:
            return f"it goes away without none of XLA's passes: {asked}"
        return f"it goes away with {DISABLE}={','.join(self.names)} ({asked})"


def bisect_xla_passes(module: Module, predicate: FaultPredicate, names: Sequence[str]) -> XlaPassFault:
    """The fewest of XLA's passes that must not run for a fault to go away; `names` are those that are tried.

    What XLA cannot compile without some passes says nothing of them.
    """
    text = print_module(module)
    answers: dict[frozenset[str], bool] = {}

    def goes_away(disabled: Sequence[str]) -> bool:
        key = frozenset(disabled)
        if key not in answers:
            with xla_flags(f"{DISABLE}={','.join(disabled)}"):
                verdict = predicate.check(module, text)
            answers[key] = verdict.is_checked and not verdict.shows
        return answers[key]

    if names and goes_away(names):
        kept = minimize_items(names, goes_away)
    else:
        kept = next(([name] for name in names if goes_away([name])), [])
    return XlaPassFault(tuple(kept), len(names), len(answers))
