"""Random programs in which the rules on products fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.passes.computations import program

FLOATS = ("f32", "f32", "f16", "bf16", "f64")
INTEGERS = ("s32", "u32", "s64", "u64")


class Product(NamedTuple):
    """A product: the sizes of both operands, which dimensions they pair, and the sizes of the result."""

    lhs: list[int]
    rhs: list[int]
    batch: tuple[list[int], list[int]]
    contracting: tuple[list[int], list[int]]

    @property
    def free(self) -> tuple[list[int], list[int]]:
        """The dimensions of both sides that are not paired."""
        sides = zip((self.lhs, self.rhs), self.batch, self.contracting, strict=True)
        left, right = ([n for n in range(len(sizes)) if n not in one + other] for sizes, one, other in sides)
        return left, right

    @property
    def result(self) -> list[int]:
        """The sizes of the result."""
        rows, columns = self.free
        return [self.lhs[n] for n in (*self.batch[0], *rows)] + [self.rhs[n] for n in columns]

    @property
    def numbers(self) -> str:
        """The attributes."""
        names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
        values = (self.batch[0], self.contracting[0], self.batch[1], self.contracting[1])
        return "".join(f", {name}={{{text(value)}}}" for name, value in zip(names, values, strict=True) if value)


def text(sizes: Sequence[int]) -> str:
    """Sizes or places as HLO writes them."""
    return ",".join(map(str, sizes))


def product(random: Random, batches: int, contracted: int, rows: int, columns: int, least: int = 1) -> Product:
    """A random product of so many dimensions of each kind, in any order on both sides."""
    sizes = [random.randint(least, 4) for _ in range(batches + contracted)]
    sides = []
    for own in (rows, columns):
        labelled = [*enumerate(sizes), *((None, random.randint(least, 4)) for _ in range(own))]
        random.shuffle(labelled)
        where = {label: index for index, (label, _) in enumerate(labelled) if label is not None}
        sides.append(([size for _, size in labelled], where))
    (lhs, left), (rhs, right) = sides
    batch = [left[n] for n in range(batches)], [right[n] for n in range(batches)]
    pairs = range(batches, batches + contracted)
    return Product(lhs, rhs, batch, ([left[n] for n in pairs], [right[n] for n in pairs]))


def dot(item: Product, element: str, lhs: str = "", rhs: str = "", last: str = "ROOT d", result: str = "") -> str:
    """The lines of a product of `x` and `y`, parameters unless their lines are given."""
    return "\n".join(
        (
            lhs or f"x = {element}[{text(item.lhs)}] parameter(0)",
            rhs or f"y = {element}[{text(item.rhs)}] parameter(1)",
            f"{last} = {result or element}[{text(item.result)}] dot(x, y){item.numbers}",
        )
    )


def few(random: Random, least: int = 0, most: int = 2) -> int:
    """A small count."""
    return random.randint(least, most)


def of_nothing(random: Random) -> str:
    """A dimension of size 0, contracted or not."""
    item = product(random, few(random), few(random, 1), few(random), few(random))
    dim = random.randrange(len(item.contracting[0]))
    item.lhs[item.contracting[0][dim]] = item.rhs[item.contracting[1][dim]] = 0
    return program(dot(item, random.choice(FLOATS + INTEGERS)))


def of_zero(random: Random) -> str:
    """Integers times zero."""
    element = random.choice(INTEGERS)
    item = product(random, few(random), few(random), few(random), few(random))
    zero = f"z = {element}[] constant(0)\n"
    lines = [f"{zero}x = {element}[{text(item.lhs)}] broadcast(z), dimensions={{}}", ""]
    if random.random() < 0.5:
        lines = ["", f"{zero}y = {element}[{text(item.rhs)}] broadcast(z), dimensions={{}}"]
        return program(dot(item, element, *lines))
    return program(dot(item, element, *lines).replace("parameter(1)", "parameter(0)"))


def without_contraction(random: Random, elements: Sequence[str]) -> str:
    """Nothing is contracted."""
    return program(dot(product(random, few(random), 0, few(random), few(random)), random.choice(elements)))


def of_degenerate(random: Random) -> str:
    """Dimensions of size 1 on either side."""
    while True:
        item = product(random, few(random), few(random), few(random), few(random))
        if 1 in item.lhs + item.rhs:
            return program(dot(item, random.choice(FLOATS)))


def transposed(name: str, element: str, sizes: Sequence[int], order: Sequence[int], number: int) -> str:
    """The lines of a transpose that has these sizes."""
    source = [0] * len(sizes)
    for index, origin in enumerate(order):
        source[origin] = sizes[index]
    return (
        f"p{number} = {element}[{text(source)}] parameter({number})\n"
        f"{name} = {element}[{text(sizes)}] transpose(p{number}), dimensions={{{text(order)}}}"
    )


def shuffled(random: Random, count: int) -> list[int]:
    """The numbers in another order than theirs."""
    order = list(range(count))
    while count > 1 and order == sorted(order):
        random.shuffle(order)
    return order


def of_transpose(random: Random) -> str:
    """A transpose of one side, whose own dimensions keep their order."""
    element = random.choice(FLOATS)
    while True:
        item = product(random, few(random), few(random, 1), few(random), few(random), 2)
        order = shuffled(random, len(item.lhs))
        rows = [order[index] for index in item.free[0]]
        if len(order) > 1 and rows == sorted(rows):
            return program(dot(item, element, transposed("x", element, item.lhs, order, 0)))


def transpose_of(random: Random) -> str:
    """A transpose of the result that exchanges rows and columns."""
    element = random.choice(FLOATS)
    batches, rows, columns = few(random), few(random, 1), few(random, 1)
    item = product(random, batches, few(random), rows, columns, 2)
    front = list(range(batches))
    random.shuffle(front)
    order = [*front, *range(batches + rows, batches + rows + columns), *range(batches, batches + rows)]
    sizes = text([item.result[index] for index in order])
    line = f"ROOT t = {element}[{sizes}] transpose(d), dimensions={{{text(order)}}}"
    return program(f"{dot(item, element, last='d')}\n{line}")


def as_reduce(random: Random) -> str:
    """One side has only batch and contracting dimensions."""
    rows, columns = random.choice(((0, 0), (0, few(random, 1)), (few(random, 1), 0)))
    return program(
        dot(product(random, few(random), few(random, 1), rows, columns), random.choice(("f32", "f64", "s32")))
    )


def literal(random: Random, sizes: Sequence[int]) -> str:
    """A constant's text."""
    if not sizes:
        return str(random.randint(-4, 4))
    return "{" + ",".join(literal(random, sizes[1:]) for _ in range(sizes[0])) + "}"


