"""Tuples whose elements wait by control dependencies; restates XLA's tuple_simplifier_test.cc."""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom.ir import Node, verify
from hloom.passes import apply
from hloom.text import HloomError
from tests.passes.pass_assertions import assert_leaves, assert_makes, assert_same_outputs, changed

PAIR = "p = (f32[2], f32[2]) parameter(0)\n"
ELEMENTS = "a = f32[2] get-tuple-element(p), index=0\nb = f32[2] get-tuple-element(p), index=1\n"


@pytest.mark.parametrize(
    "before, after",
    [
        (
            "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nt = (f32[2], f32[2]) tuple(x, y)\n"
            "g = f32[2] get-tuple-element(t), index=1\nROOT n = f32[2] negate(g)",
            "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT n = f32[2] negate(y)",
        ),
        (PAIR + ELEMENTS + "ROOT t = (f32[2], f32[2]) tuple(a, b)", PAIR.replace("p =", "ROOT p =")),
        (
            "x = f32[2] parameter(0)\nt = (f32[2], f32[2]) tuple(x, x)\nu = ((f32[2], f32[2]), f32[2]) tuple(t, x)\n"
            "g = (f32[2], f32[2]) get-tuple-element(u), index=0\nh = f32[2] get-tuple-element(g), index=1\n"
            "ROOT n = f32[2] negate(h)",
            "x = f32[2] parameter(0)\nROOT n = f32[2] negate(x)",
        ),
        (
            PAIR + ELEMENTS + "c = f32[2] copy(b)\nt = (f32[2], f32[2]) tuple(a, c)\n"
            "g = f32[2] get-tuple-element(t), index=1, control-predecessors={a}\n"
            "h = f32[2] get-tuple-element(t), index=0, control-predecessors={g}\nROOT s = f32[2] add(g, h)",
            PAIR + ELEMENTS + "c = f32[2] copy(b)\nROOT s = f32[2] add(c, a)",
        ),
        (
            PAIR + ELEMENTS + "c = f32[2] copy(a)\nm = f32[2] sine(b)\nt = (f32[2]) tuple(c)\n"
            "g = f32[2] get-tuple-element(t), index=0, control-predecessors={m}\nr = f32[2] negate(g)\n"
            "ROOT s = f32[2] add(r, m)",
            PAIR + ELEMENTS + "c = f32[2] copy(a)\nm = f32[2] sine(b)\nr = f32[2] negate(c), control-predecessors={m}\n"
            "ROOT s = f32[2] add(r, m)",
        ),
        (
            PAIR + ELEMENTS + "m = f32[2] add(a, b)\nt = (f32[2], f32[2]) tuple(a, b), control-predecessors={m}\n"
            "n = f32[2] negate(m), control-predecessors={t}\ng = f32[2] get-tuple-element(t), index=0\n"
            "ROOT s = f32[2] add(g, n)",
            PAIR + ELEMENTS + "m = f32[2] add(a, b)\nn = f32[2] negate(m), control-predecessors={p}\n"
            "g = f32[2] get-tuple-element(p), index=0, control-predecessors={m}\nROOT s = f32[2] add(g, n)",
        ),
    ],
    ids=["element", "whole", "nested", "elements that wait", "user that waits instead", "whole that waits"],
)  # fmt: skip
def test_what_uses_an_element_waits_for_it(before: str, after: str):
    assert_makes("simplify-tuples", before, after)


@pytest.mark.parametrize(
    "text",
    [
        "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT t = (f32[2], f32[2]) tuple(x, y)",
        PAIR + "ROOT a = f32[2] get-tuple-element(p), index=0",
        PAIR + ELEMENTS + "ROOT t = (f32[2], f32[2]) tuple(b, a)",
        PAIR + ELEMENTS + "ROOT t = (f32[2]) tuple(a)",
        "x = s32[10] parameter(0), sharding={devices=[2]0,1}\nt = (s32[10]) tuple(x)\n"
        "ROOT g = s32[10] get-tuple-element(t), index=0, sharding={replicated}",
        "x = f32[2,3]{1,0} parameter(0)\nt = (f32[2,3]{1,0}) tuple(x)\n"
        "g = f32[2,3]{0,1} get-tuple-element(t), index=0\nROOT n = f32[2,3]{0,1} negate(g)",
        PAIR + ELEMENTS + "m = f32[2] sine(a)\nt = (f32[2]) tuple(b)\n"
        "ROOT g = f32[2] get-tuple-element(t), index=0, control-predecessors={m}",
    ],
    ids=["parameters", "element of a parameter", "order", "fewer", "sharding", "layout", "result that waits"],
)  # fmt: skip
def test_tuples_that_stay(text: str):
    assert_leaves("simplify-tuples", text)


