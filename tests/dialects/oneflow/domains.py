"""Random jobs in which each rule fires: shapes, axes and attributes inside its conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from hloom.dialects import oneflow
from hloom.ir import Module
from tests.dialects.oneflow.jobs import job

Domain = Callable[[Random], Module]
DOMAINS: dict[str, Domain] = {}
"""By rule: what makes such a job."""


def domain(*rules: str) -> Callable[[Callable[[Random], str]], Domain]:
    """Enter a function that makes a job's text for rules."""

    def register(make: Callable[[Random], str]) -> Domain:
        def parsed(random: Random) -> Module:
            return oneflow.parse(make(random))

        DOMAINS.update(dict.fromkeys(rules, parsed))
        return parsed

    return register


def t(*dims: int, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in dims)}{element}>"


def numbers(values, element_type: str) -> str:
    return "[" + ", ".join(f"{value} : {element_type}" for value in values) + "]"


def shape(random: Random, least: int = 1, most: int = 4) -> list[int]:
    return [random.randint(1, 5) for _ in range(random.randint(least, most))]


def biased(random: Random) -> tuple[str, str, str]:
    """A random array and bias, the line that adds them, and the array's type."""
    dims = shape(random)
    axis = random.randrange(len(dims))
    x, b = t(*dims), t(dims[axis])
    written = random.choice([axis, axis - len(dims)])
    line = f'%0 = "oneflow.bias_add"(%x, %b) {{axis = {written} : si32}} : ({x}, {b}) -> {x}\n'
    return f"%x: {x}, %b: {b}", line, x


@domain("fuse-bias-add-dropout")
def dropout(random: Random) -> str:
    arguments, line, x = biased(random)
    rate = random.choice([0.0, 0.1, 0.5, 0.9, 1.0, random.random()])
    mask = x.replace("f32", "i8")
    line += f'%y, %m = "oneflow.dropout"(%0) {{rate = {rate:.7f} : f32}} : ({x}) -> ({x}, {mask})'
    return job(arguments, line, f"%y : {x}")


@domain("fuse-bias-add-dropout-with-mask")
def dropout_with_mask(random: Random) -> str:
    arguments, line, x = biased(random)
    rate = random.choice([0.0, 0.1, 0.5, 0.9, 1.0, random.random()])
    mask = x.replace("f32", "i8")
    line += f'%y, %m = "oneflow.dropout"(%0) {{rate = {rate:.7f} : f32}} : ({x}) -> ({x}, {mask})'
    return job(arguments, line, f"%y, %m : {x}, {mask}")


@domain("fuse-bias-add-gelu")
def gelu(random: Random) -> str:
    arguments, line, x = biased(random)
    return job(arguments, line + f'%y = "oneflow.gelu"(%0) : ({x}) -> {x}', f"%y : {x}")


def sums(random: Random, lines: Callable[[str, str, str], str]) -> str:
    """Five arrays; `lines` is given their type, and the texts of two additions of two or three of them."""
    x = t(*shape(random))
    inner = [("%a, %b", 2), ("%a, %b, %c", 3)][random.randrange(2)]
    other = [("%d, %e", 2), ("%c, %d, %e", 3)][random.randrange(2)]
    texts = [f'"oneflow.{_sum(random, n)}"({names}) : ({", ".join([x] * n)}) -> {x}' for names, n in (inner, other)]
    arguments = ", ".join(f"%{name}: {x}" for name in "abcde")
    return job(arguments, lines(x, *texts), f"%y : {x}")


def _sum(random: Random, count: int) -> str:
    return random.choice(["add_n2", "add_n"]) if count == 2 else "add_n"


@domain("add-first")
def add_first(random: Random) -> str:
    tail = ", ".join(["%d", "%e"][: random.randint(1, 2)])
    count = tail.count("%") + 1
    return sums(
        random,
        lambda x, one, other: f'%0 = {one}\n%y = "oneflow.add_n"(%0, {tail}) : ({", ".join([x] * count)}) -> {x}',
    )


@domain("add-second")
def add_second(random: Random) -> str:
    return sums(random, lambda x, one, other: f'%0 = {one}\n%y = "oneflow.add_n2"(%d, %0) : ({x}, {x}) -> {x}')


