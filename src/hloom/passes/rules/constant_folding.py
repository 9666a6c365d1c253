"""Constant folding.

Follows XLA's xla/hlo/transforms/simplifiers/hlo_constant_folding.cc (HloConstantFolding::RunImpl). Not folded are
effects, random numbers, elided constants, broadcasts and iotas (their results are large and cheap), and what takes
more
elements or operations than the limits below.

Empty results: xla/service/zero_sized_hlo_elimination.cc.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hloom import evaluate as numbers
from hloom.analysis import COST_RULES, Cost, Instruction
from hloom.evaluate import TABLE, GraphRunner, Value
from hloom.ir import Apply, Constant, Graph, Literal, Node, TensorType, TupleType, Type, TypeProblem
from hloom.ops import OPS
from hloom.passes.computation_order import has_control_dependencies
from hloom.rewrite import (
    Builder,
    Family,
    all_numbers,
    all_operands,
    emptiness,
    literal_value,
    operand_is,
    some_operand,
    splat_of,
)
from hloom.text import HloomError

CONSTANT_FOLDING = Family("constant-folding", formerly="folding")

MAX_RESULT_ELEMENTS = 1 << 12
"""How large a constant may become, unless the constants that it is computed from are as large."""
MAX_OPERAND_ELEMENTS = 1 << 16
"""How many elements an operand may have that is a broadcast or an iota."""
MAX_OPERATIONS = 10_000_000
"""How many operations a contraction or a window may take."""
MAX_INTERMEDIATE_ELEMENTS = 1 << 23
"""How many elements may be computed on the way, in called graphs too."""
MAX_LOOP_ELEMENTS = 1 << 16
"""The same where loops run: each round costs more than its elements."""

LEFT_IN_PLACE = frozenset(
    ("add-dependency", "bitcast", "broadcast", "copy", "domain", "get-tuple-element", "iota", "tuple")
)
"""What is left as it is: it costs nothing, or spreads few numbers over many places."""
NOT_FOLDED = LEFT_IN_PLACE | {
    "after-all", "async-done", "async-start", "async-update", "copy-done", "copy-start", "custom-call", "fusion",
    "opt-barrier", "rng", "rng-bit-generator", "rng-get-and-update-state", "get-dimension-size", "set-dimension-size",
    "partition-id", "replica-id", "stochastic-convert",
}  # fmt: skip
FOLDED = tuple(opcode for opcode, row in TABLE.items() if row.function and opcode in OPS and opcode not in NOT_FOLDED)
POINTWISE = tuple(opcode for opcode in FOLDED if TABLE[opcode].is_pointwise and OPS[opcode].arity[0] > 0)
CALLING_OPS = frozenset(("call", "conditional", "while"))
HEAVY_OPS = frozenset(
    ("cholesky", "convolution", "dot", "fft", "reduce-window", "select-and-scatter", "triangular-solve")
)
"""What takes many more operations than it has elements."""
FILLING = frozenset(("dynamic-update-slice", "pad", "reduce-window", "select-and-scatter"))
"""What makes many different numbers of a few: a short text becomes a long one."""
_MAX_DEPTH = 8
"""How many broadcasts and tuples above a constant are looked through: the search is repeated at each node."""


@CONSTANT_FOLDING.rewrites(*POINTWISE, benefit=3, depth=3, requires=all_numbers())
def fold_uniform(build: Builder, node: Apply) -> Node | None:
    """add(broadcast(1), broadcast(2)) -> broadcast(3): ops of numbers that are the same in every element

    One element is computed, by numpy as XLA defines the op, so that no array is made however large the type is.
    """
    node_type = node.type
    if not isinstance(node_type, TensorType) or not node_type.is_static or not node_type.rank or not node.inputs:
        return None
    values: list[Value] = []
    for operand in node.inputs:
        splat = splat_of(operand)
        if splat is None:
            return None
        values.append(np.asarray(splat))
    if all(isinstance(operand, Constant) for operand in node.inputs) and node_type.element_count <= MAX_RESULT_ELEMENTS:
        return build.decline("a constant array stands for it")
    number = _evaluated_on_scalars(build, node, values)
    if number is None:
        return None
    return build.broadcast(build.constant(Literal.array(TensorType(node_type.dtype), np.asarray(number))), node_type)


@CONSTANT_FOLDING.rewrites(
    *FOLDED,
    benefit=2,
    depth=3,
    requires=(all_operands("constant", "iota", "broadcast", "tuple"), some_operand("constant", "tuple")),
)
def fold_constants(build: Builder, node: Apply) -> Node | None:
    """op(constant, ...) -> constant

    Computed by numpy as XLA defines the op: single operations of floats round the same, long sums and transcendental
    functions may differ in the last places.
    """
    if not node.inputs or not _is_foldable(node.type):
        return None
    if not all(map(_is_known, node.inputs)):
        return build.decline("an operand is not constant")
    if not _is_worth_it(node):
        return build.decline("only broadcasts, iotas and what fills or begins them go in")
    if _size(node.type) > max(MAX_RESULT_ELEMENTS, sum(map(_held, node.inputs))):
        return build.decline("the constant would be too large")
    if any(_size(operand.type) > max(MAX_OPERAND_ELEMENTS, _held(operand)) for operand in node.inputs):
        return build.decline("an operand is too large")
    if node.opcode in HEAVY_OPS and _operations(node) > MAX_OPERATIONS:
        return build.decline("it takes too many operations")
    operands: list[Value] = []
    for operand in node.inputs:
        value = _value(operand)
        if value is None:
            return build.decline("the data of a constant were left out")
        operands.append(value)
    value = _evaluated(build, node, operands)
    return None if value is None else _constant(build, value, node.type)


@CONSTANT_FOLDING.rewrites(*FOLDED, benefit=2, depth=1, requires=emptiness())
def nothing_to_compute(build: Builder, node: Apply) -> Node | None:
    """tanh(f32[3,0]) -> an empty constant; so of every op of inputs that yields no element."""
    node_type = node.type
    if not node.inputs or not isinstance(node_type, TensorType) or not node_type.is_static or node_type.element_count:
        return None
    return build.constant(
        Literal.array(TensorType(node_type.dtype, node_type.dims), np.empty(node_type.dims, node_type.dtype.numpy))
    )


@CONSTANT_FOLDING.rewrites("copy", depth=1, requires=operand_is(0, "constant"))
def copy_of_constant(build: Builder, node: Apply) -> Node | None:
    """copy(constant) -> constant, in the same layout"""
    operand = node.inputs[0]
    if operand.type != node.type or has_control_dependencies(node) or node.attributes:
        return build.decline("its layout changes, or something is said of the copy")
    return operand


@CONSTANT_FOLDING.rewrites("get-tuple-element", depth=2, requires=operand_is(0, "constant"))
def element_of_constant(build: Builder, node: Apply) -> Node | None:
    """get-tuple-element(constant (1, 2), index=1) -> 2"""
    literal = literal_value(node.inputs[0])
    if literal is None or not literal.is_tuple:
        return None
    return build.constant(literal.elements[node.attributes["index"]])


def _is_foldable(value_type: Type | None) -> bool:
    """Whether constants of this type can be: arrays of static dimensions, and tuples of them."""
    if value_type is None:
        return False
    return all(isinstance(leaf, TensorType) and leaf.is_static for leaf in value_type.leaves())


def _is_known(node: Node, depth: int = 0) -> bool:
    """Whether a value shows without computing much: constants, their broadcasts, iotas, and tuples of these."""
    if isinstance(node, Constant):
        return isinstance(node.value, Literal)
    if node.opcode == "iota":
        return _is_foldable(node.type)
    if node.opcode not in ("broadcast", "tuple") or depth == _MAX_DEPTH or not _is_foldable(node.type):
        return False
    return all(_is_known(operand, depth + 1) for operand in node.inputs)


def _is_worth_it(node: Apply) -> bool:
    """Whether constants go in that are not merely spread out: else the result is as well computed when it runs.

    A scalar beside a broadcast or an iota, as what a pad fills in or what a window starts from, does not count.
    """
    constants = [operand for operand in node.inputs if _has_constant(operand)]
    if node.opcode in FILLING and len(constants) < len(node.inputs):
        return any(isinstance(constant.type, TensorType) and constant.type.rank for constant in constants)
    return bool(constants)


def _has_constant(node: Node) -> bool:
    """Whether a constant is in it that is not spread out."""
    if node.opcode == "tuple":
        return not node.inputs or any(map(_has_constant, node.inputs))
    return isinstance(node, Constant)


def _held(node: Node) -> int:
    """How many elements the program's text holds for it."""
    if isinstance(node, Constant):
        literal = node.value
        return 1 if isinstance(literal, Literal) and literal.is_splat else _size(node.type)
    return sum(map(_held, node.inputs))


