"""Following a tiling through a module: what is split, where it stops and why, what that costs.

Covers `solver.py`, `dimension_equations.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.distribute.propagation import DataflowGraph, Propagation, enumerate_tilings, propagate
from hloom.distribute.propagation.conflicts import SHARED, TWICE
from hloom.formats.hlo import load, parse
from hloom.ir import Module
from hloom.sharding import Mesh, spec_of
from hloom.text import HloomError

EXAMPLES = Path(__file__).parent / "examples"
TRAINING_STEPS = Path(__file__).resolve().parents[2] / "training_steps"
SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
MAX = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) } "


def found_in(body: str, seeds: list[str], mesh: str, before: str = "") -> Propagation:
    return propagate(parse(before + "ENTRY e { " + body + " }"), seeds, mesh)


def specs(propagation: Propagation, *names: str) -> list[str]:
    """The specs of nodes of the entry (or `computation/node`), as text."""
    module: Module = propagation.module
    nodes = [module[n.partition("/")[0]][n.partition("/")[2]] if "/" in n else module.entry[n] for n in names]
    return [" ".join(map(str, propagation.specs_of(node))) for node in nodes]


@pytest.mark.parametrize(("dimension", "size"), [(0, 3), (1, 5), (2, 4)])
def test_the_example_of_a_fused_gradient(dimension: int, size: int):
    """Dimensions 0 and 1 are those of all nine arrays; dimension 2 is of the five that have it."""
    module = load(EXAMPLES / "fused_computation.3461.clone.hlo")
    propagation = propagate(module, [f"param_9:{dimension}=x"], Mesh(("x",), (size,)))
    split = {parameter.name.partition(".")[0]: propagation.spec(parameter) for parameter in module.entry.parameters}
    for name, spec in split.items():
        wanted = spec.rank > dimension
        assert spec.dimension_of("x") == (dimension if wanted else None), name
    assert sum(not spec.is_replicated for spec in split.values()) == (9 if dimension < 2 else 5)
    assert not propagation.conflicts
    assert not propagation.collectives


def test_a_contracted_factor_leaves_a_partial_sum():
    body = (
        "x = f32[8,4] parameter(0) w = f32[4,6] parameter(1) "
        'ROOT y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="layer/dot" '
        'source_file="model.py" source_line=7}'
    )
    propagation = found_in(body, ["x:1=model"], "data=2,model=4")
    assert specs(propagation, "x", "w", "y") == ["[-,model]", "[model,-]", "[-,-]"]
    (partial,) = propagation.partials
    assert (partial.node.name, partial.axes, partial.reducer) == ("y", ("model",), "add")
    (reduction,) = propagation.collectives
    assert (reduction.opcode, reduction.local_bytes, reduction.comm_bytes) == ("all-reduce", 192, 288)
    assert (reduction.source, reduction.scope) == ("model.py:7", "layer/dot")


def test_a_split_result_is_summed_in_parts():
    body = "x = f32[8,4] parameter(0) zero = f32[] constant(0) "
    body += "ROOT y = f32[8] reduce(x, zero), dimensions={1}, to_apply=max"
    propagation = found_in(body, ["x:0=data", "x:1=model"], "data=2,model=2", MAX)
    assert specs(propagation, "y") == ["[data]"]
    assert propagation.partials[0].reducer == "maximum"
    assert propagation.collectives[0].local_bytes == 16


def test_only_the_major_part_of_a_dimension_can_be_split_alone():
    body = "x = f32[4,6] parameter(0) y = f32[24] reshape(x) ROOT z = f32[24] negate(y)"
    assert specs(found_in(body, ["x:0=a"], "a=2"), "y", "z") == ["[a]", "[a]"]
    propagation = found_in(body, ["x:1=a"], "a=2")
    assert specs(propagation, "y", "z") == ["[-]", "[-]"]
    assert [(node.name, dimension, axis) for node, dimension, axis in propagation.alone] == [("y", 0, "a")]
    assert [(collective.opcode, collective.value) for collective in propagation.collectives] == [("all-gather", "x")]


def test_the_minor_part_can_be_split_behind_the_whole_major_part():
    body = "x = f32[4,6] parameter(0) ROOT y = f32[24] reshape(x)"
    assert specs(found_in(body, ["x:0=a", "x:1=b"], "a=4,b=2"), "y") == ["[a.b]"]
    assert specs(found_in(body, ["x:0=a", "x:1=b"], "a=2,b=2"), "y") == ["[a]"]
    assert specs(found_in(body, ["y:0=a.b"], "a=4,b=2"), "x") == ["[a,b]"]


def test_uneven_parts_pass_where_the_dimension_passes_whole():
    body = "x = f32[10,3] parameter(0) y = f32[10,3] negate(x) ROOT z = f32[30] reshape(y)"
    propagation = found_in(body, ["x:0=a"], "a=4")
    assert specs(propagation, "y", "z") == ["[a,-]", "[-]"]
    (gather,) = propagation.collectives
    assert gather.reason == "4 parts do not divide the dimension's major factor of size 10"


@pytest.mark.parametrize(
    ("body", "opcode", "reason"),
    [
        ("ROOT y = f32[6] slice(x), slice={[1:7]}", "collective-permute", "elements move to other parts"),
        ("ROOT y = f32[8] reverse(x), dimensions={0}", "collective-permute", "elements move to other parts"),
        (
            "z = f32[] constant(0) ROOT y = f32[8] reduce-window(x, z), window={size=3 pad=1_1}, to_apply=sum",
            "halo exchange",
            "windows reach over the edges of the parts",
        ),
        (
            'ROOT y = f32[8] custom-call(x), custom_call_target="mine"',
            "all-gather",
            "nobody knows what mine computes",
        ),
        ("ROOT y = f32[8] all-gather-done(x)", "all-gather", "all-gather-done has no rule"),
    ],
)
def test_what_does_not_pass_is_said(body: str, opcode: str, reason: str):
    propagation = found_in("x = f32[8] parameter(0) " + body, ["x:0=a"], "a=2", SUM)
    assert [(collective.opcode, collective.node.name, collective.reason) for collective in propagation.collectives] == [
        (opcode, "y", reason)
    ]
    assert specs(propagation, "y")[0] == ("[-]")


def test_a_custom_call_on_batches_passes_them():
    body = 'x = f32[6,4,4] parameter(0) ROOT y = f32[6,4,4] custom-call(x), custom_call_target="lapack_spotrf_ffi"'
    propagation = found_in(body, ["x:0=a", "x:1=b"], "a=2,b=2")
    assert specs(propagation, "y") == ["[a,-,-]"]
    (gather,) = propagation.collectives
    assert gather.reason == "of lapack_spotrf_ffi only the batch dimensions are known"


def test_a_table_split_by_rows_masks_and_sums():
    body = (
        "t = f32[8,4] parameter(0) i = s32[5,1] parameter(1) ROOT y = f32[5,4] gather(t, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"
    )
    propagation = found_in(body, ["t:0=a", "i:0=b"], "a=2,b=5")
    assert specs(propagation, "y") == ["[b,-]"]
    assert propagation.partials[0].axes == ("a",)
    contradiction = found_in(body, ["t:0=a", "i:0=a"], "a=2")
    assert [conflict.reason for conflict in contradiction.conflicts] == [TWICE]
    assert specs(contradiction, "y") == ["[-,-]"]


CONTROL = """
cond { s = (s32[], f32[8,4]) parameter(0) n = s32[] get-tuple-element(s), index=0 k = s32[] constant(3)
  ROOT lt = pred[] compare(n, k), direction=LT }
