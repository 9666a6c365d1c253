"""Functions written in the compiled language itself: higher-order functions of jax and NumPy, and integer functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

TOO_LARGE = "the number does not fit the integers of the program, which have 64 bits, or 32 by precision=32"


def of_jax(tree: Any) -> Any:
    """A tree with its arrays as jax has them, whose elements do not change; made by the interpreter itself."""
    return tree


def of_numpy(tree: Any) -> Any:
    """A tree with its arrays as new ones of NumPy's; made by the interpreter itself."""
    return tree


def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any) -> Any:
    """jax.lax.fori_loop"""
    init_val = of_jax(init_val)
    for i in range(lower, upper):
        init_val = body_fun(i, init_val)
    return init_val


def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
    """jax.lax.while_loop"""
    init_val = of_jax(init_val)
    while cond_fun(init_val):
        init_val = body_fun(init_val)
    return init_val


def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any) -> Any:
    """jax.lax.cond"""
    operands = of_jax(operands)
    if pred:
        return true_fun(*operands)
    return false_fun(*operands)


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    """jax.lax.switch"""
    operands = of_jax(operands)
    number = min(max(index, 0), len(branches) - 1)
    return branches[number](*operands)


def scan(f: Any, init: Any, xs: Any = None, length: Any = None, reverse: Any = False, **_: Any) -> Any:
    """jax.lax.scan"""
    init, xs = of_jax(init), of_jax(xs)
    count = length if length is not None else leading(xs)
    last = count - 1
    carry, row = f(init, picked(xs, 0, last if reverse else 0))
    rows = tree_map(lambda leaf: allocated(leaf, count, last if reverse else 0), row)
    for k in range(1, count):
        i = last - k if reverse else k
        carry, row = f(carry, picked(xs, 0, i))
        rows = tree_map(lambda whole, leaf, i=i: whole.at[i].set(leaf), rows, row)
    return carry, rows


def lax_map(f: Any, xs: Any, **_: Any) -> Any:
    """jax.lax.map"""
    xs = of_jax(xs)
    return stacked(lambda i: f(picked(xs, 0, i)), leading(xs))


def associative_scan(fn: Any, elems: Any, reverse: Any = False, axis: Any = 0) -> Any:
    """jax.lax.associative_scan, one element after the other"""
    moved = tree_map(lambda leaf: np.moveaxis(np.asarray(leaf), axis, 0), of_jax(elems))
    last = leading(moved) - 1
    state = picked(moved, 0, last if reverse else 0)
    rows = tree_map(lambda leaf: allocated(leaf, last + 1, last if reverse else 0), state)
    for k in range(1, last + 1):
        i = last - k if reverse else k
        state = fn(state, picked(moved, 0, i))
        rows = tree_map(lambda whole, leaf, i=i: whole.at[i].set(leaf), rows, state)
    return tree_map(lambda leaf: np.moveaxis(leaf, 0, axis), rows)


def reduce(operands: Any, init_values: Any, computation: Any, dimensions: Any, **_: Any) -> Any:
    """jax.lax.reduce, one element after the other"""
    axes = tuple(dimensions)
    moved = tree_map(lambda leaf: in_front(np.asarray(leaf), axes), of_jax(operands))
    state = of_jax(tree_map(lambda leaf, init: np.full(leaf.shape[1:], init, leaf.dtype), moved, init_values))
    for i in range(leading(moved)):
        state = computation(state, picked(moved, 0, i))
    return state


def in_front(array: Any, axes: Any) -> Any:
    """An array whose first dimension counts through some of its dimensions."""
    moved = np.moveaxis(array, axes, range(len(axes)))
    rest = moved.shape[len(axes) :]
    return np.reshape(moved, (math.prod(moved.shape[: len(axes)]), *rest))


def vmap(fun: Any, in_axes: Any = 0, out_axes: Any = 0, **_: Any) -> Any:
    """jax.vmap, one element after the other"""

    def mapped(*arguments: Any) -> Any:
        arguments = of_jax(arguments)
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(arguments)
        pairs = list(zip(arguments, axes, strict=True))
        sizes = [leading(argument, axis) for argument, axis in pairs if axis is not None]
        rows = stacked(lambda i: fun(*[picked(argument, axis, i) for argument, axis in pairs]), sizes[0])
        return rows if out_axes == 0 else tree_map(lambda leaf: np.moveaxis(leaf, 0, out_axes), rows)

    return mapped


