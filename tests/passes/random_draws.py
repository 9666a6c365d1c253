"""What draws one op, or a few that belong together, into a random module: one function per subject."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import (
    ConvolutionDimensions,
    Graph,
    Node,
    PaddingDimension,
    SliceDimension,
    TensorType,
    TupleType,
    TypeProblem,
    Window,
    WindowDimension,
    dtype,
)
from hloom.ir.number_conversion import integer_range
from tests.passes.random_graph import DIRECTIONS, Drawing, draws, tensor
from tests.passes.random_graph import number_for as number_for

S32, U32, F32, PRED = dtype("s32"), dtype("u32"), dtype("f32"), dtype("pred")
_FLOAT_UNARY = (
    "negate", "abs", "sign", "floor", "ceil", "round-nearest-even", "round-nearest-afz", "sqrt", "rsqrt", "cbrt",
    "exponential", "log", "exponential-minus-one", "log-plus-one", "tanh", "logistic", "sine", "cosine", "copy",
)  # fmt: skip
_BINARY = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "power")
_BITS = ("and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic")
_PAIRS = (
    ("exponential", "log"), ("log", "exponential"), ("negate", "negate"), ("abs", "abs"), ("sign", "sign"),
    ("abs", "negate"), ("negate", "abs"), ("sqrt", "rsqrt"), ("floor", "ceil"), ("not", "not"),
)  # fmt: skip


@draws("unary", 8)
def unary(drawing: Drawing) -> Node:
    node = drawing.any()
    array_text = tensor(node).dtype
    if array_text is PRED:
        return drawing.op("not", node)
    if array_text.is_integer:
        names = ("negate", "abs", "sign", "not", "popcnt", "count-leading-zeros", "copy")
        return drawing.op(drawing.random.choice(names[3:] if array_text.name[0] == "u" else names), node)
    if array_text.is_complex:
        return drawing.op(drawing.random.choice(("negate", "abs", "real", "imag", "exponential", "copy")), node)
    return drawing.op(drawing.random.choice(_FLOAT_UNARY), node)


@draws("pair", 3)
def pair(drawing: Drawing) -> Node:
    node = drawing.any()
    for name in drawing.random.choice(_PAIRS):
        node = drawing.op(name, node)
    return node


@draws("binary", 18)
def binary(drawing: Drawing) -> Node:
    random = drawing.random
    left = drawing.any()
    array_text = tensor(left)
    chance = random.random()
    right = left if chance < 0.15 else drawing.constant(array_text) if chance < 0.45 else drawing.of(array_text)
    if random.random() < 0.3:
        left, right = right, left
    names: Sequence[str] = _BINARY
    if array_text.dtype is PRED:
        names = ("and", "or", "xor", "maximum", "minimum", "add", "multiply")
    elif array_text.dtype.is_integer:
        names = (*_BINARY, *_BITS)
    elif array_text.dtype.is_complex:
        names = ("add", "subtract", "multiply", "divide")
    else:
        names = (*_BINARY, *_BINARY[:4], *_BINARY[:4], "atan2")
    return drawing.op(random.choice(names), left, right)


@draws("chain", 4)
def chain(drawing: Drawing) -> Node:
    """The same op twice, a constant in each: what constants are put together for."""
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.dtype is not PRED and not array_text.dtype.is_complex)
    array_text = tensor(node)
    names = random.choice((("add", "subtract"), ("multiply", "divide"), ("maximum", "minimum"), ("remainder", "add")))
    if array_text.dtype.is_integer and random.random() < 0.4:
        names = random.choice(
            (("and", "or", "xor"), ("shift-left", "shift-right-logical"), ("shift-right-arithmetic",))
        )
    for _ in range(random.randint(2, 3)):
        constant = drawing.constant(array_text)
        operands = (node, constant) if random.random() < 0.6 else (constant, node)
        node = drawing.op(random.choice(names), *operands)
    return node


@draws("distributed", 2)
def distributed(drawing: Drawing) -> Node:
    """a * b + a * c, and the like."""
    random = drawing.random
    a = drawing.any(lambda array_text: array_text.dtype is not PRED)
    b, c = drawing.of(tensor(a)), drawing.of(tensor(a))
    inner, outer = random.choice(
        (("multiply", "add"), ("multiply", "subtract"), ("divide", "add"), ("add", "subtract"))
    )
    left = drawing.op(inner, a, b) if random.random() < 0.5 else drawing.op(inner, b, a)
    right = drawing.op(inner, a, c) if random.random() < 0.5 else drawing.op(inner, c, a)
    return drawing.op(outer, left, right)


@draws("compare", 6)
def compare(drawing: Drawing) -> Node:
    random = drawing.random
    left = drawing.any(lambda array_text: not array_text.dtype.is_complex)
    array_text = tensor(left)
    right = random.choice((left, drawing.constant(array_text), drawing.of(array_text)))
    if random.random() < 0.3:
        left, right = right, left
    return drawing.op("compare", left, right, direction=random.choice(DIRECTIONS))


@draws("select", 6)
def select(drawing: Drawing) -> Node:
    random = drawing.random
    on_true = drawing.any()
    array_text = tensor(on_true)
    on_false = on_true if random.random() < 0.1 else drawing.of(array_text)
    dims = () if random.random() < 0.15 and array_text.dtype is not PRED else array_text.dims
    predicate = drawing.of(TensorType(PRED, dims))
    if random.random() < 0.15:
        predicate = drawing.op("not", predicate)
    return drawing.op("select", predicate, on_true, on_false)


@draws("clamp", 3)
def clamp(drawing: Drawing) -> Node:
    node = drawing.any(lambda array_text: array_text.dtype is not PRED and not array_text.dtype.is_complex)
    array_type = tensor(node)
    if drawing.random.random() < 0.5:
        array_type = TensorType(array_type.dtype)
    low = drawing.constant(array_type) if drawing.random.random() < 0.7 else drawing.of(array_type)
    high = drawing.constant(array_type) if drawing.random.random() < 0.7 else drawing.of(array_type)
    return drawing.op("clamp", low, node, high)


@draws("convert", 6)
def convert(drawing: Drawing) -> Node:
    """A conversion, or one there and back."""
    random = drawing.random
    node = drawing.any(lambda array_text: not array_text.dtype.is_complex)
    own = tensor(node).dtype
    others = ["f32", "s32", "f64", "s8", "u8", "bf16", "f16", "pred", "s64", "u32", "s16"]
    for _ in range(random.randint(1, 3)):
        element = own if random.random() < 0.3 else dtype(random.choice(others))
        node = drawing.op("convert", node, type=tensor(node).with_dtype(element))
    return node


@draws("bits", 2)
def bits(drawing: Drawing) -> Node:
    node = drawing.any(lambda array_text: array_text.dtype.name in ("s32", "u32", "s8", "u8"))
    array_text = tensor(node)
    names = ("s32", "u32") if array_text.dtype.bits == 32 else ("s8", "u8")
    node = drawing.op("bitcast-convert", node, type=array_text.with_dtype(dtype(drawing.random.choice(names))))
    return drawing.op("bitcast-convert", node, type=array_text) if drawing.random.random() < 0.5 else node


@draws("complex", 1)
def complex_parts(drawing: Drawing) -> Node:
    node = drawing.any(lambda array_text: array_text.dtype is F32)
    made = drawing.op("complex", node, drawing.of(tensor(node)))
    return drawing.op(drawing.random.choice(("real", "imag", "negate")), made)


@draws("precision", 1)
def precision(drawing: Drawing) -> Node:
    node = drawing.any(lambda array_text: array_text.dtype.name in ("f32", "bf16", "f16"))
    sizes = drawing.random.choice(((8, 23), (5, 10), (8, 7), (11, 52), (3, 2)))
    return drawing.op("reduce-precision", node, exponent_bits=sizes[0], mantissa_bits=sizes[1])


@draws("finite", 1)
def finite(drawing: Drawing) -> Node:
    return drawing.op("is-finite", drawing.any(lambda array_text: array_text.dtype.is_float))


@draws("reshape", 7)
def reshape(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any()
    array_text = tensor(node)
    dims = list(array_text.dims)
    for _ in range(random.randint(1, 2)):
        chance = random.random()
        if chance < 0.35:
            dims.insert(random.randint(0, len(dims)), 1)
        elif chance < 0.6 and 1 in dims:
            dims.remove(1)
        elif chance < 0.8 and len(dims) > 1:
            dim = random.randrange(len(dims) - 1)
            dims[dim : dim + 2] = [dims[dim] * dims[dim + 1]]
        elif dims:
            dim = random.randrange(len(dims))
            if dims[dim] in (4, 6, 8):
                dims[dim : dim + 1] = random.choice(([2, dims[dim] // 2], [dims[dim] // 2, 2]))
    if random.random() < 0.2:
        random.shuffle(dims)
    if len(dims) > 5:
        raise TypeProblem("enough dimensions")
    return drawing.op("reshape", node, type=TensorType(array_text.dtype, dims))


@draws("transpose", 6)
def transpose(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 1)
    order = list(range(tensor(node).rank))
    random.shuffle(order)
    node = drawing.op("transpose", node, dimensions=tuple(order))
    if random.random() < 0.3:
        back = [order.index(index) for index in range(len(order))]
        node = drawing.op("transpose", node, dimensions=tuple(back))
    return node


@draws("broadcast", 7)
def broadcast(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank < 4)
    array_text = tensor(node)
    positions = sorted(random.sample(range(array_text.rank + random.randint(0, 2)) or [], array_text.rank))
    rank = max([*positions, -1]) + 1 + random.randint(0, 1)
    if random.random() < 0.15:
        random.shuffle(positions)
    dims = [random.choice((1, 2, 3, 1)) for _ in range(rank)]
    for index, size in zip(positions, array_text.dims, strict=True):
        dims[index] = size
    return drawing.op("broadcast", node, type=TensorType(array_text.dtype, dims), dimensions=tuple(positions))


@draws("slice", 7)
def slice_(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 0)
    parts = []
    for size in tensor(node).dims:
        start = random.randint(0, size) if random.random() < 0.4 else 0
        limit = random.randint(start, size) if random.random() < 0.5 else size
        parts.append(SliceDimension(start, limit, random.choice((1, 1, 1, 2, 3))))
    return drawing.op("slice", node, slice=tuple(parts))


@draws("pad", 5)
def pad(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 0)
    array_text = tensor(node)
    choices = (0, 0, 0, 1, 2, -1)
    parts = [
        PaddingDimension(random.choice(choices), random.choice(choices), random.choice((0, 0, 0, 1)))
        for _ in array_text.dims
    ]
    value = (
        drawing.of(TensorType(array_text.dtype))
        if random.random() < 0.3
        else drawing.constant(TensorType(array_text.dtype))
    )
    return drawing.op("pad", node, value, padding=tuple(parts))


@draws("concatenate", 6)
def concatenate(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 0)
    array_text = tensor(node)
    dim = random.randrange(array_text.rank)
    if random.random() < 0.3:
        at = random.randint(0, array_text.dims[dim])
        parts = []
        for start, limit in ((0, at), (at, array_text.dims[dim])):
            whole = [SliceDimension(0, size) for size in array_text.dims]
            whole[dim] = SliceDimension(start, limit)
            parts.append(drawing.op("slice", node, slice=tuple(whole)))
        return drawing.op("concatenate", *parts, dimensions=(dim,))
    fits = [
        value for value in drawing.values
        if tensor(value).dtype is array_text.dtype and tensor(value).rank == array_text.rank
        and all(a == b for i, (a, b) in enumerate(zip(tensor(value).dims, array_text.dims, strict=True)) if i != dim)
    ]  # fmt: skip
    parts = [random.choice([*fits, node, drawing.of(array_text)]) for _ in range(random.randint(1, 3))]
    return drawing.op("concatenate", *parts, dimensions=(dim,))


@draws("reverse", 3)
def reverse(drawing: Drawing) -> Node:
    node = drawing.any(lambda array_text: array_text.rank > 0)
    rank = tensor(node).rank
    chosen = drawing.random.sample(range(rank), drawing.random.randint(1, rank))
    return drawing.op("reverse", node, dimensions=tuple(chosen))


@draws("iota", 2)
def iota(drawing: Drawing) -> Node:
    array_text = drawing.random_type()
    if not array_text.rank or array_text.dtype is PRED:
        raise TypeProblem("no iota")
    return drawing.op("iota", type=array_text, iota_dimension=drawing.random.randrange(array_text.rank))


def index(drawing: Drawing, element=S32) -> Node:
    chance = drawing.random.random()
    if chance < 0.5:
        return drawing.scalar(
            drawing.random.choice((0, 0, 1, 2, 3, 5)) - (element is S32 and chance < 0.1) * 2, element
        )
    return drawing.of(TensorType(element))


@draws("dynamic-slice", 5)
def dynamic_slice(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 0)
    sizes = tuple(size if random.random() < 0.5 else random.randint(0, size) for size in tensor(node).dims)
    element = random.choice((S32, S32, U32))
    starts = [index(drawing, element) for _ in sizes]
    return drawing.op("dynamic-slice", node, *starts, dynamic_slice_sizes=sizes)


@draws("dynamic-update-slice", 5)
def dynamic_update_slice(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 0)
    array_text = tensor(node)
    sizes = tuple(size if random.random() < 0.5 else random.randint(0, size) for size in array_text.dims)
    starts = [index(drawing) for _ in sizes]
    update = drawing.of(TensorType(array_text.dtype, sizes))
    if random.random() < 0.2:
        update = drawing.op("dynamic-slice", node, *starts, dynamic_slice_sizes=sizes)
    return drawing.op("dynamic-update-slice", node, update, *starts)


@draws("gather", 3)
def gather(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: 0 < array_text.rank < 4)
    array_text = tensor(node)
    count = random.randint(1, array_text.rank)
    mapped = tuple(random.sample(range(array_text.rank), count))
    batch = tuple(random.choice((1, 2, 3)) for _ in range(random.randint(0, 2)))
    sizes = [
        random.randint(0 if size == 0 else 1, size) if index in mapped else size
        for index, size in enumerate(array_text.dims)
    ]
    collapsed = tuple(
        index for index in range(array_text.rank) if sizes[index] == 1 and index in mapped and random.random() < 0.7
    )
    offsets = array_text.rank - len(collapsed)
    offset_dims = tuple(sorted(random.sample(range(len(batch) + offsets), offsets)))
    vector = random.randint(0, len(batch))
    dims = (*batch[:vector], count, *batch[vector:])
    if count == 1 and random.random() < 0.5:
        vector, dims = len(batch), batch
    indices = drawing.of(TensorType(S32, dims))
    return drawing.op(
        "gather", node, indices, offset_dims=offset_dims, collapsed_slice_dims=collapsed, start_index_map=mapped,
        index_vector_dim=vector, slice_sizes=tuple(sizes),
    )  # fmt: skip


@draws("scatter", 3)
def scatter(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: 0 < array_text.rank < 3 and not array_text.dtype.is_complex)
    array_text = tensor(node)
    count = random.randint(1, array_text.rank)
    mapped = tuple(random.sample(range(array_text.rank), count))
    batch = tuple(random.choice((1, 2, 3)) for _ in range(random.randint(0, 1)))
    sizes = [
        random.randint(0 if size == 0 else 1, size) if index in mapped else size
        for index, size in enumerate(array_text.dims)
    ]
    inserted = tuple(index for index in mapped if sizes[index] == 1 and random.random() < 0.6)
    windows = [size for index, size in enumerate(sizes) if index not in inserted]
    rank = len(batch) + len(windows)
    window_dims = tuple(sorted(random.sample(range(rank), len(windows))))
    rest, kept = list(batch), list(windows)
    dims = [kept.pop(0) if index in window_dims else rest.pop(0) for index in range(rank)]
    indices = drawing.of(TensorType(S32, (*batch, count)))
    update = drawing.of(TensorType(array_text.dtype, dims))
    reducer = reducer_of(drawing, random.choice(("add", "maximum", "second", "minimum", "multiply")), array_text)
    return drawing.op(
        "scatter", node, indices, update, update_window_dims=window_dims, inserted_window_dims=tuple(sorted(inserted)),
        scatter_dims_to_operand_dims=mapped, index_vector_dim=len(batch), to_apply=reducer,
    )  # fmt: skip


def reducer_of(drawing: Drawing, name: str, array_type: TensorType) -> Graph:
    """A computation of two scalars: an op of this name, or the second of them."""
    if array_type.dtype is PRED and name in ("add", "multiply"):
        name = {"add": "or", "multiply": "and"}[name]
    scalar = TensorType(array_type.dtype)
    inner = drawing.graph_of(f"{name}_of", [scalar, scalar])
    left, right = inner.graph.parameters
    inner.graph.set_output(right if name == "second" else inner.op(name, left, right))
    return inner.graph


def start_of(drawing: Drawing, name: str, array_type: TensorType) -> Node:
    """What a reduction starts with: what changes nothing, as HLO wants it, or where rules must be strict, anything."""
    element = array_type.dtype
    if not drawing.tame and drawing.random.random() < 0.3:
        return drawing.of(TensorType(element))
    least, greatest = (False, True) if element is PRED else (-math.inf, math.inf)
    ones: int | bool = True
    if element.is_integer and element is not PRED:
        least, greatest = integer_range(element)
        ones = -1 if least else greatest
    starts = {"maximum": least, "minimum": greatest, "add": 0, "multiply": 1, "or": 0, "xor": 0, "and": ones}
    return drawing.scalar(starts[name], element)


def reducer_name(drawing: Drawing, array_type: TensorType) -> str:
    names = ("and", "or") if array_type.dtype is PRED else ("add", "add", "maximum", "minimum", "multiply")
    if array_type.dtype.is_integer:
        names = (*names, "and", "or", "xor") if array_type.dtype is not PRED else names
    return drawing.random.choice(("add",) if array_type.dtype.is_complex else names)


@draws("reduce", 7)
def reduce(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 0)
    array_text = tensor(node)
    name = reducer_name(drawing, array_text)
    for _ in range(random.choice((1, 1, 2))):
        rank = tensor(node).rank
        if not rank:
            break
        dims = tuple(sorted(random.sample(range(rank), random.randint(0 if random.random() < 0.1 else 1, rank))))
        start = start_of(drawing, name, array_text)
        node = drawing.op("reduce", node, start, dimensions=dims, to_apply=reducer_of(drawing, name, array_text))
    return node


@draws("variadic", 1.5)
def variadic(drawing: Drawing) -> Node:
    """The greatest and where it is, or two reductions at once."""
    random = drawing.random
    node = drawing.any(
        lambda array_text: array_text.rank > 0 and array_text.dtype is not PRED and not array_text.dtype.is_complex
    )
    array_text = tensor(node)
    dim = random.randrange(array_text.rank)
    if random.random() < 0.5:
        other = drawing.of(TensorType(S32, array_text.dims))
        inner = drawing.graph_of("both", [TensorType(item) for item in (array_text.dtype, S32, array_text.dtype, S32)])
        a, b, c, d = inner.graph.parameters
        name, least = random.choice(("add", "maximum")), random.choice((True, False))
        made = [inner.op(name, a, c), inner.op("minimum" if least else "add", b, d)]
        second = start_of(drawing, "minimum" if least else "add", TensorType(S32))
    else:
        other = drawing.op("iota", type=TensorType(S32, array_text.dims), iota_dimension=dim)
        inner = drawing.graph_of(
            "greatest", [TensorType(item) for item in (array_text.dtype, S32, array_text.dtype, S32)]
        )
        a, b, c, d = inner.graph.parameters
        first = inner.op("compare", a, c, direction="GT")
        prefers_first = inner.op(
            "and", inner.op("compare", a, c, direction="EQ"), inner.op("compare", b, d, direction="LT")
        )
        name, second = "maximum", start_of(drawing, "minimum", TensorType(S32))
        made = [inner.op("select", first, a, c), inner.op("select", inner.op("or", first, prefers_first), b, d)]
    inner.graph.set_output(inner.op("tuple", *made))
    starts = [start_of(drawing, name, array_text), second]
    result = drawing.op("reduce", node, other, *starts, dimensions=(dim,), to_apply=inner.graph)
    for number in random.sample((0, 1), random.randint(1, 2)):
        drawing.op("get-tuple-element", result, index=number)
    return result


def window_of(drawing: Drawing, dims: Sequence[int]) -> Window:
    random = drawing.random
    return Window(
        tuple(
            WindowDimension(
                random.choice((1, 1, 2, 3, max(size, 1))), random.choice((1, 1, 1, 2)), random.choice((0, 0, 1, 2)),
                random.choice((0, 0, 1)), random.choice((1, 1, 1, 2)), random.choice((1, 1, 1, 2)),
            )
            for size in dims
        )
    )  # fmt: skip


@draws("reduce-window", 3)
def reduce_window(drawing: Drawing) -> Node:
    node = drawing.any(lambda array_text: 0 < array_text.rank < 4)
    array_text = tensor(node)
    name = reducer_name(drawing, array_text)
    start = start_of(drawing, name, array_text)
    window = window_of(drawing, array_text.dims)
    return drawing.op("reduce-window", node, start, window=window, to_apply=reducer_of(drawing, name, array_text))


@draws("dot", 4)
def dot(drawing: Drawing) -> Node:
    random = drawing.random
    left = drawing.any(lambda array_text: 0 < array_text.rank < 4 and array_text.dtype is not PRED)
    array_text = tensor(left)
    batch = random.sample(range(array_text.rank), random.choice((0, 0, min(1, array_text.rank - 1))))
    free = [index for index in range(array_text.rank) if index not in batch]
    contracted = random.sample(free, min(len(free), random.choice((0, 1, 1, 1, 2))))
    positions = [("b", array_text.dims[index]) for index in batch] + [
        ("k", array_text.dims[index]) for index in contracted
    ]
    numbers = list(range(len(positions)))
    others = [random.choice((1, 2, 3)) for _ in range(random.randint(0, 1 if len(positions) > 1 else 2))]
    order = [*numbers, *(-1 - index for index in range(len(others)))]
    random.shuffle(order)
    dims = [others[-1 - dim] if dim < 0 else positions[dim][1] for dim in order]
    right = drawing.of(TensorType(array_text.dtype, dims))
    where = [order.index(number) for number in numbers]
    attributes = {
        "lhs_batch_dims": tuple(batch), "lhs_contracting_dims": tuple(contracted),
        "rhs_batch_dims": tuple(where[: len(batch)]), "rhs_contracting_dims": tuple(where[len(batch) :]),
    }  # fmt: skip
    return drawing.op("dot", left, right, attributes={name: value for name, value in attributes.items() if value})


@draws("convolution", 1.5)
def convolution(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(
        lambda array_text: 2 < array_text.rank < 5 and array_text.dtype is not PRED and not array_text.dtype.is_complex
    )
    array_text = tensor(node)
    digits = "0123"[: array_text.rank - 2]

    def shuffled(letters: str) -> str:
        return "".join(random.sample(letters, len(letters)))

    left, right, output = shuffled("bf" + digits), shuffled("io" + digits), shuffled("bf" + digits)
    window = window_of(drawing, [random.choice((1, 2)) for _ in digits])
    sizes = {"i": array_text.dims[left.index("f")], "o": random.choice((1, 2, 3))}
    sizes |= {digit: dimension.size for digit, dimension in zip(digits, window.dimensions, strict=True)}
    groups = {}
    if random.random() < 0.3 and sizes["i"]:
        groups = {"feature_group_count": sizes["i"]}
        sizes["o"] = sizes["i"] * random.choice((1, 2))
        sizes["i"] = 1
    kernel = drawing.of(TensorType(array_text.dtype, [sizes[letter] for letter in right]))
    labels = ConvolutionDimensions(left, right, output)
    return drawing.op("convolution", node, kernel, attributes={"window": window, "dim_labels": labels, **groups})


@draws("sort", 2)
def sort(drawing: Drawing) -> Node:
    random = drawing.random
    node = drawing.any(lambda array_text: array_text.rank > 0 and array_text.dtype.is_integer)
    array_text = tensor(node)
    operands = [node] + ([drawing.of(TensorType(S32, array_text.dims))] if random.random() < 0.5 else [])
    inner = drawing.graph_of("less", [TensorType(tensor(operand).dtype) for operand in operands for _ in range(2)])
    left, right = inner.graph.parameters[:2]
    inner.graph.set_output(inner.op("compare", left, right, direction=random.choice(("LT", "GT"))))
    dim = random.randrange(array_text.rank)
    result = drawing.op("sort", *operands, dimensions=(dim,), is_stable=True, to_apply=inner.graph)
    if len(operands) > 1:
        drawing.op("get-tuple-element", result, index=random.randrange(2))
    return result


@draws("tuple", 3)
def tuple_(drawing: Drawing) -> Node:
    random = drawing.random
    parts = [drawing.any() for _ in range(random.randint(1, 3))]
    whole = drawing.op("tuple", *parts)
    if random.random() < 0.4:
        whole = drawing.op("opt-barrier", whole)
    if random.random() < 0.3:
        whole = drawing.op("tuple", whole, drawing.any())
        whole = drawing.op("get-tuple-element", whole, index=0)
    for _ in range(random.randint(1, 2)):
        drawing.op("get-tuple-element", whole, index=random.randrange(len(parts)))
    return whole


@draws("call", 2)
def call(drawing: Drawing) -> Node:
    if drawing.depth > 1:
        raise TypeProblem("deep enough")
    operands = [drawing.any() for _ in range(drawing.random.randint(1, 2))]
    inner = drawing.graph_of("called", [tensor(operand) for operand in operands])
    inner.draw(drawing.random.randint(1, 5))
    inner.graph.set_output(inner.values[-1])
    return drawing.op("call", *operands, to_apply=inner.graph)


@draws("conditional", 2)
def conditional(drawing: Drawing) -> Node:
    random = drawing.random
    if drawing.depth > 1:
        raise TypeProblem("deep enough")
    outputs = [tensor(drawing.any()) for _ in range(random.randint(1, 3))]
    count = random.randint(1, 3)
    is_pred = random.random() < 0.5
    branches, operands = [], []
    for _ in range(2 if is_pred else count):
        given = [drawing.any() for _ in range(random.randint(1, 3))]
        whole = drawing.op("tuple", *given)
        operands.append(whole)
        inner = drawing.graph_of("branch", [TupleType([tensor(item) for item in given])])
        for dim in range(len(given)):
            if random.random() < 0.8:
                inner.op("get-tuple-element", inner.graph.parameters[0], index=dim)
        if inner.values:
            inner.draw(random.randint(0, 4))
        inner.graph.set_output(inner.op("tuple", *[inner.yields(array_text) for array_text in outputs]))
        branches.append(inner.graph)
    if is_pred:
        which = drawing.of(TensorType(PRED))
        named = {"true_computation": branches[0], "false_computation": branches[1]}
    else:
        which = index(drawing)
        named = {"branch_computations": tuple(branches)}
    result = drawing.op("conditional", which, *operands, attributes=named)
    for dim in range(len(outputs)):
        if random.random() < 0.7:
            drawing.op("get-tuple-element", result, index=dim)
    return result


@draws("while", 2)
def while_(drawing: Drawing) -> Node:
    """A counted loop of a few rounds; elements of its state may be passed on, dead, repeated or computed."""
    random = drawing.random
    if drawing.depth > 1:
        raise TypeProblem("deep enough")
    begin, step = random.choice((0, 0, 0, 1, -2)), random.choice((1, 1, 2))
    limit = begin + random.choice((0, 1, 1, 2, 3)) * step - random.choice((0, 0, step - 1))
    scalar = TensorType(S32)
    given = [drawing.any() for _ in range(random.randint(1, 4))]
    if random.random() < 0.3:
        given.append(given[0])
    start = drawing.scalar(begin, S32)
    if random.random() < 0.1:
        start = drawing.op("clamp", start, drawing.of(scalar), drawing.scalar(begin + 3, S32))
    types = [scalar, *(tensor(item) for item in given)]
    state = TupleType(types)
    condition = drawing.graph_of("condition", [state])
    counter = condition.op("get-tuple-element", condition.graph.parameters[0], index=0)
    known = condition.scalar(limit, S32)
    condition.graph.set_output(condition.op("compare", counter, known, direction="LT"))
    body = drawing.graph_of("body", [state])
    elements = [body.op("get-tuple-element", body.graph.parameters[0], index=index) for index in range(len(types))]
    body.draw(random.randint(1, 6))
    advanced = body.op("add", elements[0], body.scalar(step, S32))
    results = [
        elements[index] if random.random() < 0.35 else body.yields(array_text)
        for index, array_text in enumerate(types)
        if index
    ]
    body.graph.set_output(body.op("tuple", advanced, *results))
    initial = drawing.op("tuple", start, *given)
    result = drawing.op("while", initial, condition=condition.graph, body=body.graph)
    for index in range(len(types)):
        if random.random() < 0.6:
            drawing.op("get-tuple-element", result, index=index)
    return result