def of_reordered(random: Random) -> str:
    """A reshape that merges transposed dimensions into the contracted one, and a constant."""
    rows, sizes, columns = random.randint(2, 4), [random.randint(2, 3) for _ in range(random.randint(2, 3))], 3
    order = shuffled(random, len(sizes))
    exchanged = [sizes[index] for index in order]
    merged = 1
    for size in sizes:
        merged *= size
    constant = literal(random, [merged, columns])
    return program(
        f"p = f32[{text([rows, *sizes])}] parameter(0)\n"
        f"t = f32[{text([rows, *exchanged])}] transpose(p), dimensions={{0,{text([1 + index for index in order])}}}\n"
        f"x = f32[{rows},{merged}] reshape(t)\ny = f32[{merged},{columns}] constant({constant})\n"
        + (
            f"ROOT d = f32[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
            if random.random() < 0.5
            else f"ROOT d = f32[{columns},{rows}] dot(y, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}"
        )
    )


def of_concatenate(random: Random) -> str:
    """A concatenation along what is contracted with a constant."""
    parts = [random.randint(1, 3) for _ in range(random.randint(2, 3))]
    rows, columns, whole = random.randint(2, 4), random.randint(2, 4), sum(parts)
    across = random.random() < 0.5
    lines = [
        f"p{n} = f32[{f'{size},{rows}' if across else f'{rows},{size}'}] parameter({n})" for n, size in enumerate(parts)
    ]
    names = ", ".join(f"p{n}" for n in range(len(parts)))
    sizes = f"{whole},{rows}" if across else f"{rows},{whole}"
    lines.append(f"x = f32[{sizes}] concatenate({names}), dimensions={{{0 if across else 1}}}")
    lines.append(f"y = f32[{whole},{columns}] constant({literal(random, [whole, columns])})")
    contracted = 0 if across else 1
    if random.random() < 0.5:
        numbers = f"lhs_contracting_dims={{{contracted}}}, rhs_contracting_dims={{0}}"
        lines.append(f"ROOT d = f32[{rows},{columns}] dot(x, y), {numbers}")
    else:
        numbers = f"lhs_contracting_dims={{0}}, rhs_contracting_dims={{{contracted}}}"
        lines.append(f"ROOT d = f32[{columns},{rows}] dot(y, x), {numbers}")
    return program("\n".join(lines))