def stacked(function: Any, count: Any) -> Any:
    """The results of a function of 0, 1, 2 and so on, each leaf as one array."""
    first = function(0)
    rows = tree_map(lambda leaf: allocated(leaf, count, 0), first)
    for i in range(1, count):
        rows = tree_map(lambda whole, leaf, i=i: whole.at[i].set(leaf), rows, function(i))
    return rows


def allocated(leaf: Any, count: Any, position: Any) -> Any:
    """An array of `count` elements of a leaf's type and shape."""
    array = np.asarray(leaf)
    whole: Any = np.zeros((count, *array.shape), array.dtype)
    return whole.at[position].set(array)


def leading(tree: Any, axis: Any = 0) -> Any:
    """The size of an axis of a tree's leaves."""
    if isinstance(tree, (tuple, list)):
        return leading(tree[0], axis[0] if isinstance(axis, (tuple, list)) else axis)
    if isinstance(tree, dict):
        return leading(tree[sorted(tree)[0]], axis)
    return np.shape(tree)[axis]


def picked(tree: Any, axis: Any, i: Any) -> Any:
    """An element of a tree's leaves along an axis; the whole where that is None."""
    if axis is None or tree is None:
        return tree
    if isinstance(tree, (tuple, list)):
        axes = axis if isinstance(axis, (tuple, list)) else (axis,) * len(tree)
        items = [picked(part, own, i) for part, own in zip(tree, axes, strict=True)]
        return remade(tree, items)
    if isinstance(tree, dict):
        return {key: picked(tree[key], axis, i) for key in tree}
    return tree[i] if axis == 0 else np.moveaxis(tree, axis, 0)[i]


def remade(tree: Any, items: Any) -> Any:
    """A tuple, named tuple or list like another, of other items."""
    if isinstance(tree, list):
        return items
    return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)


def tree_map(f: Any, tree: Any, *rest: Any, **_: Any) -> Any:
    """jax.tree.map"""
    if tree is None:
        return None
    if isinstance(tree, (tuple, list)):
        return remade(tree, [tree_map(f, tree[i], *[other[i] for other in rest]) for i in range(len(tree))])
    if isinstance(tree, dict):
        return {key: tree_map(f, tree[key], *[other[key] for other in rest]) for key in sorted(tree)}
    return f(tree, *rest)


PYTHON_TYPES = (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.complex128))
"""The element types whose numbers compute as Python's own."""


def vectorize(pyfunc: Any, otypes: Any = None, **_: Any) -> Any:
    """numpy.vectorize: a function of Python's numbers"""

    def mapped(*arguments: Any) -> Any:
        arrays = np.broadcast_arrays(*arguments)
        flat = [np.reshape(array, (-1,)) for array in arrays]
        rows = stacked(lambda i: pyfunc(*[array[i].item() for array in flat]), flat[0].size)
        made = tree_map(lambda leaf: np.reshape(leaf, arrays[0].shape), of_numpy(rows))
        if otypes is not None:
            return made.astype(otypes[0])
        if flat[0].size == 0 or all(array.dtype in PYTHON_TYPES for array in flat):
            return made
        first = pyfunc(*[array[0] for array in flat])  # NumPy's own number of the first elements decides the type
        return tree_map(lambda leaf, one: leaf.astype(np.asarray(one).dtype), made, first)

    return mapped


def jax_vectorize(pyfunc: Any, excluded: Any = (), **_: Any) -> Any:
    """jax.numpy.vectorize"""

    def mapped(*arguments: Any) -> Any:
        arrays = np.broadcast_arrays(*of_jax(arguments))
        flat = [np.reshape(array, (-1,)) for array in arrays]
        rows = stacked(lambda i: pyfunc(*[array[i] for array in flat]), flat[0].size)
        return tree_map(lambda leaf: np.reshape(leaf, arrays[0].shape), rows)

    return mapped


