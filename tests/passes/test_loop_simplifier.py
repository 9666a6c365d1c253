"""What loops carry becomes less (`loop_simplifier.py`, `while_state.py`).

The cases restate those of XLA's xla/service/while_loop_simplifier_test.cc, with loops that end, so that they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from random import Random

import numpy as np
import pytest

import hloom
from hloom.ir import Apply, Module, verify
from hloom.passes import apply
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.while_state import nested_state, several_counters
from hloom.runtime import run
from tests.passes.pass_assertions import assert_leaves, changed
from tests.passes.rule_assertions import rewritten

LESS_THAN_FIVE = (
    "g0 = s32[] get-tuple-element(s), index=0\n l = s32[] constant(5)\n ROOT p = pred[] compare(g0, l), direction=LT"
)


def loop(
    types: Sequence[str],
    begins: Sequence[str],
    lines: str,
    yielded: str,
    *,
    condition: str = LESS_THAN_FIVE,
    outside: str = "",
    after: str = "",
    config: str = "",
    root: str = "",
) -> str:
    """A module of one loop, whose state is of these types and begins so; `g0`, `g1`... are its elements in the body.

    Parameters are numbered in order.
    """
    numbers = count(outside.count("parameter("))
    begins = [f"parameter({next(numbers)})" if begin.startswith("parameter") else begin for begin in begins]
    state = f"({', '.join(types)})"
    gets = "".join(
        f" g{number} = {element_type} get-tuple-element(s), index={number}\n"
        for number, element_type in enumerate(types)
    )
    made = [
        f"  i{number} = {element_type} {begin}"
        for number, (element_type, begin) in enumerate(zip(types, begins, strict=True))
    ]
    names = ", ".join(f"i{number}" for number in range(len(types)))
    is_root = "" if after else "ROOT "
    return "\n".join([
        f"cond {{\n s = {state} parameter(0)\n {condition}\n}}",
        f"body {{\n s = {state} parameter(0)\n{gets} one = s32[] constant(1)\n n = s32[] add(g0, one)\n {lines}\n"
        f" ROOT t = {state} tuple({yielded}){root}\n}}",
        "ENTRY e {", outside, *made, f"  t = {state} tuple({names})",
        f"  {is_root}w = {state} while(t), condition=cond, body=body{config}", after, "}",
    ])  # fmt: skip


def states(module: Module) -> list[str]:
    return [str(node.type) for node in module.entry.nodes if node.opcode == "while"]


def simplified(text: str, *, runs: bool = True) -> Module:
    module, has_changed = changed("simplify-loops", text, runs=runs)
    assert has_changed
    assert_leaves("simplify-loops", hloom.print(module))
    return module


TWO = (["s32[]", "s32[3]"], ["constant(4)", "constant({1,2,3})"])
BOUNDED = (["s32[]", "s32[3]", "s32[]"], ["constant(4)", "constant({1,2,3})", "constant({})"])
FIRST = "ROOT r = s32[] get-tuple-element(w), index=0"
BY_ELEMENT = LESS_THAN_FIVE.replace("l = s32[] constant(5)", "l = s32[] get-tuple-element(s), index=2")


@pytest.mark.parametrize(("limit", "opcodes"), [(4, ["constant", "constant"]), (5, ["add", "multiply"])])
def test_loops_that_run_once_or_never(limit: int, opcodes: list[str]):
    text = loop(*TWO, "m = s32[3] multiply(g1, g1)", "n, m", condition=LESS_THAN_FIVE.replace("(5)", f"({limit})"))
    assert [value.opcode for value in simplified(text).entry.root.operands] == opcodes
    types, begins = BOUNDED
    text = loop(
        types, [begin.replace("{}", str(limit)) for begin in begins], "m = s32[3] multiply(g1, g1)", "n, m, g2",
        condition=BY_ELEMENT,
    )  # fmt: skip
    assert [value.opcode for value in simplified(text).entry.root.operands] == [*opcodes, "constant"]


def test_control_dependences_come_out_of_a_loop_that_runs_once():
    text = loop(
        *TWO,
        "m = s32[3] multiply(g1, g1), control-predecessors={n}\n k = pred[] constant(true)",
        "n, m",
        root=", control-predecessors={k, m}",
    )
    root = simplified(text).entry.root
    product = root.operands[1]
    assert [node.name for node in root.attributes["control-predecessors"]] == ["k", product.name]
    assert list(product.attributes["control-predecessors"]) == [root.operands[0]]


def test_an_element_that_nothing_uses():
    text = loop(["s32[]", "s32[]"], ["constant(0)", "constant(0)"], "", "n, n", after=FIRST)
    assert states(simplified(text)) == ["(s32[])"]


def test_an_element_that_is_only_passed_on_by_a_loop_that_is_used_whole():
    text = loop(
        ["s32[]", "s32[]", "s32[]"], ["parameter", "parameter", "parameter"], "d = s32[] add(g1, one)",
        "n, d, g2",
    )  # fmt: skip
    module = simplified(text)
    assert states(module) == ["(s32[], s32[])"]
    assert module.entry.root.operands[2].opcode == "parameter"


def test_nothing_is_left_of_a_state_beside_effects():
    infeed = "k = token[] after-all()\n f = ((s32[]), token[]) infeed(k)"
    text = loop(["s32[]"], ["parameter"], infeed, "g0", condition="ROOT p = pred[] constant(true)")
    module = simplified(text, runs=False)
    assert states(module) == ["()"]
    assert sum(node.opcode == "infeed" for node in module.nodes()) == 1


def test_a_group_of_elements_that_nothing_else_uses():
    text = loop(
        ["s32[]", "s32[]", "s32[]"], ["constant(0)", "constant(1)", "constant(2)"], "d = s32[] add(g1, g2)", "n, d, d",
        after=FIRST,
    )  # fmt: skip
    assert states(simplified(text)) == ["(s32[])"]


def test_an_element_that_is_computed_and_that_nothing_uses():
    text = loop(
        ["s32[]", "s32[]", "s32[]"], ["constant(0)", "parameter", "parameter"],
        "d = s32[] add(g1, g2)\n e = s32[] multiply(g1, g1)", "n, e, d",
        after="a = s32[] get-tuple-element(w), index=0\n b = s32[] get-tuple-element(w), index=1\n"
        "ROOT r = (s32[], s32[]) tuple(a, b)",
    )  # fmt: skip
    assert states(simplified(text)) == ["(s32[], s32[])"]


def test_repeated_elements():
    text = loop(
        ["s32[]", "s32[3]", "s32[3]"], ["constant(0)", "negate(x)", "negate(x)"], "d = s32[3] add(g1, g2)",
        "n, g1, g2", outside="  x = s32[3] parameter(0)",
    ).replace("i2 = s32[3] negate(x)", "").replace("i1, i2", "i1, i1")  # fmt: skip
    assert states(simplified(text)) == ["(s32[])"]
    text = text.replace("tuple(n, g1, g2)", "tuple(n, d, d)")
    assert states(simplified(text)) == ["(s32[], s32[3])"]


def test_constants_that_the_body_yields_again():
    text = loop(
        ["s32[]", "s32[2]", "s32[3]"], ["parameter", "constant({1,1})", "constant({2,2,2})"],
        "b = s32[2] constant({1,1})\n c = s32[3] constant({7,7,7})\n k = s32[2] add(g1, g1)", "n, b, c",
    )  # fmt: skip
    module = simplified(text)
    assert states(module) == ["(s32[], s32[3])"]
    assert module.entry.root.operands[1].opcode == "constant"


def test_a_state_of_constants_only():
    text = loop(
        ["s32[1]"], ["constant({3})"], "k = s32[1] constant({3})", "k", condition="ROOT p = pred[] constant(true)"
    )
    text = text.replace(" one = s32[] constant(1)\n n = s32[] add(g0, one)\n", "")
    module = simplified(text, runs=False)
    assert not states(module) and module.entry.root.operands[0].opcode == "constant"


def test_numbers_go_where_arrays_stay():
    text = loop(
        ["s32[]", "s32[]", "s32[3]", "s32[3]"], ["constant(0)", "constant(5)", "constant({4,5,6})", "parameter"],
        "c = s32[3] broadcast(g1), dimensions={}\n d = s32[3] add(c, g2)\n m = s32[3] add(d, g3)", "n, g1, g2, m",
    )  # fmt: skip
    module, has_changed = changed("simplify-loops(arrays=0)", text)
    assert has_changed and states(module) == ["(s32[], s32[3], s32[3])"]


def test_what_arrays_is():
    with pytest.raises(hloom.HloomError, match="arrays is 0 or 1, not '7'"):
        hloom.opt(hloom.parse("ENTRY e { ROOT x = f32[] parameter(0) }"), "simplify-loops(arrays=7)")


def test_what_xla_leaves():
    """A small array that stays constant, beside one that is computed of it: XLA gives the same numbers."""
    text = loop(
        ["s32[]", "s32[3]", "s32[3]"], ["constant(0)", "constant({4,5,6})", "parameter"], "m = s32[3] add(g1, g2)", "n, g1, m",
    )  # fmt: skip
    assert states(simplified(text)) == ["(s32[], s32[3])"]
    assert_leaves("simplify-loops(arrays=0)", text)


def test_a_loop_that_changes_nothing_stays():
    """Where it begins it never ends; one that does not begin goes by another rule."""
    same = loop(["s32[]", "s32[3]"], ["parameter", "parameter"], "", "g0, g1")
    for name in ("simplify-loops", "simplify"):
        module, _ = changed(name, same, runs=False)
        assert states(module) == ["(s32[], s32[3])"]
    never = loop(["s32[]", "s32[3]"], ["constant(7)", "parameter"], "", "g0, g1")
    module = simplified(never)
    assert not states(module) and [value.opcode for value in module.entry.root.operands] == ["constant", "parameter"]


NESTED = """
cond {{
  s = (s32[], (f32[2], (f32[3], f32[]))) parameter(0)
  c = s32[] get-tuple-element(s), index=0
  l = s32[] constant(3)
  ROOT p = pred[] compare(c, l), direction=LT
}}
body {{
  s = (s32[], (f32[2], (f32[3], f32[]))) parameter(0)
  c = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  n = s32[] add(c, one)
  inner = (f32[2], (f32[3], f32[])) get-tuple-element(s), index=1
  x = f32[2] get-tuple-element(inner), index=0
  deep = (f32[3], f32[]) get-tuple-element(inner), index=1
  y = f32[2] add(x, x)
  made = (f32[2], (f32[3], f32[])) tuple(y, deep)
  ROOT t = (s32[], (f32[2], (f32[3], f32[]))) tuple(n, made)
}}
ENTRY e {{
  z = s32[] constant(0)
  a = f32[2] parameter(0)
  b = (f32[3], f32[]) parameter(1)
  ab = (f32[2], (f32[3], f32[])) tuple(a, b)
  t = (s32[], (f32[2], (f32[3], f32[]))) tuple(z, ab)
  ROOT w = (s32[], (f32[2], (f32[3], f32[]))) while(t), condition=cond, body=body{config}
}}"""


@pytest.mark.parametrize(
    "config", ["", ", sharding={{replicated}, {maximal device=0}, {replicated}, {maximal device=1}}"]
)
def test_a_nested_state(config: str):
    text = NESTED.format(config=config)
    module = rewritten([nested_state, element_of_tuple], text)
    assert states(module) == ["(s32[], f32[2], f32[3], f32[])"]
    assert str(module.entry.root.type) == "(s32[], (f32[2], (f32[3], f32[])))"
    if not config:
        (loop,) = [node for node in simplified(text).entry.nodes if node.opcode == "while"]
        assert str(loop.type) == "(s32[], f32[2])"


def counting(element: str, first: str, second: str, begin: str, *, config: str = "") -> str:
    """A loop that counts in two elements, and uses both in the body, in the condition and afterwards."""
    limit = f"l = {element}[] constant(9)\n m = {element}[] maximum(a, b)\n ROOT p = pred[] compare(a, l), direction=LT"
    gets = f"a = {element}[] get-tuple-element(s), index=0\n b = {element}[] get-tuple-element(s), index=1\n"
    text = loop(
        [f"{element}[]", f"{element}[]", f"{element}[]"], ["constant(2)", begin, "parameter"],
        f"k = {element}[] constant({second})\n q = {element}[] add(g1, k)\n v = {element}[] multiply(g0, g1)\n"
        f"u = {element}[] add(v, g2)", "n, q, u", condition=gets + limit, config=config,
    )  # fmt: skip
    return text.replace("one = s32[] constant(1)", f"one = {element}[] constant({first})").replace(
        "n = s32[] add", f"n = {element}[] add"
    )


@pytest.mark.parametrize(("element", "second"), [("s32", "-1"), ("s64", "2147483647"), ("u32", "4294967295")])
def test_one_counter_stands_for_several(element: str, second: str):
    text = counting(element, "1", second, "constant(100)")
    module = simplified(text)
    assert states(module) == [f"({element}[], {element}[])"]
    module = simplified(counting(element, "1", second, "parameter"))
    (node,) = [node for node in module.entry.nodes if node.opcode == "while"]
    assert node.attributes["body"].root.operands[1].opcode == "get-tuple-element"


@pytest.mark.parametrize(
    "text",
    [
        counting("s16", "1", "3", "constant(100)"),
        counting("f32", "1", "3", "constant(100)"),
        counting("s32", "2", "3", "constant(100)"),
        counting("s32", "1", "0", "constant(100)").replace("add(g1, k)", "multiply(g1, k)"),
        counting(
            "s32", "1", "3", "constant(100)", config=', backend_config={"known_induction_variable":{"tuple_index":"1"}}'
        ),
    ],
    ids=["of 16 bits", "floats", "by two", "no counter", "another is the loop's"],
)
def test_counters_that_stay(text: str):
    assert states(rewritten([several_counters], text))[0].count(",") == 2
    assert rewritten([several_counters], text).entry.root.opcode == "while"


SWAPPED = loop(["s32[]", "s32[]", "s32[]"], ["parameter", "parameter", "parameter"], "", "n, g2, g1")
STAYING = {
    "two rounds": loop(
        ["s32[]", "s32[3]"], ["constant(3)", "parameter"], "m = s32[3] multiply(g1, g1)", "n, m"
    ),
    "a send": loop(
        ["s32[]", "f32[]"], ["constant(4)", "parameter"],
        "k = token[] after-all()\n v = (f32[], u32[], token[]) send(g1, k), channel_id=1\n"
        "d = token[] send-done(v), channel_id=1\n m = f32[] negate(g1)", "n, m",
    ),
    "a receive": loop(
        ["s32[]", "f32[]"], ["constant(4)", "parameter"],
        "k = token[] after-all()\n v = (f32[1], u32[], token[]) recv(k), channel_id=1\n"
        "d = (f32[1], token[]) recv-done(v), channel_id=1\n m = f32[] negate(g1)", "n, m",
    ),
    "an infeed": loop(
        ["s32[]", "f32[]"], ["constant(4)", "parameter"],
        "k = token[] after-all()\n f = (f32[1], token[]) infeed(k)\n m = f32[] negate(g1)", "n, m",
    ),
    "an infeed in the condition": loop(
        ["s32[]", "f32[]"], ["constant(4)", "parameter"], "m = f32[] negate(g1)", "n, m",
        condition="k = token[] after-all()\n f = (f32[1], token[]) infeed(k)\n " + LESS_THAN_FIVE,
    ),
    "elements that change their index": SWAPPED,
    "one element for two": SWAPPED.replace("tuple(n, g2, g1)", "tuple(n, g2, g2)"),
    "a state that is not a tuple": """
        cond { s = s32[] parameter(0)  l = s32[] constant(9)  ROOT p = pred[] compare(s, l), direction=LT }
        body { s = s32[] parameter(0)  k = s32[] constant(2)  ROOT n = s32[] add(s, k) }
        ENTRY e { i = s32[] parameter(0)  ROOT w = s32[] while(i), condition=cond, body=body }""",
    "a constant that changes": loop(["s32[]"], ["constant(0)"], "k = s32[] constant(7)", "k"),
    "an empty state": """
        cond { s = () parameter(0)  ROOT p = pred[] constant(true) }
        body { s = () parameter(0)  ROOT t = () tuple() }
        ENTRY e { i = () tuple()  ROOT w = () while(i), condition=cond, body=body }""",
    "a result of a custom call": loop(
        ["s32[]", "s32[3]"], ["constant(0)", "parameter"], "m = s32[3] add(g1, g1)", "n, m"
    ).replace("tuple(n, m)", 'custom-call(n, m), custom_call_target="f"'),
}  # fmt: skip


@pytest.mark.parametrize("text", STAYING.values(), ids=STAYING)
def test_what_stays(text: str):
    loops = states(hloom.parse(text))
    module, _ = apply(hloom.parse(text), "simplify-loops")
    verify(module)
    assert states(module) == loops and module.entry.root.opcode == "while"


@pytest.mark.parametrize("seed", range(6))
def test_random_counters(seed: int):
    """Counters that begin and step at random, some beyond the range of their type, in the body and afterwards."""
    random = Random(seed)
    element = random.choice(["s32", "u32", "s64"])
    greatest = {"s32": 2**31 - 1, "u32": 2**32 - 1, "s64": 2**63 - 1}[element]
    choices = [f"constant({greatest})", "constant(7)", "parameter"]
    begins = ["constant(0)", *(random.choice(choices) for _ in range(3)), "parameter"]
    lines = "".join(
        f"k{n} = {element}[] constant({random.choice([1, 5, greatest])})\n q{n} = {element}[] add(g{n}, k{n})\n"
        for n in range(1, 4)
    )
    lines += f"v = {element}[] multiply(g1, g2)\n u = {element}[] add(v, g4)"
    text = loop([f"{element}[]"] * 5, begins, lines, "n, q1, q2, q3, u")
    for old in ("one = s32[]", "n = s32[]", "g0 = s32[]", "l = s32[]"):
        text = text.replace(old, old.replace("s32", element))
    before = hloom.parse(text)
    after, report = apply(before, "simplify-loops")
    verify(after)
    assert report.changed
    expected = run(before, seed=seed)
    for one, other in zip(expected.outputs, run(after, expected.inputs).outputs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_loop_keeps_what_is_said_of_it():
    text = loop(
        ["s32[]", "s32[]", "f32[]"], ["constant(0)", "parameter", "parameter"], "m = f32[] negate(g2)", "n, g1, m",
        config=', backend_config={"known_trip_count":{"n":"5"}}, metadata={op_name="a/b"}',
    )  # fmt: skip
    module = simplified(text)
    (node,) = [node for node in module.entry.nodes if node.opcode == "while"]
    assert isinstance(node, Apply)
    assert node.attributes["backend_config"] == '{"known_trip_count":{"n":"5"}}'
    assert node.metadata is not None and node.metadata.op_name == "a/b"
