"""Functions that HLO has no opcode for, by the expressions that XLA, StableHLO and JAX write for them.

Source of the expressions: stablehlo/transforms/ChloDecompositionPatterns.td for inverse and hyperbolic functions;
jax/_src/numpy/ufuncs.py, logaddexp; jax/_src/nn/functions.py, softmax. Of the derivatives: jax/_src/lax/lax.py, and for
logaddexp the logistic function of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hloom.autodiff.emitter import array_type
from hloom.autodiff.linear import LinearOps
from hloom.autodiff.recognition import FUNCTIONS, Expression, FunctionRule, Recognized, function, match, splat
from hloom.autodiff.rules.reduction import kept_dims
from hloom.autodiff.shift_invariance import Moved, follow_shape
from hloom.ir import Apply, Node
from hloom.ops import reducer_of

_LOG_2 = 0.6931471805599453
_ROOT = ("as", "root", ("sqrt", ("multiply", ("subtract", 1.0, "x"), ("add", "x", 1.0))))
_EXPM1 = ("as", "expm1", ("exponential-minus-one", "x"))
_GROWING = ("as", "growing", ("exponential", ("add", "x", -_LOG_2)))
_FALLING = ("as", "falling", ("exponential", ("subtract", -_LOG_2, "x")))
_SIZE = ("as", "size", ("abs", "x"))
_SQUARE = ("as", "square", ("multiply", _SIZE, _SIZE))
_COSINE = ("as", "cosine", ("cosine", ("as", "im", ("imag", "z"))))
_DIFFERENCE = ("as", "d", ("subtract", "a", "b"))


@function(("add", ("as", "half", ("atan2", "x", ("add", _ROOT, 1.0))), "half"), "x")
@function(("multiply", ("atan2", "x", ("add", _ROOT, 1.0)), 2.0), "x")
def arcsine(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """dx / sqrt(1 - x²)."""
    return t.div(tangents["x"], nodes["root"])


@function(("atan2", _ROOT, "x"), "x")
def arccosine(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """-dx / sqrt(1 - x²)."""
    return t.neg(t.div(tangents["x"], nodes["root"]))


@function(("divide", 1.0, ("add", ("exponential", ("negate", "x")), 1.0)), "x")
def logistic(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """y (1 - y) dx."""
    p = t.primal
    return t.mul(p.mul(node, p.sub(p.like(1, node), node)), tangents["x"])


@function(
    (
        "select",
        ("compare.LT", ("abs", "x"), 1.0),
        ("multiply", ("add", _EXPM1, ("divide", "expm1", ("add", "expm1", 1.0))), 0.5),
        ("subtract", _GROWING, _FALLING),
    ),
    "x",
)
def hyperbolic_sine(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """cosh(x) dx, of the exponentials that are there."""
    return t.mul(t.primal.add(nodes["growing"], nodes["falling"]), tangents["x"])


@function(
    (
        "multiply",
        ("sign", "x"),
        (
            "select",
            ("compare.GE", _SIZE, None),
            ("add", ("log", "size"), _LOG_2),
            (
                "log-plus-one",
                (
                    "add",
                    "size",
                    ("divide", _SQUARE, ("add", ("as", "root", ("sqrt", ("add", "square", 1.0))), 1.0)),
                ),
            ),
        ),
    ),
    "x",
)
def inverse_hyperbolic_sine(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """dx / sqrt(x² + 1)."""
    return t.div(tangents["x"], nodes["root"])


@function(
    (
        "select",
        ("compare.GE", "x", None),
        ("add", ("log", "x"), _LOG_2),
        (
            "log-plus-one",
            (
                "multiply",
                ("as", "less", ("sqrt", ("as", "below", ("subtract", "x", 1.0)))),
                ("add", ("sqrt", ("as", "above", ("add", "x", 1.0))), "less"),
            ),
        ),
    ),
    "x",
)
def inverse_hyperbolic_cosine(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """dx / sqrt((x - 1) (x + 1))."""
    p = t.primal
    return t.mul(p.elementwise("rsqrt", p.mul(nodes["below"], nodes["above"])), tangents["x"])


@function(
    (
        "select",
        ("compare.GT", ("abs", "x"), 1.0),
        None,
        ("multiply", ("subtract", ("log-plus-one", "x"), ("log-plus-one", ("negate", "x"))), 0.5),
    ),
    "x",
)
def inverse_hyperbolic_tangent(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """dx / ((1 - x) (1 + x))."""
    p, x = t.primal, nodes["x"]
    one = p.like(1, x)
    return t.div(tangents["x"], p.mul(p.sub(one, x), p.add(one, x)))


@function(
    (
        "complex",
        (
            "select",
            ("as", "huge", ("compare.EQ", ("as", "size", ("exponential", ("as", "re", ("real", "z")))), None)),
            ("multiply", ("multiply", ("as", "root", ("exponential", ("multiply", "re", 0.5))), _COSINE), "root"),
            ("multiply", "size", "cosine"),
        ),
        (
            "select",
            ("compare.EQ", "im", 0.0),
            0.0,
            (
                "select",
                "huge",
                ("multiply", ("multiply", "root", ("as", "sine", ("sine", "im"))), "root"),
                ("multiply", "size", "sine"),
            ),
        ),
    ),
    "z",
)
def complex_exponential(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """exp(z) dz."""
    return t.mul(node, tangents["z"])


_RE, _IM = ("as", "re", ("real", "z")), ("as", "im", ("imag", "z"))
_WIDTH, _HEIGHT = ("as", "width", ("abs", _RE)), ("as", "height", ("abs", _IM))
_TOP = ("as", "top", ("maximum", _WIDTH, _HEIGHT))
_QUOTIENT = (
    "as",
    "quotient",
    ("select", ("compare.EQ", ("as", "low", ("minimum", "width", "height")), "top"), 1.0, ("divide", "low", "top")),
)


@function(
    (
        "complex",
        (
            "select",
            ("compare.LT", ("abs", "near"), 0.5),
            ("multiply", ("log-plus-one", "near"), 0.5),
            ("add", ("log", _TOP), ("multiply", ("log-plus-one", ("multiply", _QUOTIENT, "quotient")), 0.5)),
        ),
        ("atan2", _IM, _RE),
    ),
    "z",
)
def complex_logarithm(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """dz / z."""
    return t.div(tangents["z"], nodes["z"])


_ALIKE = ("as", "alike", ("compare.EQ", _WIDTH, _HEIGHT))
_OF_WIDTH, _OF_HEIGHT = ("as", "of_width", ("sqrt", _WIDTH)), ("as", "of_height", ("sqrt", _HEIGHT))
_SQRT_2, _LONGER, _SHORTER = 1.4142135623730951, 1.5537739740300374, 2.19736822693562


def _root_of(half: Callable[[Expression], tuple[Any, ...]]) -> tuple[Any, ...]:
    """The square root of a complex number, for one of the ways to take halves.

    The larger part of the root is sqrt((|z| + |re|) / 2), the other |im| divided by twice that; where that is 0 or
    infinite, or both parts of z have the same size, they are computed otherwise.
    """
    larger = ("as", "larger", ("sqrt", ("add", half("size"), half(_WIDTH))))
    extreme = ("as", "extreme", ("or", ("compare.EQ", larger, 0.0), ("compare.EQ", "larger", None)))
    scaled = ("divide", ("multiply", _OF_WIDTH, _LONGER), _SQRT_2)
    one = ("as", "one", ("select", _ALIKE, scaled, ("select", extreme, "one_of_extremes", "larger")))
    smaller = ("divide", "height", ("multiply", "larger", 2.0))
    other = ("as", "other", ("select", "alike", ("divide", _OF_HEIGHT, _SHORTER),
             ("select", "extreme", "other_of_extremes", smaller)))  # fmt: skip
    is_below = ("as", "is_below", ("compare.LT", _IM, 0.0))
    return (
        "complex",
        ("select", ("compare.GE", _RE, 0.0), one, other),
        (
            "select",
            ("compare.LT", "re", 0.0),
            ("select", is_below, ("negate", "one"), "one"),
            ("select", "is_below", ("negate", "other"), "other"),
        ),
    )


@function(_root_of(lambda value: ("divide", value, 2.0)), "z")
@function(_root_of(lambda value: ("multiply", value, 0.5)), "z")
def complex_square_root(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """dz / (2 sqrt z)."""
    return t.div(tangents["z"], t.primal.add(node, node))


@function(
    (
        "select",
        ("as", "equal", ("compare.NE", _DIFFERENCE, "d")),
        ("add", "a", "b"),
        ("add", ("maximum", "a", "b"), ("log-plus-one", ("exponential", ("negate", ("abs", "d"))))),
    ),
    "a b",
)
def logaddexp(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """s da + (1 - s) db, s the logistic function of a - b; da + db where both are the same infinity."""
    p = t.primal
    share = p.elementwise("logistic", nodes["d"])
    one = p.like(1, node)
    total = None
    for name in "ab":
        if tangents[name] is not None:
            own = share if name == "a" else p.sub(one, share)
            total = t.add(total, t.mul(p.select(nodes["equal"], one, own), tangents[name]))
    return total


def _softmax(node: Apply) -> Recognized | None:
    """divide(e, broadcast(reduce-add(e))), e an exponential."""
    numerator, divisor = node.operands
    if numerator.opcode != "exponential":
        return None
    chain: list[Apply] = []
    while isinstance(divisor, Apply) and divisor.opcode in ("broadcast", "reshape"):
        chain.append(divisor)
        divisor = divisor.operands[0]
    if divisor.opcode != "reduce" or divisor.operands[0] is not numerator or len(divisor.operands) != 2:
        return None
    dimensions = divisor.attributes["dimensions"]  # pyright: ignore[reportAttributeAccessIssue]
    kept = kept_dims(array_type(node).rank, dimensions)
    moved: Moved | None = Moved(1, 0, tuple(range(len(kept))))
    for step in reversed(chain):
        moved = moved and follow_shape(step, moved)
    dims = array_type(node).dims
    if moved is None or [dim for dim in moved.dims if dims[dim] != 1] != [dim for dim in kept if dims[dim] != 1]:
        return None
    if reducer_of(divisor.attributes["to_apply"]) != "add":  # pyright: ignore[reportAttributeAccessIssue]
        return None
    nodes = {"z": numerator.operands[0], "sum": divisor}
    return Recognized(_SOFTMAX, nodes, frozenset([node, *chain, divisor, numerator]))


def softmax(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """y (dz - sum of y dz)."""
    dimensions = nodes["sum"].attributes["dimensions"]  # pyright: ignore[reportAttributeAccessIssue]
    dims = array_type(node).dims
    mean = t.broadcast(t.sum(t.mul(node, tangents["z"]), dimensions), dims, kept_dims(len(dims), dimensions))
    return t.mul(node, t.sub(tangents["z"], mean))


_SOFTMAX = FunctionRule((), ("z",), softmax)
FUNCTIONS.setdefault("divide", []).append(_softmax)


_LOG_OF_PRODUCT = ("as", "choice", ("select", "any_zero", None, ("as", "sum", ("reduce", ("log", _SIZE), 0.0))))


def _product_by_logarithms(node: Apply) -> Recognized | None:
    """exponential(select(reduce-or(x = 0), -inf, reduce-add(log(abs(x)), 0))): the size of a product, as of det."""
    names = match(("exponential", _LOG_OF_PRODUCT), node, {})
    if names is None:
        return None
    choice, total, any_zero = names["choice"], names["sum"], names["any_zero"]
    if (
        splat(choice.operands[1]) != -math.inf
        or any_zero.opcode != "reduce"
        or names["x"].type is not names["size"].type
    ):
        return None
    names = match(("reduce", ("as", "at_zero", ("compare.EQ", "x", 0.0)), None), any_zero, names)
    if names is None or splat(any_zero.operands[1]):
        return None
    assert isinstance(total, Apply) and isinstance(any_zero, Apply), "reductions"
    reducers = [reducer_of(value.attributes["to_apply"]) for value in (total, any_zero)]
    dimensions = [sorted(value.attributes["dimensions"]) for value in (total, any_zero)]
    if reducers != ["add", "or"] or dimensions[0] != dimensions[1]:
        return None
    inside = frozenset([node, choice, total, total.operands[0], names["size"]])
    return Recognized(_PRODUCT, names, inside)


def product(t: LinearOps, node: Apply, nodes: dict[str, Node], tangents: dict[str, Any]) -> Any:
    """|product of x| times the sum of dx / x; zero where an x is.

    The product by multiplications, so that the logarithms are not needed, as in jax/_src/numpy/linalg.py, _det_jvp.
    """
    p, total = t.primal, nodes["sum"]
    assert isinstance(total, Apply), "a reduction"
    dimensions = total.attributes["dimensions"]
    value = p.reduce("multiply", nodes["size"], dimensions)
    divisor = p.select(nodes["at_zero"], p.like(1, nodes["x"]), nodes["x"])
    return t.mul(value, t.sum(t.div(tangents["x"], divisor), dimensions))


_PRODUCT = FunctionRule((), ("x",), product)
FUNCTIONS.setdefault("exponential", []).append(_product_by_logarithms)