body { s = (s32[], f32[8,4]) parameter(0) n = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  x = f32[8,4] get-tuple-element(s), index=1 zero = f32[] constant(0)
  more = s32[] add(n, one) r = f32[8] reduce(x, zero), dimensions={1}, to_apply=sum
  b = f32[8,4] broadcast(r), dimensions={0} y = f32[8,4] add(x, b) ROOT t = (s32[], f32[8,4]) tuple(more, y) }
"""


def test_a_loop_carries_one_tiling():
    body = (
        "x = f32[8,4] parameter(0) z = s32[] constant(0) s = (s32[], f32[8,4]) tuple(z, x) "
        "w = (s32[], f32[8,4]) while(s), condition=cond, body=body ROOT y = f32[8,4] get-tuple-element(w), index=1"
    )
    propagation = found_in(body, ["y:1=m"], "m=2", SUM + CONTROL)
    names = ("x", "s", "w", "body/s", "body/y", "body/t", "cond/s", "y")
    assert {spec.split()[-1] for spec in specs(propagation, *names)} == {"[-,m]"}
    (reduction,) = propagation.collectives
    assert (reduction.node.name, reduction.times, reduction.comm_bytes, reduction.total) == ("r", 3, 32, 96)


def test_calls_fusions_and_branches_pass_on():
    before = (
        "f { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) } g { p = f32[8] parameter(0) ROOT n = f32[8] sine(p) } "
        "h { p = f32[8] parameter(0) ROOT t = (f32[8], f32[8]) tuple(p, p) } "
    )
    body = (
        "x = f32[8] parameter(0) c = pred[] parameter(1) k = f32[8] call(x), to_apply=f "
        "o = f32[8] conditional(c, k, x), true_computation=f, false_computation=g "
        "u = (f32[8], f32[8]) fusion(o), kind=kLoop, calls=h ROOT y = f32[8] get-tuple-element(u), index=1"
    )
    propagation = found_in(body, ["x:0=a"], "a=2", before)
    assert set(specs(propagation, "x", "k", "o", "y", "f/n", "g/n", "h/p")) == {"[a]"}
    assert specs(propagation, "u", "c") == ["[a] [a]", "[]"]


def test_two_axes_on_one_part_conflict():
    body = "x = f32[4] parameter(0) w = f32[4] parameter(1) n = f32[4] negate(x) ROOT y = f32[4] add(n, w)"
    propagation = found_in(body, ["x:0=a", "w:0=b"], "a=2,b=2")
    (conflict,) = propagation.conflicts
    assert (conflict.reason, conflict.axes, conflict.seeds) == (SHARED, ("a", "b"), ("x:0=a", "w:0=b"))
    assert {node.name for path in conflict.paths for node in path} >= {"x", "w"}
    assert specs(propagation, "x", "w", "n", "y") == ["[a]", "[b]", "[-]", "[-]"]


def test_one_axis_on_two_dimensions_conflicts_only_where_both_are():
    """Attention's scores have the sequence twice; what leads there and away keeps its split."""
    body = (
        "q = f32[8,4] parameter(0) n = f32[8,4] negate(q) s = f32[8,8] dot(q, n), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1} e = f32[8,8] exponential(s) ROOT y = f32[8,4] dot(e, n), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}"
    )
    propagation = found_in(body, ["q:0=a"], "a=2")
    assert specs(propagation, "q", "n", "s", "e", "y") == ["[a,-]", "[a,-]", "[-,-]", "[-,-]", "[-,-]"]
    (conflict,) = propagation.conflicts
    assert (conflict.reason, conflict.node.name, conflict.dimensions) == (
        TWICE,
        "s",
        ("dimension 0 of q", "dimension 0 of n"),
    )
    assert "q -> n -> s" in str(conflict)