def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.apply_along_axis"""
    moved = np.moveaxis(arr, axis, -1)
    lines = np.reshape(moved, (-1, moved.shape[-1]))
    rows = of_numpy(stacked(lambda i: func1d(lines[i], *args, **kwargs), len(lines)))
    whole = np.reshape(rows, moved.shape[:-1] + rows.shape[1:])
    return np.moveaxis(whole, -1, axis) if len(rows.shape) == 2 else whole


def fromfunction(function: Any, shape: Any, dtype: Any = float, **kwargs: Any) -> Any:
    """numpy.fromfunction"""
    return function(*np.indices(shape, dtype=dtype), **kwargs)


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.piecewise: later conditions win, the last function without one is for the rest"""
    array = np.asarray(x)
    result = np.zeros_like(array)
    if len(funclist) > len(condlist):
        result = (result + called(funclist[-1], array, args, kwargs)).astype(array.dtype)
    for condition, function in zip(condlist, funclist, strict=False):
        result = np.where(condition, called(function, array, args, kwargs), result).astype(array.dtype)
    return result


def called(function: Any, x: Any, args: Any, kwargs: Any) -> Any:
    """What a piece is of an array: a function's result, or a number."""
    return function(x, *args, **kwargs) if callable(function) else function


def sum_from(source: Any, start: Any) -> Any:
    """sum, of as many items as the run says"""
    total = start
    for item in source:
        total = total + item
    return total


def any_true(source: Any) -> Any:
    """any, of an iterator"""
    return any(item for item in source)


def all_true(source: Any) -> Any:
    """all, of an iterator"""
    return all(item for item in source)


def is_among(source: Any, item: Any) -> Any:
    """`item in source`, of an iterator"""
    return any(other == item for other in source)


def gcd(*numbers: Any) -> Any:
    """math.gcd"""
    result = 0
    for number in numbers:
        a, b = result, number
        while b != 0:
            a, b = b, a % b
        result = a
    return magnitude(result)


def magnitude(n: Any) -> Any:
    """`abs` of an integer, which must fit: that of the minimum does not"""
    if n != 0 and n == -n:
        raise OverflowError(TOO_LARGE)
    return abs(n)


