"""Constant folding.

Follows XLA's xla/hlo/transforms/simplifiers/hlo_constant_folding.cc (HloConstantFolding::RunImpl). Not folded are
effects, random numbers, elided constants, broadcasts and iotas (their results are large and cheap), bits of elements
narrower than a byte as wider ones, and what takes more elements or operations than the limits below.

Empty results: xla/service/zero_sized_hlo_elimination.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from hloom import analysis
from hloom import evaluator as numbers
from hloom.analysis import BROADCASTS
from hloom.evaluator import EXPONENT_BITS, TABLE, GraphRunner, Value
from hloom.ir import (
    Apply,
    Constant,
    Graph,
    Literal,
    Node,
    TensorType,
    Trait,
    TupleType,
    Type,
    TypeProblem,
    Window,
    WindowDimension,
)
from hloom.ops import CALLERS, OPS, OWNERS, SAME_BYTES, with_trait
from hloom.passes.computation_order import has_control_dependencies
from hloom.rewrite import (
    Builder,
    Family,
    Rule,
    all_numbers,
    all_operands,
    emptiness,
    literal_value,
    operand_is,
    register,
    register_condition,
    some_operand,
    splat_of,
    tensor_type,
)
from hloom.text import HloomError

CONSTANT_FOLDING = Family("constant-folding", formerly="folding", because="computes with numpy")

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

NOT_THE_SAME = with_trait(Trait.DEVICE_ID) | {"custom-call", "stochastic-convert"}
"""What yields other values on other devices or backends, though without effects: not folded in called graphs either."""
NOT_FOLDED = (
    NOT_THE_SAME
    | OWNERS
    | SAME_BYTES
    | BROADCASTS
    | with_trait(Trait.TUPLE)
    | with_trait(Trait.RANDOM)
    | {"after-all", "copy", "copy-done", "copy-start", "get-dimension-size", "set-dimension-size"}
)
"""What is left as it is: it costs nothing, spreads few numbers over many places, or yields what only a run knows."""
FOLDED = tuple(opcode for opcode, row in TABLE.items() if row.function and opcode in OPS and opcode not in NOT_FOLDED)
POINTWISE = tuple(opcode for opcode in FOLDED if TABLE[opcode].is_pointwise and OPS[opcode].arity[0] > 0)
HEAVY_OPS = with_trait(Trait.CONTRACTS) | {
    "cholesky",
    "fft",
    "reduce-window",
    "select-and-scatter",
    "triangular-solve",
}
"""What takes many more operations than it has elements."""
FILLING = frozenset(("dynamic-update-slice", "pad", "reduce-window", "select-and-scatter"))
"""What makes many different numbers of a few: a short text becomes a long one."""
DATA_MOVEMENT = with_trait(Trait.MOVES_DATA) | with_trait(Trait.TUPLE) | {"bitcast-convert", "select"}
"""What computes no number: floats stay what they are, to the last bit, on every backend."""
_MAX_DEPTH = 8
"""How many broadcasts and tuples above a constant are looked through: the search is repeated at each node."""


@CONSTANT_FOLDING.rewrites(*POINTWISE, benefit=3, depth=3, requires=all_numbers())
def fold_uniform(build: Builder, node: Apply) -> Node | None:
    """add(broadcast(1), broadcast(2)) -> broadcast(3): ops of numbers that are the same in every element

    One element is computed, by numpy as XLA defines the op, so that no array is made however large the type is.
    """
    node_type = node.type
    if not isinstance(node_type, TensorType) or not node_type.is_static or not node_type.rank or not node.operands:
        return None
    values: list[Value] = []
    for operand in node.operands:
        splat = splat_of(operand)
        if splat is None:
            return None
        values.append(np.asarray(splat))
    if (
        all(isinstance(operand, Constant) for operand in node.operands)
        and node_type.element_count <= MAX_RESULT_ELEMENTS
    ):
        return build.decline("a constant array stands for it")
    reason = _depends_on_backend(node) or _depends_on_constants(node, values)
    if reason:
        return build.decline(reason)
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
    return _folded(build, node)


@CONSTANT_FOLDING.rewrites(
    "fusion",
    benefit=2,
    depth=3,
    requires=(all_operands("constant", "iota", "broadcast", "tuple"), some_operand("constant", "tuple")),
)
def fold_fusion(build: Builder, node: Apply) -> Node | None:
    """fusion(constant, ...) -> constant, of several results a tuple of constants

    Several results only where all that uses them takes one of them, so that no constant is a tuple.
    """
    if node.attributes.get("kind") == "kCustom":
        return build.decline("what a custom fusion does is the backend's own")
    if isinstance(node.type, TupleType):
        if not all(isinstance(element, TensorType) for element in node.type.elements):
            return build.decline("a result is a tuple")
        if node.is_output or any(not _takes_element(user, node) for user in node.users):
            return build.decline("something uses the whole tuple, or waits")
    return _folded(build, node)


@CONSTANT_FOLDING.rewrites("reduce-window", benefit=2, depth=3, requires=all_numbers())
def fold_uniform_windows(build: Builder, node: Apply) -> Node | None:
    """reduce-window(broadcast(1), 0) -> broadcast(reduce-window(constant, 0)), where no window reaches beyond the array

    The constant is one window, for all are the same.
    """
    operand_type, node_type = tensor_type(node.operands[0]), tensor_type(node)
    if len(node.operands) != 2 or operand_type is None or node_type is None or node_type.element_count <= 1:
        return None
    dimensions = node.attributes["window"].dimensions
    sizes = tuple(dimension.size for dimension in dimensions)
    if prod(sizes) > MAX_RESULT_ELEMENTS:
        return build.decline("a window holds too many elements")
    if any(dimension.padding_low or dimension.padding_high or dimension.base_dilation != 1 for dimension in dimensions):
        return build.decline("windows at the border hold other elements")
    number, start = map(splat_of, node.operands)
    if number is None or start is None:
        return None
    window_type, scalar = TensorType(operand_type.dtype, sizes), TensorType(operand_type.dtype)
    one = build.op(
        "reduce-window",
        build.constant(Literal.array(window_type, np.full(sizes, number, window_type.dtype.numpy))),
        build.constant(Literal.array(scalar, np.asarray(start, scalar.dtype.numpy))),
        window=Window(tuple(WindowDimension(size) for size in sizes)),
        to_apply=node.attributes["to_apply"],
    )
    return build.broadcast(build.op("reshape", one, type=TensorType(node_type.dtype)), node_type)


@CONSTANT_FOLDING.rewrites(
    *FOLDED, benefit=2, depth=1, requires=emptiness(), because="matches any op that can be folded"
)
def nothing_to_compute(build: Builder, node: Apply) -> Node | None:
    """tanh(f32[3,0]) -> an empty constant; so of every op of inputs that yields no element."""
    node_type = node.type
    if not node.operands or not isinstance(node_type, TensorType) or not node_type.is_static or node_type.element_count:
        return None
    return build.constant(
        Literal.array(TensorType(node_type.dtype, node_type.dims), np.empty(node_type.dims, node_type.dtype.numpy))
    )


CONSTANT_FOLDING.table("""
copy-of-constant: copy(c) -> c if c is literal, same-type(c, root), root is plain  # the layout stays
""")


@CONSTANT_FOLDING.rewrites(
    "bitcast", depth=1, requires=operand_is(0, "constant"), because="lays elements out anew with numpy"
)
def bitcast_of_constant(build: Builder, node: Apply) -> Node | None:
    """bitcast(constant) -> constant of the same elements in the order in which they are stored"""
    source, made, literal = tensor_type(node.operands[0]), tensor_type(node), literal_value(node.operands[0])
    if source is None or made is None or literal is None or source.dtype is not made.dtype:
        return None
    if source.element_count != made.element_count:
        return None
    value = numbers.literal_value(literal)
    if source.element_count == 1:
        return _constant(build, value, made)
    if any(array_type.layout is not None and array_type.layout.tiles for array_type in (source, made)):
        return build.decline("the elements are stored in tiles")
    order = _major_to_minor(source)
    stored = np.transpose(np.asarray(value), order).reshape([made.dims[dim] for dim in _major_to_minor(made)])
    return _constant(build, np.transpose(stored, np.argsort(_major_to_minor(made))), made)


@CONSTANT_FOLDING.rewrites(
    "get-tuple-element", depth=2, requires=operand_is(0, "constant"), because="takes a literal apart"
)
def element_of_constant(build: Builder, node: Apply) -> Node | None:
    """get-tuple-element(constant (1, 2), index=1) -> 2"""
    literal = literal_value(node.operands[0])
    if literal is None or not literal.is_tuple:
        return None
    return build.constant(literal.elements[node.attributes["index"]])


def limited_folding(floats: int | str = 1, elements: int | str | None = None) -> list[Rule]:
    """The rules of constant folding that leave arithmetic of floats where `floats` is 0, and what yields more elements.

    Raises HloomError for options that are no such numbers.
    """
    if floats not in (0, 1):
        raise HloomError(f"fold: floats is 0 or 1, not '{floats}'")
    if elements is not None and (not isinstance(elements, int) or elements < 0):
        raise HloomError(f"fold: elements is a number of elements, not '{elements}'")
    if floats and elements is None:
        return list(CONSTANT_FOLDING)
    return [_limited(rule, bool(floats), elements) for rule in CONSTANT_FOLDING]


def _limited(rule: Rule, floats: bool, elements: int | None) -> Rule:
    """A rule that declines what the options exclude."""
    function = rule.function

    def within_limits(build: Builder, node: Apply) -> Node | None:
        if not floats and _computes_floats(node):
            return build.decline("it computes floats")
        if elements is not None and _size(node.type) > elements:
            return build.decline("the constant would be larger than asked for")
        return function(build, node)

    name = f"{rule.native}(floats={int(floats)}, elements={elements})"
    register(name, within_limits)
    return replace(rule, native=name)


def _folded(build: Builder, node: Apply) -> Node | None:
    """The constant that a node of known operands yields; None, with the reason, where it is left."""
    if not node.operands or not _is_foldable(node.type):
        return None
    if not all(map(_is_known, node.operands)):
        return build.decline("an operand is not constant")
    if not _is_worth_it(node):
        return build.decline("only broadcasts, iotas and what fills or begins them go in")
    if _size(node.type) > max(MAX_RESULT_ELEMENTS, sum(map(_held, node.operands))):
        return build.decline("the constant would be too large")
    if any(_size(operand.type) > max(MAX_OPERAND_ELEMENTS, _held(operand)) for operand in node.operands):
        return build.decline("an operand is too large")
    if node.opcode in HEAVY_OPS and _operations(node) > MAX_OPERATIONS:
        return build.decline("it takes too many operations")
    operands: list[Value] = []
    for operand in node.operands:
        value = _value(operand)
        if value is None:
            return build.decline("the data of a constant were left out")
        operands.append(value)
    reason = _depends_on_backend(node) or _depends_on_constants(node, operands)
    if reason:
        return build.decline(reason)
    value = _evaluated(build, node, operands)
    return None if value is None else _constant(build, value, node.type)


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
    return all(_is_known(operand, depth + 1) for operand in node.operands)


def _is_worth_it(node: Apply) -> bool:
    """Whether constants go in that are not merely spread out: else the result is as well computed when it runs.

    A scalar beside a broadcast or an iota, as what a pad fills in or what a window starts from, does not count.
    """
    constants = [operand for operand in node.operands if _has_constant(operand)]
    if node.opcode in FILLING and len(constants) < len(node.operands):
        return any(isinstance(constant.type, TensorType) and constant.type.rank for constant in constants)
    return bool(constants)


def _has_constant(node: Node) -> bool:
    """Whether a constant is in it that is not spread out."""
    if node.opcode == "tuple":
        return not node.operands or any(map(_has_constant, node.operands))
    return isinstance(node, Constant)


def _takes_element(user: Node, node: Node) -> bool:
    return user.opcode == "get-tuple-element" and user.operands[0] is node and not has_control_dependencies(user)


def _computed(node: Apply) -> Iterator[Node]:
    """What computes a node's value: itself, or what the graphs that it calls hold, and those that they call."""
    if node.opcode not in CALLERS and node.opcode != "fusion":
        yield node
    pending, seen = list(node.called_graphs), set[Graph]()
    while pending:
        graph = pending.pop()
        if graph in seen:
            continue
        seen.add(graph)
        for inner in graph.nodes:
            if isinstance(inner, Apply) and inner.opcode not in CALLERS and inner.opcode != "fusion":
                yield inner
            pending += inner.called_graphs


