"""Groups are of consecutive elements of what a product sums up, however the weight's dimensions are written.

Against numpy on the weight as a matrix [summed, free], its rows in the order of the activation's dimensions.
"""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloom
from hloom.text import HloomError
from tests.compress.quantization.programs import normal

ROWS = {"e4m3": (448, ml_dtypes.float8_e4m3fn), "e5m2": (57344, ml_dtypes.float8_e5m2)}


def asymmetric(group: np.ndarray, bits: int) -> np.ndarray:
    low, high = min(group.min(), 0), max(group.max(), 0)
    scale = np.float32((high - low) / (2**bits - 1)) or np.float32(1)
    least, greatest = -(1 << bits - 1), (1 << bits - 1) - 1
    zero = np.clip(np.rint(least - low / scale), least, greatest)
    return (np.clip(np.rint(group / scale + zero), least, greatest) - zero) * scale


def block_scaled(group: np.ndarray, dtype: type, exponent: int, largest: float) -> np.ndarray:
    greatest = np.abs(group).max()
    scale = 2.0 ** (np.floor(np.log2(greatest)) - exponent) if greatest else 1.0
    return np.clip(group / scale, -largest, largest).astype(dtype).astype(np.float64) * scale


def narrow(group: np.ndarray, name: str) -> np.ndarray:
    largest, dtype = ROWS[name]
    scale = np.float32(np.abs(group).max() / largest) or np.float32(1)
    return np.clip(group / scale, -largest, largest).astype(dtype).astype(np.float64) * scale


FORMATS = {
    "int8": (lambda group: asymmetric(group, 8), {"symmetric": False}),
    "int4": (lambda group: asymmetric(group, 4), {"symmetric": False}),
    "e4m3": (lambda group: narrow(group, "e4m3"), {}),
    "e5m2": (lambda group: narrow(group, "e5m2"), {}),
    "mxfp8": (lambda group: block_scaled(group, ml_dtypes.float8_e4m3fn, 8, 448), {}),
    "mxfp4": (lambda group: block_scaled(group, ml_dtypes.float4_e2m1fn, 2, 6), {}),
}


def reference(matrix: np.ndarray, name: str, size: int) -> np.ndarray:
    """A matrix [summed, free] of which so many elements of a column share a scale."""
    round_group, _ = FORMATS[name]
    result = np.zeros(matrix.shape)
    for start in range(0, len(matrix), size):
        for column in range(matrix.shape[1]):
            group = matrix[start : start + size, column].astype(np.float64)
            result[start : start + size, column] = round_group(group)
    return result.astype(np.float32)


def is_box(positions: np.ndarray, dims: tuple[int, ...]) -> bool:
    """Whether elements of an array are all those of some range of every dimension."""
    ranges = [np.unique(index) for index in np.unravel_index(positions, dims)]
    return prod(map(len, ranges)) == len(positions) and all(np.ptp(index) + 1 == len(index) for index in ranges)


def groups_are_boxes(flat: np.ndarray, dims: tuple[int, ...], size: int) -> bool:
    """Whether groups are boxes; `flat` are the positions in the weight, [summed, free]."""
    return all(is_box(flat[start : start + size, 0], dims) for start in range(0, len(flat), size))


def shape(sizes: tuple[int, ...]) -> str:
    return f"f32[{','.join(map(str, sizes))}]"


