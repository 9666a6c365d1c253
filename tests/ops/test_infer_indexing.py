"""Gathers, scatters and dynamic slices against XLA's parser and StableHLO's verifier.

What XLA's parser accepts of gathers and scatters and we refuse, as StableHLO does, for it means nothing:

    batching dimensions of different sizes
    a batching dimension of the indices that is the index vectors' dimension
    a dimension that is batched and also collapsed, inserted or indexed
    operands of one scatter with different dimensions

Covers `indexing.py`, `gather_rules.py`, `scatter_rules.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import DTYPES, TensorType, Type
from hloom.ops import indexing, random
from tests.helpers.properties import examples

from .operand_types import COMMON, SIZES, braces, like, numbers, sometimes
from .oracle import module_text, ours, stablehlo, xla
from .stablehlo import accepted, longs, mlir, verified

MEANINGLESS = (
    "are batched together: their sizes must be the same",
    "must not name index_vector_dim",
    "both name dimension",
    "the operands must have the same dimensions",
)


def assert_same_type(text: str) -> None:
    we, they = ours(text), xla(text)
    if isinstance(we, str) and any(reason in we for reason in MEANINGLESS):
        return
    assert isinstance(we, Type) == isinstance(they, Type), f"{text}we: {we}\nXLA: {they}"
    assert isinstance(we, str) or we is they, f"{text}we: {we}\nXLA: {they}"


class Numbers(NamedTuple):
    """How windows of an operand and places of indices go together: a gather's, or a scatter's the other way round."""

    operand: list[int]
    indices: list[int]
    windows: list[int]
    slice_sizes: list[int]
    offset: list[int]
    collapsed: list[int]
    mapped: list[int]
    batching: tuple[list[int], list[int]]
    vector: int

    def moved(self) -> list[int]:
        """The dimensions of what is gathered, or of the updates."""
        places = iter([size for dim, size in enumerate(self.indices) if dim != self.vector])
        windows = iter(self.windows)
        rank = len(self.windows) + len([dim for dim in range(len(self.indices)) if dim != self.vector])
        return [next(windows if dim in self.offset else places) for dim in range(rank)]


@st.composite
def all_numbers(draw: st.DrawFn) -> Numbers:
    operand = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    kinds = [draw(st.sampled_from(["window", "window", "collapsed", "batching"])) for _ in operand]
    windows = [draw(st.integers(0, n)) if draw(st.booleans()) else n for n in operand]
    batching = [dim for dim, role in enumerate(kinds) if role == "batching"]
    collapsed = [dim for dim, role in enumerate(kinds) if role == "collapsed"]
    mapped = list(draw(st.permutations([p for p in range(len(operand)) if p not in batching and draw(st.booleans())])))
    indices = [*draw(st.lists(SIZES, max_size=2)), *[operand[dim] for dim in batching]]
    order = list(draw(st.permutations(range(len(indices)))))
    theirs = [order.index(len(indices) - len(batching) + n) for n in range(len(batching))]
    indices = [indices[dim] for dim in order]
    vector = draw(st.integers(0, len(indices)))
    if len(mapped) != 1 or draw(st.booleans()) or vector < len(indices):
        indices.insert(vector, len(mapped))
        theirs = [dim + (dim >= vector) for dim in theirs]
    taken = [size for dim, size in enumerate(windows) if kinds[dim] == "window"]
    rank = len(taken) + len(indices) - (vector < len(indices))
    offset = sorted(draw(st.permutations(range(rank)))[: len(taken)])
    sizes = [size if kinds[dim] == "window" else 1 for dim, size in enumerate(windows)]
    return Numbers(operand, indices, taken, sizes, offset, collapsed, mapped, (batching, theirs), vector)


def text_of(draw: st.DrawFn, numbers_of: dict[str, list[int]]) -> str:
    """The attributes, one of them mostly right."""
    wrong = draw(st.sampled_from([None, None, *numbers_of]))
    parts = [f"{key}={braces(draw(numbers(value)) if key == wrong else value)}" for key, value in numbers_of.items()]
    return ", ".join(parts)


@st.composite
def gathers(draw: st.DrawFn) -> str:
    dimensions = draw(all_numbers())
    element = draw(st.sampled_from(COMMON))
    index = draw(st.sampled_from(["s32", "s32", "u8", "s64", "f32"]))
    attributes = text_of(
        draw,
        {
            "offset_dims": dimensions.offset,
            "collapsed_slice_dims": dimensions.collapsed,
            "start_index_map": dimensions.mapped,
            "operand_batching_dims": dimensions.batching[0],
            "start_indices_batching_dims": dimensions.batching[1],
            "slice_sizes": dimensions.slice_sizes,
        },
    )
    vector = draw(st.integers(-1, 3)) if draw(sometimes) else dimensions.vector
    kinds = [draw(like(dimensions.operand, element)), draw(like(dimensions.indices, index))]
    return module_text(f"gather(p0, p1), {attributes}, index_vector_dim={vector}", kinds)


@st.composite
def scatters(draw: st.DrawFn) -> str:
    dimensions = draw(all_numbers())
    count = draw(st.integers(1, 2))
    element = draw(st.sampled_from(["f32", "f32", "bf16", "s32"]))
    attributes = text_of(
        draw,
        {
            "update_window_dims": dimensions.offset,
            "inserted_window_dims": dimensions.collapsed,
            "scatter_dims_to_operand_dims": dimensions.mapped,
            "input_batching_dims": dimensions.batching[0],
            "scatter_indices_batching_dims": dimensions.batching[1],
        },
    )
    vector = draw(st.integers(-1, 3)) if draw(sometimes) else dimensions.vector
    kinds = [*[draw(like(dimensions.operand, element)) for _ in range(count)], draw(like(dimensions.indices, "s32"))]
    kinds += [draw(like(dimensions.moved(), element)) for _ in range(count)]
    names = ", ".join(f"p{n}" for n in range(2 * count + 1))
    combine = combination(
        draw(st.sampled_from(["f32", "f32", "s32", "bf16"])), draw(st.sampled_from([count] * 4 + [1]))
    )
    return module_text(f"scatter({names}), {attributes}, index_vector_dim={vector}, to_apply=c", kinds, combine)


def combination(element: str, count: int) -> str:
    parameters = "".join(f"  a{n} = {element}[] parameter({n})\n" for n in range(2 * count))
    sums = "".join(f"  sum{n} = {element}[] add(a{n}, a{count + n})\n" for n in range(count))
    root = "ROOT r = add(a0, a1)" if count == 1 else f"ROOT r = tuple({', '.join(f'sum{n}' for n in range(count))})"
    return f"c {{\n{parameters}{sums if count > 1 else ''}  {root}\n}}\n\n"


@examples(50)
@given(gathers())
def test_gather(text: str) -> None:
    assert_same_type(text)


@examples(50)
@given(scatters())
def test_scatter(text: str) -> None:
    assert_same_type(text)


BATCH = "operand_batching_dims={0}, start_indices_batching_dims={%s}, index_vector_dim=1, slice_sizes={1,4}"


@pytest.mark.parametrize(
    ("instruction", "kinds", "problem"),
    [
        (
            f"gather(p0, p1), offset_dims={{1}}, collapsed_slice_dims={{}}, start_index_map={{1}}, {BATCH % 0}",
            ["f32[8,4]", "s32[5,1]"],
            "dimension 0 of f32[8,4] and dimension 0 of s32[5,1] are batched together: their sizes must be the same",
        ),
        (
            f"gather(p0, p1), offset_dims={{1}}, collapsed_slice_dims={{}}, start_index_map={{1}}, {BATCH % 1}",
            ["f32[1,4]", "s32[5,1]"],
            "start_indices_batching_dims must not name index_vector_dim=1",
        ),
        (
            f"gather(p0, p1), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{1}}, {BATCH % 0}",
            ["f32[5,4]", "s32[5,1]"],
            "collapsed_slice_dims and operand_batching_dims both name dimension 0",
        ),
    ],
)
def test_deviations(instruction: str, kinds: list[str], problem: str) -> None:
    text = module_text(instruction, kinds)
    assert problem in str(ours(text))
    assert isinstance(xla(text), Type)


static = st.builds(
    lambda name, dims: TensorType(DTYPES[name], dims), st.sampled_from(COMMON), st.lists(SIZES, min_size=1, max_size=3)
)


@st.composite
def starts(draw: st.DrawFn, count: int) -> list[TensorType]:
    """Start indices, one per dimension."""
    element = draw(st.sampled_from(["s32", "s32", "u8", "f32"]))
    kinds = [TensorType(DTYPES[element]) for _ in range(draw(st.sampled_from([count] * 9 + [1])))]
    if kinds and draw(sometimes):
        kinds[-1] = TensorType(DTYPES["s64"])
    return kinds


def arguments(count: int) -> str:
    return ", ".join(f"p{n}" for n in range(count))


@examples(50)
@given(st.data())
def test_dynamic_slice(data: st.DataObject) -> None:
    operand_type = data.draw(static)
    sizes = [abs(n) for n in data.draw(numbers([data.draw(st.integers(0, size)) for size in operand_type.dims]))]
    kinds = [operand_type, *data.draw(starts(operand_type.rank))]
    result = TensorType(operand_type.dtype, [abs(n) for n in data.draw(numbers(sizes))])
    mine = accepted(f"dynamic-slice({arguments(len(kinds))}), dynamic_slice_sizes={braces(sizes)}", kinds, result)
    assert mine == verified("dynamic_slice", f"slice_sizes = {longs(sizes)}", kinds, result)


@examples(50)
@given(st.data())
def test_dynamic_update_slice(data: st.DataObject) -> None:
    operand_type = data.draw(static)
    dims = [abs(n) for n in data.draw(numbers([data.draw(st.integers(0, size)) for size in operand_type.dims]))]
    update = TensorType(DTYPES["s8"] if data.draw(sometimes) else operand_type.dtype, dims)
    kinds = [operand_type, update, *data.draw(starts(operand_type.rank))]
    mine = accepted(f"dynamic-update-slice({arguments(len(kinds))})", kinds, operand_type)
    assert mine == verified("dynamic_update_slice", "", kinds, operand_type)


@examples(40)
@given(st.data())
def test_rng(data: st.DataObject) -> None:
    """StableHLO wants a shape as third operand, and knows no s2 uniform numbers or the like: common types only."""
    result = data.draw(static)
    name, normal = data.draw(st.sampled_from([("UNIFORM", "rng_uniform"), ("NORMAL", "rng_normal")]))
    element = DTYPES[data.draw(st.sampled_from(COMMON))] if data.draw(sometimes) else result.dtype
    kinds = [TensorType(element, data.draw(st.sampled_from([[]] * 9 + [[2]]))), TensorType(element)]
    mine = accepted(f"rng(p0, p1), distribution={normal}", kinds, result)
    texts = [mlir(operand_type) for operand_type in kinds]
    shape = f"tensor<{result.rank}xi64>"
    dense = f"%s = stablehlo.constant dense<{list(result.dims)}> : {shape}\n"
    line = f'%r = "stablehlo.rng"(%a, %b, %s) {{rng_distribution = #stablehlo<rng_distribution {name}>}} : ({", ".join(texts)}, {shape}) -> {mlir(result)}'
    text = f"func.func @f(%a: {texts[0]}, %b: {texts[1]}) -> {mlir(result)} {{\n{dense}{line}\nreturn %r : {mlir(result)} }}"
    theirs = not stablehlo(text)
    assert mine or not theirs, text
    assert theirs or not mine or result.dtype.name == "u8" or normal == "rng_normal", text


@pytest.mark.parametrize(
    ("text", "kinds", "expected"),
    [
        ("f32[2,4] dynamic-slice(p0, p1), dynamic_slice_sizes={2,4}", ["f32[8,4]", "s32[2]"], "f32[2,4]"),
        ("f32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}", ["f32[<=2]", "s32[]"], "f32[<=2]"),
        ("f32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}", ["f32[?]", "s32[]"], "f32[2]"),
        ("f32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={9}", ["f32[8]", "s32[]"], "size 9 does not fit into dim"),
        ("f32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}", ["f32[8]", "s32[3]"], "one vector of 1 indices"),
        ("f32[2] dynamic-slice(p0), dynamic_slice_sizes={2}", ["f32[8]"], "needs 1 start indices, one per dimension"),
        ("f32[8] dynamic-update-slice(p0, p1, p2)", ["f32[8]", "bf16[3]", "s32[1]"], "f32[8]"),
        ("f32[8] dynamic-update-slice(p0, p1, p2)", ["f32[8]", "f32[<=8]", "s32[]"], "f32[<=8]"),
        ("f32[8] dynamic-update-slice(p0, p1, p2)", ["f32[8]", "f32[9]", "s32[]"], "an update of size 9 does not fit"),
        (
            "f32[8] dynamic-update-slice(p0, p1, p2)",
            ["f32[8]", "f32[3]", "f32[]"],
            "the start indices must be integers",
        ),
        ("u64[2] rng-get-and-update-state(), delta=1", [], "u64[2]"),
        ("(u64[2], u32[5]) rng-bit-generator(p0), algorithm=rng_default", ["u64[2]"], "(u64[2], u32[5])"),
        ("u32[5] rng-bit-generator(p0), algorithm=rng_default", ["u64[2]"], "u32[5]"),
        (
            "(u64[3], u32[5]) rng-bit-generator(p0), algorithm=rng_default",
            ["u64[2]"],
            "a tuple of the state, u64[2], and",
        ),
        ("s32[4] rng(p0, p1), distribution=rng_normal", ["s32[]", "s32[]"], "the result must be of float type"),
        (
            "s32[4] rng(p0, p1), distribution=rng_uniform",
            ["s32[]", "f32[]"],
            "operand 1 must be s32[] for s32[4], but is f32",
        ),
    ],
)
def test_said_by_the_text(text: str, kinds: list[str], expected: str) -> None:
    assert expected in str(ours(module_text(text, kinds)))


@pytest.mark.parametrize("rows", [indexing.ROWS, random.ROWS])
def test_every_row_has_its_rules(rows: dict) -> None:
    assert all(op.infer and (op.axes or "axes" in op.because) for op in rows.values())
