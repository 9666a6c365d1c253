"""Minimisation: repeats rounds of reductions until none makes the faulty module smaller."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hloom.formats.hlo import parse, print_module
from hloom.inspection.minimize.numeric_predicates import NumericPredicate
from hloom.inspection.minimize.predicates import TIMEOUT, FaultPredicate, Verdict, as_predicate
from hloom.inspection.minimize.reductions import REDUCTIONS
from hloom.inspection.minimize.search import MinimizationProgress, OutOfSteps, ReductionSearch
from hloom.ir import Module, ModuleLike, as_module
from hloom.runtime import Arbitration, parameter_names
from hloom.text import Display, Displayed, DisplayTable, HloomError, HloomWarning, Record, Unattainable

STEPS = 5_000
"""The default maximum number of candidates to check."""


class FaultNotShown(Unattainable):
    """The predicate does not hold for the module that is to be minimised."""


@dataclass(frozen=True, slots=True, repr=False)
class Minimization(Displayed, Record):
    """The smallest module that was reached, and how.

    `text` is the module's; `shows` says whether the fault showed again in the module that was read back from it, with
    `reason`. `steps` are the candidates that were checked, the input and the text among them; `refused` did not verify,
    `repeated` had been checked before, `accepted` showed the fault. `is_finished` is false where the steps ran out
    before a whole round found nothing more. Where the predicate compares numbers, `inputs` are those that the fault
    shows on, by the names of flattened parameters, and `needs_inputs` says that it does not on random ones of the seed.
    `arbitration` is what hloom's evaluator finds where the two ways are two programs of XLA's.
    """

    module: Module
    text: str
    shows: bool
    reason: str
    instructions_before: int
    instructions: int
    rounds: int
    steps: int
    accepted: int
    refused: int
    repeated: int
    is_finished: bool
    inputs: dict[str, np.ndarray] | None = None
    needs_inputs: bool = False
    arbitration: Arbitration | None = None
    json_keys = (
        "module=module.name shows reason instructions_before instructions rounds steps accepted refused repeated "
        "is_finished needs_inputs arbitration?"
    )

    def display(self) -> Display:
        nodes = ((node.graph.name, node.name, node.opcode, str(node.type)) for node in self.module.nodes())
        columns = ("computation", "instruction", "opcode", "type")
        table = DisplayTable("what is left", columns, nodes, self.module.node_count)
        return Display(f"<{self.module.name}: {self}>", [table], "print(result.text)")

    def __str__(self) -> str:
        end = "" if self.is_finished else ", stopped when the steps ran out"
        return (
            f"{self.instructions_before:,} instructions to {self.instructions:,} in {self.rounds} rounds: "
            f"{self.steps:,} candidates checked, {self.accepted:,} showed the fault, {self.refused:,} did not "
            f"verify{end}"
        )


def minimize(
    module: ModuleLike,
    predicate: FaultPredicate | Callable[[Module], object],
    *,
    steps: int = STEPS,
    isolated: bool = False,
    timeout: float = TIMEOUT,
    told: Callable[[MinimizationProgress], object] | None = None,
) -> Minimization:
    """Make a module smaller for as long as the predicate holds; the module itself is not changed.

    The predicate is a function of a module, or one of this package's. At most `steps` candidates are checked. A
    function runs in this process, or with `isolated` in a forked one, which is stopped after `timeout` seconds. `told`
    is called before each check. Raises FaultNotShown where the predicate does not hold for the module itself,
    HloomError for a module that does not verify.

    >>> from hloom.formats.hlo import parse
    >>> module = parse("ENTRY e { x = f32[9,9] parameter(0) y = f32[9,9] exponential(x) ROOT z = f32[9,9] tanh(y) }")
    >>> print(minimize(module, lambda m: any(node.opcode == "tanh" for node in m.nodes())).text.strip())
    HloModule module_e
    <BLANKLINE>
    ENTRY %e (y.value: f32[1,1]) -> f32[1,1] {
      %y.value = f32[1,1] parameter(0)
      ROOT %z = f32[1,1] tanh(%y.value)
    }
    """
    module = as_module(module)
    if steps < 1:
        raise HloomError(f"{steps} steps: at least one is needed, to check the module itself")
    named = as_predicate(predicate, isolated=isolated, timeout=timeout)
    search = ReductionSearch(module.clone(), named, steps, told)
    if not search.first.shows:
        raise FaultNotShown(
            f"the fault does not show in {module.name} itself: '{named.name}' does not hold", hint=search.first.reason
        )
    before = search.size[0]
    is_finished = _reduce(search)
    text = print_module(search.smallest)
    verdict = _check_again(search, text)
    return Minimization(
        search.smallest, text, verdict.shows, verdict.reason, before, search.smallest_size[0], search.round,
        search.steps, search.accepted, search.refused, search.repeated, is_finished,
        *_inputs_of(named, search.smallest), _arbitration(named, search.smallest),
    )  # fmt: skip


def _inputs_of(predicate: FaultPredicate, module: Module) -> tuple[dict[str, np.ndarray] | None, bool]:
    """The inputs that numbers are compared on, and whether the fault needs them: it does not show on random ones."""
    if not isinstance(predicate, NumericPredicate) or not predicate.compares_numbers:
        return None, False
    arrays = predicate.arrays_of(module)
    return dict(zip(parameter_names(module), arrays, strict=True)), not predicate.shows_on_random_inputs(module)


def _arbitration(predicate: FaultPredicate, module: Module) -> Arbitration | None:
    if not isinstance(predicate, NumericPredicate) or not predicate.compares_numbers:
        return None
    return predicate.arbitration(module)


def _reduce(search: ReductionSearch) -> bool:
    """Go round all reductions until none of them helps; whether that was reached within the steps."""
    try:
        while True:
            search.round += 1
            accepted = search.accepted
            for search.reduction, reduce in REDUCTIONS.items():
                reduce(search)
            if search.accepted == accepted:
                return True
    except OutOfSteps:
        return False


def _check_again(search: ReductionSearch, text: str) -> Verdict:
    """Check what is read back from the text, which is what a user has; an input that nothing reduced is checked too."""
    if search.accepted == 0:
        return search.first
    search.reduction = "the text"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HloomWarning)  # what it warns of, reading the input has
            return search.check(parse(text), text)
    except OutOfSteps:
        return Verdict(True, "it was checked before it was printed: the steps ran out")
