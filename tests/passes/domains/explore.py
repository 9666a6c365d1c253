"""Random programs in which the rules of equality saturation fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.passes.computations import program

PLAIN = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHED = "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"


def sizes(random: Random, count: int) -> list[int]:
    return [random.randint(1, 5) for _ in range(count)]


def element(random: Random) -> str:
    return random.choice(("f32", "f64"))


def chain(random: Random, *, right: bool) -> str:
    m, k, j, n = sizes(random, 4)
    batch = random.choice(([], [random.randint(1, 3)]))
    e, numbers = element(random), BATCHED if batch else PLAIN

    def array(*dims: int) -> str:
        return f"{e}[{','.join(map(str, (*batch, *dims)))}]"

    head = f"a = {array(m, k)} parameter(0)\nb = {array(k, j)} parameter(1)\nc = {array(j, n)} parameter(2)\n"
    if right:
        tail = f"i = {array(m, j)} dot(a, b), {numbers}\nROOT r = {array(m, n)} dot(i, c), {numbers}"
    else:
        tail = f"i = {array(k, n)} dot(b, c), {numbers}\nROOT r = {array(m, n)} dot(a, i), {numbers}"
    return program(head + tail)


def before_dot(random: Random) -> str:
    m, k, n = sizes(random, 3)
    e, op = element(random), random.choice(("multiply", "divide"))
    dims, of = random.choice((("", ""), ("0", m), ("1", n)))
    shape = f"{e}[{of}]"
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nx = {shape} parameter(2)\n"
        f"d = {e}[{m},{n}] dot(a, b), {PLAIN}\ns = {e}[{m},{n}] broadcast(x), dimensions={{{dims}}}\n"
        f"ROOT r = {e}[{m},{n}] {op}(d, s)"
    )


def behind_dot(random: Random) -> str:
    m, k, n = sizes(random, 3)
    e, op = element(random), random.choice(("multiply", "divide"))
    if random.random() < 0.5:
        dims, of = random.choice((("", ""), ("0", m)))
        scaled = f"s = {e}[{m},{k}] broadcast(x), dimensions={{{dims}}}\np = {e}[{m},{k}] {op}(a, s)"
        dot = "dot(p, b)"
    else:
        dims, of = random.choice((("", ""), ("1", n)))
        scaled = f"s = {e}[{k},{n}] broadcast(x), dimensions={{{dims}}}\np = {e}[{k},{n}] {op}(b, s)"
        dot = "dot(a, p)"
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nx = {e}[{of}] parameter(2)\n{scaled}\n"
        f"ROOT r = {e}[{m},{n}] {dot}, {PLAIN}"
    )


def dots_summed(random: Random) -> str:
    m, k, n = sizes(random, 3)
    e, op = element(random), random.choice(("add", "subtract"))
    first, second = ("dot(a, b)", "dot(a, c)") if random.random() < 0.5 else ("dot(c, b)", "dot(a, b)")
    third = f"{e}[{k},{n}]" if "a, c" in second else f"{e}[{m},{k}]"
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nc = {third} parameter(2)\n"
        f"p = {e}[{m},{n}] {first}, {PLAIN}\nq = {e}[{m},{n}] {second}, {PLAIN}\nROOT r = {e}[{m},{n}] {op}(p, q)"
    )


def dot_summed(random: Random) -> str:
    m, k, n = sizes(random, 3)
    e = element(random)
    over, left = random.choice(((0, n), (1, m)))
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nz = {e}[] constant(0)\n"
        f"d = {e}[{m},{n}] dot(a, b), {PLAIN}\n"
        f"ROOT r = {e}[{left}] reduce(d, z), dimensions={{{over}}}, to_apply=add_{e}"
    )


def dot_sliced(random: Random) -> str:
    m, k, n = (size + 1 for size in sizes(random, 3))
    e = element(random)
    first, last = random.randint(0, m - 1), random.randint(1, n)
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nd = {e}[{m},{n}] dot(a, b), {PLAIN}\n"
        f"ROOT r = {e}[{m - first},{last}] slice(d), slice={{[{first}:{m}], [0:{last}]}}"
    )


def convolution(random: Random, *, scaled: bool) -> str:
    b, h, i, o = sizes(random, 4)
    e = element(random)
    image, kernel, out = f"{e}[{b},{h + 2},{i}]", f"{e}[3,{i},{o}]", f"{e}[{b},{h},{o}]"
    attributes = "window={size=3}, dim_labels=b0f_0io->b0f"
    if not scaled:
        op = random.choice(("add", "subtract"))
        two = random.random() < 0.5
        third, pair = (kernel, ("x, w", "x, y")) if two else (image, ("x, w", "y, w"))
        return program(
            f"x = {image} parameter(0)\nw = {kernel} parameter(1)\ny = {third} parameter(2)\n"
            f"p = {out} convolution({pair[0]}), {attributes}\nq = {out} convolution({pair[1]}), {attributes}\n"
            f"ROOT r = {out} {op}(p, q)"
        )
    dims, of = random.choice((("", ""), ("2", o)))
    op = random.choice(("multiply", "divide"))
    return program(
        f"x = {image} parameter(0)\nw = {kernel} parameter(1)\ny = {e}[{of}] parameter(2)\n"
        f"p = {out} convolution(x, w), {attributes}\ns = {out} broadcast(y), dimensions={{{dims}}}\n"
        f"ROOT r = {out} {op}(p, s)"
    )


def of_broadcasts(random: Random) -> str:
    m, n = sizes(random, 2)
    e, op = element(random), random.choice(("add", "multiply", "subtract", "maximum"))
    other, dims = random.choice(((f"{e}[]", ""), (f"{e}[{m}]", "0")))
    return program(
        f"x = {e}[{m}] parameter(0)\ny = {other} parameter(1)\nb = {e}[{m},{n}] broadcast(x), dimensions={{0}}\n"
        f"c = {e}[{m},{n}] broadcast(y), dimensions={{{dims}}}\nROOT r = {e}[{m},{n}] {op}(b, c)"
    )


def with_broadcasts(random: Random, *, last: bool) -> str:
    """(x . broadcast) . broadcast, or (x . broadcast) . y"""
    m, n = sizes(random, 2)
    e = element(random)
    ops = random.choice((("add", "subtract"), ("multiply", "divide")))
    one, two = random.choice(ops), random.choice(ops)
    second = f"c = {e}[{m},{n}] broadcast(z), dimensions={{0}}" if last else f"c = {e}[{m},{n}] negate(w)"
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{n}] parameter(1)\nz = {e}[{m}] parameter(2)\n"
        f"w = {e}[{m},{n}] parameter(3)\nb = {e}[{m},{n}] broadcast(y), dimensions={{1}}\n{second}\n"
        f"i = {e}[{m},{n}] {one}(x, b)\nROOT r = {e}[{m},{n}] {two}(i, c)"
    )


def root_of_product(random: Random) -> str:
    [m] = sizes(random, 1)
    e, op = element(random), random.choice(("multiply", "divide"))
    return program(
        f"x = {e}[{m}] parameter(0)\ns = {e}[] constant({random.choice((0.5, 2, 3))})\n"
        f"a = {e}[{m}] abs(x)\nb = {e}[{m}] broadcast(s), dimensions={{}}\np = {e}[{m}] {op}(a, b)\n"
        f"ROOT r = {e}[{m}] sqrt(p)"
    )


def with_common_factor(random: Random) -> str:
    [m] = sizes(random, 1)
    e, op, last = element(random), random.choice(("multiply", "divide")), random.choice(("add", "subtract"))
    return program(
        f"x = {e}[{m}] parameter(0)\ny = {e}[{m}] parameter(1)\nz = {e}[{m}] parameter(2)\n"
        f"p = {e}[{m}] {op}(x, z)\nq = {e}[{m}] {op}(y, z)\nROOT r = {e}[{m}] {last}(p, q)"
    )


def moved(random: Random) -> str:
    m, n = (size + 1 for size in sizes(random, 2))
    e = element(random)
    op = random.choice(("add(x, y)", "multiply(x, y)", "negate(x)", "tanh(y)"))
    last = random.choice(
        (
            f"ROOT r = {e}[{n},{m}] transpose(p), dimensions={{1,0}}",
            f"ROOT r = {e}[1,{n}] slice(p), slice={{[1:2], [0:{n}]}}",
            f"ROOT r = {e}[{m},{n}] reverse(p), dimensions={{1}}",
            f"i = s32[] parameter(2)\nROOT r = {e}[1,{n}] dynamic-slice(p, i, i), dynamic_slice_sizes={{1,{n}}}",
        )
    )
    return program(f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{m},{n}] parameter(1)\np = {e}[{m},{n}] {op}\n{last}")


def gathered(random: Random) -> str:
    m, n = (size + 1 for size in sizes(random, 2))
    e = element(random)
    op = random.choice(("tanh(x)", "multiply(x, s)"))
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ni = s32[3] parameter(1)\nc = {e}[] parameter(2)\n"
        f"s = {e}[{m},{n}] broadcast(c), dimensions={{}}\np = {e}[{m},{n}] {op}\n"
        f"ROOT r = {e}[3,{n}] gather(p, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
        f"index_vector_dim=1, slice_sizes={{1,{n}}}"
    )


def product_summed(random: Random, *, broadcast: bool) -> str:
    m, n = sizes(random, 2)
    e = element(random)
    over, left = random.choice(((0, n), (1, m)))
    factor = (
        f"y = {e}[{left}] parameter(1)\nb = {e}[{m},{n}] broadcast(y), dimensions={{{1 - over}}}"
        if broadcast
        else f"b = {e}[{m},{n}] parameter(1)"
    )
    op = random.choice(("multiply", "divide")) if broadcast else "multiply"
    return program(
        f"x = {e}[{m},{n}] parameter(0)\n{factor}\nz = {e}[] constant(0)\np = {e}[{m},{n}] {op}(x, b)\n"
        f"ROOT r = {e}[{left}] reduce(p, z), dimensions={{{over}}}, to_apply=add_{e}"
    )


def sum_summed(random: Random) -> str:
    m, n = sizes(random, 2)
    e, op = element(random), random.choice(("add", "subtract"))
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{n}] parameter(1)\nz = {e}[] constant(0)\n"
        f"b = {e}[{m},{n}] broadcast(y), dimensions={{1}}\np = {e}[{m},{n}] {op}(x, b)\n"
        f"ROOT r = {e}[{m}] reduce(p, z), dimensions={{1}}, to_apply=add_{e}"
    )


def of_reshapes(random: Random) -> str:
    m, n = sizes(random, 2)
    e = element(random)
    op = random.choice(("add(a, b)", "multiply(b, a)", "tanh(a)"))
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{m},{n}] parameter(1)\na = {e}[{m * n}] reshape(x)\n"
        f"b = {e}[{m * n}] reshape(y)\nROOT r = {e}[{m * n}] {op}"
    )


def before_second(random: Random) -> str:
    m, k, n = sizes(random, 3)
    e, op = element(random), random.choice(("multiply", "divide"))
    dims, of = random.choice((("", ""), ("1", n)))
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nx = {e}[{of}] parameter(2)\n"
        f"d = {e}[{m},{n}] dot(a, b), {PLAIN}\ns = {e}[{m},{n}] broadcast(x), dimensions={{{dims}}}\n"
        f"ROOT r = {e}[{m},{n}] {op}(d, s)"
    )


def dot_of_view(random: Random) -> str:
    """A product of an operand whose free dimensions are split, or joined, before or behind the contracted one."""
    m, j, k, n = sizes(random, 4)
    e = element(random)
    left, right, numbers = random.choice(
        (
            (f"[{m},{j},{k}]", f"[{m * j},{k}]", PLAIN),
            (f"[{k},{m},{j}]", f"[{k},{m * j}]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        )
    )
    if random.random() < 0.5:
        return program(
            f"x = {e}{left} parameter(0)\ny = {e}[{k},{n}] parameter(1)\na = {e}{right} reshape(x)\n"
            f"ROOT r = {e}[{m * j},{n}] dot(a, y), {numbers}"
        )
    swapped = f"lhs_contracting_dims={{0}}, rhs_contracting_dims={{{1 if numbers is PLAIN else 0}}}"
    return program(
        f"x = {e}{left} parameter(0)\ny = {e}[{k},{n}] parameter(1)\na = {e}{right} reshape(x)\n"
        f"ROOT r = {e}[{n},{m * j}] dot(y, a), {swapped}"
    )


def convolution_scaled(random: Random, *, features: bool) -> str:
    """A factor at an operand of a convolution: of input features, or of what it has in common with the result."""
    b, i, o = sizes(random, 3)
    e, op = element(random), random.choice(("multiply", "divide"))
    image, kernel, out = f"{e}[{b},4,{i}]", f"{e}[3,{i},{o}]", f"{e}[{b},4,{o}]"
    at_image = features or random.random() < 0.5
    if features:
        dims, of = "2", i
    else:
        dims, of = random.choice((("", ""), ("0", b) if at_image else ("2", o)))
    scaled, shape, operands = ("x", image, "p, w") if at_image else ("w", kernel, "x, p")
    return program(
        f"x = {image} parameter(0)\nw = {kernel} parameter(1)\ny = {e}[{of}] parameter(2)\n"
        f"s = {shape} broadcast(y), dimensions={{{dims}}}\np = {shape} {op}({scaled}, s)\n"
        f"ROOT r = {out} convolution({operands}), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f"
    )


def convolutions_of_two_sizes(random: Random) -> str:
    b, i, o = sizes(random, 3)
    e, op, dilation = element(random), random.choice(("add", "subtract")), random.choice((1, 2))
    stride, groups = random.choice((1, 2)), random.choice((1, 2))
    length = 6 // stride
    small, size, pads = random.choice(((1, 3, ((0, 0), (1, 1))), (3, 5, ((1, 1), (2, 2))), (2, 3, ((0, 1), (1, 1)))))
    first, second = (
        f"window={{size={count} stride={stride} pad={low * dilation}_{high * dilation} rhs_dilate={dilation}}}, "
        f"dim_labels=b0f_0io->b0f, feature_group_count={groups}"
        for count, (low, high) in zip((small, size), pads, strict=True)
    )
    out = f"{e}[{b},{length},{o * groups}]"
    operands = random.choice(("p, q", "q, p"))
    return program(
        f"x = {e}[{b},6,{i * groups}] parameter(0)\nw = {e}[{small},{i},{o * groups}] parameter(1)\n"
        f"v = {e}[{size},{i},{o * groups}] parameter(2)\np = {out} convolution(x, w), {first}\n"
        f"q = {out} convolution(x, v), {second}\nROOT r = {out} {op}({operands})"
    )


def convolution_with_zeros(random: Random) -> str:
    b, i, o = sizes(random, 3)
    e, dilation = element(random), random.choice((1, 2))
    low, high = random.choice(((1, 1), (0, 2), (1, 0)))
    taps = 2 + low + high
    pads = low * dilation, (high + 1) * dilation
    return program(
        f"x = {e}[{b},4,{i}] parameter(0)\nw = {e}[2,{i},{o}] parameter(1)\nz = {e}[] constant(0)\n"
        f"p = {e}[{taps},{i},{o}] pad(w, z), padding={low}_{high}x0_0x0_0\n"
        f"ROOT r = {e}[{b},4,{o}] convolution(x, p), "
        f"window={{size={taps} pad={pads[0]}_{pads[1]} rhs_dilate={dilation}}}, dim_labels=b0f_0io->b0f"
    )


def convolution_sliced(random: Random) -> str:
    b, i, o = sizes(random, 3)
    e = element(random)
    first, last = random.randint(0, b), random.randint(1, o)
    return program(
        f"x = {e}[{b + 1},4,{i}] parameter(0)\nw = {e}[3,{i},{o}] parameter(1)\n"
        f"c = {e}[{b + 1},4,{o}] convolution(x, w), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f\n"
        f"ROOT r = {e}[{b + 1 - first},4,{last}] slice(c), slice={{[{first}:{b + 1}], [0:4], [0:{last}]}}"
    )


def bounded_twice(random: Random) -> str:
    m, n = sizes(random, 2)
    e, op = random.choice((("f32", "maximum"), ("f64", "minimum"), ("s32", "maximum"), ("s32", "and"), ("pred", "or")))
    first, second = random.choice(("x, b", "b, x")), random.choice(("i, c", "c, i"))
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{n}] parameter(1)\nz = {e}[{n}] parameter(2)\n"
        f"b = {e}[{m},{n}] broadcast(y), dimensions={{1}}\nc = {e}[{m},{n}] broadcast(z), dimensions={{1}}\n"
        f"i = {e}[{m},{n}] {op}({first})\nROOT r = {e}[{m},{n}] {op}({second})"
    )


def clamped(random: Random) -> str:
    [m] = sizes(random, 1)
    e, dims = random.choice(("f32", "s32")), random.choice((True, False))
    bound = f"{e}[]" if dims else f"{e}[{m}]"
    own = f"b = {e}[{m}] broadcast(BOUND), dimensions={{}}\n" if dims else ""
    name = "b" if dims else "BOUND"
    op, which = random.choice((("maximum", "lo"), ("minimum", "hi")))
    operands = random.choice((f"x, {name}", f"{name}, x"))
    return program(
        f"x = {e}[{m}] parameter(0)\nlo = {bound} parameter(1)\nhi = {bound} parameter(2)\n"
        + (own + f"i = {e}[{m}] {op}({operands})\n").replace("BOUND", which)
        + f"ROOT r = {e}[{m}] clamp(lo, i, hi)"
    )


def shifted_product(random: Random) -> str:
    m, k, n = sizes(random, 3)
    e, op, last = element(random), random.choice(("add", "subtract")), random.choice(("multiply", "divide"))
    dims, of = random.choice((("1", n), ("", "")))
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nx = {e}[{n}] parameter(2)\n"
        f"y = {e}[{of}] parameter(3)\nd = {e}[{m},{n}] dot(a, b), {PLAIN}\n"
        f"s = {e}[{m},{n}] broadcast(x), dimensions={{1}}\nt = {e}[{m},{n}] broadcast(y), dimensions={{{dims}}}\n"
        f"u = {e}[{m},{n}] {op}(d, s)\nROOT r = {e}[{m},{n}] {last}(u, t)"
    )


def of_transposes(random: Random) -> str:
    m, n = sizes(random, 2)
    e, op = element(random), random.choice(("add(a, b)", "subtract(b, a)", "maximum(a, b)", "power(a, b)"))
    return program(
        f"x = {e}[{m},{n}] parameter(0)\ny = {e}[{m},{n}] parameter(1)\na = {e}[{n},{m}] transpose(x), dimensions={{1,0}}\n"
        f"b = {e}[{n},{m}] transpose(y), dimensions={{1,0}}\nROOT r = {e}[{n},{m}] {op}"
    )


def of_slices(random: Random) -> str:
    m, n = sizes(random, 2)
    e, op = element(random), random.choice(("tanh(a)", "add(a, c)", "multiply(c, a)", "negate(a)"))
    return program(
        f"x = {e}[{m + 2},{n}] parameter(0)\ny = {e}[] parameter(1)\n"
        f"a = {e}[{m},{n}] slice(x), slice={{[1:{m + 1}], [0:{n}]}}\nb = {e}[1,{n}] slice(x), slice={{[0:1], [0:{n}]}}\n"
        f"c = {e}[{m},{n}] broadcast(y), dimensions={{}}\np = {e}[{m},{n}] {op}\n"
        f"ROOT r = ({e}[{m},{n}], {e}[1,{n}]) tuple(p, b)"
    )


def factor_of_contracted(random: Random, *, side: int) -> str:
    m, k, n = sizes(random, 3)
    e, op = element(random), random.choice(("multiply", "divide"))
    if side == 0:
        scaled, dot = f"s = {e}[{m},{k}] broadcast(x), dimensions={{1}}\np = {e}[{m},{k}] {op}(a, s)", "dot(p, b)"
    else:
        scaled, dot = f"s = {e}[{k},{n}] broadcast(x), dimensions={{0}}\np = {e}[{k},{n}] {op}(b, s)", "dot(a, p)"
    return program(
        f"a = {e}[{m},{k}] parameter(0)\nb = {e}[{k},{n}] parameter(1)\nx = {e}[{k}] parameter(2)\n{scaled}\n"
        f"ROOT r = {e}[{m},{n}] {dot}, {PLAIN}"
    )


def dot_reshaped(random: Random) -> str:
    batch, m, k, i, j = (size + 1 for size in sizes(random, 5))
    e = element(random)
    if random.random() < 0.5:
        a, b, whole = f"{e}[{batch},{m},{k}]", f"{e}[{batch},{k},{i * j}]", f"{e}[{batch},{m},{i * j}]"
        result = f"{e}[{batch},{m},{i},{j}]"
    else:
        a, b, whole = f"{e}[{batch},{i},{j},{k}]", f"{e}[{batch},{k},{m}]", f"{e}[{batch},{i},{j},{m}]"
        result = f"{e}[{batch},{i * j},{m}]"
    last = a.count(",")
    return program(
        f"a = {a} parameter(0)\nb = {b} parameter(1)\n"
        f"d = {whole} dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{{last}}}, "
        f"rhs_contracting_dims={{1}}\nROOT r = {result} reshape(d)"
    )


def dot_over_joined(random: Random) -> str:
    m, i, j, n = (size + 1 for size in sizes(random, 4))
    e = element(random)
    if random.random() < 0.5:
        views = f"a = {e}[{m},{i},{j}] parameter(0)\nb = {e}[{i * j},{n}] parameter(1)\nv = {e}[{m},{i * j}] reshape(a)"
        dot = "dot(v, b)"
    else:
        views = f"a = {e}[{m},{i * j}] parameter(0)\nb = {e}[{i},{j},{n}] parameter(1)\nv = {e}[{i * j},{n}] reshape(b)"
        dot = "dot(a, v)"
    return program(f"{views}\nROOT r = {e}[{m},{n}] {dot}, {PLAIN}")


def elementwise_reshaped(random: Random) -> str:
    m, n = (size + 1 for size in sizes(random, 2))
    e, op = element(random), random.choice(("add", "multiply", "maximum"))
    return program(
        f"x = {e}[{m},{2 * n}] parameter(0)\ny = {e}[{2 * n}] parameter(1)\n"
        f"b = {e}[{m},{2 * n}] broadcast(y), dimensions={{1}}\np = {e}[{m},{2 * n}] {op}(x, b)\n"
        f"ROOT r = {e}[{m},2,{n}] reshape(p)"
    )


def with_identity(random: Random) -> str:
    """A product with ones on a diagonal, perhaps one matrix for all of a batch, on either side and of either dimension."""
    m, n, k, batch = sizes(random, 4)
    e, side, row, is_batched = element(random), random.randrange(2), random.randrange(2), random.random() < 0.4
    front, first = (f"{batch},", 1) if is_batched else ("", 0)
    shape, offset = (m, n), random.randint(1 - m, n - 1)
    pairs = f"{side_name(side)}_contracting_dims={{{first + row}}}, "
    dims, other = ((k, shape[row]), 1) if random.random() < 0.5 else ((shape[row], k), 0)
    pairs += f"{side_name(1 - side)}_contracting_dims={{{first + other}}}"
    if is_batched:
        pairs += ", lhs_batch_dims={0}, rhs_batch_dims={0}"
    matrix = f"[{front}{m},{n}]"
    ones = (
        f"u = {e}[] constant(1)\nv = {e}[] constant(0)\nus = {e}{matrix} broadcast(u), dimensions={{}}\n"
        f"vs = {e}{matrix} broadcast(v), dimensions={{}}\neye = {e}{matrix} select(same, us, vs)\n"
    )
    free = shape[1 - row]
    result = f"{free},{k}" if side == 0 else f"{k},{free}"
    operands = "eye, x" if side == 0 else "x, eye"
    return program(
        f"x = {e}[{front}{dims[0]},{dims[1]}] parameter(0)\ni = s32{matrix} iota(), iota_dimension={first}\n"
        f"j = s32{matrix} iota(), iota_dimension={first + 1}\nc = s32[] constant({offset})\n"
        f"cs = s32{matrix} broadcast(c), dimensions={{}}\nmoved = s32{matrix} add(i, cs)\n"
        f"same = pred{matrix} compare({random.choice(('moved, j', 'j, moved'))}), direction=EQ\n"
        + random.choice((ones, f"eye = {e}{matrix} convert(same)\n"))
        + f"ROOT r = {e}[{front}{result}] dot({operands}), {pairs}"
    )


def side_name(side: int) -> str:
    return ("lhs", "rhs")[side]


def of_two_broadcasts(random: Random) -> str:
    m, n, k = sizes(random, 3)
    e = element(random)
    (rows, x), (columns, y) = random.choice(
        (
            (("0,1", f"[{m},{n}]"), ("2", f"[{k}]")),
            (("0", f"[{m}]"), ("1,2", f"[{n},{k}]")),
            (("0,1", f"[{m},{n}]"), ("0,2", f"[{m},{k}]")),
        )
    )
    whole = f"{e}[{m},{n},{k}]"
    return program(
        f"x = {e}{x} parameter(0)\ny = {e}{y} parameter(1)\n"
        f"p = {whole} broadcast(x), dimensions={{{rows}}}\nq = {whole} broadcast(y), dimensions={{{columns}}}\n"
        f"ROOT r = {whole} multiply({random.choice(('p, q', 'q, p'))})"
    )


DOMAINS: dict[str, Callable[[Random], str]] = {
    "product-of-broadcasts-as-dot": of_two_broadcasts,
    "dot-of-identity": with_identity,
    "factor-to-second-operand": lambda random: factor_of_contracted(random, side=0),
    "factor-to-first-operand": lambda random: factor_of_contracted(random, side=1),
    "reshape-of-dot": dot_reshaped,
    "dot-over-joined-dimensions": dot_over_joined,
    "reshape-of-elementwise": elementwise_reshaped,
    "regrouped-to-the-right": lambda random: chain(random, right=True),
    "regrouped-to-the-left": lambda random: chain(random, right=False),
    "factor-before-dot": before_dot,
    "factor-behind-dot": behind_dot,
    "sum-of-dots": dots_summed,
    "sum-of-dot": dot_summed,
    "slice-of-dot": dot_sliced,
    "factor-into-kernel": lambda random: convolution(random, scaled=True),
    "sum-of-convolutions": lambda random: convolution(random, scaled=False),
    "elementwise-of-broadcasts": of_broadcasts,
    "regrouped-with-broadcast": lambda random: with_broadcasts(random, last=True),
    "broadcast-outwards": lambda random: with_broadcasts(random, last=False),
    "factor-out-of-root": root_of_product,
    "factor-of-both-terms": with_common_factor,
    "movement-of-elementwise": moved,
    "gather-of-elementwise": gathered,
    "sum-of-products": lambda random: product_summed(random, broadcast=True),
    "sum-of-products-as-dot": lambda random: product_summed(random, broadcast=False),
    "sum-of-sums": sum_summed,
    "elementwise-of-reshapes": of_reshapes,
    "factor-before-second-operand": before_second,
    "dot-of-reshape": dot_of_view,
    "factor-behind-convolution": lambda random: convolution_scaled(random, features=False),
    "factor-from-image-to-kernel": lambda random: convolution_scaled(random, features=True),
    "sum-of-convolutions-of-two-sizes": convolutions_of_two_sizes,
    "convolution-with-zeros-around": convolution_with_zeros,
    "slice-of-convolution": convolution_sliced,
    "regrouped-bounds": bounded_twice,
    "clamp-of-bounded": clamped,
    "factor-of-shifted-product": shifted_product,
    "elementwise-of-transposes": of_transposes,
    "elementwise-of-slices": of_slices,
}
NARROWED: dict[str, Any] = {
    name: {"tolerance": 1e-3, "reason": "terms are combined in another order, and differences cancel"}
    for name in (
        "sum-of-dots",
        "sum-of-convolutions",
        "factor-of-both-terms",
        "sum-of-sums",
        "regrouped-with-broadcast",
        "sum-of-convolutions-of-two-sizes",
        "factor-of-shifted-product",
    )
}
