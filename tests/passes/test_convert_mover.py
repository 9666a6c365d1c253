"""Data are moved in the narrower type (`convert_mover.py`).

The cases restate those of XLA's xla/hlo/transforms/simplifiers/convert_mover_test.cc.
"""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply, move_converts
from tests.passes.pass_assertions import assert_leaves, assert_makes, assert_same_outputs


def converted(narrow: str, wide: str, move: str, given: str = "") -> str:
    return f"x = {narrow}[6] parameter(0)\n a = {wide}[6] convert(x)\n {given}\n ROOT m = {move}"


def test_a_concatenation_of_widened_arrays():
    for narrow, wide in (("f16", "f32"), ("f32", "c64"), ("s8", "s32"), ("pred", "s32"), ("bf16", "f64")):
        parameters = f"x = {narrow}[4] parameter(0)\n y = {narrow}[5] parameter(1)\n"
        assert_makes(
            "move-converts",
            f"{parameters} a = {wide}[4] convert(x)\n b = {wide}[5] convert(y)\n"
            f"ROOT c = {wide}[9] concatenate(a, b), dimensions={{0}}",
            f"{parameters} c = {narrow}[9] concatenate(x, y), dimensions={{0}}\n ROOT w = {wide}[9] convert(c)",
        )


def test_a_narrowed_reshape():
    assert_makes(
        "move-converts",
        "x = f32[6] parameter(0)\n r = f32[2,3] reshape(x)\n ROOT n = f16[2,3] convert(r)",
        "x = f32[6] parameter(0)\n n = f16[6] convert(x)\n ROOT r = f16[2,3] reshape(n)",
    )


def test_through_one_move_after_the_other():
    assert_makes(
        "move-converts",
        """x = f32[3,5] parameter(0)
        a = f32[5,3] transpose(x), dimensions={1,0}
        b = f32[3,5] transpose(a), dimensions={1,0}
        ROOT n = bf16[3,5] convert(b)""",
        """x = f32[3,5] parameter(0)
        n = bf16[3,5] convert(x)
        a = bf16[5,3] transpose(n), dimensions={1,0}
        ROOT b = bf16[3,5] transpose(a), dimensions={1,0}""",
    )
    assert_makes(
        "move-converts",
        """x = f16[6] parameter(0)
        w = f32[6] convert(x)
        a = f32[5] slice(w), slice={[1:6]}
        ROOT b = f32[3] slice(a), slice={[0:3]}""",
        """x = f16[6] parameter(0)
        a = f16[5] slice(x), slice={[1:6]}
        b = f16[3] slice(a), slice={[0:3]}
        ROOT w = f32[3] convert(b)""",
    )


def test_padding_that_is_widened():
    assert_makes(
        "move-converts",
        converted("f16", "f32", "f32[9] pad(a, z), padding=1_2", "z = f32[] constant(0.5)"),
        "x = f16[6] parameter(0)\n z = f16[] constant(0.5)\n p = f16[9] pad(x, z), padding=1_2\n"
        "ROOT w = f32[9] convert(p)",
    )


@pytest.mark.parametrize(
    ("wide", "narrow", "value"), [("f32", "f16", "0"), ("s32", "s8", "1000"), ("f32", "bf16", "1e9")]
)
def test_padding_that_is_narrowed(wide, narrow, value):
    """Whatever its value: it would have been narrowed like the rest."""
    assert_makes(
        "move-converts",
        f"x = {wide}[6] parameter(0)\n z = {wide}[] constant({value})\n p = {wide}[8] pad(x, z), padding=1_1\n"
        f"ROOT n = {narrow}[8] convert(p)",
        f"x = {wide}[6] parameter(0)\n n = {narrow}[6] convert(x)\n z = {wide}[] constant({value})\n"
        f"m = {narrow}[] convert(z)\n ROOT p = {narrow}[8] pad(n, m), padding=1_1",
    )