def _size(value_type: Type | None) -> int:
    leaves = value_type.leaves() if value_type is not None else ()
    return sum(prod(leaf.dims) for leaf in leaves if isinstance(leaf, TensorType))


def _operations(node: Apply) -> int:
    rule = COST_RULES.get(node.opcode)
    if rule is None:
        return 0
    instruction = Instruction(node.op, node.operand_types(), node.type, node.attributes, node)
    try:
        return rule.xla(instruction, _Unit()).flops
    except (IndexError, KeyError, TypeError, ValueError):  # operands and attributes that do not go together
        raise TypeProblem(f"what {node.opcode} costs cannot be told") from None


class _Unit:
    """A called graph as counting sees it: one operation each time."""

    def __call__(self, graph: Graph | None) -> Cost:
        return Cost(1)

    def control_flow(self, instruction: Instruction) -> Cost:
        return Cost(1)


def _value(node: Node) -> Value | None:
    """What a known node yields; None where data were left out of the text."""
    if isinstance(node, Constant):
        literal = literal_value(node)
        return None if literal is None else numbers.literal_value(literal)
    operands: list[Value] = []
    for operand in node.inputs:
        value = _value(operand)
        if value is None:
            return None
        operands.append(value)
    assert isinstance(node, Apply), f"{node!r} is not known"
    return numbers.evaluate_node(node, operands)


