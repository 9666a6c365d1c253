"""Random programs in which the rules on sums and products of numbers fire."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.passes.domains.shapes import entry


def _array(random: Random) -> tuple[str, str]:
    """An array type, and that of its rows' factors."""
    element = random.choice(("f32", "f64"))
    m, n = random.randint(1, 5), random.randint(1, 5)
    return f"{element}[{m},{n}]", f"{element}[{m}]"


def _scalar(array: str) -> str:
    return array.split("[")[0] + "[]"


def _either(random: Random, one: str, other: str) -> str:
    return random.choice((f"{one}, {other}", f"{other}, {one}"))


def multiple(random: Random) -> str:
    t, _ = _array(random)
    op = random.choice(("add", "subtract"))
    return entry(
        f"a = {t} parameter(0)", f"b = {t} parameter(1)", f"p = {t} multiply({_either(random, 'a', 'b')})",
        f"r = {t} {op}({_either(random, 'a', 'p')})",
    )  # fmt: skip


def one_and_more(random: Random) -> str:
    t, _ = _array(random)
    op = random.choice(("add", "subtract"))
    return entry(
        f"a = {t} parameter(0)", f"b = {t} parameter(1)", f"o = {_scalar(t)} constant(1)",
        f"s = {t} broadcast(o), dimensions={{}}", f"f = {t} {op}({_either(random, 's', 'b')})",
        f"r = {t} multiply({_either(random, 'a', 'f')})",
    )  # fmt: skip


def conjugates(random: Random) -> str:
    t, _ = _array(random)
    difference = _either(random, "c", "t")
    lines = [
        f"a = {t} parameter(0)", f"t = {t} parameter(1)", f"n = {_scalar(t)} constant({random.choice((1, 2.5, -3))})",
        f"c = {t} broadcast(n), dimensions={{}}", f"d = {t} subtract({difference})",
        f"s = {t} add({_either(random, 'c', 't')})",
    ]  # fmt: skip
    if random.random() < 0.5:
        return entry(*lines, f"r = {t} multiply({_either(random, 'd', 's')})")
    first, last = random.choice((("d", "s"), ("s", "d")))
    return entry(
        *lines, f"p = {t} multiply({_either(random, 'a', first)})", f"r = {t} multiply({_either(random, 'p', last)})"
    )


def second_with_broadcast(random: Random) -> str:
    t, row = _array(random)
    outer, inner = random.choice((("divide", ("multiply", "divide")), ("subtract", ("add", "subtract"))))
    op = random.choice(inner)
    pair = "y, s" if op in ("divide", "subtract") else _either(random, "y", "s")
    first = random.choice(
        (f"x = {t} parameter(0)", f"v = {row} parameter(0)\n  x = {t} broadcast(v), dimensions={{0}}")
    )
    return entry(
        first, f"y = {t} parameter(1)", f"z = {row} parameter(2)", f"s = {t} broadcast(z), dimensions={{0}}",
        f"i = {t} {op}({pair})", f"r = {t} {outer}(x, i)",
    )  # fmt: skip


def negated_operand(random: Random) -> str:
    t, _ = _array(random)
    op = random.choice(("multiply", "divide"))
    return entry(
        f"a = {t} parameter(0)",
        f"b = {t} parameter(1)",
        f"i = {t} negate(a)",
        f"r = {t} {op}({_either(random, 'i', 'b')})",
    )


def negated_product(random: Random) -> str:
    t, row = _array(random)
    op = random.choice(("multiply", "divide"))
    return entry(
        f"x = {t} parameter(0)", f"y = {row} parameter(1)", f"s = {t} broadcast(y), dimensions={{0}}",
        f"p = {t} {op}({_either(random, 'x', 's')})", f"r = {t} negate(p)",
    )  # fmt: skip


def negated_difference(random: Random) -> str:
    t, _ = _array(random)
    return entry(f"x = {t} parameter(0)", f"y = {t} parameter(1)", f"d = {t} subtract(x, y)", f"r = {t} negate(d)")


