"""What values have at the positions that are removed, if the weights are zero there: the proof that removal is exact.

A dimension may lose positions where what sums over it adds zeros there: one factor of every product in a dot, or what a
reduction sums. Values are known numbers, uniform ones (the same at all removed positions, computed from what does not
have the dimension), or unknown ones; unknown ones are taken to be finite, and indices within bounds. A normalisation
that divides by a count has the count as a constant, which stays: the mean of zeros and others is that of the original.
What reductions and dots miss of numbers and uniform values is computed apart (`reduction_correction.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from hloom.analysis import flow_of
from hloom.compress.pruning.dimension_dependency import (
    Blocked,
    Coupling,
    LeafDim,
    OperandDim,
    convolution_groups,
    is_pointwise,
)
from hloom.compress.quantization import common_factors
from hloom.distribute.propagation import Equation
from hloom.evaluator import TABLE
from hloom.ir import Apply, Constant, FactorKind, Node, TensorType, Trait
from hloom.ops import EXTREMES, splat_number, with_trait

NEUTRAL = {"add": 0.0, "multiply": 1.0}
"""What a reduction may meet at removed positions, by its opcode."""
CORRECTABLE = EXTREMES | {"add"}
"""The reductions to whose results what removed positions add can be added."""
_MOVING = with_trait(Trait.MOVES_DATA) - {"dynamic-reshape"}


@dataclass(frozen=True, slots=True)
class Removed:
    """A number at all removed positions, `value`; None where it is not known, which may yet be the same at all."""

    value: float | None
    is_uniform: bool = True

    @property
    def is_zero(self) -> bool:
        return self.value == 0


UNKNOWN, UNIFORM, NOTHING = Removed(None, is_uniform=False), Removed(None), Removed(0.0)


class MissedTerm(NamedTuple):
    """An equation that sums over removed positions that are not zero, an operand's dimension, and what to say of it."""

    number: int
    at: LeafDim
    reason: str


def missed_terms(coupling: Coupling, values: Mapping[LeafDim, Removed]) -> list[MissedTerm]:
    """What sums up removed positions that are not zero, but numbers or uniform.

    Raises Blocked where the removal of positions would change what is computed with zero weights.
    """
    dataflow = coupling.dataflow
    missed: dict[int, MissedTerm] = {}
    factors: dict[int, int] = {}
    for number in sorted(coupling.equations):
        equation = dataflow.equations[number]
        rule = equation.rule
        for slot, leaf in enumerate(equation.leaves[: rule.results]):
            for dim in range(len(dataflow.leaves[leaf].dims)):
                at = LeafDim(leaf, dim)
                if at not in coupling.labels or OperandDim(number, slot, dim) in coupling.restrictions:
                    continue
                problem = _problem(equation, number, slot, at, values, coupling)
                if problem is None:
                    continue
                if not _is_computable(equation, number, slot, at, values, coupling):
                    raise Blocked(at, equation.node, problem)
                factor = rule.dim_factors[slot][dim].factors[0][0]
                if factors.setdefault(number, factor) != factor:
                    raise Blocked(at, equation.node, f"{problem}, in two dimensions")
                missed.setdefault(number, MissedTerm(number, at, problem))
    return list(missed.values())


def removed_values(coupling: Coupling) -> dict[LeafDim, Removed]:
    """By dimension what its value has at removed positions; round loops until nothing changes."""
    values: dict[LeafDim, Removed] = {}
    dataflow = coupling.dataflow
    for at in coupling.labels:
        node = dataflow.leaves[at.leaf].node
        if at.leaf in coupling.weights:
            values[at] = NOTHING
        elif isinstance(node, Constant):
            values[at] = _splat(node)
    numbers = sorted(coupling.equations)
    is_changed = True
    while is_changed:
        is_changed = False
        for number in numbers:
            equation = dataflow.equations[number]
            for at, value in _made(equation, number, values, coupling):
                held = values.get(at)
                joined = value if held is None or held == value else UNKNOWN
                if held != joined:
                    values[at] = joined
                    is_changed = True
    return {at: values.get(at, UNKNOWN) for at in coupling.labels}