def _evaluated(build: Builder, node: Apply, operands: list[Value]) -> Value | None:
    limit = MAX_LOOP_ELEMENTS if node.opcode in CALLING_OPS else MAX_INTERMEDIATE_ELEMENTS
    try:
        return numbers.evaluate_node(node, operands, limit=limit)
    except HloomError as problem:
        return build.decline(problem.message)


def _evaluated_on_scalars(build: Builder, node: Apply, operands: list[Value]) -> Value | None:
    """The value of one element of an op that works element by element."""
    try:
        with np.errstate(all="ignore"):
            return GraphRunner().apply_mapped(node, tuple(operands))
    except HloomError as problem:
        return build.decline(problem.message)


def _constant(build: Builder, value: Value, value_type: Type | None) -> Node:
    """A constant; of a tuple, a tuple of constants, as XLA's own passes have it."""
    if isinstance(value_type, TupleType):
        assert isinstance(value, tuple), f"{value!r} is no tuple"
        parts = zip(value, value_type.elements, strict=True)
        return build.op("tuple", *[_constant(build, element, part) for element, part in parts])
    assert isinstance(value_type, TensorType), f"a constant cannot be a {value_type}"
    data = np.ascontiguousarray(value).reshape(value_type.dims)
    return build.constant(Literal.array(TensorType(value_type.dtype, value_type.dims), data))