@domain("add-both")
def add_both(random: Random) -> str:
    return sums(
        random, lambda x, one, other: f'%0 = {one}\n%1 = {other}\n%y = "oneflow.add_n2"(%0, %1) : ({x}, {x}) -> {x}'
    )


@domain("remove-cast-to-same-type")
def cast(random: Random) -> str:
    number, element = random.choice([(2, "f32"), (5, "i32"), (3, "f64"), (9, "f16")])
    x = t(*shape(random), element=element)
    line = f'%0 = "oneflow.cast"(%x) {{dtype = {number} : i32}} : ({x}) -> {x}\n'
    line += f'%y = "oneflow.add_n2"(%0, %0) : ({x}, {x}) -> {x}'
    return job(f"%x: {x}", line, f"%y : {x}")


def triangle(random: Random, *, zeros: bool) -> tuple[str, str, str]:
    """The type of a matrix, and the attributes of scalar_mul and tril."""
    element, is_float = random.choice([("f32", True), ("i32", False)])
    x = t(*shape(random, 0, 2), random.randint(1, 6), random.randint(1, 6), element=element)
    is_floating = "true" if is_float else "false"
    scale = (
        f"float_operand = {random.uniform(-3, 3):.4f} : f64, has_float_operand = {is_floating},"
        f" has_int_operand = {'false' if is_float else 'true'}, int_operand = {random.randint(-3, 3)} : si64"
    )
    fill = (0.0, 0) if zeros else (random.choice([-1.5, 0.0]), random.choice([0, 7]))
    tril = (
        f"diagonal = {random.randint(-3, 3)} : si64, floating_fill_value = {fill[0]} : f64,"
        f" integer_fill_value = {fill[1]} : si64, is_floating_fill_value = {is_floating}"
    )
    return x, scale, tril


@domain("tril-of-scaled")
def tril_of_scaled(random: Random) -> str:
    x, scale, tril = triangle(random, zeros=False)
    lines = f'%0 = "oneflow.scalar_mul"(%x) {{{scale}}} : ({x}) -> {x}\n'
    return job(f"%x: {x}", lines + f'%y = "oneflow.tril"(%0) {{{tril}}} : ({x}) -> {x}', f"%y : {x}")


@domain("scaled-tril")
def scaled_tril(random: Random) -> str:
    x, scale, tril = triangle(random, zeros=True)
    lines = f'%0 = "oneflow.tril"(%x) {{{tril}}} : ({x}) -> {x}\n'
    return job(f"%x: {x}", lines + f'%y = "oneflow.scalar_mul"(%0) {{{scale}}} : ({x}) -> {x}', f"%y : {x}")