def check(text: str, name: str, size: int | None, arrays: list[np.ndarray], flat: np.ndarray) -> bool:
    """Whether a weight w is quantised, by the definition; else its groups are not boxes."""
    module, weight = hloom.parse(text), arrays[1]
    count = len(flat)
    group = 32 if name.startswith("mx") else size or count
    options = FORMATS[name][1]
    asked = name if size is None or name.startswith("mx") else f"{name}:{size}"
    if not groups_are_boxes(flat, weight.shape, min(group, count)):
        with pytest.raises(HloomError, match="w cannot be quantised: "):
            hloom.quantize(module, asked, only=["w"], **options)
        return False
    made = hloom.quantize(module, asked, only=["w"], **options)
    expected = reference(weight.reshape(-1)[flat], name, group)
    held = made.dequantized(arrays)[1]
    np.testing.assert_allclose(held.reshape(-1)[flat], expected, rtol=1e-5, atol=1e-6)
    assert prod(made.weights[0].companion_types["scale"].dims) == flat.shape[1] * -(-count // group)
    result = hloom.run(made.module, made.convert(arrays)).outputs[0]
    np.testing.assert_allclose(result, hloom.run(module, [arrays[0], held]).outputs[0], rtol=1e-5, atol=1e-5)
    return True


@st.composite
def dots(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A dot of x[2, ...] and a weight; the summed dimensions, what order the weight has them in (last: free)."""
    summed = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=3)))
    order = tuple(draw(st.permutations(range(len(summed) + 1))))
    dims = tuple((*summed, 3)[dim] for dim in order)
    inner = tuple(draw(st.permutations(range(len(order))))) if draw(st.booleans()) else tuple(range(len(order)))
    moved = tuple(dims[dim] for dim in inner)
    where = [inner.index(order.index(dim)) for dim in range(len(summed))]
    pairs = draw(st.permutations(list(zip(range(1, len(summed) + 1), where, strict=True))))
    text = f"""ENTRY e {{
      x = {shape((2, *summed))} parameter(0)
      w = {shape(dims)} parameter(1)
      t = {shape(moved)} transpose(w), dimensions={{{",".join(map(str, inner))}}}
      ROOT y = f32[2,3] dot(x, t), lhs_contracting_dims={{{",".join(str(a) for a, _ in pairs)}}}, rhs_contracting_dims={{{",".join(str(b) for _, b in pairs)}}}
    }}"""
    return text, summed, order, dims


@settings(max_examples=25, deadline=None)
@given(dot=dots(), name=st.sampled_from([*FORMATS]), size=st.sampled_from([None, 2, 3, 4, 8, 16, 24, 64]))
def test_dots_that_sum_over_several_dimensions(dot, name: str, size: int | None):
    text, summed, order, dims = dot
    arrays = [normal(2, *summed), normal(*dims, scale=0.3)]
    positions = np.arange(prod(dims)).reshape(dims).transpose(np.argsort(order))
    check(text, name, size, arrays, positions.reshape(prod(summed), 3))


@settings(max_examples=8, deadline=None)
@given(
    order=st.permutations("besf"),
    inner=st.permutations(range(4)),
    name=st.sampled_from([*FORMATS]),
    size=st.sampled_from([None, 4, 8, 16]),
    is_left=st.booleans(),
)
def test_dots_with_batch_dimensions(order: list[str], inner: list[int], name: str, size: int | None, is_left: bool):
    """The weight on either side: its batch dimension and what it adds to the result each have scales of their own."""
    sizes = {"b": 2, "e": 4, "s": 8, "f": 3}
    dims = tuple(sizes[letter] for letter in order)
    moved = [order[dim] for dim in inner]
    at = {letter: moved.index(letter) for letter in moved}
    of_x = "lhs_contracting_dims={1,3}, lhs_batch_dims={2}"
    of_w = f"rhs_contracting_dims={{{at['e']},{at['s']}}}, rhs_batch_dims={{{at['b']}}}"
    if is_left:
        of_x, of_w = of_x.replace("lhs", "rhs"), of_w.replace("rhs", "lhs")
    text = f"""ENTRY e {{
      x = f32[5,4,2,8] parameter(0)
      w = {shape(dims)} parameter(1)
      t = {shape(tuple(sizes[letter] for letter in moved))} transpose(w), dimensions={{{",".join(map(str, inner))}}}
      ROOT y = f32[2,{"3,5" if is_left else "5,3"}] dot({"t, x" if is_left else "x, t"}), {of_x}, {of_w}
    }}"""
    positions = np.arange(prod(dims)).reshape(dims).transpose([order.index(letter) for letter in "esbf"])
    check(text, name, size, [normal(5, 4, 2, 8), normal(*dims, scale=0.3)], positions.reshape(32, 6))


@settings(max_examples=15, deadline=None)
@given(
    labels=st.permutations("01io"),
    window=st.sampled_from([(3, 3), (1, 1), (2, 3), (5, 1)]),
    features=st.sampled_from([1, 4, 16, 32]),
    name=st.sampled_from([*FORMATS]),
    size=st.sampled_from([None, 4, 8, 16, 32, 48, 96]),
    groups=st.sampled_from([1, 2]),
)
def test_convolutions(labels, window, features: int, name: str, size: int | None, groups: int):
    """Summed up are the window's positions, and at each the input features of one group."""
    sizes = {"0": window[0], "1": window[1], "i": features, "o": 4}
    dims = tuple(sizes[letter] for letter in labels)
    height, width = 6 - window[0], 6 - window[1]
    text = f"""ENTRY e {{
      x = f32[1,5,5,{features * groups}] parameter(0)
      w = f32[{",".join(map(str, dims))}] parameter(1)
      ROOT y = f32[1,{height},{width},4] convolution(x, w), window={{size={window[0]}x{window[1]}}}, dim_labels=b01f_{"".join(labels)}->b01f, feature_group_count={groups}
    }}"""
    arrays = [normal(1, 5, 5, features * groups), normal(*dims, scale=0.3)]
    order = [labels.index(letter) for letter in "01io"]
    positions = np.arange(prod(dims)).reshape(dims).transpose(order)
    check(text, name, size, arrays, positions.reshape(-1, 4))


@pytest.mark.parametrize("size", [4, 8, 16, 32, None])
@pytest.mark.parametrize("written", ["heads", "matrix", "transposed", "reshaped", "split", "merged"])
def test_an_output_projection_has_one_error(written: str, size: int | None):
    """Heads of 16 elements: groups of 4, 8 and 16 are within one, 32 are two, and a channel is all 64."""
    shapes = {
        "heads": ("4,16,6", "", "w", "2,3", "0,1"),
        "matrix": ("64,6", "r = f32[4,16,6] reshape(w)", "r", "2,3", "0,1"),
        "transposed": ("6,16,4", "", "w", "2,3", "2,1"),
        "reshaped": ("6,64", "t = f32[64,6] transpose(w), dimensions={1,0}\n r = f32[4,16,6] reshape(t)", "r", "3,2", "1,0"),
        "split": ("2,2,4,4,6", "r = f32[4,16,6] reshape(w)", "r", "2,3", "0,1"),
        "merged": ("384", "r = f32[4,16,6] reshape(w)", "r", "2,3", "0,1"),
    }  # fmt: skip
    dims, movement, operand, left, right = shapes[written]
    module = hloom.parse(f"""ENTRY e {{
      x = f32[2,5,4,16] parameter(0)
      w = f32[{dims}] parameter(1)
      {movement}
      ROOT y = f32[2,5,6] dot(x, {operand}), lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}
    }}""")
    matrix = normal(64, 6)
    array = {"transposed": matrix.reshape(4, 16, 6).T, "reshaped": matrix.T}.get(written, matrix)
    array = np.ascontiguousarray(array).reshape([int(size) for size in dims.split(",")])
    if written == "merged":
        with pytest.raises(HloomError, match="w cannot be quantised: "):
            hloom.quantize(module, "e4m3" if size is None else f"e4m3:{size}", only=["w"])
        return
    made = hloom.quantize(module, "e4m3" if size is None else f"e4m3:{size}", only=["w"])
    arrays = [normal(2, 5, 4, 16), array]
    held = reference(matrix, "e4m3", size or 64)
    result = hloom.run(made.module, made.convert(arrays)).outputs[0]
    np.testing.assert_allclose(result, (arrays[0].reshape(10, 64) @ held).reshape(2, 5, 6), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [None, 16, 24])
def test_heads_that_are_summed_up_apart_have_scales_apart(size: int | None):
    """A part of a dimension is summed up: blocks are parts of it, whether it is written as one dimension or two."""
    made = {}
    for dims, movement in (("4,32,6", ""), ("128,6", "w = f32[4,32,6] reshape(v)")):
        module = hloom.parse(f"""ENTRY e {{
          x = f32[4,5,32] parameter(0)
          {"v" if movement else "w"} = f32[{dims}] parameter(1)
          {movement}
          ROOT y = f32[4,5,6] dot(x, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
        }}""")
        weight = normal(4, 32, 6)
        given = [normal(4, 5, 32), weight.reshape([int(size) for size in dims.split(",")])]
        asked = "e4m3" if size is None else f"e4m3:{size}"
        if size == 24 and movement:
            with pytest.raises(HloomError, match="groups of 24 of the 32 elements"):
                hloom.quantize(module, asked, only=[1])
            continue
        quantized = hloom.quantize(module, asked, only=[1])
        made[dims] = hloom.run(quantized.module, quantized.convert(given)).outputs[0]
        held = np.stack([reference(head, "e4m3", size or 32) for head in weight])
        np.testing.assert_allclose(made[dims], given[0] @ held, rtol=1e-4, atol=1e-5)


def test_what_is_no_block_is_said():
    module = hloom.parse("""ENTRY e {
      x = f32[2,4,16] parameter(0)
      h = f32[2,4,16] tanh(x)
      w = f32[4,16,8] parameter(1)
      g = f32[2,8] dot(h, w), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}
      v = f32[8,48] parameter(2)
      ROOT y = f32[2,48] dot(g, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }""")
    reason = (
        r"groups of 24 of the 64 elements \(4x16\) that are summed up are not blocks of its dimensions; "
        r"groups of 2, 4, 8, 16, 32, 64 are"
    )
    with pytest.raises(HloomError, match=f"w cannot be quantised: {reason}"):
        hloom.quantize(module, "int4:24", only=["w"])
    made = hloom.quantize(module, "int4:24")
    assert [weight.name for weight in made.weights] == ["v"]
    assert [left.name for left in made.exclusions] == ["w"]
