"""What stands at the borders of conditionals moves in or out (`conditional_mover.py`, `conditional_motion.py`), or
wherever it is better off (`conditional_benefit.py`).

The cases restate those of XLA's xla/service/conditional_code_motion_test.cc.
"""

from __future__ import annotations

from random import Random

import pytest

import hloom
from hloom.ir import Module, verify
from hloom.passes import apply
from tests.helpers.work import calls, growth
from tests.passes.pass_assertions import assert_leaves, assert_same_outputs, changed

INTO, OUT, ACROSS = "move-into-branches", "move-out-of-branches", "move-across-branches"


def choice(
    first: str,
    second: str,
    yielded: str,
    after: str,
    *,
    given: str = "(f32[6])",
    before: str = "",
    operands: str = "a, b",
) -> str:
    """A conditional whose branches have `x` of six floats."""
    get = " x = f32[6] get-tuple-element(p), index=0\n" if given.startswith("(") else " x = f32[6] copy(p)\n"
    return (
        f"f {{\n p = {given} parameter(0)\n{get} {first}\n}}\ng {{\n p = {given} parameter(0)\n{get} {second}\n}}\n"
        f"ENTRY e {{\n i = pred[] parameter(0)\n a = {given} parameter(1)\n b = {given} parameter(2)\n {before}\n"
        f"c = {yielded} conditional(i, {operands}), true_computation=f, false_computation=g\n {after}\n}}"
    )


def of_both(text: str) -> tuple[str, str]:
    """What branches do, the one with a sine and the other with a cosine for `*`."""
    return text.replace("*", "sine"), text.replace("*", "cosine")


def opcodes(module: Module, branch: int = -1) -> list[str]:
    """The opcodes of the entry, or of a branch of its conditional, but for parameters, tuples and their elements."""
    graph = module.entry
    if branch >= 0:
        (node,) = [node for node in graph.nodes if node.opcode == "conditional"]
        graph = node.attributes[("true_computation", "false_computation")[branch]]
    plain = ("parameter", "tuple", "get-tuple-element", "copy")
    return [node.opcode for node in graph.nodes if node.opcode not in plain]


def moved(name: str, text: str, *, exact: bool = True) -> Module:
    module, has_changed = changed(name, text, exact=exact)
    assert has_changed
    assert_leaves(name, hloom.print(module))
    return module


TAKE = "r = f16[6] get-tuple-element(c), index=0\n ROOT s = f16[6] add(r, r)"
CONVERTED = "z = f16[6] convert(y)\n ROOT t = (f16[6]) tuple(z)"


def test_a_conversion_at_the_end_of_all_branches():
    module = moved(
        OUT, choice(f"y = f32[6] sine(x)\n{CONVERTED}", f"y = f32[6] cosine(x)\n{CONVERTED}", "(f16[6])", TAKE)
    )
    assert opcodes(module) == ["conditional", "convert", "add"]
    assert (opcodes(module, 0), opcodes(module, 1)) == (["sine"], ["cosine"])


def test_of_a_conditional_that_is_yielded_only_conversions():
    ends = of_both(f"y = f32[6] *(x)\n{CONVERTED}")
    text = choice(*ends, "(f16[6])", "").replace("c = (f16", "ROOT c = (f16")
    assert opcodes(moved(OUT, text)) == ["conditional", "convert"]
    assert_leaves(OUT, text.replace("convert(y)", "add(u, u)").replace("z =", "u = f16[6] convert(y)\n z ="))


def test_reshapes_and_conversions_one_after_the_other():
    end = "y = f32[2,3] reshape(x)\n z = f16[2,3] convert(y)\n ROOT t = (f16[2,3]) tuple(z)"
    module = moved(OUT, choice(end, end, "(f16[2,3])", TAKE.replace("[6]", "[2,3]")))
    assert opcodes(module) == ["conditional", "reshape", "convert", "add"]


