"""Updates of slices that nothing reads; restates XLA's dead_dynamic_update_slice_elimination_test.cc."""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply
from tests.passes.pass_assertions import assert_leaves, assert_makes, assert_same_outputs

GIVEN = "x = f32[24,4] parameter(0)\ny = f32[3,4] parameter(1)\nz = s32[] constant(0)\ni = s32[] constant(18)\n"
UPDATE = GIVEN + "u = f32[24,4] dynamic-update-slice(x, y, i, z)\n"
SHORT = "x = f32[10] parameter(0)\ny = f32[4] parameter(1)\n"


def rows(name: str, source: str, start: int, end: int) -> str:
    return f"{name} = f32[{end - start},4] slice({source}), slice={{[{start}:{end}], [0:4]}}\n"


@pytest.mark.parametrize("name", ["eliminate-dead-updates", "simplify"])
def test_an_update_beside_the_slices_goes(name: str):
    assert_makes(
        name,
        UPDATE + rows("a", "u", 15, 18) + rows("b", "u", 21, 24) + "ROOT s = f32[3,4] add(a, b)",
        "x = f32[24,4] parameter(0)\ny = f32[3,4] parameter(1)\n"
        + rows("a", "x", 15, 18) + rows("b", "x", 21, 24) + "ROOT s = f32[3,4] add(a, b)",
    )  # fmt: skip


def chain(read: str, count: int) -> str:
    """Updates of an array one after the other, from its end, and slices of what is below each."""
    lines = [f"x = f32[{4 * count + 4}] parameter(0)\ny = f32[4] parameter(1)\nu0 = f32[{4 * count + 4}] copy(x)"]
    for number in range(1, count + 1):
        start = 4 * (count - number + 1)
        lines.append(f"i{number} = s32[] constant({start})")
        lines.append(f"u{number} = f32[{4 * count + 4}] dynamic-update-slice(u{number - 1}, y, i{number})")
        lines.append(f"s{number} = f32[4] slice({read.format(number)}), slice={{[{start - 4}:{start}]}}")
    slices = ", ".join(f"s{number}" for number in range(1, count + 1))
    return "\n".join(lines) + f"\nROOT t = ({', '.join(['f32[4]'] * count)}) tuple({slices})"


def test_updates_of_updates_go():
    after, _ = apply(hloom.parse(f"ENTRY e {{ {chain('u{}', 7)} }}"), "eliminate-dead-updates")
    verify(after)
    assert "dynamic-update-slice" not in hloom.print(after)
    assert_same_outputs(hloom.parse(f"ENTRY e {{ {chain('u{}', 7)} }}"), after)


@pytest.mark.parametrize(
    "text",
    [
        UPDATE + rows("ROOT a", "u", 16, 20),
        UPDATE + rows("a", "u", 15, 18) + rows("b", "u", 18, 21) + "ROOT t = (f32[3,4], f32[3,4]) tuple(a, b)",
        UPDATE + rows("a", "u", 15, 18) + "ROOT t = (f32[3,4], f32[24,4]) tuple(a, u)",
        UPDATE + rows("a", "u", 15, 18) + "n = f32[24,4] sine(u)\nROOT t = (f32[3,4], f32[24,4]) tuple(a, n)",
        SHORT + "i = s32[] constant(-5)\nu = f32[10] dynamic-update-slice(x, y, i)\n"
        "ROOT s = f32[4] slice(u), slice={[0:4]}",
        SHORT + "i = u64[] constant(9223372036854775808)\nu = f32[10] dynamic-update-slice(x, y, i)\n"
        "ROOT s = f32[4] slice(u), slice={[6:10]}",
        SHORT + "i = s32[] constant(0)\nROOT u = f32[10] dynamic-update-slice(x, y, i)\n"
        "s = f32[4] slice(u), slice={[6:10]}",
        SHORT + "i = s32[] parameter(2)\nu = f32[10] dynamic-update-slice(x, y, i)\n"
        "ROOT s = f32[1] slice(u), slice={[0:1]}",
        SHORT + "i = s32[] constant(0)\nn = f32[4] sine(y)\n"
        "u = f32[10] dynamic-update-slice(x, y, i), control-predecessors={n}\nROOT s = f32[1] slice(u), slice={[6:7]}",
        "x = f32[8,2]{1,0} parameter(0)\ny = f32[4,2]{1,0} parameter(1)\ni = s32[] constant(0)\n"
        "u = f32[8,2]{0,1} dynamic-update-slice(x, y, i, i)\nROOT s = f32[1,2]{0,1} slice(u), slice={[6:7], [0:2]}",
    ],
    ids=[
        "across", "one of the update", "update that lives on", "update that is read", "clamped below", "clamped above",
        "result", "unknown", "waits", "layout",
    ],
)  # fmt: skip
def test_updates_that_stay(text: str):
    assert_leaves("eliminate-dead-updates", text)