def _made(
    equation: Equation, number: int, values: dict[LeafDim, Removed], coupling: Coupling
) -> list[tuple[LeafDim, Removed]]:
    """What an instruction's results have at removed positions, as far as its operands are looked at already."""
    node, rule = equation.node, equation.rule
    made: list[tuple[LeafDim, Removed]] = []
    if flow_of(node) is not None and node.opcode not in _MOVING:
        # control flow, tuples, barriers: both sides are names of one value
        for one, other in zip(equation.leaves[: rule.results], equation.leaves[rule.results :], strict=False):
            for dim in range(len(coupling.dataflow.leaves[one].dims)):
                pair = LeafDim(one, dim), LeafDim(other, dim)
                seen = [values[at] for at in pair if at in values]
                if seen and all(at in coupling.labels for at in pair):
                    value = seen[0] if all(value == seen[0] for value in seen) and seen[0] != UNIFORM else UNKNOWN
                    made += [(at, value) for at in pair if values.get(at) != UNIFORM]
        return made
    for slot, leaf in enumerate(equation.leaves[rule.results :], rule.results):
        for dim in range(len(coupling.dataflow.leaves[leaf].dims)):
            at = LeafDim(leaf, dim)
            if at not in coupling.labels or at.leaf in coupling.weights:
                continue
            operands = _operands(equation, number, slot, dim, values, coupling)
            if operands is not None:
                made.append((at, _value(node, operands)))
    return made


def _operands(
    equation: Equation, number: int, slot: int, dim: int, values: dict[LeafDim, Removed], coupling: Coupling
) -> list[Removed | None] | None:
    """What the operands have where a result's dimension has removed positions; None before they are known.

    An operand that has nothing to do with the dimension has the number that all its elements are, if they are one, or
    is uniform.
    """
    node, rule = equation.node, equation.rule
    dims = operand_dims(equation, slot, dim)
    operands: list[Removed | None] = []
    for operand, leaf in enumerate(equation.leaves[: rule.results]):
        operand_dim = dims.get(operand)
        at = None if operand_dim is None else LeafDim(leaf, operand_dim)
        if operand_dim is not None and OperandDim(number, operand, operand_dim) in coupling.restrictions:
            operands.append(_splat(coupling.dataflow.leaves[leaf].node))
        elif at is not None and at in coupling.labels:
            if at not in values:
                return None
            operands.append(values[at])
        elif node.opcode in ("reshape", "slice", "pad", "concatenate"):
            labelled = [
                LeafDim(leaf, other)
                for other in range(len(coupling.dataflow.leaves[leaf].dims))
                if LeafDim(leaf, other) in coupling.labels
            ]
            if node.opcode == "concatenate" or not labelled:
                operands.append(None)
                continue
            seen = [values[other] for other in labelled if other in values]
            if len(seen) < len(labelled):
                return None
            value = seen[0] if all(value == seen[0] for value in seen) else UNKNOWN
            is_moved = value == UNIFORM and not is_same_dim(equation, labelled, dim, coupling)
            operands.append(UNKNOWN if is_moved else value)
        else:
            splat = _splat(coupling.dataflow.leaves[leaf].node)
            operands.append(UNIFORM if splat == UNKNOWN and at is None else splat)
    return operands


def is_same_dim(equation: Equation, dims: Sequence[LeafDim], dim: int, coupling: Coupling) -> bool:
    """Whether a reshape leaves its operand's only labelled dimension as it is, as `dim` of its result."""
    before, after = (coupling.dataflow.leaves[leaf].dims for leaf in equation.leaves)
    if equation.node.opcode != "reshape" or len(dims) != 1:
        return False
    for sources, targets in common_factors(before, after):
        if dims[0].dim in sources:
            sources = [one for one in sources if before[one] != 1]
            targets = [one for one in targets if after[one] != 1]
            return sources == [dims[0].dim] and targets == [dim]
    return False