def test_one_element_of_several():
    first = "y = f32[6] sine(x)\n z = f16[6] convert(y)\n w = f32[6] add(y, x)\n ROOT t = (f16[6], f32[6]) tuple(z, w)"
    second = "z = f16[6] convert(x)\n w = f32[6] multiply(x, x)\n ROOT t = (f16[6], f32[6]) tuple(z, w)"
    after = (
        "r = f16[6] get-tuple-element(c), index=0\n s = f32[6] get-tuple-element(c), index=1\n"
        "ROOT t = (f16[6], f32[6]) tuple(r, s)"
    )
    module = moved(OUT, choice(first, second, "(f16[6], f32[6])", after))
    assert opcodes(module) == ["conditional", "convert"]


ONES, TWOS = (
    f"{name} = f32[6] constant({{{number},{number},{number},{number},{number},{number}}})"
    for name, number in (("k", 1), ("m", 2))
)
USED = "r = f32[6] get-tuple-element(c), index=0\n ROOT s = f32[6] multiply(r, r)"


def test_constants_that_all_branches_have_are_copied():
    end = f"{ONES}\n z = f32[6] add(y, k)\n ROOT t = (f32[6]) tuple(z)"
    module = moved(OUT, choice(f"y = f32[6] sine(x)\n{end}", f"y = f32[6] cosine(x)\n{end}", "(f32[6])", USED))
    assert opcodes(module) == ["conditional", "constant", "add", "multiply"]


def test_operands_that_differ_are_yielded():
    first = f"y = f32[6] sine(x)\n{ONES}\n{TWOS}\n u = f32[6] add(y, k)\n v = f32[6] add(y, m)\n z = f32[6] add(u, v)"
    second = f"{ONES}\n{TWOS}\n u = f32[6] add(m, k)\n v = f32[6] add(x, m)\n z = f32[6] add(u, v)"
    end = "\n ROOT t = (f32[6]) tuple(z)"
    module = moved(OUT, choice(first + end, second + end, "(f32[6])", USED), exact=False)
    assert opcodes(module).count("add") == 3
    assert (opcodes(module, 0), opcodes(module, 1)) == (["sine"], ["constant"])


def test_what_a_branch_uses_twice_stays():
    """The sum is yielded itself too."""
    first = f"{ONES}\n y = f32[6] sine(x)\n u = f32[6] add(y, k)\n z = f32[6] multiply(u, k)"
    second = (
        f"{ONES}\n y = f32[6] cosine(x)\n u = f32[6] add(y, k)\n v = f32[6] subtract(x, k)\n z = f32[6] multiply(v, k)"
    )
    end = "\n ROOT t = (f32[6], f32[6]) tuple(z, u)"
    after = "r = f32[6] get-tuple-element(c), index=0\n s = f32[6] get-tuple-element(c), index=1\n ROOT t = f32[6] add(r, s)"
    module = moved(OUT, choice(first + end, second + end, "(f32[6], f32[6])", after))
    assert opcodes(module) == ["conditional", "constant", "multiply", "add"]


def test_a_branch_of_both_choices():
    end = "y = f32[6] add(x, x)\n ROOT t = (f32[6]) tuple(y)"
    text = choice(end, end, "(f32[6])", USED).replace("false_computation=g", "false_computation=f")
    assert opcodes(moved(OUT, text)) == ["conditional", "add", "multiply"]


def test_branches_that_yield_an_array():
    text = choice(
        "ROOT y = f32[6] sine(x)",
        "u = f32[6] add(x, x)\n ROOT y = f32[6] sine(u)",
        "f32[6]",
        "ROOT s = f32[6] add(c, c)",
    )
    assert opcodes(moved(OUT, text)) == ["conditional", "sine", "add"]


