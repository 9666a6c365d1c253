"""Kernels that update an array in place read nothing of it besides but the slice that they overwrite.

XLA gives the result of such a fusion the buffer of the array, so that other reads may see what was written. What
clustering makes is run as it is written, as kernels of XLA's CPU compiler, not as calls.
"""

import random

import pytest

import hloom
from hloom.ir import Module, verify
from hloom.runtime import check_kernels, xla_flags
from tests.helpers.xla_flags import fusion_emitters

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
SCATTER = (
    "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
)
"""The form that XLA's CPU compiler has made of all scatters before it fuses."""
ROWS = "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
HEAD = (
    "x = f32[16] parameter(0)", "i = s32[] parameter(1)", "j = s32[] parameter(2)", "k = s32[4,1] parameter(3)",
    "p = f32[16] negate(x)", "zero = f32[] constant(0)", "z = s32[] constant(0)",
)  # fmt: skip
OF_FOUR = "dynamic_slice_sizes={4}"
AT_I = f"d = f32[4] dynamic-slice(p, i), {OF_FOUR}"
AT_J = f"e = f32[4] dynamic-slice(p, j), {OF_FOUR}"
UPDATE_AT_I = "ROOT u = f32[16] dynamic-update-slice(p, y, i)"

ONE_KERNEL = {
    "the slice that is overwritten": (AT_I, "y = f32[4] tanh(d)", UPDATE_AT_I),
    "the same slice twice": (AT_I, "c = f32[4] tanh(d)", "y = f32[4] add(c, d)", UPDATE_AT_I),
    "indices that are equal constants": (
        "a = s32[] constant(3)", "b = s32[] constant(3)", f"d = f32[4] dynamic-slice(p, a), {OF_FOUR}", "y = f32[4] tanh(d)",
        "ROOT u = f32[16] dynamic-update-slice(p, y, b)"),
    "a condition of one element": (
        "q = pred[] compare(i, j), direction=LT", AT_I, "n = f32[4] tanh(d)", "y = f32[4] select(q, n, d)", UPDATE_AT_I),
    "nothing of the array": ("b = f32[4] broadcast(zero), dimensions={}", "y = f32[4] tanh(b)", UPDATE_AT_I),
}  # fmt: skip
"""What one kernel may hold."""

SEVERAL_KERNELS = {
    "another slice": (AT_J, "y = f32[4] tanh(e)", UPDATE_AT_I),
    "both slices": (AT_I, AT_J, "y = f32[4] add(d, e)", UPDATE_AT_I),
    "a static slice": ("s = f32[4] slice(p), slice={[2:6]}", "y = f32[4] tanh(s)", UPDATE_AT_I),
    "the slice backwards": (AT_I, "r = f32[4] reverse(d), dimensions={0}", "y = f32[4] tanh(r)", UPDATE_AT_I),
    "the slice shifted": (AT_I, "s = f32[3] slice(d), slice={[1:4]}", "y = f32[4] pad(s, zero), padding=0_1", UPDATE_AT_I),
    "the slice transposed": (
        AT_I, "r = f32[2,2] reshape(d)", "t = f32[2,2] transpose(r), dimensions={1,0}", "y = f32[4] reshape(t)", UPDATE_AT_I),
    "the sum of the slice": (
        AT_I, "s = f32[] reduce(d, zero), dimensions={0}, to_apply=add", "y = f32[4] broadcast(s), dimensions={}", UPDATE_AT_I),
    "the sum of the array": (
        "s = f32[] reduce(p, zero), dimensions={0}, to_apply=add", "y = f32[4] broadcast(s), dimensions={}", UPDATE_AT_I),
    "rows that are gathered": (f"g = f32[4] gather(p, k), {ROWS}", "y = f32[4] tanh(g)", UPDATE_AT_I),
    "the array backwards, in part": (
        "r = f32[16] reverse(p), dimensions={0}", f"e = f32[4] dynamic-slice(r, i), {OF_FOUR}", "y = f32[4] tanh(e)", UPDATE_AT_I),
    "a view of the array": (
        "v = f32[4,4] reshape(p)", "e = f32[1,4] dynamic-slice(v, j, z), dynamic_slice_sizes={1,4}", "f = f32[4] reshape(e)",
        "y = f32[4] tanh(f)", UPDATE_AT_I),
    "the array is a view": (
        "v = f32[4,4] reshape(p)", AT_J, "f = f32[1,4] reshape(e)", "y = f32[1,4] tanh(f)",
        "ROOT u = f32[4,4] dynamic-update-slice(v, y, i, z)"),
    "an index that is read from the array": (
        "m = s32[16] convert(x)", "a = s32[1] dynamic-slice(m, j), dynamic_slice_sizes={1}", "b = s32[] reshape(a)",
        "c = s32[] add(b, i)", "w = s32[4] iota(), iota_dimension=0", "y = s32[4] negate(w)",
        "ROOT u = s32[16] dynamic-update-slice(m, y, c)"),
    "the array as its own update": ("ROOT u = f32[16] dynamic-update-slice(p, p, i)",),
    "a larger slice": (
        "e = f32[6] dynamic-slice(p, i), dynamic_slice_sizes={6}", "s = f32[4] slice(e), slice={[0:4]}", "y = f32[4] tanh(s)",
        UPDATE_AT_I),
}  # fmt: skip
"""What a kernel would read after it may have been overwritten."""