def operand_dims(equation: Equation, slot: int, dim: int) -> dict[int, int]:
    """By operand the dimension that a result's dimension goes with."""
    node, rule = equation.node, equation.rule
    if node.opcode in ("slice", "pad"):
        return {0: dim}
    if node.opcode == "concatenate":
        return dict.fromkeys(range(rule.results), dim)
    if node.opcode == "convolution":
        names = node.attributes["dim_labels"]
        letter = names.output[dim]
        if letter == "b":
            return {0: names.lhs.index("b")}
        if letter != "f":
            return {}
        groups, runs = convolution_groups(node)
        return {1: names.rhs.index("o")} if groups == 1 else dict(runs[:2])
    if node.opcode == "reshape":
        return {}
    factors = rule.dim_factors[slot][dim].factors
    return {part.slot: part.dimension for f, _ in factors for part in rule.factor_dims[f] if part.slot < rule.results}


def _value(node: Node, operands: list[Removed | None]) -> Removed:
    """What a result has at removed positions, of what the operands have there."""
    known = [operand for operand in operands if operand is not None]
    is_uniform = len(known) == len(operands) and all(operand.is_uniform for operand in known)
    match node.opcode:
        case "dot":
            return NOTHING if any(operand.is_zero for operand in known) else UNIFORM if is_uniform else UNKNOWN
        case "convolution":
            return NOTHING if any(operand.is_zero for operand in known) else UNKNOWN
        case "reduce" | "reduce-window":
            return _reduced(node, known)
        case "dynamic-update-slice":
            return known[0] if known[0] == known[1] != UNIFORM else UNKNOWN
        case "concatenate":
            same = known and known[0] != UNIFORM and all(operand == known[0] for operand in known)
            return known[0] if same else UNKNOWN
        case "broadcast" | "copy" | "reshape" | "transpose":
            return known[0] if known else UNKNOWN
        case "dynamic-slice" | "gather" | "pad" | "reverse" | "slice":
            return known[0] if known and known[0] != UNIFORM else UNKNOWN
        case "multiply":
            if any(operand.is_zero for operand in known):
                return NOTHING
        case "divide":
            if known[0].is_zero and known[1].value is None:
                return NOTHING
        case "select":
            if _is_filled_gather(node):
                return known[1]
            if known[1] == known[2] and known[1] != UNIFORM:
                return known[1]
    value = _computed(node, known)
    return UNIFORM if value == UNKNOWN and is_uniform and is_pointwise(node) else value


def _reduced(node: Node, operands: list[Removed]) -> Removed:
    """Of equal numbers: their sum is zero where they and the first are; the greatest and the least is one of them."""
    computation = node.attributes["to_apply"]
    opcode = computation.root.opcode
    if len(operands) != 2 or len(computation.root.operands) != 2:
        return UNKNOWN
    value, start = operands
    is_uniform = value.is_uniform and node.opcode == "reduce"
    if value.value is not None and start.value is not None:
        if opcode == "add" and value.is_zero and start.is_zero:
            return NOTHING
        if opcode in EXTREMES:
            return Removed((max if opcode == "maximum" else min)(value.value, start.value))
    return UNIFORM if is_uniform else UNKNOWN


def _computed(node: Node, operands: list[Removed]) -> Removed:
    """What a pointwise instruction makes of numbers; unknown of unknown ones."""
    row = TABLE.get(node.opcode)
    types = [operand.type for operand in node.operands]
    if row is None or row.function is None or not row.is_pointwise or not isinstance(node, Apply):
        return UNKNOWN
    if any(operand.value is None for operand in operands) or len(operands) != len(types):
        return UNKNOWN
    scalars = []
    for operand, type_ in zip(operands, types, strict=True):
        if not isinstance(type_, TensorType):
            return UNKNOWN
        scalars.append(np.asarray(operand.value).astype(type_.dtype.numpy))
    with np.errstate(all="ignore"):
        made = row.function(node, tuple(scalars), cast(Any, None))
    if not isinstance(made, np.ndarray | np.generic) or np.iscomplexobj(made):
        return UNKNOWN
    value = float(np.asarray(made).astype(np.float64))
    return Removed(value) if np.isfinite(value) else UNKNOWN


