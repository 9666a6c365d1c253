"""What each op's axis map says: instruction, operands, map. Letters are factors; those without a kind are parallel.

Covers `leaf_axes.py`.
"""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Apply, node_axes
from hloom.ops import OPS, data_movement, elementwise, indexing, random

from .oracle import module_text

GATHER = "offset_dims={%s}, collapsed_slice_dims={%s}, start_index_map={%s}, index_vector_dim=%d, slice_sizes={%s}"
BATCHED = ", operand_batching_dims={%s}, start_indices_batching_dims={%s}"
SCATTER = "update_window_dims={%s}, inserted_window_dims={%s}, scatter_dims_to_operand_dims={%s}, index_vector_dim=%d"
SCATTER_BATCHED = ", input_batching_dims={%s}, scatter_indices_batching_dims={%s}"
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n\n"
LAST = "last { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }\n\n"

TABLE = [
    # element by element
    ("f32[2,3] negate(p0)", ["f32[2,3]"], "([a,b]) -> [a,b]  a=2 b=3"),
    ("f32[2,3] add(p0, p1)", ["f32[2,3]", "f32[2,3]"], "([a,b], [a,b]) -> [a,b]  a=2 b=3"),
    ("f32[2,3] add(p0, p1)", ["f32[2,1]", "f32[1,3]"], "([a,1], [1,b]) -> [a,b]  a=2 b=3"),
    ("f32[1,3] add(p0, p1)", ["f32[1,3]", "f32[]"], "([a,b], []) -> [a,b]  a=1 b=3"),
    ("f32[2] add(p0, p1)", ["f32[?]", "f32[2]"], "([a], [a]) -> [a]  a=2"),
    ("f32[2] select(p0, p1, p2)", ["pred[]", "f32[2]", "f32[2]"], "([], [a], [a]) -> [a]  a=2"),
    ("f32[2] select(p0, p1, p2)", ["pred[2]", "f32[2]", "f32[2]"], "([a], [a], [a]) -> [a]  a=2"),
    ("f32[2] clamp(p0, p1, p2)", ["f32[]", "f32[2]", "f32[]"], "([], [a], []) -> [a]  a=2"),
    ("pred[2] compare(p0, p1), direction=LT", ["f32[2]", "f32[2]"], "([a], [a]) -> [a]  a=2"),
    ("s32[2] convert(p0)", ["f32[2]"], "([a]) -> [a]  a=2"),
    ("bf16[2] stochastic-convert(p0, p1)", ["f32[2]", "u32[2]"], "([a], [a]) -> [a]  a=2"),
    ("f32[2] reduce-precision(p0), exponent_bits=5, mantissa_bits=3", ["f32[2]"], "([a]) -> [a]  a=2"),
    ("s32[2] bitcast-convert(p0)", ["f32[2]"], "([a]) -> [a]  a=2"),
    ("u8[2,4] bitcast-convert(p0)", ["f32[2]"], "([a]) -> [a,b]  a=2 b=4 need_replication"),
    ("f32[2] bitcast-convert(p0)", ["u8[2,4]"], "([a,b]) -> [a]  a=2 b=4 need_replication"),
    # passed on, leaf by leaf
    ("(f32[2], token[]) copy(p0)", ["(f32[2], token[])"], "([a], []) -> ([a], [])  a=2"),
    ("(f32[2], s32[3]) opt-barrier(p0)", ["(f32[2], s32[3])"], "([a], [b]) -> ([a], [b])  a=2 b=3"),
    ("f32[2] add-dependency(p0, p1)", ["f32[2]", "token[]"], "([a], []) -> [a]  a=2"),
    (
        "(f32[2], s32[3]) tuple-select(p0, p1, p2)",
        ["pred[]", "(f32[2], s32[3])", "(f32[2], s32[3])"],
        "([], [a], [b], [a], [b]) -> ([a], [b])  a=2 b=3",
    ),
    # shapes
    ("f32[2,3,4] broadcast(p0), dimensions={1}", ["f32[3]"], "([b]) -> [a,b,c]  a=2 b=3 c=4"),
    ("f32[2] broadcast(p0), dimensions={}", ["f32[]"], "([]) -> [a]  a=2"),
    ("f32[3,2] transpose(p0), dimensions={1,0}", ["f32[2,3]"], "([a,b]) -> [b,a]  a=2 b=3"),
    ("f32[2,5] concatenate(p0, p1), dimensions={1}", ["f32[2,2]", "f32[2,3]"], "([a,b], [a,b]) -> [a,b]  a=2 b=5 shifted"),
    ("f32[2] concatenate(p0), dimensions={0}", ["f32[2]"], "([a]) -> [a]  a=2"),
    ("f32[2,4] slice(p0), slice={[0:2], [1:5]}", ["f32[2,8]"], "([a,b]) -> [a,b]  a=2 b=4 shifted"),
    ("f32[2,6] pad(p0, p1), padding=0_0x1_2", ["f32[2,3]", "f32[]"], "([a,b], []) -> [a,b]  a=2 b=6 shifted"),
    ("f32[2,3] reverse(p0), dimensions={0}", ["f32[2,3]"], "([a,b]) -> [a,b]  a=2 shifted b=3"),
    ("s32[2,3] iota(), iota_dimension=1", [], "() -> [a,b]  a=2 b=3"),
    ("s32[] get-dimension-size(p0), dimensions={0}", ["f32[<=2,3]"], "([a,b]) -> []  a=2 reduced by add b=3"),
    ("f32[<=2,3] set-dimension-size(p0, p1), dimensions={0}", ["f32[2,3]", "s32[]"], "([a,b], []) -> [a,b]  a=2 need_replication b=3"),
    # reshapes: [(xy),z] -> [x,(yz)]
    ("f32[2,128] reshape(p0)", ["f32[8,32]"], "([(ab),c]) -> [a,(bc)]  a=2 b=4 c=32"),
    ("f32[24] reshape(p0)", ["f32[2,3,4]"], "([a,b,c]) -> [(abc)]  a=2 b=3 c=4"),
    ("f32[2,3,4] reshape(p0)", ["f32[6,4]"], "([(ab),c]) -> [a,b,c]  a=2 b=3 c=4"),
    ("f32[1,6,1] reshape(p0)", ["f32[6]"], "([a]) -> [1,a,1]  a=6"),
    ("f32[] reshape(p0)", ["f32[1,1]"], "([1,1]) -> []  "),
    ("f32[4,6] reshape(p0)", ["f32[6,4]"], "([(ab),e]) -> [(ac),d]  a=2 b=3 need_replication c=2 need_replication d=6 need_replication e=4 need_replication"),
    ("f32[5,6,7] reshape(p0)", ["f32[6,5,7]"], "([a,d,e]) -> [b,c,e]  a=6 need_replication b=5 need_replication c=6 need_replication d=5 need_replication e=7"),
    ("f32[2,3,0] reshape(p0)", ["f32[2,0,4]"], "([a,b,c]) -> [a,d,e]  a=2 b=0 need_replication c=4 need_replication d=3 need_replication e=0 need_replication"),
    ("f32[2,3] reshape(p0)", ["f32[?,3]"], "([a,b]) -> [c,d]  a=-1 need_replication b=3 need_replication c=2 need_replication d=3 need_replication"),
    ("f32[<=6] dynamic-reshape(p0, p1)", ["f32[2,3]", "s32[]"], "([a,b], []) -> [(ab)]  a=2 b=3"),
    ("f32[3,2]{0,1} bitcast(p0)", ["f32[2,3]{1,0}"], "([a,b]) -> [b,a]  a=2 b=3"),
    ("f32[3,2]{1,0} bitcast(p0)", ["f32[6]{0}"], "([(ab)]) -> [a,b]  a=3 b=2"),
    ("u8[8] bitcast(p0)", ["f32[2]"], "([a]) -> [b]  a=2 need_replication b=8 need_replication"),
    # indexing
    ("f32[5,4] gather(p0, p1), " + GATHER % ("1", "0", "0", 1, "1,4"), ["f32[8,4]", "s32[5,1]"],
     "([b,c], [a,1]) -> [a,c]  a=5 b=8 indexed c=4"),
    ("f32[5,4] gather(p0, p1), " + GATHER % ("1", "0", "0", 1, "1,4"), ["f32[8,4]", "s32[5]"],
     "([b,c], [a]) -> [a,c]  a=5 b=8 indexed c=4"),
    ("f32[5,3] gather(p0, p1), " + GATHER % ("1", "0", "0,1", 0, "1,3"), ["f32[8,4]", "s32[2,5]"],
     "([c,d], [a,b]) -> [b,e]  a=2 need_replication b=5 c=8 indexed d=4 need_replication e=3 need_replication"),
    ("f32[7,5,4] gather(p0, p1), " + GATHER % ("2", "1", "1", 2, "1,1,4") + BATCHED % ("0", "0"),
     ["f32[7,8,4]", "s32[7,5,1]"], "([a,c,d], [a,b,1]) -> [a,b,d]  a=7 b=5 c=8 indexed d=4"),
    ("f32[8,4] scatter(p0, p1, p2), to_apply=add, " + SCATTER % ("1", "0", "0", 1),
     ["f32[8,4]", "s32[5,1]", "f32[5,4]"], "([b,c], [a,1], [a,c]) -> [b,c]  a=5 reduced by add b=8 indexed c=4"),
    ("f32[8,4] scatter(p0, p1, p2), to_apply=last, " + SCATTER % ("1", "0", "0", 1),
     ["f32[8,4]", "s32[5,1]", "f32[5,3]"],
     "([b,c], [a,1], [a,d]) -> [b,c]  a=5 need_replication b=8 indexed c=4 need_replication d=3 need_replication"),
    ("f32[7,8,4] scatter(p0, p1, p2), to_apply=add, " + SCATTER % ("2", "1", "1", 2) + SCATTER_BATCHED % ("0", "0"),
     ["f32[7,8,4]", "s32[7,5,1]", "f32[7,5,4]"],
     "([a,c,d], [a,b,1], [a,b,d]) -> [a,c,d]  a=7 b=5 reduced by add c=8 indexed d=4"),
    ("f32[5,4,6] dynamic-slice(p0, p1, p2, p3), dynamic_slice_sizes={1,4,3}", ["f32[8,4,6]", *["s32[]"] * 3],
     "([a,b,c], [], [], []) -> [1,b,d]  a=8 indexed b=4 c=6 need_replication d=3 need_replication"),
    ("f32[1,4] dynamic-slice(p0, p1), dynamic_slice_sizes={1,4}", ["f32[8,4]", "s32[2]"],
     "([a,b], [c]) -> [1,b]  a=8 indexed b=4 c=2 need_replication"),
    ("f32[8,4] dynamic-update-slice(p0, p1, p2, p3)", ["f32[8,4]", "f32[1,4]", "s32[]", "s32[]"],
     "([a,b], [1,b], [], []) -> [a,b]  a=8 indexed b=4"),
    ("f32[8,4] dynamic-update-slice(p0, p1, p2, p3)", ["f32[8,4]", "f32[3,4]", "s32[]", "s32[]"],
     "([a,c], [b,c], [], []) -> [a,c]  a=8 need_replication b=3 need_replication c=4"),
    # random numbers
    ("f32[2,3] rng(p0, p1), distribution=rng_uniform", ["f32[]", "f32[]"], "([], []) -> [a,b]  a=2 b=3"),
    ("(u64[2], u32[5]) rng-bit-generator(p0), algorithm=rng_default", ["u64[2]"],
     "([a]) -> ([a], [b])  a=2 need_replication b=5 need_replication"),
    ("u64[2] rng-get-and-update-state(), delta=1", [], "() -> [a]  a=2 need_replication"),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "kinds", "expected"), TABLE, ids=[row[0].partition(",")[0] for row in TABLE])
