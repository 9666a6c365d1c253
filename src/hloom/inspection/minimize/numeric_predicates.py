"""Predicates that compare numbers: a program computed in two ways, on fixed inputs.

A candidate's parameters get the values of the module's parameters, or those of the instructions they replace
(`recorded_values.py`). So a part of a program works on realistic numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from hloom.evaluator import evaluate
from hloom.inspection.minimize.numeric_faults import NumericFault, fault_of, rounded
from hloom.inspection.minimize.predicates import TIMEOUT, FaultPredicate, Verdict
from hloom.inspection.minimize.recorded_values import Leaves, RecordedValues, given_inputs
from hloom.ir import Module, TensorType
from hloom.runtime import (
    Arbitration,
    Inputs,
    ProgramRun,
    XlaCrash,
    arbitrate,
    check_inputs,
    parameter_names,
    run,
    xla_flags,
)
from hloom.text import HloomError

ROUNDING_SAMPLES = 2
"""The number of times inputs are rounded differently, to see the effect."""
Sides = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
"""What the two ways compute."""


class NumericPredicate(FaultPredicate):
    """Two ways to compute a module give different numbers, beyond the tolerance, on the same inputs.

    Inputs are given, or random of a seed. Once a module is adopted, smaller ones are given its values, and must differ
    as it did (`NumericFault.refusal`).
    """

    def __init__(
        self, name: str, seed: int, rtol: float | None, atol: float | None, timeout: float, inputs: Inputs | None
    ) -> None:
        self.name = name
        self.seed, self.rtol, self.atol, self.timeout = seed, rtol, atol, timeout
        self.given = inputs
        self._current: RecordedValues | None = None
        self._fault: NumericFault | None = None
        self._further: dict[str, Leaves] = {}
        self._starts: dict[int, int] = {}
        self._takes_any = False
        self._counts_rounding = False
        self._checked: tuple[Module, dict[str, Leaves], NumericFault] | None = None

    @property
    def compares_numbers(self) -> bool:
        """Whether the fault is one of numbers, and so shows on some inputs."""
        return True

    @abstractmethod
    def sides(self, module: Module, inputs: Sequence[np.ndarray]) -> Sides:
        """What the two ways compute of these inputs; raises HloomError where either cannot."""

    def reference(self, module: Module, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """What the second way computes."""
        return self.sides(module, inputs)[1]

    def arbitration(self, module: Module) -> Arbitration | None:
        """Which of two programs XLA computes as hloom's evaluator does; None where the evaluator is one of the ways."""
        return None

    def check(self, module: Module, text: str) -> Verdict:
        self._checked = None
        if self._current is None and self.given is not None:
            self.inputs_of(module)  # what does not fit is the user's
        try:
            inputs = self.inputs_of(module)
            fault = self.fault(module, inputs)
        except UnknownFlags:
            raise
        except HloomError as error:
            return Verdict(False, str(error), False)
        if fault is None:
            return Verdict(False, "they agree")
        refusal = None if self._fault is None or self._takes_any else self._fault.refusal(fault)
        if refusal is not None:
            return Verdict(False, f"another difference, {refusal}: {fault.reason}", False)
        self._checked = module, inputs, fault
        return Verdict(True, fault.reason)

    def adopt(self, module: Module) -> None:
        if self._checked is None or self._checked[0] is not module:
            return
        _, inputs, fault = self._checked
        self._current = RecordedValues(module, inputs, self.reference)
        if self._fault is None or self._takes_any:
            self._fault = fault
        self._starts = dict(zip(fault.dims, fault.index, strict=False))

    def fault(self, module: Module, inputs: dict[str, Leaves]) -> NumericFault | None:
        """How the two ways differ on some inputs; raises HloomError where either cannot compute them."""
        arrays = [array for leaves in inputs.values() for array in leaves]
        left, right = self.sides(module, arrays)
        fault = fault_of(left, right, self.rtol, self.atol)
        if fault is None or self._counts_rounding:
            return fault
        sharper = fault_of(left, right, self.rtol, self.atol, self._rounding(module, arrays, right))
        if sharper is None and self._fault is None:
            self._counts_rounding = True  # the first difference is one of rounding: that is the fault
            return fault
        return sharper

    def _rounding(self, module: Module, arrays: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> dict[int, float]:
        """By output, how much the reference changes where inputs are rounded in another way."""
        changes: dict[int, float] = {}
        for sample in range(ROUNDING_SAMPLES):
            generator = np.random.default_rng([self.seed, sample])
            changed = self.reference(module, [rounded(array, generator) for array in arrays])
            fault = fault_of(changed, right, 0.0, 0.0)
            for output, error in (fault.errors if fault is not None else {}).items():
                changes[output] = max(changes.get(output, 0.0), error)
        return changes

    def inputs_of(self, module: Module) -> dict[str, Leaves]:
        """What a module's parameters are given, by name; raises HloomError for what is not an array."""
        if self._current is None:
            inputs = self._first_inputs(module)
        else:
            inputs = given_inputs(module, self._leaves, self._starts, self.seed)
        if inputs is None:
            raise HloomError("a parameter is neither an array of a fixed shape nor a tuple of such arrays")
        return inputs

    def arrays_of(self, module: Module) -> list[np.ndarray]:
        """What a module's flattened parameters are given; raises HloomError for what is no array."""
        return [array for leaves in self.inputs_of(module).values() for array in leaves]

    def values(self) -> dict[str, Leaves] | None:
        """What the instructions of the module that was adopted last compute; None where nobody can say."""
        return None if self._current is None else self._current.values()

    def give(self, name: str, leaves: Leaves) -> None:
        """Let parameters of a name be given these arrays."""
        self._further[name] = leaves

    @contextmanager
    def taking_any(self) -> Iterator[None]:
        """Let any difference be the fault: for instructions that differ of equal operands, where it comes from."""
        self._takes_any = True
        try:
            yield
        finally:
            self._takes_any = False

    def shows_on_random_inputs(self, module: Module) -> bool:
        """Whether the fault shows on random inputs of the seed as well."""
        try:
            inputs = given_inputs(module, lambda name: None, {}, self.seed)
            fault = None if inputs is None else self.fault(module, inputs)
        except HloomError:
            return False
        return fault is not None and (self._fault is None or self._fault.refusal(fault) is None)

    def _leaves(self, name: str) -> Leaves | None:
        assert self._current is not None
        return self._further[name] if name in self._further else self._current.leaves(name)

    def _first_inputs(self, module: Module) -> dict[str, Leaves] | None:
        if self.given is None:
            return given_inputs(module, lambda name: None, {}, self.seed)
        leaves = {node.name: list(node.type.leaves()) for node in module.entry.parameters if node.type is not None}
        types = [leaf for parts in leaves.values() for leaf in parts]
        arrays = [leaf for leaf in types if isinstance(leaf, TensorType)]
        if len(arrays) < len(types):
            return None
        waiting = iter(check_inputs(self.given, arrays, parameter_names(module)))
        return {name: [next(waiting) for _ in parts] for name, parts in leaves.items()}


class DiffersFromEvaluator(NumericPredicate):
    """XLA's CPU client and numpy compute different numbers, beyond the tolerance.

    Without tolerances, those of `hloom.compare`.
    """

    def __init__(
        self,
        seed: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        timeout: float = TIMEOUT,
        inputs: Inputs | None = None,
    ) -> None:
        super().__init__("XLA differs from the evaluator", seed, rtol, atol, timeout, inputs)

    def sides(self, module: Module, inputs: Sequence[np.ndarray]) -> Sides:
        ours = run(module, inputs, timeout=self.timeout).outputs
        return ours, self.reference(module, inputs)

    def reference(self, module: Module, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return evaluate(module, inputs)


class DiffersBetweenFlags(NumericPredicate):
    """XLA computes different numbers with two sets of flags, on the same inputs, beyond the tolerance."""

    def __init__(
        self,
        first: str,
        second: str,
        seed: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        timeout: float = TIMEOUT,
        inputs: Inputs | None = None,
    ) -> None:
        super().__init__(f"XLA differs between '{first}' and '{second}'", seed, rtol, atol, timeout, inputs)
        self.first, self.second = first, second

    def sides(self, module: Module, inputs: Sequence[np.ndarray]) -> Sides:
        return self._outputs(self.first, module, inputs), self.reference(module, inputs)

    def reference(self, module: Module, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return self._outputs(self.second, module, inputs)

    def arbitration(self, module: Module) -> Arbitration:
        inputs = self.arrays_of(module)
        left, right = self.sides(module, inputs)
        first = ProgramRun(f"the module with '{self.first}'", module, inputs, left)
        second = ProgramRun(f"the module with '{self.second}'", module, inputs, right)
        return arbitrate(first, second, self.rtol, self.atol)

    def _outputs(self, flags: str, module: Module, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        try:
            with xla_flags(flags):
                return run(module, inputs, timeout=self.timeout).outputs
        except XlaCrash as crash:
            if "flag" in str(crash).lower():
                raise UnknownFlags(f"XLA does not take the flags '{flags}'", hint=str(crash)) from None
            raise
        except HloomError as error:
            raise HloomError(f"with '{flags}': {error}") from error


class UnknownFlags(HloomError):
    """XLA does not take flags: no candidate would change that."""
