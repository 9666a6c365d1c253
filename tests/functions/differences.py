"""Derivatives of plain Python functions by central differences of fourth order, in f64.

They stand in for hloom's transformations of the same names where a program is run by Python alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

STEP = 1e-3
"""A compromise: the truncation is of the order of 1e-12, and so is the rounding; nested differences lose 3 digits each."""
STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))


def is_float(leaf: Any) -> bool:
    return isinstance(leaf, (float, np.floating)) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f")


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with the function of each leaf; a leaf is what is not a container."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(function, value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_leaves(function, value) for value in tree)
    if is_dataclass(tree) and not isinstance(tree, type):
        return type(tree)(**{item.name: map_leaves(function, getattr(tree, item.name)) for item in fields(tree)})
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    values: list[Any] = []
    map_leaves(values.append, tree)
    return values


def replaced(tree: Any, position: int, value: Any) -> Any:
    """The same structure with another leaf at a position."""
    counter = iter(range(len(leaves(tree))))
    return map_leaves(lambda leaf: value if next(counter) == position else leaf, tree)


def moved(leaf: Any, index: tuple[int, ...], distance: float) -> Any:
    """A leaf with a distance added to one of its elements."""
    if not isinstance(leaf, np.ndarray):
        return float(leaf) + distance
    copied = leaf.copy()
    copied[index] += distance
    return copied


def derivative_of_tree(function: Callable[[float], Any]) -> Any:
    """The derivative at 0 of a function of a number, leaf by leaf of its result; None for what has none."""
    results = [(leaves(function(offset * STEP)), weight / STEP) for offset, weight in STENCIL]
    template = function(0.0)
    columns = iter(range(len(leaves(template))))

    def derivative(leaf: Any) -> Any:
        column = next(columns)
        return sum(weight * values[column] for values, weight in results) if is_float(leaf) else None

    return map_leaves(derivative, template)


def elements(leaf: Any) -> Iterator[tuple[int, ...]]:
    yield from np.ndindex(np.shape(leaf))


def gradient_of(function: Callable[[Any], Any], tree: Any) -> Any:
    """The gradient of a scalar function with the structure of its argument; None for leaves that are not floats."""
    positions = iter(range(len(leaves(tree))))

    def gradient(leaf: Any) -> Any:
        position = next(positions)
        if not is_float(leaf):
            return None

        def at(index: tuple[int, ...]) -> Any:
            return derivative_of_tree(lambda distance: function(replaced(tree, position, moved(leaf, index, distance))))

        values = [at(index) for index in elements(leaf)]
        return values[0] if np.ndim(leaf) == 0 else np.array(values, leaf.dtype).reshape(np.shape(leaf))

    return map_leaves(gradient, tree)


def grad(function: Callable[..., Any], wrt: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    def gradient(*arguments: Any, **keywords: Any) -> Any:
        def at(position: int) -> Any:
            def varied(tree: Any) -> Any:
                return function(*arguments[:position], tree, *arguments[position + 1 :], **keywords)

            return gradient_of(varied, arguments[position])

        return at(wrt) if isinstance(wrt, int) else tuple(at(position) for position in wrt)

    return gradient


def value_and_grad(function: Callable[..., Any], wrt: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    gradient = grad(function, wrt)
    return lambda *arguments, **keywords: (function(*arguments, **keywords), gradient(*arguments, **keywords))


def jvp(function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    def along(distance: float) -> Any:
        steps = iter(leaves(tangents))

        def stepped(leaf: Any) -> Any:
            step = next(steps)
            return leaf + distance * step if is_float(leaf) else leaf

        return function(*map_leaves(stepped, primals))

    return function(*primals), derivative_of_tree(along)


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    def pullback(cotangent: Any) -> tuple[Any, ...]:
        weights = leaves(cotangent)

        def weighted(arguments: tuple[Any, ...]) -> Any:
            pairs = zip(weights, leaves(function(*arguments)), strict=True)
            return sum(np.sum(weight * value) for weight, value in pairs if is_float(value))

        return gradient_of(weighted, primals)

    return function(*primals), pullback


def jacobian(function: Callable[..., Any], wrt: int = 0) -> Callable[..., Any]:
    """The derivative of an array (or number) by an array (or number): the result's dimensions, then the argument's."""

    def matrix(*arguments: Any) -> Any:
        leaf = arguments[wrt]

        def column(index: tuple[int, ...]) -> Any:
            return derivative_of_tree(
                lambda distance: function(*arguments[:wrt], moved(leaf, index, distance), *arguments[wrt + 1 :])
            )

        columns = [column(index) for index in elements(leaf)]
        shape = (*np.shape(columns[0]), *np.shape(leaf))
        return columns[0] if np.ndim(leaf) == 0 else np.stack(columns, -1).reshape(shape)

    return matrix


def hessian(function: Callable[..., Any], wrt: int = 0) -> Callable[..., Any]:
    return jacobian(grad(function, wrt), wrt)


def print_value(value: Any) -> None:
    print(value)  # noqa: T201


TRANSFORMATIONS = {
    "grad": grad,
    "value_and_grad": value_and_grad,
    "jvp": jvp,
    "vjp": vjp,
    "jacobian": jacobian,
    "hessian": hessian,
    "print_value": print_value,
}