ENDS = of_both("y = f32[6] *(x)\n ROOT t = (f32[6]) tuple(y)")
LAYOUT = (
    "y = f32[2,3]* reshape(x)\n z = f32[2,3]* sine(y)\n w = f32[2,3]{1,0} copy(z)\n ROOT t = (f32[2,3]{1,0}) tuple(w)"
)
LAST = f"y = f32[6] tanh(x)\n{CONVERTED}"
KEPT_IN = {
    "used whole": choice(LAST, LAST, "(f16[6])", "d = f16[6] get-tuple-element(c), index=0\n ROOT s = (f16[6], (f16[6])) tuple(d, c)"),
    "other ops": choice(*ENDS, "(f32[6])", USED),
    "the result of a call": choice(LAST, "ROOT t = (f16[6]) custom-call(x), custom_call_target=\"f\"", "(f16[6])", TAKE),
    "other types before": choice(LAST, f"w = s32[6] convert(x)\n{CONVERTED.replace('(y)', '(w)')}", "(f16[6])", TAKE),
    "yielded twice": choice(
        *of_both("y = f32[6] *(x)\n z = f16[6] convert(y)\n ROOT t = (f16[6], f16[6]) tuple(z, z)"),
        "(f16[6], f16[6])", "",
    ).replace("c = (f16", "ROOT c = (f16"),
    "converted again": choice(
        *of_both("y = f32[6] *(x)\n z = f16[6] convert(y)\n w = f32[6] convert(z)\n ROOT t = (f32[6], f16[6]) tuple(w, z)"),
        "(f32[6], f16[6])", "",
    ).replace("c = (f32", "ROOT c = (f32"),
    "a sharding": choice(LAST, LAST, "(f16[6])", TAKE).replace("false_computation=g", "false_computation=g, sharding={{replicated}}"),
    "a dependence": choice(LAST, LAST.replace("convert(y)", "convert(y), control-predecessors={x}"), "(f16[6])", TAKE),
    "other layouts": choice(
        LAYOUT.replace("*", "{1,0}"), LAYOUT.replace("*", "{0,1}"),
        "(f32[2,3]{1,0})", "ROOT r = f32[2,3]{1,0} get-tuple-element(c), index=0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", KEPT_IN.values(), ids=KEPT_IN)
def test_what_does_not_come_out(text: str):
    assert_leaves(OUT, text)


@pytest.mark.parametrize("name", [INTO, ACROSS])
@pytest.mark.parametrize("operands", ["a, n", "n, a"])
def test_what_one_branch_needs_is_computed_there(name: str, operands: str):
    text = choice(
        "ROOT y = f32[6] sine(x)", "ROOT y = f32[6] cosine(x)", "f32[6]", "ROOT r = f32[6] abs(c)", given="f32[6]",
        before="k = f32[] constant(3)\n s = f32[6] broadcast(k), dimensions={}\n m = f32[6] multiply(a, s)\n n = f32[6] add(m, b)",
        operands=operands,
    )  # fmt: skip
    module = moved(name, text.replace("ROOT r = f32[6] abs(c)", "ROOT r = (f32[6]) tuple(c)"))
    assert opcodes(module) == ["conditional"]
    assert opcodes(module, operands.split(", ").index("n")).count("multiply") == 1


@pytest.mark.parametrize("name", [INTO, ACROSS])
def test_what_a_branch_is_given_of_constants(name: str):
    text = choice(
        "ROOT y = f32[6] sine(x)", "ROOT y = f32[6] cosine(x)", "f32[6]", "ROOT r = (f32[6]) tuple(c)", given="f32[6]",
        before="k = f32[] constant(3)\n s = f32[6] broadcast(k), dimensions={}", operands="a, s",
    )  # fmt: skip
    assert opcodes(moved(name, text), 1) == ["constant", "broadcast", "cosine"]


@pytest.mark.parametrize("name", [INTO, ACROSS])
def test_elements_of_what_a_branch_is_given(name: str):
    text = choice(
        *ENDS, "(f32[6])", "ROOT r = f32[6] get-tuple-element(c), index=0",
        before="v = f32[6] get-tuple-element(a), index=0\n w = f32[6] floor(v)\n u = f32[6] power(w, v)\n o = (f32[6]) tuple(u)",
        operands="o, b",
    )  # fmt: skip
    module = moved(name, text)
    assert opcodes(module, 0) == ["floor", "power", "sine"] and opcodes(module, 1) == ["cosine"]


@pytest.mark.parametrize("name", [INTO, ACROSS])
def test_a_branch_that_yields_what_it_is_given(name: str):
    text = """
        f { p = (f32[6]) parameter(0)  x = f32[6] get-tuple-element(p), index=0  y = f32[6] sine(x)  ROOT t = (f32[6]) tuple(y) }
        g { ROOT p = (f32[6]) parameter(0) }
        ENTRY e { i = pred[] parameter(0)  a = (f32[6]) parameter(1)  b = f32[6] parameter(2)  n = f32[6] tanh(b)
          o = (f32[6]) tuple(n)  ROOT c = (f32[6]) conditional(i, a, o), true_computation=f, false_computation=g }"""
    assert opcodes(moved(name, text), 1) == ["tanh"]


PAIR = (
    "f { p = ((f32[6], f32[6])) parameter(0)  o = (f32[6], f32[6]) get-tuple-element(p), index=0\n"
    "  x = f32[6] get-tuple-element(o), index=0  y = f32[6] get-tuple-element(o), index=1  m = f32[6] multiply(x, y)\n * }\n"
)
SCALED = "v = f32[6] parameter(2)  w = f32[6] floor(v)  n = f32[6] power(w, v)"


@pytest.mark.parametrize("name", [INTO, ACROSS])
@pytest.mark.parametrize(
    ("ends", "other", "yielded", "operand"),
    [
        ("ROOT t = (f32[6]) tuple(m)", "p = f32[6] parameter(0)  ROOT t = (f32[6]) tuple(p)", "(f32[6])", "n"),
        ("s = (f32[6]) tuple(m)  ROOT t = ((f32[6])) tuple(s)", "p = (f32[6]) parameter(0)  ROOT t = ((f32[6])) tuple(p)",
         "((f32[6]))", "u"),
    ],
)  # fmt: skip
def test_what_a_branch_yields_in_a_tuple(name: str, ends: str, other: str, yielded: str, operand: str):
    text = PAIR.replace("*", ends) + f"g {{ {other} }}\n" + (
        f"ENTRY e {{ i = pred[] parameter(0)  a = ((f32[6], f32[6])) parameter(1)  {SCALED}  u = (f32[6]) tuple(n)\n"
        f"ROOT c = {yielded} conditional(i, a, {operand}), true_computation=f, false_computation=g }}"
    )  # fmt: skip
    assert opcodes(moved(name, text), 1) == ["floor", "power"]


def test_what_one_inner_branch_needs():
    """From one branch into the branches of the conditional in it, and not out of it."""
    text = """
        a { p = (pred[], s8[]) parameter(0)  x = pred[] get-tuple-element(p), index=0  y = s8[] convert(x)  ROOT t = (s8[]) tuple(y) }
        b { p = (pred[], s8[]) parameter(0)  x = s8[] get-tuple-element(p), index=1  ROOT t = (s8[]) tuple(x) }
        f { p = (u32[]) parameter(0)  x = u32[] get-tuple-element(p), index=0  y = s8[] convert(x)  ROOT t = (s8[]) tuple(y) }
        g { p = (u32[]) parameter(0)  x = u32[] get-tuple-element(p), index=0  y = pred[] convert(x)  j = s32[] convert(x)
          k = s8[] convert(x)  n = s8[] negate(k)  o = (pred[], s8[]) tuple(y, n)
          ROOT c = (s8[]) conditional(j, o, o), branch_computations={a, b} }
        ENTRY e { i = pred[] parameter(0)  v = (u32[]) parameter(1)
          ROOT c = (s8[]) conditional(i, v, v), true_computation=f, false_computation=g }"""
    module = moved(ACROSS, text)
    assert opcodes(module) == ["conditional"]
    inner = [node for graph in module.graphs for node in graph.nodes if node.opcode == "conditional"]
    [node] = [node for node in inner if node.graph is not module.entry]
    branches = [[part.opcode for part in graph.nodes] for graph in node.attributes["branch_computations"]]
    assert "negate" not in branches[0] and "negate" in branches[1]


@pytest.mark.parametrize("operands", ["s, s", "a, s"])
def test_what_branches_that_differ_in_a_collective_are_given(operands: str):
    text = f"""
        f {{ p = bf16[1,6] parameter(0)  ROOT r = bf16[1,6] collective-permute(p), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}} }}
        g {{ ROOT p = bf16[1,6] parameter(0) }}
        ENTRY e {{ a = bf16[1,6] parameter(0)  b = bf16[1,6] parameter(1)  i = pred[] parameter(2)  s = bf16[1,6] add(a, b)
          ROOT c = bf16[1,6] conditional(i, {operands}), true_computation=f, false_computation=g }}"""
    module, has_changed = changed(ACROSS, text, runs=False)
    assert has_changed == (operands == "a, s")
    assert opcodes(module, 1) == (["add"] if has_changed else [])


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_conversion_that_comes_twice_stays(is_nested: bool):
    end = "z = f16[6] convert({})\n v = f32[6] convert(z)\n ROOT t = ({}, f16[6]) tuple({}, z)"
    shown = ("f32[6]", "v") if is_nested else ("f16[6]", "z")
    ends = "y = f32[6] add(x, x)\n" + end.format("y", *shown), end.format("x", *shown)
    text = choice(*ends, f"({shown[0]}, f16[6])", "").replace("c = (", "ROOT c = (")
    module, _ = changed(ACROSS, text)
    assert opcodes(module) == ["conditional"]


@pytest.mark.parametrize(
    "after",
    [
        "r = f32[6] get-tuple-element(c), index=0\n ROOT s = f32[6] power(r, r)",
        "r = f32[6] get-tuple-element(c), index=0\n q = f32[6] get-tuple-element(c), index=0\n s = f32[6] power(r, q)\n"
        "ROOT t = (f32[6], f32[6]) tuple(s, q)",
        "r = f32[6] get-tuple-element(c), index=0\n k = f32[] constant(2)\n s = f32[6] broadcast(k), dimensions={}\n"
        "v = f32[6] copy(r)\n ROOT w = f32[6] negate(v)",
    ],
)
def test_what_uses_the_results_only(after: str):
    module = moved(INTO, choice(*ENDS, "(f32[6])", after))
    assert opcodes(module) == ["conditional"]


def test_users_of_an_array():
    text = choice("ROOT y = f32[6] sine(x)", "ROOT y = f32[6] copy(x)", "f32[6]", "ROOT s = f32[6] power(c, c)")
    assert opcodes(moved(INTO, text), 1) == ["power"]


def test_sums_of_results():
    total = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n"
    after = (
        "r = f32[6] get-tuple-element(c), index=0\n m = f32[6] multiply(r, r)\n z = f32[] constant(0)\n"
        "ROOT s = f32[] reduce(m, z), dimensions={0}, to_apply=add"
    )
    module = moved(INTO, total + choice(*ENDS, "(f32[6])", after))
    assert opcodes(module, 0)[-1] == "reduce"


KEPT_OUT = {
    "another operand": choice(*ENDS, "(f32[6])", "d = f32[6] get-tuple-element(c), index=0\n"
                              "q = f32[6] get-tuple-element(a), index=0\n ROOT s = f32[6] power(d, q)"),
    "more bytes": choice(*ENDS, "(f32[6])", "d = f32[6] get-tuple-element(c), index=0\n"
                         "ROOT s = f32[5,6] broadcast(d), dimensions={1}"),
    "a collective": "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n" + choice(
        *ENDS, "(f32[6])", "d = f32[6] get-tuple-element(c), index=0\n r = f32[6] all-reduce(d), to_apply=add\n"
        "ROOT s = f16[6] convert(r)"),
    "for both branches": choice(
        "ROOT y = f32[6] sine(x)", "ROOT y = f32[6] cosine(x)", "f32[6]", "ROOT r = (f32[6]) tuple(c)", given="f32[6]",
        before="n = f32[6] tanh(a)", operands="n, n"),
    "used elsewhere": choice(
        "ROOT y = f32[6] sine(x)", "ROOT y = f32[6] cosine(x)", "f32[6]", "ROOT r = (f32[6], f32[6]) tuple(c, n)",
        given="f32[6]", before="n = f32[6] tanh(a)", operands="n, b"),
    "a sharding": choice(*ENDS, "(f32[6])", USED).replace("false_computation=g", "false_computation=g, sharding={{replicated}}"),
    "a sharding of what is given": choice(
        "ROOT y = f32[6] sine(x)", "ROOT y = f32[6] cosine(x)", "f32[6]", "ROOT r = (f32[6]) tuple(c)", given="f32[6]",
        before="n = f32[6] tanh(a), sharding={replicated}", operands="n, b"),
}  # fmt: skip


@pytest.mark.parametrize("name", [INTO, ACROSS])
@pytest.mark.parametrize("text", KEPT_OUT.values(), ids=KEPT_OUT)
def test_what_does_not_go_in(name: str, text: str):
    assert_leaves(name, text)


IN_TUPLE = TAKE.replace("ROOT s", "s") + "\n ROOT o = (f16[6]) tuple(s)"
SUM_OF_ALL = "* { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n"


def reduced(channels: tuple[int, int], total: str = "add") -> str:
    """A conditional whose branches end with the sum over all devices, each on its channel and by its computation."""
    end = (
        "y = f32[6] {}(x)\n r = f32[6] all-reduce(y), channel_id={}, replica_groups={{{{0}}}}, "
        "use_global_device_ids=true, to_apply={}\n z = f16[6] convert(r)\n ROOT t = (f16[6]) tuple(z)"
    )
    ends = end.format("sine", channels[0], "add"), end.format("cosine", channels[1], "other")
    other = SUM_OF_ALL.replace("*", "other").replace("add(a", f"{total}(a")
    return SUM_OF_ALL.replace("*", "add") + other + choice(*ends, "(f16[6])", IN_TUPLE)


@pytest.mark.parametrize("name", [OUT, ACROSS])
def test_collectives_at_the_end_of_all_branches(name: str):
    module = moved(name, reduced((188, 485)))
    assert opcodes(module) == ["conditional", "all-reduce", "convert", "add"]
    assert (opcodes(module, 0), opcodes(module, 1)) == (["sine"], ["cosine"])
    [collective] = [node for node in module.entry.nodes if node.opcode == "all-reduce"]
    assert collective.attributes["channel_id"] == 188


def test_collectives_that_differ_stay():
    module = moved(OUT, reduced((1, 2), total="maximum"))
    assert opcodes(module) == ["conditional", "convert", "add"]
    assert opcodes(module, 1) == ["cosine", "all-reduce"]


def test_a_repeated_collective_of_an_element_that_nothing_uses():
    text = reduced((188, 485)).replace("t = (f16[6])", "t = (f16[6], f16[6])").replace("tuple(z)", "tuple(z, z)")
    text = text.replace("c = (f16[6])", "c = (f16[6], f16[6])")
    assert opcodes(moved(ACROSS, text)) == ["conditional", "all-reduce", "convert", "add"]


ALONG = "sharding={devices=[2]0,1}"


def sharded(last: str = f", {ALONG}") -> str:
    """A conditional, its branches and what uses its results, all sharded."""
    ends = of_both(f"y = f32[6] *(x), {ALONG}\n ROOT t = (f32[6]) tuple(y), sharding={{{{devices=[2]0,1}}}}")
    after = (
        f"r = f32[6] get-tuple-element(c), index=0, {ALONG}\n q = f32[6] get-tuple-element(c), index=0, {ALONG}\n"
        f"s = f32[6] power(r, q){last}\n ROOT t = (f32[6], f32[6]) tuple(s, q)"
    )
    return choice(*ends, "(f32[6])", after).replace(
        "false_computation=g", "false_computation=g, sharding={{devices=[2]0,1}}"
    )


@pytest.mark.parametrize("name", [INTO, ACROSS])
def test_shardings_of_the_results_are_kept(name: str):
    module, has_changed = changed(name, sharded(), runs=False)
    assert has_changed and opcodes(module) == ["conditional"]
    [node] = [node for node in module.entry.nodes if node.opcode == "conditional"]
    both = "{{devices=[2]0,1}, {devices=[2]0,1}}"
    assert str(node.attributes["sharding"]) == both
    for branch in ("true_computation", "false_computation"):
        root = node.attributes[branch].root
        assert str(root.attributes["sharding"]) == both
        assert all("sharding" in value.attributes for value in root.operands)
    assert all("sharding" in element.attributes for element in node.users)


def test_what_has_no_sharding_stays_beside_what_has():
    assert_leaves(INTO, sharded(""))
    assert_leaves(ACROSS, sharded(""))


BOTH_WAYS = {
    "ends that agree come out": (
        ["conditional", "convert", "add"],
        choice(*of_both(f"y = f32[6] *(x)\n{CONVERTED}"), "(f16[6])", IN_TUPLE),
    ),
    "ends that agree, of an instruction that does not, go on inside": (
        ["conditional"],
        choice(*of_both(f"y = f32[6] *(x)\n{CONVERTED}"), "(f16[6])", TAKE),
    ),
    "one computation for both branches": (
        ["conditional", "add", "power"],
        choice("y = f32[6] add(x, x)\n ROOT t = (f32[6]) tuple(y)", "", "(f32[6])",
               "r = f32[6] get-tuple-element(c), index=0\n ROOT s = f32[6] power(r, r)")
        .replace("false_computation=g", "false_computation=f"),
    ),
    "ends that come out, and go in again with the only reader of both results": (
        ["conditional"],
        choice(*of_both(f"{ONES}\n u = f32[6] *(x)\n"
                 "z = f32[6] multiply(u, k)\n ROOT t = (f32[6], f32[6]) tuple(z, u)"),
               "(f32[6], f32[6])",
               "r = f32[6] get-tuple-element(c), index=0\n s = f32[6] get-tuple-element(c), index=1\n"
               "ROOT o = f32[6] add(r, s)"),
    ),
    "ends that differ": (["conditional"], choice(*ENDS, "(f32[6])", "r = f32[6] get-tuple-element(c), index=0\n"
                                                 "ROOT s = f32[6] power(r, r)")),
    "a result that is used again": (
        ["conditional"],
        choice(*ENDS, "(f32[6])", "r = f32[6] get-tuple-element(c), index=0\n q = f32[6] get-tuple-element(c), index=0\n"
               "s = f32[6] power(r, q)\n ROOT t = (f32[6], f32[6]) tuple(s, q)"),
    ),
    "an array of one computation": (
        ["conditional"],
        choice("ROOT y = f32[6] add(x, x)", "", "f32[6]", "ROOT s = f32[6] power(c, c)")
        .replace("false_computation=g", "false_computation=f"),
    ),
    "a branch that yields what it is given": (
        ["conditional"],
        choice("y = f32[6] add(x, x)\n ROOT t = (f32[6]) tuple(y)", "", "(f32[6])",
               "r = f32[6] get-tuple-element(c), index=0\n ROOT s = f32[6] power(r, r)")
        .replace("g {\n p = (f32[6]) parameter(0)\n x = f32[6] get-tuple-element(p), index=0\n", "g { ROOT p = (f32[6]) parameter(0)"),
    ),
    "two results": (
        ["conditional"],
        "total { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\n" + choice(
            "y = f32[6] sine(x)\n z = f32[6] cosine(y)\n u = f32[6] multiply(y, z)\n ROOT t = (f32[6], f32[6]) tuple(u, z)",
            "y = f32[6] tanh(x)\n z = f32[6] cosine(y)\n u = f32[6] multiply(y, x)\n ROOT t = (f32[6], f32[6]) tuple(u, z)",
            "(f32[6], f32[6])",
            "r = f32[6] get-tuple-element(c), index=0\n s = f32[6] get-tuple-element(c), index=1\n k = f32[] constant(0)\n"
            "m = f32[6] multiply(r, r)\n n = f32[6] multiply(s, s)\n"
            "o = f32[] reduce(m, k), dimensions={0}, to_apply=total\n q = f32[] reduce(n, k), dimensions={0}, to_apply=total\n"
            "v = f32[] multiply(o, q)\n ROOT t = (f32[], pred[]) tuple(v, i)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "text"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_where_it_is_better_off(wanted: list[str], text: str):
    """In or out, and again changes nothing; neither of the other passes agrees with all of them."""
    assert [opcode for opcode in opcodes(moved(ACROSS, text, exact=False)) if opcode != "constant"] == [
        opcode for opcode in wanted if opcode != "constant"
    ]


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_a_copy_that_undoes_one_at_the_end_of_a_branch(layout: str):
    """Out of the conditional it stays beside its reader, which it shares with nothing else."""
    ends = (
        "y = f32[2,3]{1,0} reshape(x)\n z = f32[2,3]{0,1} copy(y)\n ROOT t = (f32[2,3]{0,1}) tuple(z)",
        "y = f32[2,3]{0,1} reshape(x)\n ROOT t = (f32[2,3]{0,1}) tuple(y)",
    )
    after = (
        f"r = f32[2,3]{{0,1}} get-tuple-element(c), index=0\n s = f32[2,3]{layout} copy(r)\n ROOT v = f32[6] custom(s)"
    )
    text = choice(*ends, "(f32[2,3]{0,1})", after.replace("custom(s)", 'custom-call(s), custom_call_target="f"'))
    after, has_changed = changed(ACROSS, text, runs=False)
    assert has_changed == (layout == "{1,0}")


KEPT_HERE = {
    "another operand": choice(
        "ROOT y = f32[6] add(x, x)", "ROOT y = f32[6] add(x, x)", "f32[6]", "d = f32[6] get-tuple-element(b), index=0\n ROOT s = f32[6] power(c, d)"
    ),
    "a product's sum before a collective": SUM_OF_ALL.replace("*", "add") + choice(
        *of_both("y = f32[6] *(x)\n z = f32[6] add(y, y)\n ROOT t = (f32[6]) tuple(z)"), "(f32[6])",
        "d = f32[6] get-tuple-element(c), index=0\n r = f32[6] all-reduce(d), to_apply=add\n ROOT s = f16[6] convert(r)"),
    "nothing after": choice(*of_both("y = f32[6] *(x)\n z = f32[6] add(y, y)\n ROOT t = (f32[6]) tuple(z)"), "(f32[6])", "")
    .replace("c = (f32", "ROOT c = (f32"),
}  # fmt: skip


@pytest.mark.parametrize("text", KEPT_HERE.values(), ids=KEPT_HERE)
def test_what_stays_where_it_is(text: str):
    assert_leaves(ACROSS, text)


def wide(count: int) -> str:
    """A conditional of many results, all of which are read by one tuple."""
    gets = "\n".join(
        f"r{n} = f32[6] get-tuple-element(c), index={n}\n s{n} = f32[6] negate(r{n})" for n in range(count)
    )
    body = "\n".join(f"y{n} = f32[6] tanh(x)" for n in range(count))
    types = f"({', '.join(['f32[6]'] * count)})"
    yields = f"\n ROOT t = {types} tuple({', '.join(f'y{n}' for n in range(count))})"
    after = f"{gets}\n ROOT t = {types} tuple({', '.join(f's{n}' for n in range(count))})"
    return choice(body + yields, body.replace("tanh", "sine") + yields, types, after)


def test_many_branches_and_users():
    def work(count: int) -> int:
        module = hloom.parse(wide(count))
        return calls(lambda: verify(changed_across(module)))

    assert growth(work, 200) < 1.5


def changed_across(module: Module) -> Module:
    result, report = apply(module, ACROSS)
    assert report.changed
    return result


@pytest.mark.parametrize("seed", range(8))
def test_random_branches(seed: int):
    """Random branches, operands and users, through both passes."""
    random = Random(seed)
    ops = ["sine", "tanh", "negate", "add", "multiply"]

    def line(name: str, values: list[str]) -> str:
        opcode = random.choice(ops)
        operands = ", ".join(random.choices(values, k=1 + (opcode in ops[3:])))
        values.append(name)
        return f"{name} = f32[6] {opcode}({operands})\n"

    branches: list[str] = []
    for _ in range(2):
        values = ["x"]
        body = "".join(line(f"y{number}", values) for number in range(5))
        branches.append(
            f"{body} ROOT t = (f32[6], f32[6], f32[6]) tuple({', '.join(random.choices(values[-3:], k=3))})"
        )
    values = ["v", "w"]
    before = "v = f32[6] get-tuple-element(a), index=0\n w = f32[6] get-tuple-element(b), index=0\n"
    before += "".join(line(f"n{number}", values) for number in range(4))
    before += "o = (f32[6]) tuple(n3)\n q = (f32[6]) tuple(n2)"
    values = ["r0", "r1", "r2", random.choice(["r0", "v"])]
    after = "".join(f"r{number} = f32[6] get-tuple-element(c), index={number}\n" for number in range(3))
    after += "".join(line(f"m{number}", values) for number in range(4))
    after += f"ROOT t = (f32[6], f32[6]) tuple(m3, {random.choice(values)})"
    module = hloom.parse(
        choice(branches[0], branches[1], "(f32[6], f32[6], f32[6])", after, before=before, operands="o, q")
    )
    for passes in ([INTO], [OUT], [OUT, INTO], [ACROSS]):
        result, _ = apply(module, passes)
        verify(result)
        assert passes != [ACROSS] or not apply(result, ACROSS)[1].changed
        assert_same_outputs(module, result, exact=False)
