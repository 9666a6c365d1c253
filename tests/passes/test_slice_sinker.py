"""Elementwise instructions on slices become one (`slice_sinker.py`).

The cases restate those of XLA's xla/service/slice_sinker_test.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply, sink_slices
from tests.passes.pass_assertions import assert_leaves, assert_makes, assert_same_outputs, changed

TOP, BOTTOM = "{[0:3], [0:5]}", "{[3:7], [0:5]}"


def dims(bounds: str) -> str:
    """The dimensions of what a slice takes."""
    sizes = []
    for part in bounds.strip("{}").split(", "):
        numbers = [int(number) for number in part.strip("[]").split(":")]
        step = numbers[2] if len(numbers) > 2 else 1
        sizes.append(str(-(-(numbers[1] - numbers[0]) // step)))
    return f"[{','.join(sizes)}]"


def parameters(count: int, first: str = "f32") -> str:
    types = [first, *["f32"] * (count - 1)]
    return "".join(f"p{number} = {element}[7,5] parameter({number})\n" for number, element in enumerate(types))


def on_slices(*terms: tuple[str, str], count: int = 2, first: str = "f32", result: str = "f32") -> str:
    """Instructions on slices of all parameters, of these ops and bounds, and a tuple of them."""
    lines = [parameters(count, first)]
    for number, (opcode, bounds) in enumerate(terms):
        for operand in range(count):
            element = first if operand == 0 else "f32"
            lines.append(f"s{number}{operand} = {element}{dims(bounds)} slice(p{operand}), slice={bounds}\n")
        operands = ", ".join(f"s{number}{operand}" for operand in range(count))
        name, _, attributes = opcode.partition(" ")
        lines.append(f"y{number} = {result}{dims(bounds)} {name}({operands}){attributes}\n")
    return "".join(lines) + _tuple([result + dims(bounds) for _, bounds in terms], "y")


def sliced(*terms: tuple[str, str], count: int = 2, first: str = "f32") -> str:
    """The instructions on the parameters themselves, and slices of them."""
    lines = [parameters(count, first)]
    names: dict[str, str] = {}
    for number, (opcode, bounds) in enumerate(terms):
        operands = ", ".join(f"p{operand}" for operand in range(count))
        if opcode not in names:
            names[opcode] = f"w{number}"
            lines.append(f"w{number} = f32[7,5] {opcode}({operands})\n")
        lines.append(f"y{number} = f32{dims(bounds)} slice({names[opcode]}), slice={bounds}\n")
    return "".join(lines) + _tuple([f"f32{dims(bounds)}" for _, bounds in terms], "y")


def _tuple(types: Sequence[str], name: str) -> str:
    return f"ROOT t = ({', '.join(types)}) tuple({', '.join(f'{name}{number}' for number in range(len(types)))})"


LEFT, RIGHT = "{[0:7], [0:2]}", "{[0:7], [2:5]}"


@pytest.mark.parametrize(
    "terms",
    [
        [("add", TOP), ("add", BOTTOM)],
        [("add", "{[0:2], [0:5]}"), ("add", "{[3:7], [0:5]}"), ("add", "{[0:7], [0:3]}")],
        [("add", TOP), ("add", BOTTOM), ("multiply", LEFT), ("multiply", RIGHT)],
        [("add", "{[0:2], [0:5]}"), ("add", "{[3:7], [0:5]}"), ("add", "{[2:5], [0:5]}")],
        [("add", "{[0:7:2], [0:5]}"), ("add", "{[1:7:2], [0:5]}")],
    ],
    ids=["neighbours", "overlapping in part", "two groups", "overlapping", "every second row"],
)
def test_one_instruction_before_the_slices(terms):
    assert_makes("sink-slices", on_slices(*terms), sliced(*terms))


def test_three_operands():
    terms = [("select", TOP), ("select", BOTTOM)]
    assert_makes("sink-slices", on_slices(*terms, count=3, first="pred"), sliced(*terms, count=3, first="pred"))


def test_slices_with_other_users():
    terms = [("add", TOP), ("add", BOTTOM)]
    more = parameters(2) + "".join(
        f"s{number}{operand} = f32{dims(bounds)} slice(p{operand}), slice={bounds}\n"
        for number, bounds in enumerate((TOP, BOTTOM))
        for operand in range(2)
    )
    lines = "".join(
        f"y{number} = f32{dims(bounds)} {opcode}(s{number % 2}0, s{number % 2}1)\n"
        for number, (opcode, bounds) in enumerate(
            [("add", TOP), ("add", BOTTOM), ("multiply", TOP), ("multiply", BOTTOM)]
        )
    )
    text = more + lines + _tuple([f"f32{dims(bounds)}" for bounds in (TOP, BOTTOM, TOP, BOTTOM)], "y")
    assert_makes("sink-slices", text, sliced(*terms, ("multiply", TOP), ("multiply", BOTTOM)))


def test_one_after_the_other():
    text = on_slices(("add", TOP), ("add", BOTTOM))
    for number, bounds in enumerate((TOP, BOTTOM)):
        text = text.replace(
            f"y{number} = f32{dims(bounds)} add(s{number}0, s{number}1)",
            f"a{number} = f32{dims(bounds)} abs(s{number}1)\n y{number} = f32{dims(bounds)} add(s{number}0, a{number})",
        )
    after = sliced(("add", TOP), ("add", BOTTOM)).replace("add(p0, p1)", "add(p0, a)")
    assert_makes("sink-slices", text, after.replace("w0 =", "a = f32[7,5] abs(p1)\n w0 ="))


STAYING = {
    "more elements than before": on_slices(("add", "{[0:2], [0:5]}"), ("add", "{[3:7], [0:5]}")),
    "some columns of neighbours": on_slices(("add", "{[0:3], [0:4]}"), ("add", "{[3:7], [0:4]}")),
    "other operators": on_slices(("add", TOP), ("multiply", BOTTOM)),
    "other attributes": on_slices(("compare , direction=GT", TOP), ("compare , direction=LT", BOTTOM), result="pred"),
    "operands in another order": on_slices(("add", TOP), ("add", BOTTOM)).replace("add(s10, s11)", "add(s11, s10)"),
    "rows of other numbers": on_slices(("add", "{[0:3], [0:5]}"), ("add", "{[4:7], [0:5]}")).replace(
        "add(s10, s11)", "add(s10, s01)"
    ),
    "the same slices twice": on_slices(("add", TOP), ("add", TOP), ("add", TOP)),
    "a sharding": on_slices(("add", TOP), ("add", BOTTOM)).replace(
        "add(s10, s11)", "add(s10, s11), sharding={replicated}"
    ),
    "one waits for the other": on_slices(("add", TOP), ("add", BOTTOM)).replace(
        "add(s10, s11)", "add(s10, s11), control-predecessors={y0}"
    ),
    "not elementwise": """
        x = f32[8] parameter(0)
        a = f32[3] slice(x), slice={[0:3]}
        b = f32[5] slice(x), slice={[3:8]}
        c = f32[3,4] broadcast(a), dimensions={0}
        d = f32[5,4] broadcast(b), dimensions={0}
        ROOT t = (f32[3,4], f32[5,4]) tuple(c, d)""",
    "one operand is not a slice": """
        x = f32[8] parameter(0)
        y = f32[3] parameter(1)
        z = f32[5] parameter(2)
        a = f32[3] slice(x), slice={[0:3]}
        b = f32[5] slice(x), slice={[3:8]}
        c = f32[3] add(a, y)
        d = f32[5] add(b, z)
        ROOT t = (f32[3], f32[5]) tuple(c, d)""",
    "other types of the results": """
        x = f32[8] parameter(0)
        a = f32[3] slice(x), slice={[0:3]}
        b = f32[5] slice(x), slice={[3:8]}
        c = s32[3] convert(a)
        d = s64[5] convert(b)
        ROOT t = (s32[3], s64[5]) tuple(c, d)""",
    "empty": """
        x = f32[0] parameter(0)
        a = f32[0] slice(x), slice={[0:0]}
        ROOT c = f32[0] negate(a)""",
}


@pytest.mark.parametrize("text", STAYING.values(), ids=STAYING)
def test_what_stays(text: str):
    assert_leaves("sink-slices", text)


def test_layouts_that_are_not_the_default_stay():
    text = on_slices(("add", TOP), ("add", BOTTOM)).replace("[7,5] p", "[7,5]{0,1} p")
    assert_leaves("sink-slices", text)


def test_the_root():
    text = """
        x = f32[4] parameter(0)
        a = f32[3] slice(x), slice={[0:3]}
        b = f32[3] slice(x), slice={[1:4]}
        c = f32[3] exponential(a)
        z = f32[] constant(0)
        d = f32[3] pad(c, z), padding=0_0
        e = f32[3] add(d, d)
        ROOT f = f32[3] exponential(b)"""
    module, has_changed = changed("sink-slices", text)
    assert has_changed and module.entry.root.opcode == "slice"


@pytest.mark.parametrize("seed", range(12))
def test_random_slices(seed: int):
    """Random slices of two arrays, and random ops on them, one upon another."""
    random = Random(seed)
    lines = ["x = f32[6] parameter(0)", "y = f32[6] parameter(1)"]
    bounds = [(0, 3), (3, 6), (1, 5), (0, 6)]
    values = {bound: [] for bound in bounds}
    for number, (name, bound) in enumerate((name, bound) for name in "xy" for bound in bounds):
        lines.append(f"part{number} = f32[{bound[1] - bound[0]}] slice({name}), slice={{[{bound[0]}:{bound[1]}]}}")
        values[bound].append(f"part{number}")
    for number in range(14):
        bound = random.choice(bounds)
        one, other = random.choice(values[bound]), random.choice(values[bound])
        opcode = random.choice(["add", "multiply", "maximum"])
        lines.append(f"v{number} = f32[{bound[1] - bound[0]}] {opcode}({one}, {other})")
        values[bound].append(f"v{number}")
    results = [(value, bound[1] - bound[0]) for bound in bounds for value in values[bound] if value[0] == "v"]
    types = ", ".join(f"f32[{size}]" for _, size in results)
    lines.append(f"ROOT t = ({types}) tuple({', '.join(name for name, _ in results)})")
    before = hloom.parse("ENTRY e {\n" + "\n".join(lines) + "\n}")
    after, _ = apply(before, sink_slices)
    verify(after)
    assert_same_outputs(before, after)