def program(lines: tuple[str, ...]) -> Module:
    """A module of one computation, of lines after HEAD."""
    return hloom.parse(f"{ADD}ENTRY e {{\n" + "\n".join((*HEAD, *lines)) + "\n}")


def updating_kernel(module: Module) -> list[str]:
    """The opcodes of the fusion that yields an update in place."""
    for node in module.entry.nodes:
        if node.opcode == "fusion" and node.called_graphs[0].root.opcode in ("dynamic-update-slice", "scatter"):
            return [inner.opcode for inner in node.called_graphs[0].nodes]
    return []


def reads_of_updated_array(module: Module) -> set[str]:
    """The opcodes that read the array that an update overwrites, in the update's fusion."""
    result = set[str]()
    for node in module.entry.nodes:
        graph = node.called_graphs[0] if node.opcode == "fusion" else None
        if graph is not None and graph.root.opcode == "dynamic-update-slice":
            [array, *_] = graph.root.operands
            assert array.opcode == "parameter"
            result |= {user.opcode for user in array.users if user is not graph.root}
            result |= {"itself" for operand in graph.root.operands[1:] if operand is array}
    return result


@pytest.mark.parametrize("lines", ONE_KERNEL.values(), ids=ONE_KERNEL)
def test_reads_that_an_update_in_place_allows(lines: tuple[str, ...]):
    before = program(lines)
    after, _ = hloom.opt(before, "cluster")
    kernel = updating_kernel(after)
    assert {node.opcode for node in before.entry.nodes[len(HEAD) :]} - {"constant", "compare"} <= set(kernel)
    assert not check_kernels(after).differing


@pytest.mark.parametrize("passes", ["cluster", "cluster(least=1)", "cluster(target=h100, least=1)"])
@pytest.mark.parametrize("lines", SEVERAL_KERNELS.values(), ids=SEVERAL_KERNELS)
def test_reads_that_an_update_in_place_forbids(lines: tuple[str, ...], passes: str):
    after, _ = hloom.opt(program(lines), passes)
    verify(after)
    assert reads_of_updated_array(after) <= {"dynamic-slice"}
    if passes == "cluster":
        assert not check_kernels(after).differing


@pytest.mark.parametrize("updates", ["v", "c"], ids=["a view of the array", "something else"])
def test_a_scatter_that_adds_what_it_updates(updates: str):
    """The fusion that holds it gets a copy of the array to update, so that what it adds stays as it was."""
    text = ADD + "ENTRY e {\n" + "\n".join(
        ("x = f32[4] parameter(0)", "k = s32[4,1] parameter(1)", "p = f32[4] negate(x)", "v = f32[4,1] reshape(p)",
         "c = f32[4,1] tanh(v)", f"ROOT u = f32[4] scatter(p, k, {updates}), {SCATTER}")
    ) + "\n}"  # fmt: skip
    after, _ = hloom.opt(hloom.parse(text), "cluster(least=1)")
    verify(after)
    assert "scatter" in updating_kernel(after)
    assert ("copy" in [node.opcode for node in after.entry.nodes]) == (updates != "c")
    with xla_flags(fusion_emitters(True)):  # tests do without, where nothing needs them
        result = check_kernels(after)
    assert len(result.agreeing) >= 2 and not result.differing and not result.skipped


def drawn(seed: int) -> Module:
    """A random program of updates in place, and of what else reads the arrays that they update."""
    generator = random.Random(seed)
    arrays, parts, lines = ["p"], ["y0"], ["y0 = f32[4] broadcast(zero), dimensions={}"]
    for number in range(1, 12):
        array, part, other = generator.choice(arrays[-3:]), generator.choice(parts), generator.choice(parts)
        index = generator.choice("ijz")
        form = generator.randrange(7)
        if form == 0:
            lines.append(f"a{number} = f32[16] dynamic-update-slice({array}, {part}, {index})")
        elif form == 1:
            lines.append(f"a{number} = f32[16] {generator.choice(('tanh', 'negate'))}({array})")
        elif form in (2, 3):
            lines.append(f"y{number} = f32[4] dynamic-slice({array}, {index}), {OF_FOUR}")
        elif form == 4:
            lines.append(f"y{number} = f32[4] add({part}, {other})")
        elif form == 5:
            lines.append(f"y{number} = f32[4] reverse({part}), dimensions={{0}}")
        else:
            lines.append(f"y{number} = f32[4] gather({array}, k), {ROWS}")
        (arrays if form < 2 else parts).append(f"{'a' if form < 2 else 'y'}{number}")
    lines.append(f"last = f32[16] dynamic-update-slice({arrays[-1]}, {parts[-1]}, i)")
    lines.append(f"ROOT t = (f32[16], f32[16], f32[4]) tuple(last, {generator.choice(arrays)}, {generator.choice(parts)})")
    return program(tuple(lines))


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 400), marks=pytest.mark.long)], ids=["few", "many"])
def test_random_updates_as_kernels(seeds: range):
    """Each kernel computes what its instructions compute one by one."""
    for seed in seeds:
        after, _ = hloom.opt(drawn(seed), f"cluster(least={1 + seed % 2})")
        result = check_kernels(after, seed)
        assert not result.skipped, result.reason
        assert not result.differing, (seed, result.differing)