def of_row(random: Random) -> str:
    """A row of a constant, looked up, times a constant."""
    count, inner, columns = random.randint(2, 5), random.randint(2, 4), random.randint(2, 4)
    lines = [
        f"t = f32[{count},{inner}] constant({literal(random, [count, inner])})",
        f"y = f32[{inner},{columns}] constant({literal(random, [inner, columns])})",
        "i = s32[] parameter(0)\nz = s32[] constant(0)",
        f"x = f32[1,{inner}] dynamic-slice(t, i, z), dynamic_slice_sizes={{1,{inner}}}",
    ]
    if random.random() < 0.5:
        lines.append(f"ROOT d = f32[1,{columns}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
    else:
        lines.append(f"ROOT d = f32[{columns},1] dot(y, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}")
    return program("\n".join(lines))


def of_two_transposes(random: Random) -> str:
    """The same transpose on both sides of a batch of matrix products."""
    batches = few(random)
    front = list(range(batches))
    random.shuffle(front)
    order = [*front, *random.choice(((batches, batches + 1), (batches + 1, batches)))]
    if order == sorted(order):
        order[-2:] = [batches + 1, batches]
    sizes = [random.randint(2, 4) for _ in range(batches)]
    m, k, n = (random.randint(2, 4) for _ in range(3))
    paired = list(range(batches)), list(range(batches))
    item = Product([*sizes, m, k], [*sizes, k, n], paired, ([batches + 1], [batches]))
    lhs, rhs = transposed("x", "f32", item.lhs, order, 0), transposed("y", "f32", item.rhs, order, 1)
    return program(dot(item, "f32", lhs, rhs))


def reduce_of(random: Random) -> str:
    """A sum over batch dimensions, and perhaps others."""
    item = product(random, few(random, 1), few(random), few(random), few(random))
    batch = random.randrange(len(item.batch[0]))
    dims = sorted({batch, *(n for n in range(len(item.result)) if random.random() < 0.3)})
    left = [size for index, size in enumerate(item.result) if index not in dims]
    return program(
        f"{dot(item, 'f32', last='d')}\nz = f32[] constant(0)\n"
        f"ROOT r = f32[{text(left)}] reduce(d, z), dimensions={{{text(dims)}}}, to_apply=add_f32"
    )


DOMAINS: dict[str, Callable[[Random], str]] = {
    "dot-of-nothing": of_nothing,
    "integer-dot-of-zero": of_zero,
    "integer-outer-product": lambda random: without_contraction(random, INTEGERS),
    "dot-of-degenerate": of_degenerate,
    "dot-of-transpose": of_transpose,
    "transpose-of-dot": transpose_of,
    "dot-without-contraction": lambda random: without_contraction(random, FLOATS),
    "dot-as-reduce": as_reduce,
    "dot-of-reordered-contraction": of_reordered,
    "dot-of-concatenate": of_concatenate,
    "dot-of-looked-up-row": of_row,
    "dot-of-two-transposes": of_two_transposes,
    "reduce-of-dot": reduce_of,
}
"""Per rule, a program in which it fires, of random shapes and types."""

NARROWED: dict[str, dict[str, Any]] = {
    "dot-of-degenerate": {"finite": True, "reason": "XLA adds up in another order, so sums overflow elsewhere"},
    "dot-of-transpose": {"finite": True, "reason": "XLA adds up in another order, so sums overflow elsewhere"},
    "transpose-of-dot": {"finite": True, "reason": "XLA adds up in another order, so sums overflow elsewhere"},
}
"""What is narrower in the tests of some rules, and why."""