def test_values_that_come_from_nowhere_connect_nobody():
    body = (
        "x = f32[8,8] parameter(0) w = f32[8,8] parameter(1) one = f32[] constant(1) "
        "ones = f32[8,8] broadcast(one), dimensions={} twos = f32[8,8] add(ones, ones) "
        "a = f32[8,8] multiply(x, twos) b = f32[8,8] multiply(w, twos) ROOT t = (f32[8,8], f32[8,8]) tuple(a, b)"
    )
    propagation = found_in(body, ["x:0=m"], "m=2")
    assert specs(propagation, "a", "b", "w", "twos") == ["[m,-]", "[-,-]", "[-,-]", "[m,-]"]
    both = found_in(body, ["x:0=m", "w:1=m"], "m=2")
    assert specs(both, "a", "b", "twos") == ["[m,-]", "[-,m]", "[-,-]"]
    assert not both.conflicts
    assert not both.collectives


def test_megatron_with_data_parallelism_has_no_conflict():
    body = (
        "x = f32[8,4] parameter(0) u = f32[4,16] parameter(1) v = f32[16,4] parameter(2) "
        "h = f32[8,16] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0} g = f32[8,16] tanh(h) "
        "y = f32[8,4] dot(g, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT z = f32[8,4] add(x, y)"
    )
    propagation = found_in(body, ["x:0=data", "u:1=model"], "data=2,model=4")
    assert specs(propagation, "x", "u", "v", "h", "z") == [
        "[data,-]",
        "[-,model]",
        "[model,-]",
        "[data,model]",
        "[data,-]",
    ]
    assert [(partial_sum.node.name, partial_sum.axes) for partial_sum in propagation.partials] == [("y", ("model",))]