def guarded(random: Random) -> str:
    t, _ = _array(random)
    predicate = "pred" + t[t.index("[") :]
    one, other, negated = (
        random.choice(("add", "maximum", "subtract")),
        random.choice(("tanh", "abs")),
        "e = {t} negate(x)",
    )
    direction = random.choice(("NE", "EQ"))
    return entry(
        f"x = {t} parameter(0)", f"y = {t} parameter(1)", negated.format(t=t), f"a = {t} {one}(e, y)",
        f"b = {t} {other}(x)", f"q = {predicate} compare(x, x), direction={direction}",
        f"r = {t} select(q, {_either(random, 'a', 'b')})",
    )  # fmt: skip


def chosen_twice(random: Random) -> str:
    t, _ = _array(random)
    predicate = "pred" + t[t.index("[") :]
    inner, outer = random.choice((("select(q, a, b)", "select(p, i, b)"), ("select(q, a, b)", "select(p, a, i)")))
    return entry(
        f"a = {t} parameter(0)", f"b = {t} parameter(1)", f"p = {predicate} parameter(2)", f"q = {predicate} parameter(3)",
        f"i = {t} {inner}", f"r = {t} {outer}",
    )  # fmt: skip


def reciprocal_of_exponential(random: Random) -> str:
    t, _ = _array(random)
    return entry(
        f"x = {t} parameter(0)", f"o = {_scalar(t)} constant(1)", f"one = {t} broadcast(o), dimensions={{}}",
        f"n = {t} negate(x)", f"e = {t} exponential(n)", f"s = {t} add({_either(random, 'one', 'e')})",
        f"r = {t} divide(one, s)",
    )  # fmt: skip


def in_turns(random: Random) -> str:
    dims = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    along = random.randrange(len(dims))
    element = random.choice(("f32", "s32", "bf16"))
    wide = [2 * size if dim == along else size for dim, size in enumerate(dims)]
    short, long = (f"{element}[{','.join(map(str, sizes))}]" for sizes in (dims, wide))
    even, odd = ("x".join(one if dim == along else "0_0" for dim in range(len(dims))) for one in ("0_1_1", "1_0_1"))
    return entry(
        f"x = {short} parameter(0)", f"y = {short} parameter(1)", f"z = {element}[] constant(0)",
        f"p = {long} pad(x, z), padding={even}", f"q = {long} pad(y, z), padding={odd}",
        f"r = {long} add({_either(random, 'p', 'q')})",
    )  # fmt: skip


def transforms(random: Random) -> str:
    """Differences and sums of Fourier transforms of one type, of complex numbers or of half a spectrum."""
    rows, size = random.randint(1, 3), random.choice((2, 4, 6, 8))
    name, source, result = random.choice(
        (
            ("FFT", f"c64[{rows},{size}]", f"c64[{rows},{size}]"),
            ("IFFT", f"c64[{rows},{size}]", f"c64[{rows},{size}]"),
            ("RFFT", f"f32[{rows},{size}]", f"c64[{rows},{size // 2 + 1}]"),
            ("IRFFT", f"c64[{rows},{size // 2 + 1}]", f"f32[{rows},{size}]"),
        )
    )
    op = random.choice(("add", "subtract"))
    return entry(
        f"x = {source} parameter(0)", f"y = {source} parameter(1)",
        f"a = {result} fft(x), fft_type={name}, fft_length={{{size}}}",
        f"b = {result} fft(y), fft_type={name}, fft_length={{{size}}}", f"r = {result} {op}(a, b)",
    )  # fmt: skip


DOMAINS: dict[str, Any] = {
    "term-and-its-multiple": multiple,
    "sum-of-transforms": transforms,
    "multiple-of-one-and-more": one_and_more,
    "product-of-conjugates": conjugates,
    "broadcast-out-of-second": second_with_broadcast,
    "negation-outwards": negated_operand,
    "negation-into-broadcast": negated_product,
    "negation-of-difference": negated_difference,
    "guard-against-nan": guarded,
    "choices-among-two": chosen_twice,
    "logistic-of-exponential": reciprocal_of_exponential,
    "interleaved": in_turns,
}
NARROWED: dict[str, Any] = {
    name: {"tolerance": 1e-3, "reason": "terms are combined in another order, and differences cancel"}
    for name in (
        "term-and-its-multiple",
        "sum-of-transforms",
        "multiple-of-one-and-more",
        "product-of-conjugates",
        "broadcast-out-of-second",
    )
}
