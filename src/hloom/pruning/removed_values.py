"""What values have at the positions that are removed, if the weights are zero there: the proof that removal is exact.

A dimension may lose positions where what sums over it adds zeros there: one factor of every product in a dot, or what a
reduction sums. Values are known numbers or unknown ones; unknown ones are taken to be finite. A normalisation that
divides by a count has the count as a constant, which stays: the mean of zeros and others is that of the original.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from hloom.evaluate import TABLE
from hloom.ir import Apply, Constant, Literal, Node, TensorType
from hloom.propagation import Equation
from hloom.pruning.dimension_dependency import Blocked, Coupling, LeafDim, OperandDim, is_pointwise

NEUTRAL = {"add": 0.0, "multiply": 1.0}
"""What a reduction may meet at removed positions, by its opcode."""
MOST_STEPS = 64
"""How far a splat is looked for."""
_MOVING = frozenset(
    (
        *("broadcast", "concatenate", "copy", "dynamic-slice", "dynamic-update-slice", "gather"),
        *("pad", "reshape", "reverse", "slice", "transpose"),
    )
)


class Removed:
    """A number at all removed positions, `value`; None where it is not known."""

    __slots__ = ("value",)

    def __init__(self, value: float | None) -> None:
        self.value = value

    @property
    def is_zero(self) -> bool:
        return self.value == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Removed) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


UNKNOWN, NOTHING = Removed(None), Removed(0.0)


def check_exact(coupling: Coupling) -> None:
    """Raise Blocked where the removal of positions would change what is computed with zero weights."""
    values = removed_values(coupling)
    dataflow = coupling.dataflow
    for number in sorted(coupling.equations):
        equation = dataflow.equations[number]
        rule = equation.rule
        for slot, leaf in enumerate(equation.leaves[: rule.results]):
            for dim in range(len(dataflow.leaves[leaf].dims)):
                at = LeafDim(leaf, dim)
                if at not in coupling.labels or OperandDim(number, slot, dim) in coupling.restrictions:
                    continue
                problem = _problem(equation, number, slot, at, values, coupling)
                if problem:
                    raise Blocked(at, equation.node, problem)


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
    if node.opcode not in _MOVING and not is_pointwise(node) and node.opcode not in _RULES:
        # control flow: both sides are names of one value
        for one, other in zip(equation.leaves[: rule.results], equation.leaves[rule.results :], strict=False):
            for dim in range(len(coupling.dataflow.leaves[one].dims)):
                pair = LeafDim(one, dim), LeafDim(other, dim)
                seen = [values[at] for at in pair if at in values]
                if seen and all(at in coupling.labels for at in pair):
                    value = seen[0] if all(value == seen[0] for value in seen) else UNKNOWN
                    made += [(at, value) for at in pair]
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

    An operand that has nothing to do with the dimension has the number that all its elements are, if they are one.
    """
    node, rule = equation.node, equation.rule
    dims = _operand_dims(equation, slot, dim)
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
            operands.append(seen[0] if all(value == seen[0] for value in seen) else UNKNOWN)
        else:
            operands.append(_splat(coupling.dataflow.leaves[leaf].node))
    return operands


def _operand_dims(equation: Equation, slot: int, dim: int) -> dict[int, int]:
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
        kernel = {1: names.rhs.index("o")}
        return kernel if (node.attributes.get("feature_group_count") or 1) == 1 else {0: names.lhs.index("f"), **kernel}
    if node.opcode == "reshape":
        return {}
    factors = rule.dim_factors[slot][dim].factors
    return {part.slot: part.dimension for f, _ in factors for part in rule.factor_dims[f] if part.slot < rule.results}


def _value(node: Node, operands: list[Removed | None]) -> Removed:
    """What a result has at removed positions, of what the operands have there."""
    known = [operand for operand in operands if operand is not None]
    match node.opcode:
        case "dot" | "convolution":
            return NOTHING if any(operand.is_zero for operand in known) else UNKNOWN
        case "reduce" | "reduce-window":
            return _reduced(node, known)
        case "dynamic-update-slice":
            return known[0] if known[0] == known[1] else UNKNOWN
        case "concatenate":
            return known[0] if known and all(operand == known[0] for operand in known) else UNKNOWN
        case "broadcast" | "copy" | "dynamic-slice" | "gather" | "pad" | "reshape" | "reverse" | "slice" | "transpose":
            return known[0] if known else UNKNOWN
        case "multiply":
            if any(operand.is_zero for operand in known):
                return NOTHING
        case "divide":
            if known[0].is_zero and known[1].value is None:
                return NOTHING
        case "select":
            return known[1] if known[1] == known[2] else UNKNOWN
    return _computed(node, known)


def _reduced(node: Node, operands: list[Removed]) -> Removed:
    """Of equal numbers: their sum is zero where they and the first are; the greatest and the least is one of them."""
    computation = node.attributes["to_apply"]
    opcode = computation.root.opcode
    if len(operands) != 2 or len(computation.root.inputs) != 2:
        return UNKNOWN
    value, start = operands
    if value.value is None or start.value is None:
        return UNKNOWN
    if opcode == "add":
        return NOTHING if value.is_zero and start.is_zero else UNKNOWN
    if opcode in ("maximum", "minimum"):
        return Removed((max if opcode == "maximum" else min)(value.value, start.value))
    return UNKNOWN


def _computed(node: Node, operands: list[Removed]) -> Removed:
    """What a pointwise instruction makes of numbers; unknown of unknown ones."""
    row = TABLE.get(node.opcode)
    types = [operand.type for operand in node.inputs]
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


def _splat(node: Node) -> Removed:
    """The number that all elements of a value are, through broadcasts of a constant; unknown for others."""
    for _ in range(MOST_STEPS):
        if isinstance(node, Constant) and isinstance(node.value, Literal):
            if node.value.is_tuple or node.value.is_elided or not node.value.is_splat:
                return UNKNOWN
            value = node.value.splat_value()
            if np.iscomplexobj(value):
                return UNKNOWN
            number = float(np.asarray(value).astype(np.float64))
            return UNKNOWN if np.isnan(number) else Removed(number)
        if not isinstance(node, Apply) or node.opcode not in ("broadcast", "copy", "reshape", "transpose"):
            return UNKNOWN
        node = node.inputs[0]
    return UNKNOWN


def _problem(
    equation: Equation, number: int, slot: int, at: LeafDim, values: dict[LeafDim, Removed], coupling: Coupling
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
    if node.opcode not in ("dot", "reduce", "reduce-window") or not factors:
        return None
    factor = factors[0][0]
    if any(part.slot >= rule.results for part in rule.factor_dims[factor]):
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


def _product_problem(
    equation: Equation, number: int, dims: dict[int, int], values: dict[LeafDim, Removed], coupling: Coupling
) -> str | None:
    for slot, dim in dims.items():
        at = LeafDim(equation.leaves[slot], dim)
        if OperandDim(number, slot, dim) not in coupling.restrictions and at in values and values[at].is_zero:
            return None
    return f"{equation.node.opcode} sums up products that are not zero where the weights are"


_RULES = frozenset(("convolution", "dot", "reduce", "reduce-window"))