def _computes_floats(node: Apply) -> bool:
    """Whether floats are computed, or computed with, on the way to a node's value."""
    return any(inner.opcode not in DATA_MOVEMENT and _touches_floats(inner) for inner in _computed(node))


def _touches_floats(node: Node) -> bool:
    types = [node.type, *(operand.type for operand in node.operands)]
    leaves = [leaf for value_type in types if value_type is not None for leaf in value_type.leaves()]
    return any(isinstance(leaf, TensorType) and (leaf.dtype.is_float or leaf.dtype.is_complex) for leaf in leaves)


def _depends_on_backend(node: Apply) -> str:
    """Why a node's value is not the same on every device and backend; empty where it is."""
    if node.opcode != "bitcast-convert" and not node.called_graphs:
        return ""
    for inner in _computed(node):
        if inner.opcode in NOT_THE_SAME:
            return f"what {inner.opcode} yields is the device's own"
        if inner.opcode == "bitcast-convert" and _packs(inner):
            return "which part of a byte comes first is the backend's own"
    return ""


def _depends_on_constants(node: Apply, operands: Sequence[Value]) -> str:
    """Why XLA's value of a node is another where its operands are constants; empty where it is the same.

    Of integers' powers by less than 0 or more than 63, XLA's simplifier, its folding and its code each have their own.
    """
    for inner in _computed(node):
        if inner.opcode != "power" or not _is_integer(inner.type):
            continue
        known = operands[1] if inner is node else splat_of(inner.operands[1])
        if known is None or not np.all((np.asarray(known) >= 0) & (np.asarray(known) < 1 << EXPONENT_BITS)):
            return "XLA has several values for such powers of integers"
    return ""


