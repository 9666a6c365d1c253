"""Reductions, windows, sorting, scans, batch normalisation: the types XLA infers, and which answers we do not give.

What XLA's parser accepts and we refuse, each on purpose:

    sort        its parser checks neither the dimension nor the comparison, its verifier and StableHLO do; nor does it
                want arrays: a token or a tuple is returned as it is
    scan        its parser checks neither carries nor slices; mhlo.scan does. An unbounded length gives it garbage, and so
                does an input without the scanned dimension: we keep `?`, and refuse
And the other way round:
    reduce-window   its parser only knows the rule for one input; its verifier and compiler know several, and yield a
                    tuple where the computation does
    batch-norm-*    XLA lets vectors of means and variances of any rank pass where their first size fits; StableHLO and we
                    want rank 1
    topk            of a scalar with k <= 0, where its parser reads past the dimensions
    aborts          inputs or sources that are not arrays, windows that leave less than nothing: we refuse

Covers `reduction.py`, `scan_rules.py`, `windows.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.formats.hlo import parse
from hloom.ir import Graph, Type
from hloom.ops.reducers import reducer_of

from .agreement import assert_agrees, computation, nearly, quickly, reducer, tuple_of, windows
from .operand_types import DIMS, braces, elements, like, numbers, sometimes
from .oracle import module_text, ours, xla

ABORTS = ("must be an array", "cuts a dimension of size", "beyond 64 bits")


def names(count: int) -> str:
    return ", ".join(f"p{n}" for n in range(count))


@st.composite
def reductions(draw: st.DrawFn, most: int) -> tuple[list[int], list[str], str]:
    """The inputs' dimensions, the operands' types, and the computation."""
    count = draw(st.integers(1, most))
    dims, kinds = draw(DIMS), draw(st.lists(elements, min_size=count, max_size=count))
    operands = [draw(like(dims, element_type)) for element_type in kinds]
    operands += [draw(nearly(element_type)) for element_type in kinds]
    if draw(st.integers(0, 39)) == 0:
        operands.pop()
    return dims, operands, draw(reducer("fold", kinds))


@quickly
@given(reductions(3), st.data())
def test_reduce(case: tuple, data: st.DataObject) -> None:
    dims, operands, fold = case
    right = data.draw(st.permutations(range(len(dims))))[: data.draw(st.integers(0, 4))]
    places = braces(data.draw(numbers(list(right))))
    text = f"reduce({names(len(operands))}), dimensions={places}, to_apply=fold"
    assert_agrees(text, operands, fold, xla_aborts=ABORTS)


@quickly
@given(reductions(1), st.data())
def test_reduce_window(case: tuple, data: st.DataObject) -> None:
    dims, operands, fold = case
    if data.draw(sometimes):
        dims = dims[1:]
    sizes = [data.draw(st.integers(0 if data.draw(sometimes) else 1, 3)) for _ in dims]
    text = f"reduce-window({names(len(operands))}), to_apply=fold{data.draw(windows(sizes))}"
    if "ROOT made = (" in fold:
        return  # the parser gives no tuple; see below
    assert_agrees(text, operands, fold, xla_aborts=ABORTS)


@quickly
@given(st.data())
def test_select_and_scatter(data: st.DataObject) -> None:
    dims, element = data.draw(DIMS), data.draw(elements)
    sizes = [data.draw(st.integers(1, 3)) for _ in dims]
    window = data.draw(windows(sizes))
    inferred = ours(
        module_text(f"reduce-window(p0, p1), to_apply=any{window}", [f"f32{dims}".replace(" ", ""), "f32[]"])
    )
    source = list(getattr(inferred, "dims", dims))
    operands = [data.draw(like(dims, element)), data.draw(like(source, element)), data.draw(nearly(element))]
    select = computation("pick", [data.draw(nearly(element)) for _ in "ab"], data.draw(nearly("pred")))
    scatter = data.draw(reducer("fold", [element]))
    text = f"select-and-scatter(p0, p1, p2), select=pick, scatter=fold{window}"
    assert_agrees(text, operands, select + scatter, xla_aborts=ABORTS)


@quickly
@given(st.data())
def test_sort(data: st.DataObject) -> None:
    dims = data.draw(DIMS)
    kinds = data.draw(st.lists(elements, min_size=1, max_size=3))
    operands = [data.draw(like(dims, element_type)) for element_type in kinds]
    dim = data.draw(st.integers(-1, 4)) if data.draw(sometimes) else max(0, len(dims) - 1)
    parameters = [data.draw(nearly(element_type)) for element_type in kinds for _ in "ab"]
    compare = computation("less", parameters, data.draw(nearly("pred")))
    reasons = ("operand 0 must be an array", "dimensions:", "the computation less")
    text = f"sort({names(len(kinds))}), dimensions={{{dim}}}, to_apply=less"
    assert_agrees(
        text, operands, compare, we_refuse=reasons, xla_aborts=("operand 1 must be an", "operand 2 must be an")
    )


@quickly
@given(DIMS, elements, st.integers(-1, 4), st.data())
def test_topk(dims: list[int], element: str, k: int, data: st.DataObject) -> None:
    assert_agrees(f"topk(p0), k={k}", [data.draw(like(dims, element))], we_refuse=("has no dimension to search",))


@quickly
@given(st.data())
def test_scan(data: st.DataObject) -> None:
    length, inputs, carries = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
    slices = [data.draw(st.lists(st.integers(0, 3), max_size=2)) for _ in range(inputs)]
    dim = min([len(dims) for dims in slices], default=0)
    dim = data.draw(st.integers(-1, 2)) if data.draw(sometimes) else data.draw(st.integers(0, dim))
    carry_types = [f"f32{data.draw(DIMS)}".replace(" ", "") for _ in range(carries)]
    operands = [data.draw(like([*dims[: max(0, dim)], length, *dims[max(0, dim) :]], "f32")) for dims in slices]
    operands += [
        carry_type if data.draw(st.integers(0, 9)) else data.draw(like([2], "f32")) for carry_type in carry_types
    ]
    outputs = [f"f32{data.draw(DIMS)}".replace(" ", "") for _ in range(data.draw(st.integers(0, 2)))]
    yielded = [*outputs, *carry_types]
    single = len(yielded) == 1 and data.draw(st.booleans())
    parameters = [f"f32{dims}".replace(" ", "") for dims in slices] + carry_types
    step = computation("step", parameters, yielded[0] if single else tuple_of(yielded))
    written = carries if data.draw(st.integers(0, 9)) else data.draw(st.integers(0, 2))
    reasons = ("of step must be", "passes on", "is not one of the", "differ in the scanned", "carries", "is not a dimension of")
    aborts = ("must be an array", "has no place", "dimensions={-1}")
    text = f"scan({names(len(operands))}), dimensions={{{dim}}}, num_carries={written}, to_apply=step"
    if any("?" in operand_type for operand_type in operands):
        return  # see below
    assert_agrees(text, operands, step, we_refuse=reasons, xla_aborts=aborts)


VECTORS = {"batch-norm-training": 2, "batch-norm-inference": 4, "batch-norm-grad": 3}


@quickly
@given(st.sampled_from(list(VECTORS)), st.data())
def test_batch_normalisation(name: str, data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    element = data.draw(st.sampled_from(["f32", "f32", "bf16", "s32", "f64"]))
    dim = data.draw(st.integers(0, len(dims) - 1))
    kinds = [data.draw(like(dims, element))]
    kinds += [data.draw(like([dims[dim]], element)) for _ in range(VECTORS[name])]
    if name == "batch-norm-grad":
        kinds.append(data.draw(like(dims, element)))
    if data.draw(sometimes):
        dim = data.draw(st.integers(-1, 3))
    text = f"{name}({names(len(kinds))}), epsilon=0.1, feature_index={dim}"
    assert_agrees(text, kinds, we_refuse=("the mean must be", "the variance must be"))


ADD = computation("add", ["f32[]", "f32[]"], "f32[]")
ONE = computation("one", ["f32[]", "f32[]"], "(f32[])")
BOTH = computation("both", ["f32[]", "s32[]", "f32[]", "s32[]"], "(f32[], s32[])")
STEP = computation("step", ["f32[4]", "f32[]"], "(f32[4], f32[])")
PAIR = ["f32[3,4]", "s32[3,4]", "f32[]", "s32[]"]


@pytest.mark.parametrize(
    ("text", "kinds", "computations", "expected"),
    [
        ("reduce-window(p0, p1, p2, p3), window={size=2x2}, to_apply=both", PAIR, BOTH, "(f32[2,3], s32[2,3])"),
        ("reduce-window(p0, p1), window={size=2}, to_apply=one", ["f32[4]", "f32[]"], ONE, "(f32[3])"),
        ("reduce(p0, p1), dimensions={0}, to_apply=nowhere", ["bf16[4,3]", "f32[]"], "", "bf16[3]"),
        ("reduce(p0, p1, p2, p3), dimensions={0}, to_apply=nowhere", PAIR, "", "(f32[4], s32[4])"),
        ("reduce-window(p0, p1), window={size=2}, to_apply=nowhere", ["f32[4]", "f32[]"], "", "f32[3]"),
        ("sort(p0), dimensions={0}, to_apply=nowhere", ["f32[4]{0}"], "", "f32[4]"),
        (
            "scan(p0, p1), dimensions={0}, num_carries=1, to_apply=step",
            ["f32[?,4]", "f32[]"],
            STEP,
            "(f32[?,4], f32[])",
        ),
        (
            "(f32[7,4], f32[]) scan(p0, p1), dimensions={0}, num_carries=1, to_apply=nowhere",
            ["f32[7,4]", "f32[]"],
            "",
            "(f32[7,4], f32[])",
        ),
    ],
)
def test_where_only_we_answer(text: str, kinds: list[str], computations: str, expected: str) -> None:
    assert str(ours(module_text(text, kinds, computations))) == expected


@pytest.mark.parametrize(
    ("text", "kinds", "computations", "problem"),
    [
        ("reduce(p0, p1), dimensions={2}, to_apply=add", ["f32[3,4]", "f32[]"], ADD, "dimensions: 2 is not one of the 2"),
        (
            "reduce(p0, p1), dimensions={0,0}, to_apply=add",
            ["f32[3]", "f32[]"],
            ADD,
            "dimensions={0,0} names a dimension",
        ),
        (
            "reduce(p0, p1), dimensions={0}, to_apply=add",
            ["s32[3]", "f32[]"],
            ADD,
            "the computation add works on f32[], which does not fit the input s32[3] of type s32[]",
        ),
        (
            "reduce(p0, p1), dimensions={0}, to_apply=both",
            ["f32[3]", "f32[]"],
            BOTH,
            "the computation both must take 2 parameters, but takes 4",
        ),
        (
            "reduce(p0, p1, p2, p3), dimensions={0}, to_apply=both",
            ["f32[3]", "s32[4]", "f32[]", "s32[]"],
            BOTH,
            "all inputs must have the dimensions of f32[3], but input 1 is s32[4]",
        ),
        (
            "reduce(p0, p1), dimensions={0}, to_apply=vectors",
            ["f32[3]", "f32[]"],
            computation("vectors", ["f32[2]", "f32[2]"], "f32[2]"),
            "the computation vectors must yield scalars, but yields f32[2]",
        ),
        (
            "reduce(p0, p1), dimensions={0}, to_apply=less",
            ["f32[3]", "f32[]"],
            computation("less", ["f32[]", "f32[]"], "pred[]"),
            "the computation less yields pred[] and so must take it as parameter 0, but takes f32[]",
        ),
        (
            "reduce(p0, p1), dimensions={0}, to_apply=many",
            ["f32[3]", "f32[]"],
            computation("many", ["f32[]", "f32[]"], "(f32[], f32[])"),
            "the computation many must yield one scalar, but yields (f32[], f32[])",
        ),
        (
            "reduce-window(p0, p1), to_apply=add",
            ["f32[3]", "f32[]"],
            ADD,
            "the window {} has 0 dimensions, the array has 1",
        ),
        (
            "reduce-window(p0, p1), to_apply=add, window={size=2 rhs_dilate=9223372036854775807}",
            ["f32[3]", "f32[]"],
            ADD,
            "the window {size=2 rhs_dilate=9223372036854775807} reaches beyond 64 bits",
        ),
        (
            "reduce-window(p0, p1), to_apply=add, window={size=1x1 pad=4294967296_0x4294967296_0}",
            ["f32[3,3]", "f32[]"],
            ADD,
            "stands at more places than 64 bits can count",
        ),
        (
            "select-and-scatter(p0, p1, p2), select=add, scatter=add, window={size=2 stride=2}",
            ["f32[4]", "f32[2]", "f32[]"],
            ADD,
            "the computation add must yield pred[], but yields f32[]",
        ),
        (
            "select-and-scatter(p0, p1, p2), select=add, scatter=add, window={size=2 stride=2}",
            ["f32[4]", "f32[3]", "f32[]"],
            ADD,
            "the source must be f32[2], one value for each window, but is f32[3]",
        ),
        (
            "sort(p0), dimensions={1}, to_apply=add",
            ["f32[4]"],
            ADD,
            "dimensions: 1 is not one of the 1 dimensions of f32[4]",
        ),
        ("sort(p0), dimensions={0}, to_apply=add", ["f32[4]"], ADD, "the computation add must yield pred[]"),
        (
            "sort(p0, p1), dimensions={0}, to_apply=add",
            ["f32[4]", "f32[3]"],
            ADD,
            "all operands must have the dimensions of f32[4], but operand 1 is f32[3]",
        ),
        ("topk(p0), k=5", ["f32[4]"], "", "k=5 must be no more than the last dimension of the operand f32[4]"),
        (
            "scan(p0, p1), dimensions={0}, num_carries=1, to_apply=nowhere",
            ["f32[7,4]", "f32[]"],
            "",
            "the computation nowhere is not known, so the scan's type must be written",
        ),
        (
            "scan(p0, p1), dimensions={0}, num_carries=2, to_apply=step",
            ["f32[7,4]", "f32[]"],
            STEP,
            "num_carries=2 must leave an input to scan, of 2 operands",
        ),
        (
            "scan(p0, p1), dimensions={0}, num_carries=1, to_apply=step",
            ["f32[7,5]", "f32[]"],
            STEP,
            "parameter 0 of step must be f32[5], but is f32[4]",
        ),
        (
            "scan(p0, p1), dimensions={0}, num_carries=1, to_apply=grow",
            ["f32[7,4]", "f32[]"],
            computation("grow", ["f32[4]", "f32[]"], "(f32[4], f32[2])"),
            "carry 0 is f32[], but grow passes on f32[2]",
        ),
        (
            "scan(p0, p1), dimensions={1}, num_carries=1, to_apply=sum",
            ["f32[7,4]", "f32[]"],
            computation("sum", ["f32[7]", "f32[]"], "(f32[], f32[])"),
            "the output f32[] has no place for the scanned dimension 1",
        ),
        (
            "batch-norm-training(p0, p1, p2), epsilon=0.1, feature_index=1",
            ["f32[2,3]", "f32[3]", "f32[4]"],
            "",
            "the offset must be f32[3], one value for each feature, but is f32[4]",
        ),
        (
            "batch-norm-grad(p0, p1, p1, p1, p2), epsilon=0.1, feature_index=1",
            ["f32[2,3]", "f32[3]", "f32[4]"],
            "",
            "the gradient must have the operand's type f32[2,3], but is f32[4]",
        ),
    ],
)
def test_refusals_say_what_would_be_right(text: str, kinds: list[str], computations: str, problem: str) -> None:
    assert problem in str(ours(module_text(text, kinds, computations)))


def reduced_by(body: str) -> Graph:
    return parse(f"c {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n{body}\n}}").entry


@pytest.mark.parametrize(
    ("body", "opcode"),
    [
        *[(f"ROOT c = f32[] {name}(a, b)", name) for name in ("add", "multiply", "maximum", "minimum", "and", "or")],
        ("ROOT c = f32[] add(b, a)", "add"),
        ("c = f64[] convert(a) d = f64[] convert(b) e = f64[] add(c, d) ROOT f = f32[] convert(e)", "add"),
        ("c = f32[] maximum(a, b) ROOT d = (f32[]) tuple(c)", "maximum"),
        ("ROOT c = f32[] subtract(a, b)", ""),
        ("ROOT c = f32[] add(a, a)", ""),
        ("c = f32[] negate(b) ROOT d = f32[] add(a, c)", ""),
        ("ROOT c = (f32[], f32[]) tuple(a, b)", ""),
        ("ROOT c = f32[] copy(a)", ""),
    ],
)
def test_the_opcode_of_a_reducer(body: str, opcode: str) -> None:
    assert reducer_of(reduced_by(body)) == opcode


def test_a_reducer_that_is_not_defined_has_no_opcode() -> None:
    module = parse(module_text("reduce(p0, p1), dimensions={0}, to_apply=nowhere", ["f32[2]", "f32[]"]))
    assert reducer_of(module.entry.root.attributes["to_apply"]) == ""


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("reduce(p0, p1), dimensions={}, to_apply=add", ["token[]", "f32[]"]),
        ("reduce-window(p0, p1), window={size=1 pad=-9_0}, to_apply=add", ["f32[4]", "f32[]"]),
        ("select-and-scatter(p0, p1, p1), select=add, scatter=add", ["f32[]", "token[]"]),
        ("sort(p0, p1), dimensions={0}, to_apply=add", ["f32[2]", "token[]"]),
    ],
)
def test_what_xla_aborts_of_is_refused(text: str, kinds: list[str]) -> None:
    whole = module_text(text, kinds, ADD)
    assert isinstance(ours(whole), str)
    assert not isinstance(xla(whole), Type)