def _is_filled_gather(select: Node) -> bool:
    """Whether a select takes rows of a table, or NaN for an index out of bounds, which then reaches the result."""
    rows, filling = select.operands[1:]
    while rows.opcode == "convert" or rows.has_trait(Trait.REINDEXES):
        rows = rows.operands[0]
    number = _splat_number(filling)
    return rows.opcode == "gather" and number is not None and bool(np.isnan(number))


def _splat(node: Node) -> Removed:
    """The number that all elements of a value are, through broadcasts of a constant; unknown for others."""
    number = _splat_number(node)
    return UNKNOWN if number is None or np.isnan(number) else Removed(number)


def _splat_number(node: Node) -> float | None:
    number = splat_number(node)
    return None if number is None or np.iscomplexobj(number) else float(number)


def _problem(
    equation: Equation, number: int, slot: int, at: LeafDim, values: Mapping[LeafDim, Removed], coupling: Coupling
) -> str | None:
    """Why an instruction cannot sum over a dimension that loses positions; None where it can, or does not sum."""
    node, rule = equation.node, equation.rule
    if node.opcode == "convolution":
        names = node.attributes["dim_labels"]
        pair = {0: names.lhs.index("f"), 1: names.rhs.index("i")}
        if (node.attributes.get("feature_group_count") or 1) != 1 or pair.get(slot) != at.dim:
            return None
        return _product_problem(equation, number, pair, values, coupling)
    factors = rule.dim_factors[slot][at.dim].factors
    if not factors:
        return None
    factor = factors[0][0]
    if rule.factors[factor].kind not in (FactorKind.CONTRACTED, FactorKind.REDUCED):
        return None
    if node.opcode == "dot":
        dims = {part.slot: part.dimension for part in rule.factor_dims[factor]}
        return _product_problem(equation, number, dims, values, coupling)
    neutral = NEUTRAL.get(rule.factors[factor].reducer)
    if neutral is None:
        return f"{node.opcode} takes the {rule.factors[factor].reducer or 'result of a computation'} over it"
    if values[at].value != neutral:
        return f"{node.opcode} sums up what is not zero where the weights are"
    return None


def _is_computable(
    equation: Equation, number: int, slot: int, at: LeafDim, values: Mapping[LeafDim, Removed], coupling: Coupling
) -> bool:
    """Whether what removed positions add to a reduction or a dot can be computed apart: of one dimension, uniform."""
    node, rule = equation.node, equation.rule
    factor = rule.dim_factors[slot][at.dim].factors[0][0] if node.opcode in ("reduce", "dot") else None
    if factor is None or len(equation.leaves) - rule.results != 1:
        return False
    if node.opcode == "dot":
        dims = {part.slot: part.dimension for part in rule.factor_dims[factor]}
        sides = [LeafDim(equation.leaves[side], dim) for side, dim in dims.items()]
        cut = [OperandDim(number, side, dim) in coupling.restrictions for side, dim in dims.items()]
        return len(sides) == 2 and not any(cut) and all(values.get(side, UNKNOWN).is_uniform for side in sides)
    is_single = len(node.operands) == 2 and len(node.attributes["to_apply"].root.operands) == 2
    reducer = rule.factors[factor].reducer
    if not is_single or reducer not in CORRECTABLE or not values[at].is_uniform:
        return False
    return reducer != "add" or _splat(node.operands[1]).is_zero


def _product_problem(
    equation: Equation, number: int, dims: dict[int, int], values: Mapping[LeafDim, Removed], coupling: Coupling
) -> str | None:
    for slot, dim in dims.items():
        at = LeafDim(equation.leaves[slot], dim)
        if OperandDim(number, slot, dim) not in coupling.restrictions and at in values and values[at].is_zero:
            return None
    return f"{equation.node.opcode} sums up products that are not zero where the weights are"
