"""Loops of different dimensions as one kernel of a GPU, and updates of several arrays (`horizontal_fusion.py`).

The cases restate those of XLA's xla/service/gpu/transforms/horizontal_loop_fusion_test.cc, with fusions taken apart.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloom
from hloom.analysis import cost, device
from hloom.ir import Module, TensorType, verify
from hloom.passes.fusion import clustered, fusion_target, fusions
from hloom.passes.fusion.horizontal_fusion import sliced_loops, unsliced
from hloom.passes.fusion.kernel_model import Kernel
from hloom.runtime import accepts, run
from tests.helpers.properties import examples
from tests.passes.fusion.test_cluster import ADD, entry, fused
from tests.passes.fusion.test_multi_output import of
from tests.passes.rule_assertions import assert_same_numbers

FIRST = (
    "first { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)\n"
    "  g = pred[] compare(a, b), direction=GE  v = f32[] select(g, a, b)  s = s32[] select(g, i, j)\n"
    "  ROOT r = (f32[], s32[]) tuple(v, s) }\n"
)


def kernels(module: Module) -> list[tuple[str, int]]:
    """The kind and the number of results of each fusion, in every computation that runs."""
    return [
        (node.attributes["kind"], len(list(node.type.leaves())) if node.type else 0)
        for graph in module.graphs
        for node in graph.nodes
        if node.opcode == "fusion"
    ]


def parameters(*types: str) -> list[str]:
    return [f"p{n} = {array} parameter({n})" for n, array in enumerate(types)]


def gradient_descent(count: int) -> list[str]:
    """A step of as many variables, no two of which have the same dimensions."""
    lines, results = [], []
    for n in range(count):
        array = f"f32[{n + 1},8]"
        lines += [
            f"v{n} = {array} parameter({3 * n})",
            f"a{n} = f32[] parameter({3 * n + 1})",
            f"d{n} = {array} parameter({3 * n + 2})",
        ]
        lines += [f"b{n} = {array} broadcast(a{n}), dimensions={{}}", f"m{n} = {array} multiply(b{n}, d{n})"]
        lines.append(f"o{n} = {array} subtract(v{n}, m{n})")
        results += [array, f"o{n}"]
    return [*lines, of(*results)]


def rms_prop(count: int) -> list[str]:
    """A step with the mean of squares and momentum: three results for each variable."""
    lines, results = [], []
    for n in range(count):
        array = f"f32[2,{24 + n}]"
        names = ("grad", "ms", "momentum", "mom", "var")
        lines += [f"{name}{n} = {array} parameter({9 * n + at})" for at, name in enumerate(names)]
        for at, name in enumerate(("rho", "rest", "rate", "epsilon")):
            lines.append(f"{name}{n} = f32[] parameter({9 * n + 5 + at})")
            lines.append(f"{name}s{n} = {array} broadcast({name}{n}), dimensions={{}}")
        lines += [
            f"square{n} = {array} multiply(grad{n}, grad{n})", f"a{n} = {array} multiply(square{n}, rests{n})",
            f"b{n} = {array} multiply(ms{n}, rhos{n})", f"c{n} = {array} add(a{n}, b{n})", f"k{n} = {array} multiply(momentum{n}, mom{n})",
            f"e{n} = {array} add(c{n}, epsilons{n})", f"r{n} = {array} rsqrt(e{n})", f"g{n} = {array} multiply(grad{n}, r{n})",
            f"l{n} = {array} multiply(rates{n}, g{n})", f"w{n} = {array} add(k{n}, l{n})", f"y{n} = {array} subtract(var{n}, w{n})",
        ]  # fmt: skip
        results += [array, f"c{n}", array, f"w{n}", array, f"y{n}"]
    return [*lines, of(*results)]


TOGETHER: dict[str, tuple[list[tuple[str, int]], str]] = {
    "two loops": ([("kInput", 2)], entry(
        *parameters("f16[1024]", "f16[1024]", "f16[123]", "f16[123]"), "m = f16[1024] multiply(p0, p1)", "a = f16[123] add(p2, p3)",
        of("f16[1024]", "m", "f16[123]", "a"))),
    "small loops beside each other, and large ones": ([("kInput", 2), ("kLoop", 2), ("kLoop", 2)], entry(
        *parameters(*["f16[129,2048]"] * 4, *["f16[130,2048]"] * 4, "f16[123]", "f16[123]", "f16[128]", "f16[128]"),
        "a = f16[129,2048] multiply(p0, p1)", "b = f16[129,2048] multiply(p2, p3)", "c = f16[130,2048] multiply(p4, p5)",
        "d = f16[130,2048] multiply(p6, p7)", "e = f16[123] add(p8, p9)", "f = f16[128] add(p10, p11)",
        of(*["f16[129,2048]", "a", "f16[129,2048]", "b"], *["f16[130,2048]", "c", "f16[130,2048]", "d"], "f16[123]", "e", "f16[128]", "f"))),
    "loops of several instructions and dimensions": ([("kInput", 2)], entry(
        *parameters(*["f32[4,1024]"] * 3, *["f32[321,5]"] * 3), "k = f32[] constant(3)", "l = f32[] constant(3)",
        "c = f32[4,1024] broadcast(k), dimensions={}", "d = f32[321,5] broadcast(l), dimensions={}", "e = f32[4,1024] multiply(p0, p1)",
        "f = f32[4,1024] multiply(p2, c)", "g = f32[4,1024] add(e, f)", "h = f32[321,5] multiply(p3, p4)", "i = f32[321,5] multiply(p5, d)",
        "j = f32[321,5] add(h, i)", of("f32[4,1024]", "g", "f32[321,5]", "j"))),
    "gradient descent": ([("kInput", 24)] * 5 + [("kInput", 8)], entry(*gradient_descent(128))),
    "several results each": ([("kInput", 4)], entry(
        *parameters(*["f16[1024]"] * 4, *["f16[123]"] * 4), "a = f16[1024] multiply(p0, p1)", "b = f16[1024] multiply(p2, p3)",
        "c = f16[1024] add(a, b)", "d = f16[123] add(p4, p5)", "e = f16[123] add(p6, p7)", "f = f16[123] multiply(d, e)",
        of("f16[1024]", "c", "f16[1024]", "a", "f16[123]", "f", "f16[123]", "d"))),
    "optimizer with three results each": ([("kInput", 24)] * 6, entry(*rms_prop(48))),
    "updates of two arrays": ([("kLoop", 2)], entry(
        *parameters(*["f16[5,9,10]"] * 2, "s32[]", "s32[]", *["f16[1,9,10]"] * 2), "o = s32[] constant(0)",
        "a = f16[5,9,10] dynamic-update-slice(p0, p4, p2, o, o)", "b = f16[5,9,10] dynamic-update-slice(p1, p5, p3, o, o)",
        of("f16[5,9,10]", "a", "f16[5,9,10]", "b"))),
    "loops of equal dimensions that share an array": ([("kLoop", 2)], entry(
        *parameters(*["f16[123]"] * 3), "m = f16[123] multiply(p0, p1)", "a = f16[123] add(p2, p1)", of("f16[123]", "m", "f16[123]", "a"))),
    "loops that need single elements": ([("kInput", 2)], entry(
        *parameters("f16[]", "f16[]", "f16[123]", "f16[456]"), "d = f16[] sqrt(p0)", "e = f16[] sqrt(p1)",
        "b = f16[123] broadcast(d), dimensions={}", "m = f16[123] multiply(b, p2)", "c = f16[456] broadcast(e), dimensions={}",
        "a = f16[456] add(c, p3)", of("f16[123]", "m", "f16[456]", "a"))),
    "loops that need two single elements each": ([("kLoop", 2)], entry(
        *parameters("f32[256,256]", "f32[256,256]", *["f32[]"] * 4), *(f"d{n} = f32[] sqrt(p{n + 2})" for n in range(4)),
        "m = f32[] multiply(d0, d1)", "b = f32[256,256] broadcast(m), dimensions={}", "y = f32[256,256] multiply(p0, b)",
        "n = f32[] multiply(d2, d3)", "c = f32[256,256] broadcast(n), dimensions={}", "z = f32[256,256] multiply(p1, c)",
        of("f32[256,256]", "z", "f32[256,256]", "y"))),
    "loops of what a branch yields": ([("kLoop", 2)] * 3, "\n".join(
        f"{name} {{ i = s32[] parameter(0) c = s32[] constant(1) d = s32[] constant(2) b = s32[4096] broadcast(c), dimensions={{}} "
        "e = s32[4096] broadcast(d), dimensions={} ROOT r = (s32[4096], s32[4096]) tuple(b, e) }" for name in ("one", "other")
        ) + "\n" + entry(
        "p = s32[] parameter(0)", "z = s32[] constant(0)",
        "c = (s32[4096], s32[4096]) conditional(p, z, z), branch_computations={one, other}", "g = s32[4096] get-tuple-element(c), index=0",
        "h = s32[4096] get-tuple-element(c), index=1", "a = s32[4096] add(h, g)", "m = s32[4096] multiply(h, g)",
        of("s32[4096]", "m", "s32[4096]", "a"))),
    "a loop's body": ([("kLoop", 1)], (
        "body { a = (s8[]) parameter(0) b = s8[] get-tuple-element(a), index=0 c = s8[] add(b, b) d = s8[] multiply(b, b) "
        "e = s8[] subtract(c, d) ROOT t = (s8[]) tuple(e) }\ncondition { a = (s8[]) parameter(0) b = s8[] get-tuple-element(a), index=0 "
        "z = s8[] constant(0) ROOT r = pred[] compare(b, z), direction=GT }\n") + entry(
        "p = s8[] parameter(0)", "i = (s8[]) tuple(p)", "w = (s8[]) while(i), condition=condition, body=body")),
    "results of another layout than what is read": ([("kLoop", 2)], entry(
        "p = s8[2,2]{0,1} parameter(0)", "q = s8[2,2]{0,1} parameter(1)", "b = s8[2,2]{1,0} bitcast(p)", "n = s8[2,2]{1,0} negate(b)",
        "c = s8[2,2]{1,0} bitcast(q)", "a = s8[2,2]{1,0} add(c, c)", of("s8[2,2]{1,0}", "n", "s8[2,2]{1,0}", "a"))),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "text"), TOGETHER.values(), ids=TOGETHER)
def test_one_kernel(wanted: list[tuple[str, int]], text: str):
    module = fused(text, "h100")
    assert sorted(kernels(module)) == sorted(wanted)
    assert_same_numbers(hloom.parse(text), module, run(hloom.parse(text), seed=1).inputs)


APART: dict[str, str] = {
    "a third instruction between": (
        "less { a = f16[] parameter(0) b = f16[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n"
    ) + entry(
        *parameters(*["f16[123]"] * 2, *["f16[124]"]), "m = f16[123] multiply(p0, p1)", "z = f16[] constant(0)",
        "s = f16[123] sort(m), dimensions={0}, to_apply=less", "w = f16[124] pad(s, z), padding=0_1", "a = f16[124] add(w, p2)",
        of("f16[123]", "m", "f16[124]", "a", "f16[123]", "s")),
    "results of other types": entry(
        *parameters("f16[1024]", "f16[1024]", "s32[123]", "s32[123]"), "m = f16[1024] multiply(p0, p1)", "a = s32[123] add(p2, p3)",
        of("f16[1024]", "m", "s32[123]", "a")),
    "an array in common": entry(
        *parameters("f16[64]"), "a = f16[64] negate(p0)", "b = f16[32] slice(p0), slice={[0:32]}", "c = f16[32] sqrt(b)",
        of("f16[64]", "a", "f16[32]", "c")),
    "a view in common": entry(
        *parameters("f16[]"), "b = f16[1] bitcast(p0)", of("f16[]", "p0", "f16[1]", "b")),
    "reductions of two values at once": FIRST + entry(
        *parameters("f32[554,10]", "s32[554,10]", "f32[564,10]", "s32[564,10]"), "m = f32[] constant(-inf)", "k = s32[] constant(0)",
        "a = (f32[554], s32[554]) reduce(p0, p1, m, k), dimensions={1}, to_apply=first",
        "b = (f32[564], s32[564]) reduce(p2, p3, m, k), dimensions={1}, to_apply=first", "x = s32[554] get-tuple-element(a), index=1",
        "y = s32[564] get-tuple-element(b), index=1", of("s32[554]", "x", "s32[564]", "y")),
    "as many results as not": entry(
        *parameters("f32[64]", "f32[32]"), "a = f32[64] negate(p0)", "b = f32[64] sqrt(p0)", "c = f32[32] negate(p1)",
        of("f32[64]", "a", "f32[64]", "b", "f32[32]", "c")),
    "a transpose": entry(
        *parameters("f32[8,16]", "f32[32]"), "a = f32[16,8] transpose(p0), dimensions={1,0}", "b = f32[32] negate(p1)",
        of("f32[16,8]", "a", "f32[32]", "b")),
    "a loop that reads a single element of the other": ADD + entry(
        *parameters("f32[3]", "f32[64]"), "z = f32[] constant(0)", "r = f32[] reduce(p0, z), dimensions={0}, to_apply=add",
        "b = f32[64] broadcast(r), dimensions={}", "m = f32[64] multiply(p1, b)", of("f32[]", "r", "f32[64]", "m")),
    "rows beside columns in memory": entry(
        "p = f32[8,16]{0,1} parameter(0)", "q = f32[32]{0} parameter(1)", "a = f32[8,16]{0,1} negate(p)", "b = f32[32]{0} negate(q)",
        of("f32[8,16]{0,1}", "a", "f32[32]{0}", "b")),
}  # fmt: skip


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_kernels_apart(text: str):
    before = hloom.parse(text)
    after, _ = hloom.opt(before, "cluster(target=h100)")
    assert "kInput" not in dict(kernels(after))
    assert_same_numbers(before, after, run(before, seed=1).inputs)


def test_copies_that_keep_a_value_stay():
    """XLA fuses two of them; here a copy to no other layout is in no kernel."""
    text = entry(
        "c = f32[1] constant({0})", "a = f32[1] copy(c)", "b = f32[1] copy(c)", of("f32[1]", "a", "f32[1]", "b")
    )
    assert kernels(hloom.opt(hloom.parse(text), "cluster(target=h100)")[0]) == []


@pytest.mark.parametrize("target", ["cpu", "tpu-v5e", "h100"])
def test_only_kernels_of_gpus_go_through_several_loops(target: str):
    text = TOGETHER["two loops"][1]
    assert len(kernels(fused(text, target))) == (target == "h100")
    assert kernels(hloom.opt(hloom.parse(text), f"cluster(target={target}, horizontal=0)")[0]) == []


UPDATES = (
    "p = f32[8,4] parameter(0)", "q = f32[8,4] parameter(1)", "u = f32[1,4] parameter(2)", "i = s32[] parameter(3)",
    "z = s32[] constant(0)", "a = f32[8,4] dynamic-update-slice(p, u, i, z)", "n = f32[1,4] negate(u)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("update", "count"),
    [
        ("f32[8,4] dynamic-update-slice(q, n, i, z)", 1),
        ("f32[8,4] dynamic-update-slice(p, n, i, z)", 2),  # one of them needs a copy of p
        ("f32[8,4] dynamic-update-slice(q, s, i, z)", 2),  # reads p while it is updated
        ("f32[8,4] dynamic-update-slice(a, n, i, z)", 2),  # the same, of an update's result
        ("f32[8,4] dynamic-update-slice(q, w, i, z)", 2),  # an update of other dimensions
    ],
)
def test_updates_of_several_arrays(update: str, count: int):
    text = entry(
        *UPDATES, "s = f32[1,4] slice(p), slice={[1:2], [0:4]}", "k = f32[] constant(2)", "w = f32[2,4] broadcast(k), dimensions={}",
        f"b = {update}", of("f32[8,4]", "a", "f32[8,4]", "b"),
    )  # fmt: skip
    before = hloom.parse(text)
    after, _ = hloom.opt(before, "cluster(target=h100, least=1)")
    updating = [node for node in after.entry.nodes if node.opcode == "fusion"]
    assert (
        sum("dynamic-update-slice" in [inner.opcode for inner in node.called_graphs[0].nodes] for node in updating)
        == count
    )
    inputs = [*(np.random.default_rng(0).random(dims, np.float32) for dims in ((8, 4), (8, 4), (1, 4))), np.int32(3)]
    assert_same_numbers(before, after, inputs)


@pytest.mark.parametrize(("operand", "count"), [("e", 0), ("p2", 1)])
def test_what_control_dependences_order_stays_in_order(operand: str, count: int):
    """An effect that waits for the one loop, and which the other needs, stands between them; else it waits for both."""
    text = entry(
        *parameters("f32[64]", "f32[32]", "f32[]"), "a = f32[64] negate(p0)",
        'e = f32[] custom-call(), custom_call_target="mine", custom_call_has_side_effect=true, control-predecessors={a}',
        f"b = f32[32] broadcast({operand}), dimensions={{}}", "m = f32[32] multiply(p1, b)", of("f32[64]", "a", "f32[32]", "m"),
    )  # fmt: skip
    after, _ = hloom.opt(hloom.parse(text), "cluster(target=h100)")
    verify(after)
    assert [name for name, _ in kernels(after)].count("kInput") == count
    order = list(after.entry.nodes)
    [waited_for] = after.entry["e"].attributes["control-predecessors"]
    assert order.index(waited_for) < order.index(after.entry["e"])
    assert (waited_for.opcode == "get-tuple-element") == bool(count)


def test_what_the_concatenation_costs_is_nothing():
    """By the model the kernel takes what its loops take, less all launches but one; the report of fusions agrees."""
    before = hloom.parse(entry(*rms_prop(6)))
    target = fusion_target(device("h100"))
    apart = clustered(before.entry, cost(before), target, horizontal=False)
    together = clustered(before.entry, cost(before), target)
    assert (len(apart.kernels), len(together.kernels)) == (6, 1)
    launches = 5 * device("h100").launch_seconds
    assert together.seconds == pytest.approx(apart.seconds - launches, rel=1e-3)
    report = fusions(hloom.opt(before, "cluster(target=h100)")[0], "h100")
    assert report.kernel_seconds == pytest.approx(together.seconds)
    [row] = report.fusions
    assert row.is_modelled and (row.read, row.written) == (together.kernels[0][1].read, together.kernels[0][1].written)


def test_loops_that_become_one_kernel():
    """As the merger joins them, and as the writer finds them again in the kernel."""
    text = entry(
        *parameters("f32[8]", "f32[3]", "f32[5]", "f32[5]"), "s = f32[1] slice(p0), slice={[0:1]}", "v = f32[] reshape(s)",
        "b = f32[3] broadcast(v), dimensions={}", "m = f32[3] multiply(p1, b)", "c = f32[5] broadcast(v), dimensions={}",
        "n = f32[5] multiply(p2, c)", "d = f32[5] negate(p3)", of("f32[3]", "m", "f32[5]", "n", "f32[5]", "d", "f32[]", "v"),
    )  # fmt: skip
    graph = hloom.parse(text)
    model = clustered(graph.entry, cost(graph), fusion_target(device("h100"))).model

    def kernel(*names: str) -> Kernel:
        members = tuple(sorted(model.numbers[graph.entry[name]] for name in names))
        return Kernel((model.numbers[graph.entry[names[-1]]],), members)

    computing, reading, alone = (sliced_loops(model, kernel(*names)) for names in ("svbm", "cn", "d"))
    assert computing is not None and reading is not None and alone is not None
    assert computing.joined(reading) is None  # as one kernel both would take the slice, and share what it is of
    assert reading.joined(computing) is None
    joined = computing.joined(alone)
    assert joined is not None
    members = tuple(sorted((*kernel(*"svbm").members, *kernel("d").members)))
    together = Kernel(tuple(sorted((*kernel(*"svbm").roots, *kernel("d").roots))), members)
    assert joined == sliced_loops(model, together)


def test_a_loop_keeps_a_sum_that_only_it_reads():
    """A kernel computes a small sum as a result of its own, also where it alone reads it, as in the update of a bias."""
    lines, results = ["z = f32[] constant(0)"], []
    for n, array in enumerate(("f32[5]", "f32[6]")):
        lines += [f"g{n} = {array.replace('[', '[4,')} parameter({2 * n})", f"m{n} = {array} parameter({2 * n + 1})"]
        lines.append(f"r{n} = {array} reduce(g{n}, z), dimensions={{0}}, to_apply=add")
        lines += [
            f"q{n} = {array} multiply(r{n}, r{n})",
            f"a{n} = {array} add(m{n}, q{n})",
            f"b{n} = {array} subtract(m{n}, r{n})",
        ]
        results += [array, f"a{n}", array, f"b{n}"]
    assert kernels(fused(ADD + entry(*lines, of(*results)), "h100")) == [("kInput", 6)]


def test_what_a_slice_of_a_concatenation_takes():
    text = entry(
        *parameters("f32[3]", "f32[2]"), "c = f32[5] concatenate(p0, p1), dimensions={0}", "a = f32[3] slice(c), slice={[0:3]}",
        "b = f32[2] slice(c), slice={[3:5]}", "d = f32[2] slice(c), slice={[2:4]}", "t = (f32[3], f32[2], f32[2]) tuple(a, b, d)",
    )  # fmt: skip
    graph = hloom.parse(text).entry
    assert [unsliced(graph[name]) for name in ("a", "b", "d", "c")] == [graph["p0"], graph["p1"], None, None]


def independent(random: Random) -> str:
    """Loops of random dimensions, some of which read each other through others, and share single elements."""
    lines, known, results = ["k = f32[] parameter(0)", "z = f32[] constant(0)"], [], []
    for n in range(random.randint(3, 9)):
        dims = [random.randint(1, 5) for _ in range(random.randint(0, 3))]
        element = random.choice(["f32", "f32", "f32", "s32"])
        array = f"{element}[{','.join(map(str, dims))}]"
        value = f"p{n}"
        if element == "f32" and random.random() < 0.3:
            lines.append(f"g{n} = f32[{','.join(map(str, [3, *dims]))}] parameter({n + 1})")
            lines.append(f"p{n} = {array} reduce(g{n}, z), dimensions={{0}}, to_apply=add")
            lines += [f"y{n} = {array} negate(p{n})", f"h{n} = {array} multiply(p{n}, y{n})"]
            results += [array, f"h{n}"]
        else:
            lines.append(f"p{n} = {array} parameter({n + 1})")
        if known and element == "f32" and random.random() < 0.4:
            other, other_dims = random.choice(known)
            axes = ",".join(map(str, range(len(other_dims))))
            lines.append(f"r{n} = f32[] reduce({other}, z), dimensions={{{axes}}}, to_apply=add")
            lines += [f"w{n} = {array} broadcast(r{n}), dimensions={{}}", f"v{n} = {array} multiply(w{n}, p{n})"]
            value = f"v{n}"
            if random.random() < 0.5:
                results += ["f32[]", f"r{n}"]
        for step in range(random.randint(1, 3)):
            name = f"x{n}_{step}"
            if element == "f32" and random.random() < 0.3:
                lines.append(f"b{name} = {array} broadcast(k), dimensions={{}}")
                lines.append(f"{name} = {array} add({value}, b{name})")
            else:
                lines.append(f"{name} = {array} {random.choice(['negate', 'abs'])}({value})")
            value = name
            if random.random() < 0.3:
                results += [array, name]
        if element == "f32":
            known.append((value, dims))
        results += [array, value]
    return ADD + entry(*lines, of(*results))


@given(st.integers(0, 10**6))
@examples(40, 3000)
def test_random_loops_keep_every_bit(seed: int):
    """No cycle, no number that changes, never slower; what is printed is read back."""
    before = hloom.parse(independent(Random(seed)))
    after, _ = hloom.opt(before, "cluster(target=h100)")
    verify(after)
    again = hloom.parse(hloom.print(after))
    assert hloom.equal(after, again)
    random = np.random.default_rng(seed)
    types = [parameter.type for parameter in before.entry.parameters if isinstance(parameter.type, TensorType)]
    inputs = [random.integers(-9, 9, array.dims).astype(array.dtype.numpy) for array in types]
    assert_same_numbers(before, again, inputs)
    seconds = [
        clustered(before.entry, cost(before), fusion_target(device("h100")), horizontal=flag).seconds
        for flag in (True, False)
    ]
    assert seconds[0] <= seconds[1] * (1 + 1e-9)
    assert fusions(after, "h100").kernel_seconds <= fusions(before, "h100").kernel_seconds * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_random_loops_through_xla(seed: int):
    before = hloom.parse(independent(Random(seed)))
    after, _ = hloom.opt(before, "cluster(target=h100)")
    assert accepts(hloom.print(after)) is None
    for one, other in zip(run(before, seed=seed).outputs, run(after, seed=seed).outputs, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6, atol=1e-6)


def test_random_loops_are_fused():
    """The property tests above meet what they are about."""
    kinds = Counter[str]()
    for seed in range(40):
        module, _ = hloom.opt(hloom.parse(independent(Random(seed))), "cluster(target=h100)")
        kinds.update(name for name, _ in kernels(module))
    assert kinds["kInput"] > 20