class Convolution:
    """A random conv2d: its attributes, and the types of what it takes and yields."""

    def __init__(self, random: Random) -> None:
        self.is_last = random.random() < 0.5
        self.groups = random.choice([1, 2])
        self.strides, self.padding = ([random.randint(least, 2) for _ in "hw"] for least in (1, 0))
        self.window = [random.randint(1, 3) for _ in "hw"]
        self.batch, self.sides = random.randint(1, 2), [random.randint(4, 6) for _ in "hw"]
        self.inputs, self.filters = 2 * self.groups, self.groups * random.randint(1, 3)

    def image(self, channels: int, sides: list[int]) -> list[int]:
        return [self.batch, *sides, channels] if self.is_last else [self.batch, channels, *sides]

    @property
    def kernel(self) -> list[int]:
        channels = self.inputs // self.groups
        return [self.filters, *self.window, channels] if self.is_last else [self.filters, channels, *self.window]

    def result(self, sides: list[int]) -> list[int]:
        numbers = zip(sides, self.padding, self.window, self.strides, strict=True)
        return self.image(self.filters, [(n + 2 * pad - size) // stride + 1 for n, pad, size, stride in numbers])

    @property
    def attributes(self) -> str:
        return (
            f'data_format = "channels_{"last" if self.is_last else "first"}", filters = {self.filters} : si32,'
            f" groups = {self.groups} : si32, kernel_size = {numbers(self.window, 'si32')},"
            f" strides = {numbers(self.strides, 'si32')}, padding_before = {numbers(self.padding, 'si32')},"
            " dilation_rate = [1 : si32, 1 : si32]"
        )


@domain("fold-pad-into-conv")
def pad(random: Random) -> str:
    conv = Convolution(random)
    height, width = random.randint(0, 2), random.randint(0, 2)
    amounts = numbers([0, height, width, 0] if conv.is_last else [0, 0, height, width], "si64")
    outer = [conv.sides[0] + 2 * height, conv.sides[1] + 2 * width]
    x, wide, w = t(*conv.image(conv.inputs, conv.sides)), t(*conv.image(conv.inputs, outer)), t(*conv.kernel)
    y, b = t(*conv.result(outer)), t(conv.filters)
    bias = random.random() < 0.5
    sizes = f"operand_segment_sizes = dense<[1, 1, {int(bias)}, 0]> : vector<4xi32>"
    lines = (
        f'%0 = "oneflow.pad"(%x) {{padding_before = {amounts}, padding_after = {amounts}, floating_constant_value ='
        f" 0.0 : f64, integral_constant_value = 0 : si64}} : ({x}) -> {wide}\n"
        f'%y = "oneflow.conv2d"(%0, %w{", %b" if bias else ""}) {{{conv.attributes}, {sizes}}} :'
        f" ({wide}, {w}{f', {b}' if bias else ''}) -> {y}"
    )
    return job(f"%x: {x}, %w: {w}, %b: {b}", lines, f"%y : {y}")


def batch_norm(random: Random, *, bias: bool) -> str:
    conv = Convolution(random)
    x, w, b = t(*conv.image(conv.inputs, conv.sides)), t(*conv.kernel), t(conv.filters)
    y = t(*conv.result(conv.sides))
    axis = random.choice([3, -1]) if conv.is_last else 1
    opcode, training = random.choice([("normalization", "false"), ("normalization_infer", "true")])
    lines = (
        f'%0 = "oneflow.conv2d"(%x, %w{", %b" if bias else ""}) {{{conv.attributes}, operand_segment_sizes ='
        f" dense<[1, 1, {int(bias)}, 0]> : vector<4xi32>}} : ({x}, {w}{f', {b}' if bias else ''}) -> {y}\n"
        f'%y = "oneflow.{opcode}"(%0, %mean, %variance, %gamma, %beta) {{axis = {axis} : si32, epsilon ='
        f" {random.choice(['1.0e-5', '0.1'])} : f32, momentum = 0.9 : f32, training = {training}}} :"
        f" ({y}, {b}, {b}, {b}, {b}) -> {y}"
    )
    arguments = [f"%{name}: {b}" for name in ("b", "mean", "variance", "gamma", "beta")]
    return job(", ".join([f"%x: {x}", f"%w: {w}", *arguments]), lines, f"%y : {y}")


@domain("fold-batch-norm-into-conv")
def batch_norm_without_bias(random: Random) -> str:
    return batch_norm(random, bias=False)


@domain("fold-batch-norm-into-conv-with-bias")
def batch_norm_with_bias(random: Random) -> str:
    return batch_norm(random, bias=True)


def normalised(random: Random, opcode: str, training: str, results: int) -> str:
    dims = shape(random, 2, 4)
    axis = random.randrange(len(dims))
    x, c = t(*dims), t(dims[axis])
    names = "%0, %mean, %inverse" if results == 3 else "%0"
    kinds = f"({x}, {c}, {c})" if results == 3 else x
    terms = random.choice(["%0, %addend", "%addend, %0"])
    lines = (
        f'{names} = "oneflow.{opcode}"(%x, %m, %v, %gamma, %beta) {{axis = {axis} : si32, epsilon = 0.01 : f32,'
        f" momentum = 0.9 : f32, training = {training}}} : ({x}, {c}, {c}, {c}, {c}) -> {kinds}\n"
        f'%1 = "oneflow.{random.choice(["add_n2", "add_n", "broadcast_add"])}"({terms}) : ({x}, {x}) -> {x}\n'
        f'%y = "oneflow.relu"(%1) : ({x}) -> {x}'
    )
    arguments = ", ".join([f"%x: {x}", *[f"%{name}: {c}" for name in ("m", "v", "gamma", "beta")], f"%addend: {x}"])
    returned = f"%y, %mean : {x}, {c}" if results == 3 else f"%y : {x}"
    return job(arguments, lines, returned)


@domain("fuse-normalization-add-relu")
def trained(random: Random) -> str:
    return normalised(random, "normalization", "true", 3)


@domain("fuse-normalization-infer-add-relu")
def inferred(random: Random) -> str:
    opcode, training = random.choice([("normalization", "false"), ("normalization_infer", "true")])
    return normalised(random, opcode, training, 1)


def gated(random: Random, biased: Callable[[str, str, str, str, int], str]) -> str:
    """A gated linear unit whose biased product, which is returned too, these lines make."""
    dims = shape(random, 1, 3)
    half, width = random.randint(1, 4), random.randint(1, 4)
    x, w, b = t(*dims, width), t(2 * half, width), t(2 * half)
    wide, y = t(*dims, 2 * half), t(*dims, half)
    dim = random.choice([len(dims), -1])
    activation = random.choice(["gelu", "gelu", "fast_gelu", "silu", "sigmoid", "relu"])
    factors = random.choice(["%h, %a", "%a, %h"])
    lines = biased(x, w, b, wide, len(dims)) + (
        f'%h = "oneflow.narrow"(%0) {{dim = {dim} : si64, start = 0 : si64, length = {half} : si64}} : ({wide}) -> {y}\n'
        f'%g = "oneflow.narrow"(%0) {{dim = {dim} : si64, start = {half} : si64, length = {half} : si64}} :'
        f" ({wide}) -> {y}\n"
        f'%a = "oneflow.{activation}"(%g) : ({y}) -> {y}\n'
        f'%y = "oneflow.{random.choice(["multiply", "broadcast_mul"])}"({factors}) : ({y}, {y}) -> {y}'
    )
    returned = random.choice([f"%y : {y}", f"%y, %0 : {y}, {wide}"])
    return job(f"%x: {x}, %w: {w}, %b: {b}", lines, returned)


MATMUL = "alpha = 1.0 : f64, transpose_a = false, transpose_b = true"


def product(x: str, w: str, wide: str) -> str:
    return f'%p = "oneflow.broadcast_matmul"(%x, %w) {{{MATMUL}}} : ({x}, {w}) -> {wide}\n'


@domain("fuse-glu")
def glu(random: Random) -> str:
    def lines(x: str, w: str, b: str, wide: str, axis: int) -> str:
        return product(x, w, wide) + f'%0 = "oneflow.broadcast_add"(%p, %b) : ({wide}, {b}) -> {wide}\n'

    return gated(random, lines)


@domain("fuse-glu-of-bias-add")
def glu_of_bias_add(random: Random) -> str:
    def lines(x: str, w: str, b: str, wide: str, axis: int) -> str:
        added = f'%0 = "oneflow.bias_add"(%p, %b) {{axis = {axis} : si32}} : ({wide}, {b}) -> {wide}\n'
        return product(x, w, wide) + added

    return gated(random, lines)


@domain("fuse-glu-of-matmul-bias")
def glu_of_matmul_bias(random: Random) -> str:
    def lines(x: str, w: str, b: str, wide: str, axis: int) -> str:
        return f'%0 = "oneflow.fused_matmul_bias"(%x, %w, %b) {{alpha = 1.0 : f64}} : ({x}, {w}, {b}) -> {wide}\n'

    return gated(random, lines)


class Heads:
    """Random sizes of an attention, and the lines that split and join heads."""

    def __init__(self, random: Random) -> None:
        self.batch, self.rows, self.columns, self.heads, self.size, self.width = (
            random.randint(1, 4) for _ in "bmnhkv"
        )

    @property
    def arguments(self) -> str:
        kinds = zip("qkv", (self.rows, self.columns, self.columns), (self.size, self.size, self.width), strict=True)
        return ", ".join(f"%{name}: {t(self.batch, length, self.heads * size)}" for name, length, size in kinds)

    def split(self, name: str, length: int, size: int, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        dims = [self.batch, length, self.heads, size]
        flat, split, turned = (
            t(self.batch, length, self.heads * size),
            t(*dims),
            t(*[dims[dim] for dim in order]),
        )
        return (
            f'%{name}1 = "oneflow.reshape"(%{name}) {{shape = {numbers(dims, "si64")}}} : ({flat}) -> {split}\n'
            f'%{name}2 = "oneflow.transpose"(%{name}1) {{perm = {numbers(order, "si32")}}} : ({split}) -> {turned}\n'
        )

    def joined(self, name: str) -> tuple[str, str]:
        dims = [self.batch, self.heads, self.rows, self.width]
        mixed, turned = t(*dims), t(self.batch, self.rows, self.heads, self.width)
        final = [self.batch, self.rows, self.heads * self.width]
        lines = (
            f'%t = "oneflow.transpose"({name}) {{perm = {numbers((0, 2, 1, 3), "si32")}}} : ({mixed}) -> {turned}\n'
            f'%y = "oneflow.reshape"(%t) {{shape = {numbers(final, "si64")}}} : ({turned}) -> {t(*final)}'
        )
        return lines, f"%y : {t(*final)}"


def multiplied(name: str, a: str, b: str, alpha: float, kinds: tuple[str, str, str]) -> str:
    attributes = f"alpha = {alpha!r} : f64, transpose_a = false, transpose_b = false"
    return f'{name} = "oneflow.batch_matmul"({a}, {b}) {{{attributes}}} : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}\n'


@domain("fuse-attention-inference")
def attention(random: Random) -> str:
    h = Heads(random)
    outer = (h.batch, h.heads)
    q, k, v = t(*outer, h.rows, h.size), t(*outer, h.size, h.columns), t(*outer, h.columns, h.width)
    scores, mixed = t(*outer, h.rows, h.columns), t(*outer, h.rows, h.width)
    opcode, by = random.choice([("div", math.sqrt(h.size)), ("mul", 1 / math.sqrt(h.size))])
    by *= 1 + random.uniform(-1e-6, 1e-6)
    ending, returned = h.joined("%o")
    lines = (
        h.split("q", h.rows, h.size)
        + h.split("k", h.columns, h.size, (0, 2, 3, 1))
        + h.split("v", h.columns, h.width)
        + multiplied("%s", "%q2", "%k2", 1.0, (q, k, scores))
        + f'%c = "oneflow.scalar_{opcode}"(%s) {{float_operand = {by!r} : f64, has_float_operand = true,'
        f" has_int_operand = false, int_operand = 0 : si64}} : ({scores}) -> {scores}\n"
        f'%a = "oneflow.softmax"(%c) : ({scores}) -> {scores}\n'
        + multiplied("%o", "%a", "%v2", 1.0, (scores, v, mixed))
        + ending
    )
    return job(h.arguments, lines, returned)


@domain("fuse-batched-attention-inference")
def batched_attention(random: Random) -> str:
    h = Heads(random)
    outer = h.batch * h.heads

    def flat(name: str, length: int, size: int) -> str:
        dims = (outer, length, size)
        return (
            f'%{name}3 = "oneflow.reshape"(%{name}2) {{shape = {numbers(dims, "si64")}}} :'
            f" ({t(h.batch, h.heads, length, size)}) -> {t(*dims)}\n"
        )

    q, k, v = t(outer, h.rows, h.size), t(outer, h.size, h.columns), t(outer, h.columns, h.width)
    scores, mixed = t(outer, h.rows, h.columns), t(outer, h.rows, h.width)
    heads = (h.batch, h.heads, h.rows, h.width)
    ending, returned = h.joined("%n")
    lines = "".join(
        h.split(name, length, size) + flat(name, length, size)
        for name, length, size in (("q", h.rows, h.size), ("k", h.columns, h.size), ("v", h.columns, h.width))
    )
    lines += (
        f'%k4 = "oneflow.transpose"(%k3) {{perm = [0 : si32, 2 : si32, 1 : si32]}} :'
        f" ({t(outer, h.columns, h.size)}) -> {k}\n"
        + multiplied("%s", "%q3", "%k4", 1 / math.sqrt(h.size), (q, k, scores))
        + f'%a = "oneflow.softmax"(%s) : ({scores}) -> {scores}\n'
        + multiplied("%o", "%a", "%v3", 1.0, (scores, v, mixed))
        + f'%n = "oneflow.reshape"(%o) {{shape = {numbers(heads, "si64")}}} : ({mixed}) -> {t(*heads)}\n'
        + ending
    )
    return job(h.arguments, lines, returned)
