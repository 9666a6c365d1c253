"""Which dimensions move together in products, reductions, windows, sorts, factorisations: text in, axis map out."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Apply, AxisMap, TypeProblem, node_axes

from .agreement import computation
from .oracle import module_text

COMPUTATIONS = (
    "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
    + computation("any", ["f32[]", "f32[]"], "f32[]")
    + computation("less", ["f32[]", "f32[]"], "pred[]")
    + computation("both", ["f32[]", "s32[]", "f32[]", "s32[]"], "(f32[], s32[])")
    + computation("step", ["f32[4]", "f32[5]"], "(f32[6], f32[5])")
)


def axes(instruction: str, kinds: list[str]) -> AxisMap:
    root = parse(module_text(instruction, kinds, COMPUTATIONS)).entry.root
    assert isinstance(root, Apply)
    axis_map = node_axes(root)
    assert axis_map is not None
    return axis_map


BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
MATMUL = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
FEATURES = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
FP8 = ["f8e4m3fn[4,64]", "f8e4m3fn[64,8]"]
SPARSE = "sparsity_config={rhs={sparsity=1x2 dimension=1 stride=1}}"


@pytest.mark.parametrize(
    ("text", "kinds", "expected"),
    [
        (
            f"dot(p0, p1), {MATMUL}",
            ["f32[2,3]", "f32[3,4]"],
            "([a,b], [b,c]) -> [a,c]  a=2 b=3 contracted by add c=4",
        ),
        (
            f"dot(p0, p1), {BATCHED}",
            ["f32[2,3,4]", "f32[2,4,5]"],
            "([a,b,c], [a,c,d]) -> [a,b,d]  a=2 b=3 c=4 contracted by add d=5",
        ),
        ("dot(p0, p1)", ["f32[2]", "f32[3]"], "([a], [b]) -> [a,b]  a=2 b=3"),
        (f"dot(p0, p1), {MATMUL}", ["pred[2,3]", "pred[3]"], "([a,b], [b]) -> [a]  a=2 b=3 contracted by or"),
        (f"dot(p0, p1), {MATMUL}", ["f32[2,?]", "f32[3]"], "([a,b], [b]) -> [a]  a=2 b=3 contracted by add"),
        (
            f"ragged-dot(p0, p1, p2), {FEATURES}",
            ["f32[6,4]", "f32[2,4,5]", "s32[2]"],
            "([a,b], [c,b,d], [c]) -> [a,d]  a=6 need_replication b=4 contracted by add c=2 indexed by add d=5",
        ),
        (
            f"ragged-dot(p0, p1, p2), {MATMUL}, lhs_ragged_dims={{1}}",
            ["f32[6,4]", "f32[4,5]", "s32[3]"],
            "([a,b], [b,c], [d]) -> [d,a,c]  a=6 b=4 need_replication c=5 d=3 need_replication",
        ),
        (
            f"ragged-dot(p0, p1, p2), {BATCHED}, lhs_ragged_dims={{0}}",
            ["f32[6,3,4]", "f32[6,4,5]", "s32[2]"],
            "([a,b,c], [a,c,d], [1]) -> [a,b,d]  a=6 need_replication b=3 c=4 contracted by add d=5",
        ),
        (
            f"ragged-dot(p0, p1, p2), {BATCHED}, lhs_ragged_dims={{2}}",
            ["f32[6,3,4]", "f32[6,4,5]", "s32[6,2]"],
            "([a,b,c], [a,c,d], [a,e]) -> [e,a,b,d]  a=6 b=3 c=4 need_replication d=5 e=2 need_replication",
        ),
        (
            f"scaled-dot(p0, p1, p2, p3), {MATMUL}",
            [*FP8, "f8e8m0fnu[4,2]", "f8e8m0fnu[2,8]"],
            "([a,(bc)], [(bc),d], [a,b], [b,d]) -> [a,d]  a=4 b=2 contracted by add c=32 contracted by add d=8",
        ),
        (
            f"scaled-dot(p0, p1, p2, p3), {MATMUL}",
            [*FP8, "f8e8m0fnu[4,4]", "f8e8m0fnu[2,1]"],
            "([a,(bcd)], [(bcd),e], [a,(bc)], [b,1]) -> [a,e]  "
            "a=4 b=2 contracted by add c=2 contracted by add d=16 contracted by add e=8",
        ),
        (
            f"scaled-dot(p0, p1, p2, p3), {MATMUL}",
            [*FP8, "bf16[]", "f8e8m0fnu[3,8]"],
            "([a,b], [b,c], [], [d,c]) -> [a,c]  a=4 b=64 contracted by add c=8 d=3 need_replication",
        ),
        (
            "convolution(p0, p1), dim_labels=b0f_0io->b0f, window={size=3}",
            ["f32[2,8,4]", "f32[3,4,5]"],
            "([a,b,d], [c,d,e]) -> [a,b,e]  a=2 b=6 windowed c=3 contracted by add d=4 contracted by add e=5",
        ),
        (
            "convolution(p0, p1), dim_labels=bf0_0io->f0b, window={size=3 stride=2}, feature_group_count=2",
            ["f32[2,8,9]", "f32[3,4,6]"],
            "([a,(be),c], [d,e,(bf)]) -> [(bf),c,a]  a=2 b=2 c=4 windowed d=3 contracted by add e=4 contracted by add f=3",
        ),
        (
            "convolution(p0, p1), dim_labels=b0f_0io->b0f, window={size=3}, batch_group_count=2",
            ["f32[6,8,4]", "f32[3,4,10]"],
            "([(ba),c,e], [d,e,(bf)]) -> [a,c,(bf)]  a=3 b=2 c=6 windowed d=3 contracted by add e=4 contracted by add f=5",
        ),
        (
            f"convolution(p0, p1), dim_labels=b0f_0io->b0f, window={{size=3}}, {SPARSE}",
            ["f32[2,8,4]", "f32[3,2,5]"],
            "([a,b,(de)], [c,d,f]) -> [a,b,f]  "
            "a=2 b=6 windowed c=3 contracted by add d=2 contracted by add e=2 indexed by add f=5",
        ),
        (
            "convolution(p0, p1), dim_labels=bf_io->bf",
            ["f32[2,4]", "f32[4,5]"],
            "([a,b], [b,c]) -> [a,c]  a=2 b=4 contracted by add c=5",
        ),
        (
            "reduce(p0, p1), dimensions={1}, to_apply=add",
            ["f32[2,3]", "f32[]"],
            "([a,b], []) -> [a]  a=2 b=3 reduced by add",
        ),
        (
            "reduce(p0, p1), dimensions={0}, to_apply=any",
            ["f32[2,3]", "f32[]"],
            "([a,b], []) -> [b]  a=2 need_replication b=3",
        ),
        (
            "reduce(p0, p1), dimensions={0}, to_apply=nowhere",
            ["f32[2]", "f32[]"],
            "([a], []) -> []  a=2 need_replication",
        ),
        (
            "reduce(p0, p1, p2, p3), dimensions={1}, to_apply=both",
            ["f32[2,3]", "s32[2,3]", "f32[]", "s32[]"],
            "([a,b], [a,b], [], []) -> ([a], [a])  a=2 b=3 need_replication",
        ),
        (
            "reduce-window(p0, p1), window={size=1x2 stride=1x2}, to_apply=add",
            ["f32[3,8]", "f32[]"],
            "([a,b], []) -> [a,b]  a=3 b=4 windowed c=2 reduced by add",
        ),
        (
            "select-and-scatter(p0, p1, p2), window={size=1x2 stride=1x2}, select=less, scatter=add",
            ["f32[3,8]", "f32[3,4]", "f32[]"],
            "([a,b], [a,b], []) -> [a,b]  a=3 b=4 windowed c=2 need_replication",
        ),
        ("sort(p0), dimensions={1}, to_apply=less", ["f32[2,3]"], "([a,b]) -> [a,b]  a=2 b=3 need_replication"),
        (
            "sort(p0, p1), dimensions={0}, to_apply=nowhere",
            ["f32[2,3]", "s32[2,3]"],
            "([a,b], [a,b]) -> ([a,b], [a,b])  a=2 need_replication b=3",
        ),
        ("topk(p0), k=2", ["f32[3,8]"], "([a,b]) -> ([a,c], [a,c])  a=3 b=8 need_replication c=2 need_replication"),
        (
            "scan(p0, p1), dimensions={0}, num_carries=1, to_apply=step",
            ["f32[7,4]", "f32[5]"],
            "([a,1], [1]) -> ([a,1], [1])  a=7 need_replication",
        ),
        (
            "batch-norm-training(p0, p1, p1), epsilon=0.1, feature_index=1",
            ["f32[2,3]", "f32[3]"],
            "([a,b], [b], [b]) -> ([a,b], [b], [b])  a=2 need_replication b=3",
        ),
        (
            "batch-norm-inference(p0, p1, p1, p1, p1), epsilon=0.1, feature_index=1",
            ["f32[2,3]", "f32[3]"],
            "([a,b], [b], [b], [b], [b]) -> [a,b]  a=2 b=3",
        ),
        (
            "batch-norm-grad(p0, p1, p1, p1, p0), epsilon=0.1, feature_index=0",
            ["f32[2,3]", "f32[2]"],
            "([a,b], [a], [a], [a], [a,b]) -> ([a,b], [a], [a])  a=2 b=3 need_replication",
        ),
        ("cholesky(p0)", ["f32[5,3,3]"], "([a,b,c]) -> [a,b,c]  a=5 b=3 need_replication c=3 need_replication"),
        (
            "f32[5,3,2] triangular-solve(p0, p1), left_side=true",
            ["f32[5,3,3]", "f32[5,3,2]"],
            "([a,b,c], [a,b,d]) -> [a,c,d]  a=5 b=3 need_replication c=3 need_replication d=2",
        ),
        (
            "triangular-solve(p0, p1), left_side=true, transpose_a=ADJOINT",
            ["f32[3,3]", "f32[3,2]"],
            "([a,b], [b,c]) -> [a,c]  a=3 need_replication b=3 need_replication c=2",
        ),
        (
            "triangular-solve(p0, p1), transpose_a=NO_TRANSPOSE",
            ["f32[3,3]", "f32[2,3]"],
            "([a,b], [c,b]) -> [c,a]  a=3 need_replication b=3 need_replication c=2",
        ),
        ("fft(p0), fft_type=FFT, fft_length={8}", ["c64[3,8]"], "([a,b]) -> [a,b]  a=3 b=8 need_replication"),
        (
            "fft(p0), fft_type=RFFT, fft_length={4,8}",
            ["f32[3,4,8]"],
            "([a,b,c]) -> [a,b,d]  a=3 b=4 need_replication c=8 need_replication d=5 need_replication",
        ),
    ],
)
def test_axes(text: str, kinds: list[str], expected: str) -> None:
    assert str(axes(text, kinds)) == expected


@pytest.mark.parametrize(
    ("text", "kinds", "operations"),
    [
        (f"dot(p0, p1), {BATCHED}", ["f32[2,3,4]", "f32[2,4,5]"], 2 * 2 * 3 * 4 * 5),
        (
            "convolution(p0, p1), dim_labels=b01f_01io->b01f, window={size=3x3}",
            ["f32[2,8,8,4]", "f32[3,3,4,5]"],
            2 * (2 * 6 * 6 * 5) * (3 * 3 * 4),
        ),
        (
            "convolution(p0, p1), dim_labels=b0f_0io->b0f, window={size=3}, feature_group_count=4",
            ["f32[2,8,4]", "f32[3,1,4]"],
            2 * (2 * 6 * 4) * 3,
        ),
    ],
)
def test_twice_the_points_are_the_operations_of_a_product(text: str, kinds: list[str], operations: int) -> None:
    assert 2 * axes(text, kinds).points == operations


def test_the_points_of_a_pooling_are_what_it_reads() -> None:
    axis_map = axes("reduce-window(p0, p1), window={size=1x3 stride=1x2}, to_apply=add", ["f32[3,9]", "f32[]"])
    assert axis_map.points == 3 * 4 * 3


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (f"f32[] dot(p0, p1), {MATMUL}", ["f32[2,3]", "f32[4]"]),
        ("f32[4] convolution(p0, p0), dim_labels=b0f_0io->b0f, window={size=3}", ["f32[]"]),
        ("f32[] reduce(p0, p1), dimensions={4}, to_apply=add", ["f32[4]", "f32[]"]),
        ("f32[] sort(p0), dimensions={4}, to_apply=less", ["f32[4]"]),
    ],
)
def test_operands_that_do_not_fit_have_no_map(text: str, kinds: list[str]) -> None:
    with pytest.raises(TypeProblem):
        axes(text, kinds)