@pytest.mark.parametrize("use", ["u", "n"])
def test_simplify_leaves_slices_where_the_update_lives_on(use: str):
    """XLA would else have to copy the array, which it updates in place."""
    text = UPDATE + rows("a", "u", 15, 18)
    text += f"n = f32[24,4] sine(u)\nROOT t = (f32[3,4], f32[24,4]) tuple(a, {use})"
    after, _ = apply(hloom.parse(f"ENTRY e {{ {text} }}"), "simplify")
    assert after.entry.root.operands[0].operands[0].opcode == "dynamic-update-slice"


def test_simplify_takes_slices_of_the_update_from_it():
    assert_makes(
        "simplify",
        UPDATE + rows("a", "u", 15, 18) + rows("b", "u", 18, 20) + "ROOT t = (f32[3,4], f32[2,4]) tuple(a, b)",
        "x = f32[24,4] parameter(0)\ny = f32[3,4] parameter(1)\n"
        + rows("a", "x", 15, 18) + rows("b", "y", 0, 2) + "ROOT t = (f32[3,4], f32[2,4]) tuple(a, b)",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["eliminate-dead-updates", "simplify"])
def test_random_updates_and_slices(name: str, seed: int):
    before = hloom.parse(_random_program(Random(seed)))
    after, _ = apply(before, name)
    verify(after)
    assert_same_outputs(before, after)
    assert not apply(after, name)[1].changed


def _random_program(random: Random) -> str:
    """Updates of updates of two dimensions, and slices of some of them; some are results."""
    lines = ["a0 = f32[8,6] parameter(0)", "y = f32[2,3] parameter(1)", "z = f32[3,1] parameter(2)"]
    arrays, results = ["a0"], list[str]()
    for number in range(random.randint(2, 7)):
        starts = [random.choice((-2, 0, 1, 3, 9)) for _ in range(2)]
        lines += [f"i{number} = s32[] constant({starts[0]})", f"j{number} = s32[] constant({starts[1]})"]
        source = random.choice(arrays[-2:])
        update = random.choice("yz")
        lines.append(f"u{number} = f32[8,6] dynamic-update-slice({source}, {update}, i{number}, j{number})")
        arrays.append(f"u{number}")
        for part in range(random.randint(0, 2)):
            row, column = random.randrange(7), random.randrange(5)
            lines.append(
                f"s{number}.{part} = f32[2,2] slice(u{number}), slice={{[{row}:{row + 2}], [{column}:{column + 2}]}}"
            )
            results.append(f"s{number}.{part}")
        if random.random() < 0.15:
            results.append(f"u{number}")
    results = results or [arrays[-1]]
    types = ", ".join("f32[2,2]" if name.startswith("s") else "f32[8,6]" for name in results)
    return "ENTRY e {\n" + "\n".join(lines) + f"\nROOT r = ({types}) tuple({', '.join(results)})\n}}"