CALLED = """
f { p = (f32[2], f32[2]) parameter(0)  a = f32[2] get-tuple-element(p), index=0  b = f32[2] get-tuple-element(p), index=1
  ROOT t = (f32[2], f32[2]) tuple(a, b) }
ENTRY e { p = (f32[2], f32[2]) parameter(0)  c = (f32[2], f32[2]) call(p), to_apply=f
  a = f32[2] get-tuple-element(c), index=0  b = f32[2] get-tuple-element(c), index=1
  t = (f32[2], f32[2]) tuple(b, a)  g = f32[2] get-tuple-element(t), index=0  h = f32[2] get-tuple-element(t), index=1
  ROOT u = (f32[2], f32[2]) tuple(g, h) }
"""


def test_the_entry_is_left_on_demand():
    module, has_changed = changed("simplify-tuples(entry=0)", CALLED)
    assert has_changed and module["f"].root.opcode == "parameter"
    assert len(module.entry.nodes) == len(hloom.parse(CALLED).entry.nodes)
    with pytest.raises(HloomError, match="simplify-tuples: entry is 0 or 1, not '2'"):
        apply(module, "simplify-tuples(entry=2)")


def test_other_threads_are_left_on_demand():
    text = """
    f { x = s32[] parameter(0)  t = (s32[]) tuple(x)  g = s32[] get-tuple-element(t), index=0
      ROOT n = s32[] negate(g) }, execution_thread="sparsecore"
    ENTRY e { p = (s32[]) parameter(0)  a = s32[] get-tuple-element(p), index=0  t = (s32[]) tuple(a)
      g = s32[] get-tuple-element(t), index=0
      s = ((s32[]), s32[], s32[]) call-start(g), async_execution_thread="sparsecore", to_apply=f
      ROOT d = s32[] call-done(s) }
    """
    for thread, lengths in (("main", (4, 4)), ("sparsecore", (2, 6))):
        module, has_changed = changed(f"simplify-tuples(thread={thread})", text, runs=False)
        assert has_changed and (len(module["f"].nodes), len(module.entry.nodes)) == lengths


@pytest.mark.parametrize("seed", range(40))
def test_random_order_is_kept(seed: int):
    before = hloom.parse(_random_program(Random(seed)))
    after, report = apply(before, "simplify-tuples")
    verify(after)
    assert report.changed
    if seed % 8 == 0:
        assert_same_outputs(before, after)
    left = {node.name: node for node in after.entry.nodes}
    for node in before.entry.nodes:
        if node.name in left:
            continue
        for awaited in node.attributes.get("control-predecessors") or ():
            for user in _users_left(node, left):
                assert awaited.name not in left or left[awaited.name] in _all_before(left[user])
    assert not apply(after, "simplify-tuples")[1].changed


def _random_program(random: Random) -> str:
    """Elements of tuples of what is there, in tuples again, each of which may wait for something before it."""
    lines, arrays, tuples = ["x0 = f32[2] parameter(0)", "x1 = f32[2] parameter(1)"], ["x0", "x1"], list[str]()
    for number in range(random.randint(8, 24)):
        name, waits = f"n{number}", ""
        if random.random() < 0.5 and number:
            waits = f", control-predecessors={{{random.choice([*arrays, *tuples])}}}"
        choice = random.random()
        if choice < 0.3 or not tuples:
            lines.append(f"{name} = (f32[2], f32[2]) tuple({random.choice(arrays)}, {random.choice(arrays)}){waits}")
            tuples.append(name)
            continue
        if choice < 0.75:
            lines.append(
                f"{name} = f32[2] get-tuple-element({random.choice(tuples)}), index={random.randrange(2)}{waits}"
            )
        else:
            lines.append(f"{name} = f32[2] add({random.choice(arrays)}, {random.choice(arrays)}){waits}")
        arrays.append(name)
    lines += [f"last = (f32[2], f32[2]) tuple({arrays[-1]}, x0)", "g = f32[2] get-tuple-element(last), index=0"]
    kept = ", ".join(arrays)
    types = ", ".join("f32[2]" for _ in range(len(arrays) + 1))
    return "ENTRY e {\n" + "\n".join(lines) + f"\nROOT r = ({types}) tuple({kept}, g)\n}}"


def _users_left(node: Node, left: dict[str, Node]) -> set[str]:
    """What uses a node that is gone, or waits for it: in place of what is gone too, its users.

    Of a tuple that is gone only what takes the node out of it.
    """
    names, pending = set[str](), [(node, user) for user in node.users]
    while pending:
        used, user = pending.pop()
        if user.name in left:
            names.add(user.name)
        elif user.opcode == "tuple" and used in user.operands:
            pending += [(user, out) for out in user.users if user.operands[out.attributes.get("index", 0)] is used]
        else:
            pending += [(user, after) for after in user.users]
    return names


def _all_before(node: Node) -> set[Node]:
    """All that a node is computed of or waits for."""
    before, pending = set[Node](), [node]
    while pending:
        last = pending.pop()
        for other in (*last.operands, *(last.attributes.get("control-predecessors") or ())):
            if other not in before:
                before.add(other)
                pending.append(other)
    return before