def test_axis_map(instruction: str, kinds: list[str], expected: str) -> None:
    root = parse(module_text(instruction, kinds, ADD + LAST)).entry.output
    assert isinstance(root, Apply)
    assert str(node_axes(root)) == expected


def test_the_table_has_every_op() -> None:
    """All but those that go element by element like another one does."""
    shown = {instruction.partition("(p")[0].partition("()")[0].split()[-1] for instruction, _, _ in TABLE}
    rows = {**elementwise.ROWS, **data_movement.ROWS, **indexing.ROWS, **random.ROWS}
    assert all(name in shown or op.axes is OPS["negate"].axes for name, op in rows.items())


@pytest.mark.parametrize(("name", "effect"), [
    ("rng", "state"),
    ("rng-get-and-update-state", "state"),
    ("opt-barrier", "order"),
    ("add-dependency", "order"),
])  # fmt: skip
def test_effects(name: str, effect: str) -> None:
    declared = OPS[name].effect
    assert declared is not None and declared.value == effect


def test_all_others_are_pure() -> None:
    rows = [*elementwise.ROWS.values(), *data_movement.ROWS.values(), *indexing.ROWS.values(), *random.ROWS.values()]
    assert {op.name for op in rows if op.effect} == {"rng", "rng-get-and-update-state", "opt-barrier", "add-dependency"}


