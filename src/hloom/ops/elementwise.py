"""Elementwise ops: unary, binary, compare, clamp, select; and those that pass values through."""

from __future__ import annotations

from collections.abc import Callable

from hloom.ir import (
    Apply,
    AttributeKind,
    AxisMap,
    AxisMapBuilder,
    DType,
    DTypeKind,
    Effect,
    Op,
    Surroundings,
    TensorType,
    TokenType,
    Trait,
    TupleType,
    Type,
    TypeProblem,
    dtype,
    optional,
    required,
    same_shape,
    without_layout,
)
from hloom.ops import conversion
from hloom.ops.leaf_axes import dims_of, identity_axes, leaves_of, passed_on
from hloom.ops.rows import COMMON, ENUM, SAME_BUFFER, row, table, typed_row
from hloom.ops.shapes import array, extents, of_kinds, pointwise_axes, same_dims, same_elements, tensor, wider

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
COMPARE_TYPES = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")
_COMPARED = {
    DTypeKind.FLOAT: ("FLOAT", "TOTALORDER"),
    DTypeKind.SIGNED: ("SIGNED",),
    DTypeKind.UNSIGNED: ("UNSIGNED",),
    DTypeKind.BOOLEAN: ("UNSIGNED",),
}
"""The comparisons of each kind of elements; complex numbers have `FLOAT` alone."""

Rule = Callable[..., Type]

_FLOAT = frozenset({DTypeKind.FLOAT})
_FLOAT_OR_COMPLEX = frozenset({DTypeKind.FLOAT, DTypeKind.COMPLEX})
_INTEGER = frozenset({DTypeKind.SIGNED, DTypeKind.UNSIGNED})
_SIGNED = frozenset({DTypeKind.SIGNED, DTypeKind.FLOAT, DTypeKind.COMPLEX})
_LOGICAL = _INTEGER | {DTypeKind.BOOLEAN}
_ARITHMETIC = _INTEGER | _FLOAT_OR_COMPLEX
_ANY = frozenset(DTypeKind)

_COMPONENTS = {dtype("c64"): dtype("f32"), dtype("c128"): dtype("f64")}
_COMPLEX = {component: whole for whole, component in _COMPONENTS.items()}
_PREDICATE = dtype("pred")


def _component(element: DType) -> DType:
    return _COMPONENTS.get(element, element)


def _unary(allowed: frozenset[DTypeKind], becomes: Callable[[DType], DType] | None = None) -> Rule:
    """The rule of an op on one operand of these kinds; `becomes` gives the result's element type."""

    def infer(operand: Type) -> Type:
        operand_type = array(operand)
        of_kinds(operand_type, allowed)
        return operand_type if becomes is None else operand_type.with_dtype(becomes(operand_type.dtype))

    return infer


def _binary(allowed: frozenset[DTypeKind]) -> Rule:
    """The rule of an op on two operands of these kinds."""

    def infer(left: Type, right: Type) -> Type:
        a, b = array(left, "the left operand"), array(right, "the right operand")
        of_kinds(a, allowed, "the left operand")
        if a is b:
            return a
        return met(a, b)

    return infer


def met(a: TensorType, b: TensorType) -> TensorType:
    """The type of two arrays combined elementwise: with equal dimensions, dimensions of size 1, or scalars.

    A static dimension combined with a dynamic one becomes dynamic; combined with an unbounded one it determines the
    size.
    """
    if not same_elements(a, b):
        raise TypeProblem(f"the operands must have the same element type, but are {a} and {b}")
    element = wider(a.dtype, b.dtype)
    if a.dims == b.dims and -1 not in a.dims:
        return tensor(element, [(n, p or q) for (n, p), (_, q) in zip(extents(a), extents(b), strict=True)])
    if a.rank == 0 or b.rank == 0:
        return (b if a.rank == 0 else a).with_dtype(element)
    if a.rank != b.rank:
        raise TypeProblem(f"the operands must have the same rank, but are {a} and {b}: broadcast one of them")
    return tensor(element, [_met(p, q, a, b) for p, q in zip(extents(a), extents(b), strict=True)])


def _met(p: tuple[int, bool], q: tuple[int, bool], a: TensorType, b: TensorType) -> tuple[int, bool]:
    """The dimension that results from combining two, checked in XLA's order."""
    if p[0] == 1 or q[0] == 1:
        return q if p[0] == 1 else p
    if p[0] == q[0]:
        return p[0], p[1] or q[1]
    if p[0] == -1 or q[0] == -1:
        return q if p[0] == -1 else p
    raise TypeProblem(f"the operands' dimensions must be equal or 1, but {p[0]} meets {q[0]} in {a} and {b}")