def _is_integer(value_type: Type | None) -> bool:
    return isinstance(value_type, TensorType) and value_type.dtype.is_integer


def _packs(node: Node) -> bool:
    """Whether elements narrower than a byte are taken for wider ones, or the reverse."""
    source, made = tensor_type(node.operands[0]), tensor_type(node)
    bits = {array_type.dtype.bits for array_type in (source, made) if array_type is not None}
    return len(bits) == 2 and min(bits) < 8


def _major_to_minor(array_type: TensorType) -> tuple[int, ...]:
    """The dimensions in the order in which an array is stored, without tiles."""
    layout = array_type.layout
    return tuple(range(array_type.rank)) if layout is None else tuple(reversed(layout.minor_to_major))


def _held(node: Node) -> int:
    """How many elements the program's text holds for it."""
    if isinstance(node, Constant):
        literal = node.value
        return 1 if isinstance(literal, Literal) and literal.is_splat else _size(node.type)
    return sum(map(_held, node.operands))


def _size(value_type: Type | None) -> int:
    leaves = value_type.leaves() if value_type is not None else ()
    return sum(prod(leaf.dims) for leaf in leaves if isinstance(leaf, TensorType))


def _operations(node: Apply) -> int:
    rule = analysis.cost_rule(node.op)
    if rule is None:
        return 0
    instruction = analysis.Instruction(node.op, node.operand_types(), node.type, node.attributes, node)
    try:
        return rule.xla(instruction, _Unit()).flops
    except (IndexError, KeyError, TypeError, ValueError):  # operands and attributes that do not go together
        raise TypeProblem(f"what {node.opcode} costs cannot be told") from None


