"""Equivalence of two modules: both run on XLA's CPU client, on the same random inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.ir import Module, TensorType, Type
from hloom.runtime import (
    Arbitration,
    Difference,
    InputDomain,
    KernelCheck,
    ProgramRun,
    arbitrate,
    check_kernels,
    compare,
    input_domains,
    random_inputs,
    run,
)
from hloom.text import HloomError, Record

MOST_DIFFERENCES = 10
"""How many outputs that differ are listed."""


@dataclass(frozen=True, slots=True)
class EquivalenceResult(Record):
    """What a comparison found: the outputs that differ beyond the tolerance, and the worst difference at all.

    `arbitration` says what hloom's evaluator finds where outputs differ; `kernels` what the fusions that only the
    second module has compute as they are written, for in the runs they are calls.
    """

    seed: int
    outputs: int
    differences: Sequence[Difference]
    worst: Difference | None
    arbitration: Arbitration | None
    kernels: KernelCheck
    json_keys = "agrees seed outputs differences worst arbitration? fusions?=ran_kernels"

    @property
    def agrees(self) -> bool:
        return not self.differences and not self.kernels.differing

    def lines(self) -> list[str]:
        """The verdict for people."""
        return [self._summary(), *self._differences(), *self._wrong_kernels()]

    def _summary(self) -> str:
        inputs = f"on random inputs of seed {self.seed}"
        if self.differences:
            return f"{len(self.differences):,} of {self.outputs:,} outputs differ {inputs}{self._kernels_in_words()}"
        worst = f"worst difference: {self.worst}" if self.worst else "to the last bit"
        verified = "not verified" if self.kernels.differing else "verified"
        count = f"{self.outputs:,} of {self.outputs:,} outputs agree, {worst}"
        return f"{verified} {inputs}: {count}{self._kernels_in_words()}"

    def _differences(self) -> list[str]:
        if not self.differences:
            return []
        return [*difference_lines(self.differences), f"worst difference: {self.worst}", str(self.arbitration)]

    def _kernels_in_words(self) -> str:
        """Whether fusions ran as they are written: in the runs that are compared they are calls."""
        kernels = self.kernels
        if not kernels.count:
            return ""
        if not kernels.agreeing and not kernels.differing:
            return f"; fusions ran as calls, not as XLA kernels: {kernels.reason}"
        ran = len(kernels.agreeing) + len(kernels.differing)
        text = f"; fusions run as XLA kernels: {len(kernels.agreeing):,} of {ran:,} agree"
        return f"{text}, {len(kernels.skipped):,} ran as calls only: {kernels.reason}" if kernels.skipped else text

    def _wrong_kernels(self) -> list[str]:
        return [
            f"  fusion {name}, as XLA's CPU compiler computes it, compared with a call: {difference.reason}"
            for name, difference in self.kernels.differing[:MOST_DIFFERENCES]
        ]

    @property
    def ran_kernels(self) -> KernelCheck | None:
        """What running fusions as kernels gave; None if there are none."""
        return self.kernels if self.kernels.count else None


def difference_lines(differences: Sequence[Difference]) -> list[str]:
    """The first outputs that differ, a line each, and how many more there are."""
    lines = [f"  {difference}" for difference in differences[:MOST_DIFFERENCES]]
    more = len(differences) - MOST_DIFFERENCES
    return [*lines, f"  and {more:,} more"] if more > 0 else lines


def check_equivalence(before: Module, after: Module, seed: int, rtol: float | None = None) -> EquivalenceResult:
    """Run two modules of HLO on the same inputs and compare; where a rule gave an input another type, it is a mask.

    A module that lost parameters takes the inputs of those that are left, by name. Raises HloomError where it has
    others.
    """
    kinds = _input_types(before), _input_types(after)
    if kinds[0] == kinds[1]:
        first = run(before, seed=seed)
        second = run(after, first.inputs)
    elif len(kinds[0]) != len(kinds[1]):
        first = run(before, seed=seed)
        second = run(after, _remaining_inputs(before, after, first.inputs))
    else:
        inputs = _inputs_of_two(kinds[0], kinds[1], seed, input_domains(before))
        first, second = run(before, inputs[0]), run(after, inputs[1])
    differences = compare(first.outputs, second.outputs, rtol)
    arbitration = None
    if differences:
        executions = (
            ProgramRun("the program before", before, first.inputs, first.outputs),
            ProgramRun("the program after", after, second.inputs, second.outputs),
        )
        arbitration = arbitrate(*executions, rtol)
    worst = _worst(first.outputs, second.outputs)
    kernels = check_kernels(after, seed, rtol, known=before)
    return EquivalenceResult(seed, len(first.outputs), differences, worst, arbitration, kernels)


def _worst(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> Difference | None:
    differences = compare(left, right, rtol=0, atol=0)
    return max(differences, key=lambda difference: difference.relative if difference.size else np.inf, default=None)


def _input_types(module: Module) -> list[TensorType]:
    leaves = [
        leaf for parameter in module.entry.parameters for leaf in (parameter.type.leaves() if parameter.type else ())
    ]
    return [leaf for leaf in leaves if isinstance(leaf, TensorType)]


def _remaining_inputs(before: Module, after: Module, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of the inputs of a module, those of the parameters that another module still has, in its order."""
    arrays, rest = dict[tuple[str, Type | None], list[np.ndarray]](), iter(inputs)
    for parameter in before.entry.parameters:
        leaves = parameter.type.leaves() if parameter.type else ()
        arrays[parameter.name, parameter.type] = [next(rest) for leaf in leaves if isinstance(leaf, TensorType)]
    remaining = list[np.ndarray]()
    for parameter in after.entry.parameters:
        if (parameter.name, parameter.type) not in arrays:
            raise HloomError(
                f"the passes gave the entry the parameter {parameter.name}: {parameter.type}, so there is nothing to "
                "compare on the same inputs",
                hint="drop --verify and compare with `hloom run --check` on your own inputs",
            )
        remaining += arrays[parameter.name, parameter.type]
    return remaining


def _inputs_of_two(
    left: Sequence[TensorType], right: Sequence[TensorType], seed: int, domains: Sequence[InputDomain]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs of two modules that differ in some types only: there, what is drawn is 0 or 1, a mask in either type."""
    first, second = random_inputs(left, seed, domains), random_inputs(right, seed, domains)
    for index, (one, other) in enumerate(zip(left, right, strict=True)):
        if one.dtype is not other.dtype:
            mask = np.random.default_rng([seed, index]).integers(0, 2, one.dims)
            first[index], second[index] = mask.astype(one.dtype.numpy), mask.astype(other.dtype.numpy)
    return first, second