def _complex(real: Type, imaginary: Type) -> Type:
    a, b = array(real, "the real part"), array(imaginary, "the imaginary part")
    of_kinds(a, _FLOAT, "the real part")
    if a.dtype is not b.dtype or a.dtype not in _COMPLEX:
        raise TypeProblem(f"the parts of a complex number must both be f32 or both f64, but are {a} and {b}")
    return met(a, b).with_dtype(_COMPLEX[a.dtype])


def _compare(left: Type, right: Type) -> Type:
    return met(array(left, "the left operand"), array(right, "the right operand")).with_dtype(_PREDICATE)


def _check_compare(node: Apply, _: Surroundings) -> str | None:
    """Source: xla/service/hlo_verifier.cc, CheckElementwiseInstruction."""
    written, operand = node.attributes.get("type"), node.operands[1].type
    if written is None or not isinstance(operand, TensorType):
        return None
    fitting = _COMPARED.get(operand.dtype.kind, ("FLOAT",))
    return None if written in fitting else f"type={written} is not for {operand}: {' or '.join(fitting)} is"


def _clamp(low: Type, operand: Type, high: Type) -> Type:
    operand_type = array(operand)
    bounds = [(array(low, "the lower bound"), "the lower bound"), (array(high, "the upper bound"), "the upper bound")]
    for bound, role in bounds:
        if not same_elements(bound, operand_type):
            raise TypeProblem(f"{role} must have the operand's element type, but is {bound} beside {operand_type}")
        if bound.rank and not same_dims(bound, operand_type):
            raise TypeProblem(
                f"{role} must be a scalar or have the operand's dimensions, but is {bound} beside {operand_type}"
            )
    lower, upper = bounds[0][0], bounds[1][0]
    if lower.rank and upper.rank and not same_dims(lower, upper):
        raise TypeProblem(f"the bounds must have the same dimensions, but are {lower} and {upper}")
    return operand_type


def _select(predicate: Type, on_true: Type, on_false: Type) -> Type:
    choice, a, b = array(predicate, "the predicate"), array(on_true, "operand 1"), array(on_false, "operand 2")
    if not same_elements(a, b) or not same_dims(a, b):
        raise TypeProblem(f"operands 1 and 2 must have the same type, but are {a} and {b}")
    if choice.dtype is not _PREDICATE:
        raise TypeProblem(f"the predicate must be pred, but is {choice}")
    if choice.rank and not (same_dims(choice, a) and same_dims(choice, b)):
        raise TypeProblem(f"the predicate must be a scalar or have the dimensions of {a}, but is {choice}")
    if a is b and choice.dynamic is None:
        return a
    full = choice if choice.rank else a
    three = zip(extents(full), extents(a), extents(b), strict=True)
    return tensor(wider(a.dtype, b.dtype), [_chosen(*extents_, bool(choice.rank)) for extents_ in three])


def _chosen(full: tuple[int, bool], p: tuple[int, bool], q: tuple[int, bool], has_choice: bool) -> tuple[int, bool]:
    if -1 in (p[0], q[0]):
        return max(p[0], q[0]), p[1] and q[1]
    return full[0], (has_choice and full[1]) or p[1] or q[1]


def _tuple_select(predicate: Type, on_true: Type, on_false: Type) -> Type:
    if not isinstance(on_true, TupleType) or not same_shape(on_true, on_false):
        raise TypeProblem(f"operands 1 and 2 must be tuples of the same type, but are {on_true} and {on_false}")
    if without_layout(predicate) is not TensorType(_PREDICATE):
        raise TypeProblem(f"the predicate must be pred[], but is {predicate}")
    return without_layout(on_true)


def _tuple_select_axes(predicate: Type, on_true: Type, on_false: Type) -> AxisMap:
    build = AxisMapBuilder().operand()
    leaves = [[[build.factor(size)] for size in dims_of(leaf)] for leaf in leaves_of([on_true])]
    for leaf in (*leaves, *leaves):
        build.operand(*leaf)
    for leaf in leaves:
        build.result(*leaf)
    return build.finish()


def _add_dependency(operand: Type, token: Type) -> Type:
    if not isinstance(token, TokenType):
        raise TypeProblem(f"the second operand must be token[], but is {token}")
    return without_layout(operand)


def _add_dependency_axes(operand: Type, token: Type) -> AxisMap:
    leaves = leaves_of([operand])
    return passed_on([*leaves, token], leaves, [(dim, dim) for dim in range(len(leaves))])