MEASURED = [
    ("mlp", ["args_0_.1:0=x", "args_6_.1:1=x", "args_10_.1:1=x", "args_14_.1:1=x"], 411_041_792),
    ("mlp", ["args_48_.1:0=x"], 3_758_669_831),
    ("dlrm", ["args_6_.1:0=x"], 915_403_783),
]
"""Bytes that one device sends in what XLA's partitioner makes of tensor parallelism, and twice of data parallelism."""


@pytest.mark.parametrize(("case", "seeds", "comm_bytes"), MEASURED)
def test_the_bytes_are_those_that_xla_sends(case: str, seeds: list[str], comm_bytes: int):
    propagation = propagate(load(TRAINING_STEPS / f"{case}.hlo"), seeds, "x=8")
    assert propagation.comm_bytes == pytest.approx(comm_bytes, rel=1e-8)


def test_a_fragment_is_followed_as_far_as_it_goes():
    propagation = propagate(load(EXAMPLES / "fusion.8228.hlo"), ["dot.2067:0=x"], "x=2")
    (gather,) = propagation.collectives
    assert (gather.node.name, gather.reason) == ("fusion.8228", "fusion has no rule")


def test_specs_may_be_given_by_node():
    module = parse("ENTRY e { x = f32[8,4] parameter(0) ROOT y = f32[8,4] negate(x) }")
    propagation = propagate(module, {module.entry["x"]: spec_of(["a", "b"])}, "a=2,b=2")
    assert str(propagation.spec(module.entry["y"])) == "[a,b]"
    assert propagation.seeds == ("x:0=a", "x:1=b")


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (["x:0"], "'x:0' sets nothing"),
        (["q:0=a"], "graph e has no node 'q'"),
        (["x:2=a"], "'x:2=a': x is f32[8,4], of rank 2"),
        (["x:0=c"], "the mesh a=2,b=16 has no axis 'c'"),
        (["x:0=a", "x:1=a"], "axis a stands twice in [a,a]"),
        (["x:0=a", "x:0=b"], "'x:0=b': dimension 0 of x is set already, to a"),
        (["x:0=b"], "dimension 0 of x has 8 elements: too few for 16 parts"),
        (["t:0=a"], "t is a tuple of 2 arrays"),
        (["t{5}:0=a"], "t has 2 arrays, and no number 5"),
    ],
)
def test_wrong_demands_are_refused(seeds: list[str], message: str):
    with pytest.raises(HloomError) as raised:
        found_in("x = f32[8,4] parameter(0) ROOT t = (f32[8,4], f32[8,4]) tuple(x, x)", seeds, "a=2,b=16")
    assert raised.value.message == message