class _Unit:
    """A called graph as counting sees it: one operation each time."""

    def __call__(self, graph: Graph | None) -> analysis.Cost:
        return analysis.Cost(1)

    def control_flow(self, instruction: analysis.Instruction) -> analysis.Cost:
        return analysis.Cost(1)


def _value(node: Node) -> Value | None:
    """What a known node yields; None where data were left out of the text."""
    if isinstance(node, Constant):
        literal = literal_value(node)
        return None if literal is None else numbers.literal_value(literal)
    operands: list[Value] = []
    for operand in node.operands:
        value = _value(operand)
        if value is None:
            return None
        operands.append(value)
    assert isinstance(node, Apply), f"{node!r} is not known"
    return numbers.evaluate_node(node, operands)


def _evaluated(build: Builder, node: Apply, operands: list[Value]) -> Value | None:
    limit = MAX_LOOP_ELEMENTS if node.opcode in CALLERS else MAX_INTERMEDIATE_ELEMENTS
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
    """A constant, with its layout; of a tuple, a tuple of constants, as XLA's own passes have it."""
    if isinstance(value_type, TupleType):
        assert isinstance(value, tuple), f"{value!r} is not a tuple"
        parts = zip(value, value_type.elements, strict=True)
        return build.op("tuple", *[_constant(build, element, part) for element, part in parts])
    assert isinstance(value_type, TensorType), f"a constant cannot be a {value_type}"
    data = np.ascontiguousarray(value).reshape(value_type.dims)
    made = build.constant(Literal.array(TensorType(value_type.dtype, value_type.dims), data))
    made.graph.set_type(made, value_type)
    return made


register_condition("plain", lambda node: not node.attributes)