def _pointwise(names: str, arity: int, infer: Rule, *traits: Trait) -> list[Op]:
    all_traits = (Trait.ELEMENTWISE, *traits)
    return [row(name, arity, infer=infer, axes=pointwise_axes, traits=all_traits) for name in names.split()]


def _accurate(names: str, infer: Rule) -> list[Op]:
    before = list(COMMON)[: list(COMMON).index("statistics") + 1]  # XLA prints it among the common attributes
    accuracy = {name: COMMON[name] for name in before} | {"result_accuracy": optional(AttributeKind.ACCURACY)}
    traits = (Trait.ELEMENTWISE, *_ARITHMETIC_TRAITS, Trait.TRANSCENDENTAL)
    return [row(name, 1, accuracy, infer=infer, axes=pointwise_axes, traits=traits) for name in names.split()]


_COMMUTATIVE = (Trait.COMMUTATIVE, Trait.ASSOCIATIVE)
_NAN = Trait.PROPAGATES_NAN
_IDEMPOTENT = Trait.IDEMPOTENT
_ARITHMETIC_TRAITS = (Trait.ROUNDS, _NAN)

ROWS = table(
    *_pointwise("ceil floor round-nearest-afz round-nearest-even", 1, _unary(_FLOAT), _NAN, _IDEMPOTENT),
    *_pointwise("real imag", 1, _unary(_FLOAT_OR_COMPLEX, _component)),
    *_pointwise("abs", 1, _unary(_SIGNED, _component), _NAN, _IDEMPOTENT),
    *_pointwise("sign", 1, _unary(_SIGNED), _NAN, _IDEMPOTENT),
    *_pointwise("negate", 1, _unary(_ARITHMETIC), _NAN),
    *_pointwise("not", 1, _unary(_LOGICAL)),
    *_pointwise("count-leading-zeros popcnt", 1, _unary(_INTEGER)),
    *_pointwise("is-finite", 1, _unary(_FLOAT, lambda element: _PREDICATE)),
    *_accurate("cbrt erf", _unary(_FLOAT)),
    *_accurate(
        "acos acosh asin asinh atanh cosh cosine exponential exponential-minus-one log log-plus-one logistic rsqrt "
        "sine sinh sqrt tan tanh",
        _unary(_FLOAT_OR_COMPLEX),
    ),
    *_pointwise("add multiply", 2, _binary(_ANY), *_COMMUTATIVE, *_ARITHMETIC_TRAITS),
    *_pointwise("maximum minimum", 2, _binary(_ANY), *_COMMUTATIVE, _IDEMPOTENT, _NAN),
    *_pointwise("divide subtract", 2, _binary(_ARITHMETIC), *_ARITHMETIC_TRAITS),
    *_pointwise("remainder", 2, _binary(_ARITHMETIC), _NAN),
    *_pointwise("power", 2, _binary(_ARITHMETIC), Trait.ROUNDS, Trait.TRANSCENDENTAL),  # power(nan, 0) is 1
    *_pointwise("atan2", 2, _binary(_FLOAT_OR_COMPLEX), *_ARITHMETIC_TRAITS, Trait.TRANSCENDENTAL),
    *_pointwise("and or", 2, _binary(_LOGICAL), *_COMMUTATIVE, _IDEMPOTENT),
    *_pointwise("xor", 2, _binary(_LOGICAL), *_COMMUTATIVE),
    *_pointwise("mulhi", 2, _binary(_INTEGER), Trait.COMMUTATIVE),
    *_pointwise("shift-left shift-right-arithmetic shift-right-logical", 2, _binary(_INTEGER)),
    *_pointwise("complex", 2, _complex),
    *_pointwise("clamp", 3, _clamp, _NAN),
    *_pointwise("select", 3, _select),
    row(
        "compare",
        2,
        {"direction": required(ENUM, choices=DIRECTIONS), "type": optional(ENUM, choices=COMPARE_TYPES)},
        infer=_compare,
        check=_check_compare,
        axes=pointwise_axes,
        traits=(Trait.ELEMENTWISE,),
    ),
    row(
        "copy",
        1,
        infer=without_layout,
        axes=identity_axes,
        traits=(Trait.ELEMENTWISE, Trait.MOVES_DATA, Trait.REINDEXES),
    ),
    typed_row("opt-barrier", 1, infer=without_layout, axes=identity_axes, effect=Effect.ORDER, flow=SAME_BUFFER),
    row("add-dependency", 2, infer=_add_dependency, axes=_add_dependency_axes, effect=Effect.ORDER, flow=SAME_BUFFER),
    row("tuple-select", 3, infer=_tuple_select, axes=_tuple_select_axes),
    *conversion.ROWS.values(),
)
