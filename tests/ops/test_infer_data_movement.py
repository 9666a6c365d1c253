"""Ops that move elements: the types that XLA's parser infers, and what StableHLO's verifier takes.

What XLA's parser accepts and we refuse, each on purpose:

    broadcast without a type, of more than a scalar    XLA reads `dimensions` as sizes to put in front, and makes an
                                                       instruction that its own verifier refuses
    set-dimension-size of a buffer b(...)              nothing else works on buffers

What StableHLO accepts and HLO does not:

    broadcast_in_dim that repeats a dimension of size 1

Covers `data_movement.py`, `reshape_rules.py`, `shapes.py`, `conversion.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import DTYPES, TensorType, Type
from hloom.ops import data_movement
from tests.helpers.properties import examples

from .operand_types import COMMON, DIMS, ELEMENTS, SIZES, braces, like, numbers, sometimes
from .oracle import module_text, ours, xla
from .stablehlo import accepted, longs, verified


def assert_same_type(instruction: str, kinds: list[str]) -> None:
    text = module_text(instruction, kinds)
    we, they = ours(text), xla(text)
    assert isinstance(we, Type) == isinstance(they, Type), f"{text}we: {we}\nXLA: {they}"
    assert isinstance(we, str) or we is they, f"{text}we: {we}\nXLA: {they}"


@st.composite
def instructions(draw: st.DrawFn) -> tuple[str, list[str]]:
    """An op of those whose type may be left out, and its operands."""
    dims, element = draw(DIMS), draw(st.sampled_from(COMMON))
    operand_type = draw(like(dims, element))
    axis = draw(st.integers(0, max(len(dims) - 1, 0))) if draw(st.integers(0, 9)) else 4
    name = draw(st.sampled_from(["transpose", "reverse", "concatenate", "pad", "get", "set"]))
    if name == "transpose":
        order = draw(st.permutations(range(len(dims))))
        return f"transpose(p0), dimensions={braces(draw(numbers(list(order))))}", [operand_type]
    if name == "reverse":
        chosen = draw(st.lists(st.integers(0, max(len(dims) - 1, 0)), unique=True, max_size=len(dims)))
        return f"reverse(p0), dimensions={braces(draw(numbers(chosen)))}", [operand_type]
    if name == "concatenate":
        sizes = [[draw(SIZES) if dim == axis else size for dim, size in enumerate(dims)] for _ in range(3)]
        kinds = [draw(like(shape, element)) for shape in sizes][: draw(st.integers(1, 3))]
        return f"concatenate({', '.join(f'p{n}' for n in range(len(kinds)))}), dimensions={{{axis}}}", kinds
    if name == "pad" and dims:
        sides = st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 2))
        padding = ["_".join(map(str, draw(sides))) for _ in (dims[:-1] if draw(sometimes) else dims)] or ["1_1"]
        return f"pad(p0, p1), padding={'x'.join(padding)}", [operand_type, draw(like([], element))]
    if name == "get" and "[" in operand_type[:6] and operand_type[0] not in "(to":
        return f"get-dimension-size(p0), dimensions={{{axis}}}", [operand_type]
    size = draw(st.sampled_from(["s32[]", "s32[]", "s32[]", "s32[1]", "u32[]"]))
    operand_type = operand_type if operand_type[0] not in "(to" else "f32[2]"
    return f"set-dimension-size(p0, p1), dimensions={{{axis}}}", [operand_type, size]


@examples(75)
@given(instructions())
def test_types_left_out(case: tuple[str, list[str]]) -> None:
    assert_same_type(*case)


@pytest.mark.parametrize(
    ("instruction", "kinds"),
    [
        ("get-dimension-size(p0), dimensions={0}", ["s8[3000000000]"]),
        ("set-dimension-size(p0, p1), dimensions={0}", ["s8[3000000000]", "s32[]"]),
        ("get-dimension-size(p0), dimensions={0,1}", ["f32[2,3]"]),
        ("get-dimension-size(p0), dimensions={}", ["f32[2,3]"]),
        ("broadcast(p0)", ["f32[]"]),
        ("broadcast(p0), dimensions={}", ["f32[]"]),
        ("broadcast(p0)", ["f32[?]"]),
        ("broadcast(p0), dimensions={-1}", ["f32[2]"]),
        ("concatenate(), dimensions={0}", []),
        ("concatenate(p0, p1), dimensions={0,1}", ["f32[2,2]", "f32[2,2]"]),
        ("concatenate(p0, p1), dimensions={0}", ["f32[?,3]", "f32[<=3,?]"]),
        ("transpose(p0), dimensions={1,0}", ["f32[<=2,?]"]),
        ("pad(p0, p1), padding=-5_-2", ["f32[?]", "f32[]"]),
        ("pad(p0, p1), padding=1_2", ["bf16[4]", "f32[]"]),
    ],
)
def test_edges(instruction: str, kinds: list[str]) -> None:
    assert_same_type(instruction, kinds)


@pytest.mark.parametrize(
    ("instruction", "kinds", "theirs"),
    [
        ("broadcast(p0), dimensions={1}", ["f32[2]"], "f32[1,2]"),
        ("broadcast(p0), dimensions={}", ["f32[2]"], "f32[2]"),
        ("set-dimension-size(p0, p1), dimensions={0}", ["b(f32[2])", "s32[]"], "b(f32[<=2])"),
    ],
)
def test_deviations(instruction: str, kinds: list[str], theirs: str) -> None:
    text = module_text(instruction, kinds)
    assert isinstance(ours(text), str) and str(xla(text)) == theirs


static = st.builds(lambda name, dims: TensorType(DTYPES[name], dims), st.sampled_from(COMMON), DIMS)


@st.composite
def slices(draw: st.DrawFn) -> tuple[TensorType, list[tuple[int, int, int]], TensorType]:
    operand_type = draw(static)
    parts = []
    for size in operand_type.dims:
        start = draw(st.integers(0, size))
        limit = draw(st.integers(start, size))
        parts.append((start, limit, draw(st.integers(1, 3))))
    made = [-(-(limit - start) // stride) for start, limit, stride in parts]
    if parts and draw(st.booleans()):
        index = draw(st.integers(0, len(parts) - 1))
        parts[index] = tuple(draw(st.lists(st.integers(-1, 5), min_size=3, max_size=3)))
    return operand_type, parts, TensorType(operand_type.dtype, draw(numbers(made)) if all(n >= 0 for n in made) else made)


@examples(40)
@given(slices())
def test_slice(case: tuple[TensorType, list[tuple[int, int, int]], TensorType]) -> None:
    operand_type, parts, result = case
    if any(size < 0 for size in result.dims) or any(min(part) < 0 for part in parts):
        return  # HLO text cannot say it
    attributes = ", ".join(
        f"{name} = {longs([part[n] for part in parts])}"
        for n, name in enumerate(("start_indices", "limit_indices", "strides"))
    )
    text = ", ".join(f"[{start}:{limit}:{stride}]" for start, limit, stride in parts)
    assert accepted(f"slice(p0), slice={{{text}}}", [operand_type], result) == verified("slice", attributes, [operand_type], result)


@examples(40)
@given(st.data())
def test_reshape(data: st.DataObject) -> None:
    operand_type = data.draw(static)
    dims = data.draw(st.one_of(st.permutations(operand_type.dims), DIMS))
    result = TensorType(operand_type.dtype, dims)
    assert accepted("reshape(p0)", [operand_type], result) == verified("reshape", "", [operand_type], result)


@examples(40)
@given(st.data())
def test_iota(data: st.DataObject) -> None:
    result, dim = data.draw(static), data.draw(st.integers(0, 4))
    attributes = f"iota_dimension = {dim} : i64"
    assert accepted(f"iota(), iota_dimension={dim}", [], result) == verified("iota", attributes, [], result)


@examples(50)
@given(st.data())
def test_broadcast(data: st.DataObject) -> None:
    result = data.draw(static)
    places = sorted(data.draw(st.lists(st.integers(0, max(result.rank - 1, 0)), unique=True, max_size=result.rank)))
    sizes = [data.draw(SIZES) if data.draw(sometimes) else result.dims[dim] for dim in places]
    operand_type = TensorType(result.dtype, sizes)
    places = [max(dim, 0) for dim in data.draw(numbers(places))]
    within = len(places) == operand_type.rank and all(dim < result.rank for dim in places)
    if within and any(size == 1 != result.dims[dim] for size, dim in zip(sizes, places, strict=True)):
        return  # StableHLO repeats it
    ours_too = accepted(f"broadcast(p0), dimensions={braces(places)}", [operand_type], result)
    assert ours_too == verified("broadcast_in_dim", f"broadcast_dimensions = {longs(places)}", [operand_type], result)


def test_bitcast_convert_between_all_types() -> None:
    """Three ways in which StableHLO is not asked: it counts a pred as one bit where XLA has eight, s1 and u1 share its
    name there, and between types of the same width it lets a dimension of size 1 come and go.
    """
    names = [name for name in ELEMENTS if name not in ("pred", "s1", "u1")]
    for before in names:
        for after in names:
            few, many = sorted((DTYPES[before].bits, DTYPES[after].bits))
            ratio = [many // few] if many > few else []
            for dims, made in (([2], [2]), ([2], [2, *ratio]), ([2, *ratio], [2])):
                operand_type, result = TensorType(DTYPES[before], dims), TensorType(DTYPES[after], made)
                mine = accepted("bitcast-convert(p0)", [operand_type], result)
                assert mine == verified("bitcast_convert", "", [operand_type], result), f"{operand_type} -> {result}"


@pytest.mark.parametrize("name", ELEMENTS)
def test_convert(name: str) -> None:
    operand_type, result = TensorType(DTYPES["f32"], (2,)), TensorType(DTYPES[name], (2,))
    assert accepted("convert(p0)", [operand_type], result)
    assert not accepted("convert(p0)", [operand_type], TensorType(DTYPES[name], (3,)))


@pytest.mark.parametrize("name", [name for name in ELEMENTS if name not in ("s1", "u1")])
@pytest.mark.parametrize("bits", [(1, 0), (0, 3), (5, -1), (8, 23)])
def test_reduce_precision(name: str, bits: tuple[int, int]) -> None:
    operand_type = TensorType(DTYPES[name], (2, 3))
    text = f"reduce-precision(p0), exponent_bits={bits[0]}, mantissa_bits={bits[1]}"
    attributes = f"exponent_bits = {bits[0]} : i32, mantissa_bits = {bits[1]} : i32"
    assert accepted(text, [operand_type], operand_type) == verified("reduce_precision", attributes, [operand_type], operand_type)


@pytest.mark.parametrize(
    ("text", "kinds", "expected"),
    [
        ("f32[<=6] reshape(p0)", ["f32[2,<=3]"], "f32[<=6]"),
        ("f32[6] reshape(p0)", ["f32[?]"], "f32[6]"),
        ("f32[?] reshape(p0)", ["f32[6]"], "the result must not have unbounded dimensions, but is f32[?]"),
        ("f32[6] reshape(p0)", ["f32[?,<=2]"], "must not mix bounded and unbounded dimensions, but is f32[?,<=2]"),
        ("f32[7] reshape(p0)", ["f32[2,3]"], "f32[2,3] has 6 elements, but f32[7] has 7"),
        ("s32[6] reshape(p0)", ["f32[2,3]"], "the result must be of type f32 like the operand, but is s32[6]"),
        ("reshape(p0)", ["f32[2,3]"], "the type must be written"),
        ("f32[<=2,3] dynamic-reshape(p0, p1, p2)", ["f32[6]", "s32[]", "s32[]"], "f32[<=2,3]"),
        ("f32[<=2,3] dynamic-reshape(p0, p1)", ["f32[6]", "s32[]"], "has 2 dimensions, but 1 sizes are given"),
        ("f32[6] dynamic-reshape(p0, p1)", ["f32[6]", "u32[]"], "size 0 must be s32[], but is u32[]"),
        ("u8[24] bitcast(p0)", ["f32[2,3]"], "u8[24]"),
        ("f64[24] bitcast(p0)", ["f32[2,3]"], "f32[2,3] takes 192 bits, but f64[24] takes 1536"),
        ("bitcast(p0)", ["f32[2,3]"], "the type must be written"),
        ("bf16[2] stochastic-convert(p0, p1)", ["f32[2]", "u32[2]"], "bf16[2]"),
        ("bf16[2] stochastic-convert(p0, p1)", ["f32[2]", "u16[2]"], "must be u32, as wide as f32[2], but are u16[2]"),
        ("bf16[2] stochastic-convert(p0, p1)", ["f32[2]", "u32[3]"], "must have the dimensions of f32[2]"),
        ("f32[3] bitcast-convert(p0)", ["u8[3,5]"], "its last dimension must be 4, for 4 u8 make one f32"),
        ("c64[3] bitcast-convert(p0)", ["f64[3]"], "f64[3] cannot become c64: only one of them is complex"),
        ("s32[4] slice(p0), slice={[2:6]}", ["s32[4]"], "[2:6] is not part of a dimension of size 4"),
        ("s32[3,2] slice(p0), slice={[0:3], [0:2]}", ["s32[<=4,?]"], "s32[<=3,2]"),
        ("pred[2] iota(), iota_dimension=0", [], "must be of signed or unsigned or float or complex type"),
        (
            "transpose(p0), dimensions={0,2}",
            ["f32[2,3]"],
            "dimensions={0,2} must be a permutation of the dimensions of",
        ),
        ("reverse(p0), dimensions={1,1}", ["f32[2,3]"], "dimensions={1,1} names a dimension twice"),
        ("concatenate(p0, p1), dimensions={0}", ["f32[2,3]", "f32[2,4]"], "only the joined dimension may differ"),
        (
            "pad(p0, p1), padding=-3_0",
            ["f32[2]", "f32[]"],
            "padding -3_0 takes more than dimension 0 has: its size is 2",
        ),
        ("pad(p0, p1), padding=1_0", ["f32[2]", "f32[1]"], "the padding value must be a scalar, but is f32[1]"),
    ],
)
def test_said_by_the_text(text: str, kinds: list[str], expected: str) -> None:
    assert expected in str(ours(module_text(text, kinds)))


def test_every_row_has_its_rules() -> None:
    assert all(op.infer and (op.axes or "axes" in op.because) for op in data_movement.ROWS.values())