def test_all_of_it_as_plain_values():
    body = "x = f32[8,4] parameter(0) zero = f32[] constant(0) "
    body += "ROOT y = f32[8] reduce(x, zero), dimensions={1}, to_apply=sum"
    record = found_in(body, ["x:1=m"], "m=2", SUM).to_json()
    assert record["mesh"] == {"m": 2}
    assert record["values"] == [
        {
            "computation": "e",
            "value": "x",
            "opcode": "parameter",
            "type": "f32[8,4]",
            "spec": "[-,m]",
            "local": "f32[8,2]",
        }
    ]
    assert record["comm_bytes"] == 32
    assert record["partials"][0]["axes"] == ["m"]


MLP = (
    "ENTRY e { x = f32[8,4] parameter(0) u = f32[4,16] parameter(1) v = f32[16,4] parameter(2) "
    "h = f32[8,16] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0} g = f32[8,16] tanh(h) "
    "ROOT y = f32[8,4] dot(g, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
)


def test_tilings_are_listed_and_priced():
    """By rows; by the inner dimension; by what goes in and what comes out together: these meet nowhere."""
    enumeration = enumerate_tilings(parse(MLP), "m", 4)
    assert {tiling.seeds for tiling in enumeration.tilings} == {("x:0=m",), ("u:1=m",), ("x:1=m", "v:1=m")}
    rows = next(tiling for tiling in enumeration.tilings if tiling.seeds == ("x:0=m",))
    assert {name: str(spec) for name, spec in rows.parameters.items()} == {"x": "[m,-]"}
    assert rows.price == (512, 32 + 512 + 32, 0)
    inner = next(tiling for tiling in enumeration.tilings if tiling.seeds == ("u:1=m",))
    assert inner.price == (512, 128 + 128 + 128, 192)
    assert enumeration.is_complete
    assert not enumeration.is_merged


def test_tilings_that_others_beat_are_left_out():
    """Splitting the summed dimension saves less and sends more."""
    body = "x = f32[8,4] parameter(0) zero = f32[] constant(0) "
    body += "ROOT y = f32[8] reduce(x, zero), dimensions={1}, to_apply=sum"
    enumeration = enumerate_tilings(parse(SUM + "ENTRY e { " + body + " }"), "m", 4)
    assert {tiling.seeds for tiling in enumeration.tilings} == {("x:0=m",), ("x:1=m",)}
    assert [tiling.seeds for tiling in enumeration.pruned()] == [("x:0=m",)]
    assert len(enumerate_tilings(parse(MLP), "m", 4).pruned()) == 3


def test_alike_layers_are_tied_where_there_are_too_many_tilings():
    layers = "".join(
        f"p{n} = f32[4,8] parameter({n}) q{n} = f32[8,4] transpose(p{n}), dimensions={{1,0}} " for n in range(12)
    )
    root = f"ROOT t = ({', '.join(['f32[8,4]'] * 12)}) tuple({', '.join(f'q{n}' for n in range(12))})"
    module = parse(f"ENTRY e {{ {layers}{root} }}")
    enumeration = enumerate_tilings(module, "m", 2)
    assert (len(enumeration.tilings), enumeration.components, enumeration.is_merged, enumeration.is_complete) == (
        2,
        24,
        True,
        True,
    )
    assert len(enumerate_tilings(module, "m", 2, limit=5000).tilings) == 4096


def test_a_collective_that_yields_no_array_has_no_rule():
    module = parse(
        "ENTRY e { x = f32[8,16] parameter(0)\n"
        " ROOT a = b(f32[2]) all-to-all(x), replica_groups={{0,1,2,3}}, dimensions={0} }"
    )
    (equation,) = [equation for equation in DataflowGraph(module).equations if equation.node.opcode == "all-to-all"]
    assert equation.rule.reason == "a collective yields arrays, not b(f32[2])"
