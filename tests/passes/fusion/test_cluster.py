"""Which instructions become one kernel, before and after, and that the numbers stay.

Covers `cluster.py`, `target.py`, `kernel_model.py`, `frontier_search.py`, `kernel_merger.py` and `fusion_writer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloom
from hloom import HloomError
from hloom.analysis import cost, device
from hloom.evaluator import LimitReached, evaluate
from hloom.ir import Module, verify
from hloom.passes.fusion import Clustering, clustered, frontier_search, fusion_target
from hloom.passes.fusion.kernel_model import Kernel
from hloom.runtime import accepts, run
from tests.helpers.properties import examples
from tests.helpers.work import calls, growth
from tests.passes.random_modules import inputs_for, module_of
from tests.passes.random_programs import program_of
from tests.passes.rule_assertions import assert_same_numbers

TARGETS = ("cpu", "h100", "tpu-v5e")
MATMUL = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
ADD = "add { l = f32[] parameter(0) r = f32[] parameter(1) ROOT s = f32[] add(l, r) }\n"


def entry(*lines: str) -> str:
    return "ENTRY e {\n" + "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}\n}}"


def fused(text: str, target: str = "cpu") -> Module:
    """The module with fusions: checked, taken by XLA, and with the same numbers through it."""
    before = hloom.parse(text)
    after, _ = hloom.opt(before, f"cluster(target={target})")
    verify(after)
    assert accepts(hloom.print(after)) is None
    pairs = zip(run(before, seed=1).outputs, run(after, seed=1).outputs, strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-5, atol=1e-5)
    return after


def kernels(module: Module) -> list[tuple[str, ...]]:
    """The opcodes in each fusion, without parameters and constants, and those of instructions outside."""
    shown: list[tuple[str, ...]] = []
    for node in module.entry.nodes:
        inner = node.called_graphs[0].nodes if node.opcode == "fusion" else [node]
        opcodes = [member.opcode for member in inner]
        left_out = ("parameter", "constant", "tuple", "get-tuple-element")
        if any(opcode not in left_out for opcode in opcodes):
            shown.append(tuple(opcode for opcode in opcodes if opcode not in left_out))
    return shown


def fusion_kinds(module: Module) -> list[str]:
    return [node.attributes["kind"] for node in module.entry.nodes if node.opcode == "fusion"]


def clustering(text: str, target: str = "cpu") -> Clustering:
    module = hloom.parse(text)
    return clustered(module.entry, cost(module), fusion_target(device(target)))


def test_a_chain_is_one_kernel():
    module = fused(entry("x = f32[64,64] parameter(0)", "a = f32[64,64] negate(x)", "b = f32[64,64] tanh(a)"))
    assert hloom.print(module, "short").split("ENTRY")[1].split("\n")[1:3] == [
        "  x = f32[64,64] parameter(0)",
        "  ROOT tanh_fusion = f32[64,64] fusion(x), kind=kLoop, calls=fused_computation",
    ]


def test_what_two_kernels_need_is_computed_twice_where_storing_it_costs_more():
    module = fused(
        entry(
            "x = f32[512,512] parameter(0)",
            "y = f32[512,256] parameter(1)",
            "a = f32[512,512] negate(x)",
            "b = f32[512,512] tanh(a)",
            "c = f32[512,256] slice(a), slice={[0:512], [0:256]}",
            "d = f32[512,256] multiply(c, y)",
            "t = (f32[512,512], f32[512,256]) tuple(b, d)",
        )
    )
    assert sorted(kernels(module)) == [("negate", "slice", "multiply"), ("negate", "tanh")]


def test_a_value_that_is_stored_anyway_is_computed_once_and_kept_by_the_kernel_that_uses_it():
    module = fused(
        entry(
            "x = f32[64,64] parameter(0)",
            "a = f32[64,64] tanh(x)",
            "b = f32[64,64] negate(a)",
            "t = (f32[64,64], f32[64,64]) tuple(a, b)",
        )
    )
    assert kernels(module) == [("tanh", "negate")]


def test_siblings_read_their_operand_once():
    module = fused(
        entry(
            "x = f32[64,64] parameter(0)",
            "a = f32[64,64] tanh(x)",
            "b = f32[64,64] negate(x)",
            "t = (f32[64,64], f32[64,64]) tuple(a, b)",
        )
    )
    assert kernels(module) == [("tanh", "negate")]


def test_independent_instructions_of_equal_dimensions_share_a_launch():
    lines = [f"p{n} = f32[8] parameter({n})" for n in range(4)] + [f"a{n} = f32[8] negate(p{n})" for n in range(4)]
    module = fused(entry(*lines, "t = (f32[8], f32[8], f32[8], f32[8]) tuple(a0, a1, a2, a3)"))
    assert kernels(module) == [("negate",) * 4]


def test_results_of_other_dimensions_stay_apart():
    module = fused(
        entry(
            "x = f32[8] parameter(0)",
            "y = f32[9] parameter(1)",
            "a = f32[8] negate(x)",
            "b = f32[9] negate(y)",
            "t = (f32[8], f32[9]) tuple(a, b)",
        )
    )
    assert fusion_kinds(module) == []


def test_no_kernel_waits_for_itself():
    """Both ends of a chain through a product would share the reading of x."""
    module = fused(
        entry(
            "x = f32[64,64] parameter(0)",
            "w = f32[64,64] parameter(1)",
            "a = f32[64,64] tanh(x)",
            f"d = f32[64,64] dot(a, w), {MATMUL}",
            "b = f32[64,64] add(d, x)",
            "t = (f32[64,64], f32[64,64]) tuple(a, b)",
        )
    )
    assert kernels(module) == [("tanh",), ("dot",), ("add",)]


def test_a_value_read_from_memory_is_not_made_by_the_kernel_that_reads_it():
    """A gather reads its operand at indices that only running tells."""
    module = fused(
        entry(
            "x = f32[8,8] parameter(0)",
            "i = s32[2] parameter(1)",
            "a = f32[8,8] tanh(x)",
            "b = f32[8,8] negate(a)",
            "g = f32[8,8] gather(a, i), offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={0,1}, "
            "index_vector_dim=0, slice_sizes={8,8}",
            "t = (f32[8,8], f32[8,8]) tuple(b, g)",
        )
    )
    gathering = [kernel for kernel in kernels(module) if "gather" in kernel]
    assert all("tanh" not in kernel for kernel in gathering)


def test_softmax_stores_its_sums_and_nothing_reduces_an_element_twice():
    text = ADD + "max { l = f32[] parameter(0) r = f32[] parameter(1) ROOT s = f32[] maximum(l, r) }\n" + entry(
        "x = f32[512,512] parameter(0)", "low = f32[] constant(-inf)", "zero = f32[] constant(0)",
        "m = f32[512] reduce(x, low), dimensions={1}, to_apply=max", "bm = f32[512,512] broadcast(m), dimensions={0}",
        "d = f32[512,512] subtract(x, bm)", "e = f32[512,512] exponential(d)",
        "s = f32[512] reduce(e, zero), dimensions={1}, to_apply=add", "bs = f32[512,512] broadcast(s), dimensions={0}",
        "y = f32[512,512] divide(e, bs)",
    )  # fmt: skip
    for target in TARGETS:
        parts = kernels(fused(text, target))
        assert len(parts) <= 4
        assert all(kernel[-1] == "reduce" for kernel in parts if "reduce" in kernel)


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_that_each_element_reads_through_other_numbers_is_not_computed_for_each(target: str):
    """What is done to a single number stands in the loop over those that read it, and so would the sum."""
    text = ADD + entry(
        "x = f32[64,64] parameter(0)", "zero = f32[] constant(0)", "e = f32[64,64] exponential(x)",
        "s = f32[] reduce(e, zero), dimensions={0,1}, to_apply=add", "a = f32[] abs(s)", "b = f32[] sqrt(a)",
        "all = f32[64,64] broadcast(b), dimensions={}", "y = f32[64,64] divide(e, all)",
    )  # fmt: skip
    for kernel in kernels(fused(text, target)):
        assert "reduce" not in kernel or "divide" not in kernel


def test_kinds_are_those_of_the_backend():
    text = ADD + entry(
        "x = f32[64,64] parameter(0)", "w = f32[64,64] parameter(1)", "zero = f32[] constant(0)",
        f"d = f32[64,64] dot(x, w), {MATMUL}", "a = f32[64,64] tanh(d)",
        f"f = f32[64,64] dot(a, w), {MATMUL}", "b = f32[64,64] exponential(f)",
        "s = f32[64] reduce(b, zero), dimensions={1}, to_apply=add",
    )  # fmt: skip
    assert fusion_kinds(fused(text, "cpu")) == ["kLoop"]
    assert fusion_kinds(fused(text, "h100")) == ["kInput"]
    assert fusion_kinds(fused(text, "tpu-v5e"))[0] == "kOutput"


def test_a_gpu_kernel_stores_what_it_also_reduces():
    text = ADD + entry(
        "x = f32[1024,1024] parameter(0)", "zero = f32[] constant(0)", "a = f32[1024,1024] negate(x)",
        "s = f32[1024] reduce(a, zero), dimensions={1}, to_apply=add", "t = (f32[1024,1024], f32[1024]) tuple(a, s)",
    )  # fmt: skip
    assert kernels(fused(text, "h100")) == [("negate", "reduce")]
    assert len(kernels(fused(text, "cpu"))) == 2  # XLA's CPU client has no kernel with results of other dimensions


def test_registers_and_shared_memory_limit_kernels():
    narrow = device("h100")
    count = 60
    lines = [f"p{n} = f64[4096] parameter({n})" for n in range(count)]
    lines += [f"a{n} = f64[4096] exponential(p{n})" for n in range(count)]
    lines += ["s1 = f64[4096] add(a0, a1)"] + [f"s{n} = f64[4096] add(s{n - 1}, a{n})" for n in range(2, count)]
    module = hloom.parse(entry(*lines))
    parts = clustered(module.entry, cost(module), fusion_target(narrow)).kernels
    assert len(parts) > 1
    assert narrow.thread_registers == 255


def test_an_update_stays_in_its_array():
    module = fused(
        entry(
            "x = f32[64,64] parameter(0)",
            "u = f32[1,64] parameter(1)",
            "i = s32[] parameter(2)",
            "z = s32[] constant(0)",
            "v = f32[1,64] tanh(u)",
            "y = f32[64,64] dynamic-update-slice(x, v, i, z)",
        )
    )
    assert kernels(module) == [("tanh", "dynamic-update-slice")]


def test_loops_branches_and_calls_are_clustered():
    text = """
    body { s = (s32[], f32[64]) parameter(0) c = s32[] get-tuple-element(s), index=0 x = f32[64] get-tuple-element(s), index=1
      o = s32[] constant(1) n = s32[] add(c, o) a = f32[64] negate(x) b = f32[64] tanh(a)
      ROOT t = (s32[], f32[64]) tuple(n, b) }
    condition { s = (s32[], f32[64]) parameter(0) c = s32[] get-tuple-element(s), index=0 l = s32[] constant(3)
      ROOT p = pred[] compare(c, l), direction=LT }
    ENTRY e { x = f32[64] parameter(0) z = s32[] constant(0) i = (s32[], f32[64]) tuple(z, x)
      ROOT w = (s32[], f32[64]) while(i), condition=condition, body=body }
    """
    module = fused(text)
    [loop] = [node for node in module.entry.nodes if node.opcode == "while"]
    assert "fusion" in [node.opcode for node in loop.attributes["body"].nodes]


def test_effects_shardings_and_control_dependences_stay_outside():
    text = entry(
        "x = f32[64] parameter(0)", "a = f32[64] negate(x)", "b = f32[64] tanh(a), sharding={replicated}",
        "c = f32[64] custom-call(b), custom_call_target=\"mine\", custom_call_has_side_effect=true",
        "d = f32[64] exponential(b), control-predecessors={c}", "f = f32[64] add(d, a)", "g = f32[64] abs(f)",
    )  # fmt: skip
    module, _ = hloom.opt(hloom.parse(text), "cluster")
    verify(module)
    outside = [node.opcode for node in module.entry.nodes]
    assert {"tanh", "custom-call", "exponential"} <= set(outside)
    assert module.entry["d"].attributes["control-predecessors"] == (module.entry["c"],)


def test_what_a_control_dependence_names_is_what_the_fusion_yields():
    text = entry(
        "x = f32[64] parameter(0)", "a = f32[64] negate(x)", "b = f32[64] tanh(a)",
        "c = f32[64] exponential(x), control-predecessors={b}", "t = (f32[64], f32[64]) tuple(b, c)",
    )  # fmt: skip
    module = fused(text)
    [after] = module.entry["c"].attributes["control-predecessors"]
    assert after.opcode == "fusion"


def test_nothing_to_do():
    for text in ("ENTRY e { ROOT x = f32[2] parameter(0) }", entry("x = f32[2] parameter(0)", "y = f32[2] negate(x)")):
        module, report = hloom.opt(hloom.parse(text), "cluster")
        assert not report.changed
        assert hloom.equal(module, hloom.parse(text))


def test_fragments_and_types_left_out():
    fragment = hloom.parse("a = f32[8] negate(x)\nb = f32[8] tanh(a)\nROOT c = add(b, y)")
    module, _ = hloom.opt(fragment, "cluster")
    assert [node.opcode for node in module.entry.nodes][-1] == "add"
    assert [str(name) for name in module.unresolved] == [str(name) for name in fragment.unresolved]


def test_a_copy_for_a_buffer_stays_and_one_for_a_layout_is_fused():
    text = entry("x = f32[8,4]{1,0} parameter(0)", "a = f32[8,4]{1,0} negate(x)", "c = f32[8,4]{LAYOUT} copy(a)",
                 "b = f32[8,4]{LAYOUT} tanh(c)")  # fmt: skip
    plain, _ = hloom.opt(hloom.parse(text.replace("LAYOUT", "1,0")), "cluster")
    assert kernels(plain) == [("negate",), ("copy",), ("tanh",)]
    moved, _ = hloom.opt(hloom.parse(text.replace("LAYOUT", "0,1")), "cluster")
    assert kernels(moved) == [("negate", "copy", "tanh")]


def transposed(size: int, count: int) -> str:
    """Arrays of rows, one beside the other, as columns."""
    lines = [f"p{n} = f32[{size},{size}]{{1,0}} parameter({n})" for n in range(count)]
    lines += [f"t{n} = f32[{size},{size}]{{0,1}} transpose(p{n}), dimensions={{1,0}}" for n in range(count)]
    lines += [f"c{n} = f32[{size},{size}]{{1,0}} copy(t{n})" for n in range(count)]
    types = ", ".join([f"f32[{size},{size}]{{1,0}}"] * count)
    return entry(*lines, f"t = ({types}) tuple({', '.join(f'c{n}' for n in range(count))})")


@pytest.mark.parametrize(("target", "size", "together"), [("cpu", 512, 1), ("cpu", 32, 3), ("h100", 512, 3)])
def test_a_cpu_reads_one_large_array_across_its_rows_at_a_time(target: str, size: int, together: int):
    module, _ = hloom.opt(hloom.parse(transposed(size, 3)), f"cluster(target={target})")
    assert max(len(kernel) for kernel in kernels(module)) == 2 * together


def test_several_results_of_one_array_that_is_read_across_its_rows():
    """As moments and weights of an optimizer are computed of a gradient that comes transposed."""
    text = entry(
        "g = f32[512,512]{1,0} parameter(0)", "m = f32[512,512]{1,0} parameter(1)", "v = f32[512,512]{1,0} parameter(2)",
        "t = f32[512,512]{0,1} transpose(g), dimensions={1,0}", "c = f32[512,512]{1,0} copy(t)",
        "u = f32[512,512]{0,1} transpose(g), dimensions={1,0}", "d = f32[512,512]{1,0} copy(u)",
        "a = f32[512,512]{1,0} add(m, c)", "s = f32[512,512]{1,0} multiply(d, d)", "b = f32[512,512]{1,0} add(v, s)",
        "o = (f32[512,512]{1,0}, f32[512,512]{1,0}) tuple(a, b)",
    )  # fmt: skip
    assert len(kernels(fused(text))) == 1


def test_every_kernel_as_a_fusion():
    module, _ = hloom.opt(hloom.parse(entry("x = f32[2] parameter(0)", "y = f32[2] negate(x)")), "cluster(least=1)")
    assert kernels(module) == [("negate",)] and fusion_kinds(module) == ["kLoop"]
    for least in ("0", "many"):
        with pytest.raises(HloomError, match=f"least is a number of instructions, not '{least}'"):
            hloom.opt(module, f"cluster(least={least})")


def test_a_scatter_as_a_fusion():
    text = ADD + entry(
        "x = f32[8] parameter(0)", "i = s32[3,1] parameter(1)", "u = f32[3] parameter(2)", "n = f32[3] negate(u)",
        "s = f32[8] scatter(x, i, n), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=add", "y = f32[8] tanh(s)",
    )  # fmt: skip
    before = hloom.parse(text)
    module, _ = hloom.opt(before, "cluster(least=1)")
    verify(module)
    assert kernels(module) == [("negate",), ("scatter",), ("tanh",)] and fusion_kinds(module) == ["kLoop"] * 3
    plain, _ = hloom.opt(before, "cluster")
    assert "scatter" in [node.opcode for node in plain.entry.nodes]
    inputs = [np.arange(8.0, dtype=np.float32), np.array([[1], [1], [9]], np.int32), np.ones(3, np.float32)]
    assert_same_numbers(before, module, inputs)


def test_a_window_as_a_fusion():
    text = ADD + entry(
        "x = f32[8] parameter(0)", "zero = f32[] constant(0)", "n = f32[8] negate(x)",
        "s = f32[8] reduce-window(n, zero), window={size=3 pad=1_1}, to_apply=add", "y = f32[8] tanh(s)",
    )  # fmt: skip
    before = hloom.parse(text)
    module, _ = hloom.opt(before, "cluster(least=1)")
    verify(module)
    assert kernels(module) == [("negate",), ("reduce-window",), ("tanh",)]
    assert_same_numbers(before, module, [np.arange(8.0, dtype=np.float32)])


def test_again_changes_nothing():
    text = entry("x = f32[64] parameter(0)", "a = f32[64] negate(x)", "b = f32[64] tanh(a)")
    module, _ = hloom.opt(hloom.parse(text), "cluster")
    again, report = hloom.opt(module, "cluster")
    assert not report.changed and hloom.equal(module, again)


def test_a_device_that_nobody_knows():
    with pytest.raises(HloomError, match="no device is called 'h1000'"):
        hloom.opt(hloom.parse(entry("x = f32[2] parameter(0)", "y = f32[2] negate(x)")), "cluster(target=h1000)")


def subsets(count: int) -> Iterator[frozenset[int]]:
    for size in range(count + 1):
        yield from map(frozenset, combinations(range(count), size))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_stored_is_the_best_choice(seed):
    """Beside all sets of stored values, tried one by one."""
    random = Random(seed)
    names, lines = ["x"], ["x = f32[256,256] parameter(0)"]
    for n in range(8):
        one, other = random.choice(names[-4:]), random.choice(names[-4:])
        form = random.choice(
            ["add({0}, {1})", "exponential({0})", "transpose({0}), dimensions={{1,0}}", "multiply({0}, {1})"]
        )
        lines.append(f"a{n} = f32[256,256] {form.format(one, other)}")
        names.append(f"a{n}")
    text = entry(*lines)
    result = clustering(text)
    model = result.model
    fusible = [number for number in range(len(model.nodes)) if model.is_fusible[number] and model.nodes[number].is_used]
    root = model.numbers[model.graph.root]
    best = float("inf")
    for chosen in subsets(len(fusible)):
        stored = {fusible[position] for position in chosen} | {root}
        parts = [model.cost(Kernel((number,), model.members(number, stored, ()))) for number in sorted(stored)]
        if all(part is not None for part in parts):
            best = min(best, sum(part.seconds for part in parts if part is not None))
    assert result.is_exact
    assert result.seconds <= best * (1 + 1e-9)


@pytest.mark.parametrize("steps", [0, frontier_search.STEPS])
def test_what_is_read_from_outside_is_stored_however_little_is_searched(steps: int, monkeypatch: pytest.MonkeyPatch):
    """A view of a sum, which a call needs too, is cheaper computed again by those that read it: it is stored all the same."""
    monkeypatch.setattr(frontier_search, "STEPS", steps)
    monkeypatch.setattr(frontier_search, "SPARE_STEPS", 0)
    text = (
        ADD + "called { p = f32[4,1] parameter(0) ROOT q = f32[4,1] sort(p), dimensions={0}, to_apply=less }\n"
        "less { l = f32[] parameter(0) r = f32[] parameter(1) ROOT s = pred[] compare(l, r), direction=LT }\n"
    ) + entry(
        "x = f32[4,64] parameter(0)", "zero = f32[] constant(0)", "y = f32[4,64] exponential(x)",
        "sums = f32[4] reduce(y, zero), dimensions={1}, to_apply=add", "column = f32[4,1] reshape(sums)",
        "a = f32[4,1] abs(column)", "b = f32[4,1] negate(column)", "c = f32[4,1] call(column), to_apply=called",
        "together = (f32[4,1], f32[4,1], f32[4,1]) tuple(a, b, c)",
    )  # fmt: skip
    assert_reads_what_is_stored(clustering(text))
    fused(text)


@pytest.mark.parametrize("seed", range(40))
def test_random_modules_store_what_is_read_however_little_is_searched(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(frontier_search, "WIDTH", 1)
    module = hloom.parse(hloom.print(module_of(Random(seed))))
    for target in TARGETS:
        result = clustered(module.entry, cost(module), fusion_target(device(target)))
        assert_reads_what_is_stored(result)
        assert result.seconds <= result.unfused * (1 + 1e-9)


def assert_reads_what_is_stored(result: Clustering) -> None:
    """What a kernel reads and kernels may hold is the result of a kernel."""
    model = result.model
    stored = {root for kernel, _ in result.kernels for root in kernel.roots}
    for kernel, _ in result.kernels:
        assert all(used in stored for used in model.reads(kernel) if model.is_fusible[used])
    assert all(number in stored for number, is_stored in enumerate(model.is_stored) if is_stored)


@given(st.integers(0, 10**6), st.sampled_from(TARGETS))
@examples(25, 3000)
def test_random_modules_keep_their_numbers_and_never_take_longer(seed, target):
    random = Random(seed)
    module = module_of(random)
    after, _ = hloom.opt(module, f"cluster(target={target})")
    verify(after)
    assert_same_numbers(module, after, inputs_for(module, random, special=True))
    assert hloom.print(after) == hloom.print(hloom.opt(module, f"cluster(target={target})")[0])
    graph = clustered(module.entry, cost(module), fusion_target(device(target)))
    assert graph.seconds <= graph.unfused * (1 + 1e-9)


@given(st.integers(0, 10**6), st.sampled_from(TARGETS))
@examples(40, 3000)
def test_random_programs_keep_every_bit(seed, target):
    """Programs of loops, branches, calls and fusions; what is printed is read back."""
    random = Random(seed)
    module = hloom.parse(hloom.print(program_of(random)))
    inputs = inputs_for(module, random, special=seed % 2 == 1)
    try:
        evaluate(module, inputs, limit=300_000)
    except LimitReached:
        return
    after, _ = hloom.opt(module, f"cluster(target={target})")
    verify(after)
    again = hloom.parse(hloom.print(after))
    assert hloom.equal(after, again)
    assert_same_numbers(module, again, inputs)


@pytest.mark.parametrize("draw", [module_of, program_of])
@pytest.mark.parametrize("seed", range(3))
def test_random_modules_through_xla(seed, draw):
    random = Random(seed)
    module = hloom.parse(hloom.print(draw(random, tame=True, elements=("f32", "s32"))))
    after, _ = hloom.opt(module, "cluster")
    assert accepts(hloom.print(after)) is None
    inputs = inputs_for(module, random, special=False)
    for one, other in zip(run(module, inputs).outputs, run(after, inputs).outputs, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-4)


def hostile(count: int) -> str:
    """A value that all read, all read by one, and a chain."""
    lines = ["x = f32[64] parameter(0)", "y = f32[64] exponential(x)"]
    lines += [f"a{n} = f32[64] negate(y)" for n in range(count // 2)]
    lines += ["b0 = f32[64] tanh(y)", *(f"b{n} = f32[64] add(b{n - 1}, y)" for n in range(1, count // 2))]
    names = [f"a{n}" for n in range(count // 2)] + [f"b{count // 2 - 1}"]
    return entry(*lines, f"t = ({', '.join(['f32[64]'] * len(names))}) tuple({', '.join(names)})")


def test_work_grows_with_the_module():
    def work(count: int) -> int:
        module = hloom.parse(hostile(count))
        return calls(lambda: hloom.opt(module, "cluster"))

    assert growth(work, 500) < 1.5
