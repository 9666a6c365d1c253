"""The passes `canonical-dots` (`canonical_dot.py`) and `canonical-gathers` (`canonical_gather.py`).

The cases restate XLA's dot_decomposer_test.cc, gather_simplifier_test.cc and scatter_simplifier_test.cc.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply
from hloom.rewrite import tensor_type
from hloom.runtime import run
from tests.passes.computations import program
from tests.passes.pass_assertions import assert_leaves, changed


def product(x: str, y: str, result: str, contracting: str, batches: str = "") -> str:
    left, right = contracting.split("|")
    numbers = f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    if batches:
        first, second = batches.split("|")
        numbers += f", lhs_batch_dims={{{first}}}, rhs_batch_dims={{{second}}}"
    return f"x = f32[{x}] parameter(0)\ny = f32[{y}] parameter(1)\nROOT d = f32[{result}] dot(x, y), {numbers}"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (product("6,5,8", "8,7", "6,5,7", "2|0"), "f32[30,7]"),
        (product("8,3,4", "9,8", "3,4,9", "0|1"), "f32[12,9]"),
        (product("6,4", "6,4,2,1", "6,2,1", "1|1", "0|0"), "f32[6,2]"),
        (product("6,4,2,1", "6,4", "6,2,1", "1|1", "0|0"), "f32[6,2]"),
        (product("6,4,2,0", "6,4", "6,2,0", "1|1", "0|0"), "f32[6,0]"),
        (product("6,4", "6,4,2,0", "6,2,0", "1|1", "0|0"), "f32[6,0]"),
        (product("6,4,3,2", "5,4,2,3", "3,2,6,5", "1|1", "2,3|3,2"), "f32[3,2,6,5]"),
        (product("3,4,5", "4,3,2", "5,2", "0,1|1,0"), "f32[5,2]"),
    ],
)
def test_dots_become_products_of_matrices(text: str, made: str):
    after, has_changed = changed("canonical-dots", text, exact=False)
    assert has_changed and not apply(after, "canonical-dots")[1].changed
    [dot] = [node for node in after.entry.nodes if node.opcode == "dot"]
    assert str(dot.type) == made


@pytest.mark.parametrize(
    "text",
    [
        product("8,6", "9,8", "6,9", "0|1"),
        product("6,4", "6,4", "6", "1|1", "0|0"),
        product("2,3,4,5", "2,3,5,6", "2,3,4,6", "3|2", "0,1|0,1"),
    ],
)
def test_products_of_matrices_stay(text: str):
    assert_leaves("canonical-dots", text)


def gather(operand: str, indices: str, result: str, *numbers: str, highest: int = 9) -> str:
    offsets, collapsed, mapped, vector, sizes = numbers
    return program(f"""
        x = f32[{operand}] parameter(0)
        i = s32[{indices}] parameter(1)
        ROOT g = f32[{result}] gather(x, i), offset_dims={{{offsets}}}, collapsed_slice_dims={{{collapsed}}}, start_index_map={{{mapped}}}, index_vector_dim={vector}, slice_sizes={{{sizes}}}""")


GATHERS = {
    "implied vector": gather("9,8", "4,3", "4,3,5,6", "2,3", "", "0", "2", "5,6"),
    "collapsed": gather("9,8", "7,1", "7", "", "0,1", "0", "1", "1,1"),
    "one of three collapsed": gather("9,8,7", "5,1", "6,5", "0", "0,2", "0", "1", "1,6,1"),
    "vector first": gather("9,8", "2,5", "5,3", "1", "0", "0,1", "0", "1,3"),
    "no batches": gather("8,6", "2", "8,6", "0,1", "", "0,1", "0", "8,6"),
    "rows of a table": gather("9,8", "3,4", "3,4,8", "2", "0", "0", "2", "1,8"),
}


@pytest.mark.parametrize("text", GATHERS.values(), ids=GATHERS)
def test_gathers_take_one_row_after_another(text: str):
    assert_canonical(text, "gather")


def assert_canonical(text: str, opcode: str) -> None:
    before = hloom.parse(text)
    after, report = apply(before, "canonical-gathers")
    verify(after)
    assert report.changed and not apply(after, "canonical-gathers")[1].changed
    [node] = [node for node in after.entry.nodes if node.opcode == opcode]
    indices = node.operands[len(node.operands) // 2]
    assert str(indices.type).count(",") == 1 and node.attributes["index_vector_dim"] == 1
    random = np.random.default_rng(1)
    types = [tensor_type(parameter) for parameter in before.entry.parameters]
    inputs = [
        random.integers(-2, 9, array_type.dims).astype(array_type.dtype.numpy)
        for array_type in types
        if array_type is not None
    ]
    for one, other in zip(
        run(before, inputs).outputs, run(hloom.parse(hloom.print(after)), inputs).outputs, strict=True
    ):
        assert np.array_equal(one, other)


def test_gathers_of_scalars_and_of_nothing():
    scalar = gather("", "7,0", "7", "", "", "", "1", "")
    after, _ = changed("canonical-gathers", scalar)
    assert after.entry.root.opcode == "broadcast"
    nothing = gather("0,2", "3", "3,2", "1", "0", "0", "1", "0,2")
    after, _ = apply(hloom.parse(nothing), "canonical-gathers")
    assert [node.opcode for node in after.entry.nodes[2:]] == ["constant", "broadcast"]


def test_gathers_of_this_form_stay():
    assert_leaves("canonical-gathers", gather("9,8,7", "6,3", "6,1,2,3", "1,2,3", "", "2,0,1", "1", "1,2,3"))


def scatter(operand: str, indices: str, updates: str, *numbers: str, count: int = 1) -> str:
    window, inserted, mapped, vector = numbers
    names = [[f"{letter}{number}" for number in range(count)] for letter in "xu"]
    lines = [f"{name} = f32[{operand}] parameter({number})" for number, name in enumerate(names[0])]
    lines.append(f"i = s32[{indices}] parameter({count})")
    lines += [f"{name} = f32[{updates}] parameter({count + 1 + number})" for number, name in enumerate(names[1])]
    result, combiner = f"f32[{operand}]", "add_f32"
    if count > 1:
        result, combiner = f"({', '.join([result] * count)})", "both"
    given = ", ".join((*names[0], "i", *names[1]))
    lines.append(
        f"ROOT s = {result} scatter({given}), update_window_dims={{{window}}}, inserted_window_dims={{{inserted}}}, "
        f"scatter_dims_to_operand_dims={{{mapped}}}, index_vector_dim={vector}, to_apply={combiner}"
    )
    pair = """both {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = f32[] parameter(2)
      d = f32[] parameter(3)
      e = f32[] add(a, c)
      f = f32[] maximum(b, d)
      ROOT t = (f32[], f32[]) tuple(e, f)
    }
    """
    return (pair if count > 1 else "") + program("\n".join(lines))


SCATTERS = {
    "two arrays": scatter("3,3", "2", "2,3", "1", "0", "0", "1", count=2),
    "two dimensions of indices": scatter("3,3", "2,1,2", "2,1,1,3", "2,3", "", "0,1", "2"),
    "vector first": scatter("3,3", "2,1", "1,3,3", "1,2", "", "0,1", "0"),
    "slices first": scatter("3", "1,1", "2,1", "0", "", "0", "1"),
    "no batches": scatter("4,4", "2", "3,3", "0,1", "", "0,1", "0"),
    "rows": scatter("6,4", "2,3,1", "2,3,4", "2", "0", "0", "2"),
}


@pytest.mark.parametrize("text", SCATTERS.values(), ids=SCATTERS)
def test_scatters_take_one_row_after_another(text: str):
    assert_canonical(text, "scatter")


@pytest.mark.parametrize("count", [1, 2])
def test_scatters_into_scalars_combine(count: int):
    after, _ = changed("canonical-gathers", scatter("", "0", "", "", "", "", "0", count=count))
    assert after.entry.root.opcode == ("add" if count == 1 else "tuple")


def test_scatters_of_this_form_stay():
    assert_leaves("canonical-gathers", scatter("3,3", "2,2", "2,1,3", "1,2", "", "0,1", "1"))
    assert_leaves("canonical-gathers", scatter("3,4,5", "2,2", "2,1,1,3", "1,2,3", "", "2,0", "1"))


@pytest.mark.parametrize("seed", range(10))
def test_random_gathers_and_scatters(seed: int):
    """Random dimensions, places of the vectors and of the slices, and what is collapsed."""
    random = Random(seed)
    operand = [random.randint(2, 5) for _ in range(random.randint(1, 3))]
    lead = [random.randint(1, 3) for _ in range(random.randint(0, 2))]
    mapped = random.sample(range(len(operand)), random.randint(1, len(operand)))
    vector = random.randint(0, len(lead))
    indices = [*lead[:vector], len(mapped), *lead[vector:]]
    if len(mapped) == 1 and random.random() < 0.4:
        vector, indices = len(lead), list(lead)
    sizes = [random.randint(1, size) for size in operand]
    gone = [dim for dim, size in enumerate(sizes) if size == 1 and random.random() < 0.7]
    kept = [size for dim, size in enumerate(sizes) if dim not in gone]
    offsets = sorted(random.sample(range(len(lead) + len(kept)), len(kept)))
    batches, windows = iter(lead), iter(kept)
    result = [next(windows) if dim in offsets else next(batches) for dim in range(len(lead) + len(kept))]

    def text(numbers: list[int]) -> str:
        return ",".join(map(str, numbers))

    for made in (
        gather(
            text(operand),
            text(indices),
            text(result),
            text(offsets),
            text(gone),
            text(mapped),
            str(vector),
            text(sizes),
        ),
        scatter(text(operand), text(indices), text(result), text(offsets), text(gone), text(mapped), str(vector)),
    ):
        before = hloom.parse(made)
        verify(before)
        after, report = apply(before, "canonical-gathers")
        verify(after)
        if report.changed:
            assert_canonical(made, "gather" if " gather(" in made else "scatter")