def lcm(*numbers: Any) -> Any:
    """math.lcm"""
    for number in numbers:
        if number == 0:
            return 0
    result = 1
    for number in numbers:
        result = product(magnitude(result // gcd(result, number)), magnitude(number))
    return result


def product(a: Any, b: Any) -> Any:
    """A product of integers that are not negative, which must fit."""
    made = a * b
    if a < 0 or b < 0 or (a > 0 and made // a != b):
        raise OverflowError(TOO_LARGE)
    return made


def comb(n: Any, k: Any) -> Any:
    """math.comb"""
    if n < 0 or k < 0:
        raise ValueError("n and k must be non-negative integers")
    result = 1 if k <= n else 0
    for i in range(min(k, n - k)):
        shared = gcd(result, i + 1)  # so that nothing on the way is larger than the result
        result = product(result // shared, (n - i) // ((i + 1) // shared))
    return result


def perm(n: Any, k: Any = None) -> Any:
    """math.perm"""
    count = n if k is None else k
    if n < 0 or count < 0:
        raise ValueError("n and k must be non-negative integers")
    result = 1
    for i in range(min(count, n + 1)):
        result = product(result, n - i)
    return result


def dist(p: Any, q: Any) -> Any:
    """math.dist"""
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    return math.hypot(*[float(a) - float(b) for a, b in zip(p, q)])  # noqa: B905


def modf(x: Any) -> Any:
    """math.modf"""
    whole = float(np.trunc(x))
    rest = 0.0 if math.isinf(x) else x - whole
    return math.copysign(rest, x), whole


def frexp(x: Any) -> Any:
    """math.frexp"""
    mantissa, exponent = np.frexp(float(x))
    return float(mantissa), int(exponent)


def ldexp(x: Any, i: Any) -> Any:
    """math.ldexp"""
    made = float(np.ldexp(float(x), i))
    if math.isinf(made) and not math.isinf(x):
        raise OverflowError("math range error")
    return made


def nextafter(x: Any, y: Any) -> Any:
    """math.nextafter"""
    return float(np.nextafter(float(x), float(y)))


def ulp(x: Any) -> Any:
    """math.ulp"""
    size = abs(float(x))
    above = float(np.nextafter(size, math.inf))
    if math.isnan(size) or math.isinf(size):
        return size
    return size - float(np.nextafter(size, 0.0)) if math.isinf(above) else above - size


def remainder(x: Any, y: Any) -> Any:
    """math.remainder: exact, as CPython's `m_remainder`"""
    size, divisor = abs(float(x)), abs(float(y))
    if math.isnan(size) or math.isnan(divisor):
        return size + divisor
    if math.isinf(size) or divisor == 0.0:
        raise ValueError("math domain error")
    if math.isinf(divisor):
        return float(x)
    rest = math.fmod(size, divisor)
    other = divisor - rest
    if rest < other:
        near = rest
    elif rest > other:
        near = -other
    else:
        near = rest - 2.0 * math.fmod(0.5 * (size - rest), divisor)
    return math.copysign(1.0, x) * near


def power_modulo(base: Any, exponent: Any, modulus: Any, limit: Any) -> Any:
    """`pow` of three integers, by squaring; products of numbers below the limit fit"""
    if modulus == 0:
        raise ValueError("pow() 3rd argument cannot be 0")
    size = abs(modulus)  # the least integer is its own size, and the others' bits below its own are its remainders
    result, square = rest_of(1, size), base
    if exponent < 0:
        square = inverse_modulo(base, modulus)
        result, exponent = rest_of(square, size), -(exponent + 1)
    square = rest_of(square, size)
    while exponent > 0:
        if exponent & 1:
            result = product_modulo(result, square, size, limit)
        exponent >>= 1
        if exponent > 0:
            square = product_modulo(square, square, size, limit)
    return result + modulus if modulus < 0 and result != 0 else result


def rest_of(number: Any, size: Any) -> Any:
    """A number modulo the size of another."""
    return number % size if size > 0 else number & ~size


def product_modulo(a: Any, b: Any, modulus: Any, limit: Any) -> Any:
    """A product modulo a number, which no step exceeds: beyond the limit by doubling."""
    if modulus <= limit:
        return rest_of(a * b, modulus)
    result = 0
    while b > 0:
        if b & 1:
            result = result - (modulus - a) if result >= modulus - a else result + a
        a = a - (modulus - a) if a >= modulus - a else a + a
        b >>= 1
    return result


def inverse_modulo(number: Any, modulus: Any) -> Any:
    """The inverse of a number by a modulus, by Euclid's extended algorithm."""
    a, b, x, y = number % modulus, modulus, 1, 0
    while b != 0:
        q = a // b
        a, b, x, y = b, a - q * b, y, x - q * y
    if abs(a) != 1:
        raise ValueError("base is not invertible for the given modulus")
    return x * a % modulus


def item_of(keys: Any, owner: Any) -> Any:
    """operator.itemgetter"""
    return owner[keys[0]] if len(keys) == 1 else tuple([owner[key] for key in keys])


def attribute_of(names: Any, owner: Any) -> Any:
    """operator.attrgetter"""
    values = []
    for name in names:
        value = owner
        for part in name.split("."):
            value = getattr(value, part)
        values.append(value)
    return values[0] if len(names) == 1 else tuple(values)


def called_method(name: Any, arguments: Any, keywords: Any, owner: Any) -> Any:
    """operator.methodcaller"""
    return getattr(owner, name)(*arguments, **keywords)


def choose(a: Any, choices: Any, out: Any = None, mode: Any = "raise") -> Any:
    """numpy.choose"""
    if out is not None:
        raise TypeError("choose: out= cannot be compiled")
    count = len(choices)
    if mode == "raise" and np.any((np.asarray(a) < 0) | (np.asarray(a) >= count)):
        raise ValueError("invalid entry in choice array")
    number = np.clip(a, 0, count - 1) if mode == "clip" else np.asarray(a) % count
    result = np.broadcast_arrays(choices[0], number)[0]
    for k in range(1, count):
        result = np.where(number == k, choices[k], result)
    return result


def factorial(n: Any) -> Any:
    """math.factorial"""
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    result = 1
    for k in range(2, min(n, 64) + 1):
        result = product(result, k)
    return result


def isqrt(n: Any) -> Any:
    """math.isqrt"""
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    low = int(math.sqrt(n))
    while low > 0 and low > n // low:
        low = low - 1
    while low + 1 <= n // (low + 1):
        low = low + 1
    return low


def round_integer(n: Any, scale: Any) -> Any:
    """`round` of an integer to tens, hundreds and so on, ties to even"""
    rest = n % scale
    is_up = rest > scale - rest or (rest == scale - rest and (n - rest) // scale % 2 == 1)
    made = n + (scale - rest) if is_up else n - rest
    if (made < n) if is_up else (made > n):
        raise OverflowError(TOO_LARGE)
    return made


def round_beyond(n: Any, half: Any) -> Any:
    """`round` of an integer to a power of ten that does not fit: zero, or what does not fit either"""
    if n > half or n < -half:
        raise OverflowError(TOO_LARGE)
    return 0 * n


def fsum(values: Any) -> Any:
    """math.fsum: the exact sum rounded once, by Shewchuk's partial sums, as CPython's `math_fsum`"""
    partials = np.zeros(48)  # as many do not overlap in the range of a float, and a few more
    count = 0
    special, infinite = 0.0, 0.0
    for number in values:
        value = float(number)
        x = value
        kept = 0
        for j in range(count):
            y = float(partials[j])
            if abs(x) < abs(y):
                x, y = y, x
            high = x + y
            low = y - (high - x)
            if low != 0.0:
                partials[kept] = low
                kept += 1
            x = high
        count = kept
        if math.isfinite(x):
            if x != 0.0:
                partials[count] = x
                count += 1
        else:
            if math.isfinite(value):
                raise OverflowError("intermediate overflow in fsum")
            if math.isinf(value):
                infinite += value
            special += value
            count = 0
    if special != 0.0:
        if math.isnan(infinite):
            raise ValueError("-inf + inf in fsum")
        return special
    high, low = 0.0, 0.0
    while count > 0 and low == 0.0:
        count -= 1
        x, y = high, float(partials[count])
        high = x + y
        low = y - (high - x)
    if count > 0 and low != 0.0 and (low < 0.0) == (float(partials[count - 1]) < 0.0):
        other = high + low * 2.0  # a tie that the rest decides
        if low * 2.0 == other - high:
            high = other
    return high


def isclose(a: Any, b: Any, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    """math.isclose"""
    if rel_tol < 0.0 or abs_tol < 0.0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(abs(a)) or math.isinf(abs(b)):
        return False
    return abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


def polar(z: Any) -> Any:
    """cmath.polar"""
    return abs(z), math.atan2(z.imag, z.real)


def rect(r: Any, phi: Any) -> Any:
    """cmath.rect"""
    if math.isinf(phi) and r != 0.0 and not math.isnan(r):
        raise ValueError("math domain error")
    return complex(r * float(np.cos(phi)), r * float(np.sin(phi)))


PRELUDE: dict[str, Any] = {
    "fori_loop": fori_loop, "while_loop": while_loop, "cond": cond, "switch": switch, "scan": scan, "vmap": vmap,
    "map": lax_map, "associative_scan": associative_scan, "tree_map": tree_map, "vectorize": jax_vectorize,
    "apply_along_axis": apply_along_axis, "fromfunction": fromfunction, "piecewise": piecewise, "reduce": reduce,
}  # fmt: skip
"""By the name of jax's function."""
NUMPY_PRELUDE: dict[Any, Any] = {
    np.vectorize: vectorize, np.apply_along_axis: apply_along_axis, np.fromfunction: fromfunction,
    np.piecewise: piecewise, np.choose: choose,
}  # fmt: skip
"""By NumPy's function."""
MATH_PRELUDE: dict[str, Any] = {
    "gcd": gcd, "lcm": lcm, "comb": comb, "perm": perm, "dist": dist, "factorial": factorial, "isqrt": isqrt,
    "isclose": isclose, "fsum": fsum, "modf": modf, "frexp": frexp, "ldexp": ldexp, "nextafter": nextafter, "ulp": ulp,
    "remainder": remainder,
}  # fmt: skip
"""By the name of the function of the module math."""