@pytest.mark.parametrize(
    ("instruction", "operand", "sources", "targets"),
    [
        ("f32[2,3,4] broadcast(p0), dimensions={1}", "f32[3]", (None, 0, None), (1,)),
        ("f32[3,2] transpose(p0), dimensions={1,0}", "f32[2,3]", (1, 0), (1, 0)),
        ("f32[1,2] transpose(p0), dimensions={1,0}", "f32[2,1]", (1, 0), (1, 0)),
        ("f32[2,3] reshape(p0)", "f32[2,1,3]", (0, 2), (0, None, 1)),
        ("f32[2,12] reshape(p0)", "f32[2,3,4]", (0, None), (0, None, None)),
        ("f32[6] reshape(p0)", "f32[6]", (0,), (0,)),
        ("f32[3,2] copy(p0)", "f32[3,2]", (0, 1), (0, 1)),
    ],
)
def test_an_axis_map_says_which_whole_dimensions_are_the_same(instruction, operand, sources, targets):
    node = parse(f"ENTRY e {{ p0 = {operand} parameter(0) ROOT r = {instruction} }}").entry.root
    assert isinstance(node, Apply)
    axes = node_axes(node)
    assert axes is not None
    assert (axes.source_dims(), axes.target_dims()) == (sources, targets)