STAYING = {
    "other types before": "x = bf16[4] parameter(0)\n y = f16[4] parameter(1)\n a = f32[4] convert(x)\n"
    "b = f32[4] convert(y)\n ROOT c = f32[8] concatenate(a, b), dimensions={0}",
    "a complex constant": "x = f32[2] parameter(0)\n a = c64[2] convert(x)\n k = c64[2] constant({(2,1),(0,-1)})\n"
    "ROOT c = c64[4] concatenate(a, k), dimensions={0}",
    "a constant out of range": converted("f16", "f32", "f32[8] pad(a, z), padding=1_1", "z = f32[] constant(1e9)"),
    "a constant that would be rounded": converted(
        "bf16", "f32", "f32[8] pad(a, z), padding=1_1", "z = f32[] constant(0.1)"
    ),
    "the sign of zero": converted("s8", "f32", "f32[8] pad(a, z), padding=1_1", "z = f32[] constant(-0.0)"),
    "an elided constant": converted(
        "f16", "f32", "f32[12] concatenate(a, k), dimensions={0}", "k = f32[6] constant({...})"
    ),
    "constants only": "a = f32[2] constant({1,2})\n b = f32[2] constant({3,4})\n"
    "ROOT c = f32[4] concatenate(a, b), dimensions={0}",
    "one operand is not a conversion": converted(
        "f16", "f32", "f32[12] concatenate(a, y), dimensions={0}", "y = f32[6] parameter(1)"
    ),
    "the conversion is used elsewhere": converted(
        "f16", "f32", "(f32[3], f32[6]) tuple(s, a)", "s = f32[3] slice(a), slice={[0:3]}"
    ),
    "the moved array is used elsewhere": "x = f32[6] parameter(0)\n r = f32[2,3] reshape(x)\n n = f16[2,3] convert(r)\n"
    "ROOT t = (f32[2,3], f16[2,3]) tuple(r, n)",
    "as many bits": converted("s32", "f32", "f32[3] slice(a), slice={[0:3]}"),
    "four bits": converted("s4", "s8", "s8[3] slice(a), slice={[0:3]}"),
    "a sharding": converted("f16", "f32", "f32[3] slice(a), slice={[0:3]}, sharding={replicated}"),
    "a dependence": "x = f16[6] parameter(0)\n o = f16[6] negate(x)\n a = f32[6] convert(x), control-predecessors={o}\n"
    "s = f32[3] slice(a), slice={[0:3]}\n ROOT t = (f32[3], f16[6]) tuple(s, o)",
}  # fmt: skip


@pytest.mark.parametrize("text", STAYING.values(), ids=STAYING)
def test_what_stays(text: str):
    assert_leaves("move-converts", text)


@pytest.mark.parametrize("seed", range(12))
def test_random_moves(seed: int):
    """Random conversions and moves, one upon another."""
    random = Random(seed)
    lines = ["x0 = f16[2,3] parameter(0)", "x1 = f32[2,3] parameter(1)", "x2 = s8[2,3] parameter(2)"]
    values: list[tuple[str, str, tuple[int, int]]] = [
        ("x0", "f16", (2, 3)),
        ("x1", "f32", (2, 3)),
        ("x2", "s8", (2, 3)),
    ]
    for number in range(16):
        name, element, (rows, columns) = random.choice(values[-5:])
        made = f"v{number}"
        match random.randrange(5):
            case 0 | 1:
                element = random.choice(["f16", "f32", "s32", "f64", "bf16"])
                operation = f"convert({name})"
            case 2:
                rows, columns = columns, rows
                operation = f"transpose({name}), dimensions={{1,0}}"
            case 3:
                rows, columns = 1, rows * columns
                operation = f"reshape({name})"
            case _:
                lines.append(f"k{number} = {element}[] constant({random.choice([0, 3, 100])})")
                operation = f"pad({name}, k{number}), padding=0_0x1_0"
                columns += 1
        lines.append(f"{made} = {element}[{rows},{columns}] {operation}")
        values.append((made, element, (rows, columns)))
    results = random.sample(values[3:], 4)
    types = ", ".join(f"{element}[{rows},{columns}]" for _, element, (rows, columns) in results)
    lines.append(f"ROOT t = ({types}) tuple({', '.join(name for name, _, _ in results)})")
    before = hloom.parse("ENTRY e {\n" + "\n".join(lines) + "\n}")
    after, _ = apply(before, move_converts)
    verify(after)
    assert_same_outputs(before, after)
