"""Products and convolutions: the types that XLA infers, and which of its answers we do not give.

What XLA's parser refuses or accepts and we do not, each on purpose:

    scaled-dot          its parser takes operand 2 for the right side, where it prints, lowers and verifies operand 1:
                        with its own order we agree (scales and sides exchanged below); scales must be arrays
    window arithmetic   it aborts where padding leaves less than nothing or 64 bits overflow: we refuse
    `?`                 with batch groups or sparsity it calculates with the marker of an unbounded size: we keep a batch
                        unbounded, and refuse to compare such features
    element types       it aborts on pairs that it cannot order (f8e5m2 with f8e5m2fnuz ...): we refuse

Covers `dot_rules.py`, `convolution_rules.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import Type

from .agreement import assert_agrees, quickly, windows
from .operand_types import braces, elements, like, numbers, sometimes
from .oracle import module_text, ours, xla

SIZES = st.integers(0, 4)
ABORTS = ("equally precise", "cuts a dimension of size", "beyond 64 bits")


@st.composite
def products(draw: st.DrawFn) -> tuple[dict[str, list[int]], list[str], dict[str, list[int]]]:
    """Dimension numbers, operand types that mostly fit, and the sizes of the parts."""
    parts = {name: draw(st.lists(SIZES, max_size=2)) for name in ("batch", "contracting", "left", "right")}
    element = draw(elements)
    dimensions: dict[str, list[int]] = {}
    kinds = []
    for side, free in (("lhs", "left"), ("rhs", "right")):
        labelled = [(part, n, size) for part in ("batch", "contracting", free) for n, size in enumerate(parts[part])]
        labelled = draw(st.permutations(labelled))
        for part in ("batch", "contracting"):
            places = {n: dim for dim, (name, n, _) in enumerate(labelled) if name == part}
            dimensions[f"{side}_{part}_dims"] = draw(numbers([places[n] for n in range(len(parts[part]))]))
        dimensions[free] = [dim for dim, (name, _, _) in enumerate(labelled) if name == free]
        kinds.append(draw(like([size for *_, size in labelled], element)))
    return dimensions, kinds, parts


def dimension_numbers(dimensions: dict[str, list[int]]) -> str:
    return "".join(f", {name}={braces(places)}" for name, places in dimensions.items() if name.endswith("_dims"))


@quickly
@given(products())
def test_dot(case: tuple) -> None:
    dimensions, kinds, _ = case
    assert_agrees(f"dot(p0, p1){dimension_numbers(dimensions)}", kinds, xla_aborts=ABORTS)


@quickly
@given(st.data())
def test_ragged_dot(data: st.DataObject) -> None:
    dimensions, kinds, parts = data.draw(products())
    groups = data.draw(st.integers(0, 3))
    modes = [name for name in ("batch", "contracting", "left") if parts[name]]
    mode = data.draw(st.sampled_from(modes)) if modes else ""
    places = dimensions["left"] if mode == "left" else dimensions.get(f"lhs_{mode}_dims", [])
    sizes = parts[mode] if mode else []
    which = data.draw(st.integers(0, max(0, len(sizes) - 1)))
    outer = ([] if mode == "batch" else parts["batch"]) + sizes[:which]
    dimensions["lhs_ragged_dims"] = data.draw(numbers(places[which : which + 1]))
    if mode == "left":  # a group dimension in front of the right operand
        bracket = kinds[1].find("[") + 1
        kinds[1] = kinds[1][:bracket] + f"{groups}{',' if kinds[1][bracket] != ']' else ''}" + kinds[1][bracket:]
        for name in ("rhs_batch_dims", "rhs_contracting_dims"):
            dimensions[name] = [dim + 1 for dim in dimensions[name]]
        dimensions["rhs_group_dims"] = data.draw(numbers([0]))
    kinds.append(data.draw(like([*outer, groups] if data.draw(st.booleans()) else [groups], "s32")))
    assert_agrees(f"ragged-dot(p0, p1, p2){dimension_numbers(dimensions)}", kinds, xla_aborts=ABORTS)


@quickly
@given(products(), st.booleans())
def test_scaled_dot_with_the_operands_in_the_order_of_the_parser(case: tuple, odd: bool) -> None:
    dimensions, (left, right), _ = case
    numbers_text = dimension_numbers(dimensions)
    scales = ["token[]", "f8e8m0fnu[2]"] if odd else ["f8e8m0fnu[]", "f8e8m0fnu[2]"]
    we = ours(module_text(f"scaled-dot(p0, p1, p2, p3){numbers_text}", [left, right, *scales]))
    they = xla(module_text(f"scaled-dot(p0, p2, p1, p3){numbers_text}", [left, right, *scales]))
    if odd:
        assert isinstance(we, str)
        return
    assert we is they or (isinstance(we, str) and isinstance(they, str))


@quickly
@given(st.data())
def test_convolution(data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 2))
    digits = "01"[:rank]
    labels = ["".join(data.draw(st.permutations(list(text + digits)))) for text in ("bf", "io", "bf")]
    feature, batch = data.draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (0, 1), (1, -1)]))
    inward, outward = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    kept = data.draw(st.sampled_from([1, 1, 1, 2]))
    taps = {digit: data.draw(st.sampled_from([1, 2, 3, 3, 0])) for digit in digits}
    image = {"b": abs(batch) * data.draw(st.integers(0, 3)), "f": abs(feature) * inward * kept}
    image |= {digit: data.draw(st.integers(0, 8)) for digit in digits}
    kernel = {"i": inward, "o": abs(feature * batch) * outward, **taps}
    element = data.draw(elements)
    kinds = [
        data.draw(like([sizes[label] for label in text], element))
        for sizes, text in ((image, labels[0]), (kernel, labels[1]))
    ]
    if data.draw(sometimes):
        kinds[1] = f"({kinds[1]}, s8[2])"
    if batch > 1 and "?" in kinds[0]:
        kinds[0] = kinds[0].replace("?", "2")
    text = f"convolution(p0, p1), dim_labels={labels[0]}_{labels[1]}->{labels[2]}"
    text += data.draw(windows(list(taps.values()))) + f", feature_group_count={feature}, batch_group_count={batch}"
    if kept > 1:
        number = data.draw(st.sampled_from([1, 1, 1, 2]))
        text += f", sparsity_config={{rhs={{sparsity={number}x{kept} dimension=2 stride=1}}}}"
    assert_agrees(text, kinds, we_refuse=("have ? features times",), xla_aborts=ABORTS)


MATMUL = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
PLAIN = "dim_labels=b0f_0io->b0f"


@pytest.mark.parametrize("element", ["f64", "s8", "pred", "c64"])
def test_a_written_element_type_stays(element: str) -> None:
    text = module_text(f"{element}[2,4] dot(p0, p1), {MATMUL}", ["s8[2,3]", "s8[3,4]"])
    assert str(ours(text)) == f"{element}[2,4]"
    text = module_text(f"{element}[2,6,8] convolution(p0, p1), window={{size=3}}, {PLAIN}", ["s8[2,8,4]", "s8[3,4,8]"])
    assert str(ours(text)) == f"{element}[2,6,8]"


@pytest.mark.parametrize(
    ("text", "kinds", "expected"),
    [
        (
            f"scaled-dot(p0, p1, p2, p3), {MATMUL}",
            ["f8e4m3fn[2,64]", "f8e4m3fn[64,8]", "f8e8m0fnu[2,2]", "f8e8m0fnu[2,8]"],
            "f8e4m3fn[2,8]",
        ),
        (f"dot(p0, p1), {MATMUL}", ["f32[2,3]{0,1}", "f32[3,4]{0,1}"], "f32[2,4]"),
        (
            "convolution(p0, p1), dim_labels=bf_io->bf, batch_group_count=2",
            ["f32[?,2]", "f32[2,4]"],
            "f32[?,4]",
        ),
    ],
)
def test_where_only_we_answer(text: str, kinds: list[str], expected: str) -> None:
    assert str(ours(module_text(text, kinds))) == expected


@pytest.mark.parametrize(
    ("text", "kinds", "problem"),
    [
        (
            "dot(p0, p1), lhs_contracting_dims={3}, rhs_contracting_dims={0}",
            ["f32[2,3]", "f32[3]"],
            "lhs_contracting_dims={3} but the left operand f32[2,3] has rank 2",
        ),
        (
            "dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_batch_dims={1}, rhs_batch_dims={1}",
            ["f32[2,3]", "f32[3,3]"],
            "lhs_batch_dims={1} and lhs_contracting_dims={1} name a dimension twice",
        ),
        (
            "dot(p0, p1), lhs_contracting_dims={1}",
            ["f32[2,3]", "f32[3]"],
            "lhs_contracting_dims={1} and rhs_contracting_dims={} are not equally many",
        ),
        (
            f"dot(p0, p1), {MATMUL}",
            ["f32[2,3]", "f32[4,5]"],
            "contracting dimension 1 of the left operand f32[2,3] and 0 of the right operand f32[4,5] differ in size: 3 and 4",
        ),
        (f"dot(p0, p1), {MATMUL}", ["(f32[2])", "f32[4,5]"], "the left operand must be an array, not (f32[2])"),
        (f"dot(p0, p1), {MATMUL}", ["f8e5m2[2,3]", "f8e5m2fnuz[3,4]"], "are equally precise"),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}",
            ["f32[2,3]", "f32[3,4]", "s32[5]"],
            "lhs_ragged_dims={} must name one dimension of the left operand f32[2,3]",
        ),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}, lhs_ragged_dims={{0}}",
            ["f32[2,3]", "f32[3,4]", "s32[5]"],
            "rhs_group_dims={} must name the one dimension of the right operand's groups",
        ),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}, lhs_ragged_dims={{0}}, rhs_group_dims={{1}}",
            ["f32[2,3]", "f32[3,4]", "s32[5]"],
            "s32[5] holds 5 group sizes, but f32[3,4] has 4 groups",
        ),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}, lhs_ragged_dims={{1}}, rhs_group_dims={{1}}",
            ["f32[2,3]", "f32[3,4]", "s32[5]"],
            "rhs_group_dims={1}: a ragged batch or contracting dimension leaves none",
        ),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}, lhs_ragged_dims={{1}}",
            ["f32[2,3]", "f32[3,4]", "s32[7,5]"],
            "the group sizes must be [groups] or [groups], but are s32[7,5]",
        ),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}}",
            ["f32[2,3]", "f32[3,4]", "s32[5]"],
            "rhs_group_dims={0} names a batch or contracting dimension",
        ),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}, lhs_ragged_dims={{0}}, rhs_group_dims={{5}}",
            ["f32[2,3]", "f32[3,4]", "s32[5]"],
            "rhs_group_dims={5} but the right operand f32[3,4] has rank 2",
        ),
        (
            f"scaled-dot(p0, p1, p2, p3), {MATMUL}",
            ["f32[2,3]", "f32[3,4]", "f32[]", "token[]"],
            "the right scale must be an array, not token[]",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}",
            ["f32[2,8,4]", "f32[3,5,8]"],
            "the left operand f32[2,8,4] must have 5 features, as in f32[3,5,8]",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}, feature_group_count=2",
            ["f32[2,8,4]", "f32[3,2,7]"],
            "feature_group_count=2 must divide the 7 output features of f32[3,2,7]",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}, batch_group_count=2",
            ["f32[3,8,4]", "f32[3,4,8]"],
            "batch_group_count=2 must divide the batch 3 and the output features 8",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}, batch_group_count=2, feature_group_count=2",
            ["f32[2,8,4]", "f32[3,2,8]"],
            "feature_group_count=2 and batch_group_count=2 exclude each other",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}, batch_group_count=0",
            ["f32[2,8,4]", "f32[3,2,8]"],
            "batch_group_count=0 must be positive",
        ),
        (
            f"convolution(p0, p1), window={{size=2}}, {PLAIN}",
            ["f32[2,8,4]", "f32[3,4,8]"],
            "the window {size=2} is not of the size of the kernel f32[3,4,8] (b0f_0io->b0f)",
        ),
        (
            f"convolution(p0, p1), {PLAIN}",
            ["f32[2,8,4]", "f32[3,4,8]"],
            "the window {} must have as many dimensions as dim_labels=b0f_0io->b0f has digits",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}",
            ["f32[2,8]", "f32[3,4,8]"],
            "the left operand f32[2,8] must have rank 3, as dim_labels=b0f_0io->b0f says",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}",
            ["f32[2,8,4]", "f32[3,4,<=8]"],
            "the kernel f32[3,4,<=8] must not be dynamic in its output features (b0f_0io->b0f)",
        ),
        (
            f"convolution(p0, p1), window={{size=3}}, {PLAIN}, sparsity_config={{rhs={{sparsity=2x4 dimension=1 stride=1}}}}",
            ["f32[2,8,4]", "f32[3,2,8]"],
            "a kernel keeps 1 of several features, not 2",
        ),
        (
            f"convolution(p0, p1), window={{size=3 pad=-9_0}}, {PLAIN}",
            ["f32[2,8,4]", "f32[3,4,8]"],
            "the window {size=3 pad=-9_0} cuts a dimension of size 8 down to -1",
        ),
        (
            f"convolution(p0, p1), window={{size=3 stride=0}}, {PLAIN}",
            ["f32[2,8,4]", "f32[3,4,8]"],
            "the window {size=3 stride=0} needs a positive stride",
        ),
    ],
)
def test_refusals_say_what_would_be_right(text: str, kinds: list[str], problem: str) -> None:
    whole = module_text(text, kinds)
    assert problem in str(ours(whole))
    assert isinstance(xla(whole), str) and not isinstance(xla(whole), Type)
