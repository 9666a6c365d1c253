"""Structural equality: names aside, everything counts; the first difference is one sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hloom.formats.hlo import parse
from hloom.ir import (
    Apply,
    Attributes,
    Constant,
    Graph,
    Layout,
    Literal,
    Missing,
    Module,
    Node,
    StackTables,
    difference,
    equal,
    literal_of,
)
from hloom.ir.sharding import Uniform
from hloom.ops import OPS, unknown_op
from tests.ir.build import F32, F32_2, F32_3, apply, chain, closure, diamond, module_with


def changed(change: Callable[[Module], object], original: Module | None = None) -> tuple[Module, Module]:
    """A module and a clone with one thing changed."""
    module = original or diamond()
    other = module.clone()
    change(other)
    return module, other


def of(module: Module, name: str) -> Apply:
    node = module.entry[name]
    assert isinstance(node, Apply)
    return node


@pytest.mark.parametrize("make", [diamond, closure, lambda: chain(5)])
def test_a_clone_is_equal(make: Callable[[], Module]):
    module = make()
    assert difference(module, module.clone()) is None
    assert equal(module, module)


def test_names_do_not_count():
    def rename(module: Module) -> None:
        module.name = "other"
        module.rename_graph(module["reducer"], "sum")
        module.entry.rename(of(module, "total"), "t")

    assert equal(*changed(rename))


def test_the_order_of_nodes_does_not_count_unless_scheduled():
    def move(module: Module) -> None:
        module.entry.move_before(of(module, "dead"), of(module, "total"))

    assert equal(*changed(move))
    scheduled = diamond()
    scheduled.attributes = Attributes(is_scheduled=True)
    assert difference(*changed(move, scheduled)) == (
        "<total = f32[2] add(x, y)> in main and <dead = f32[2] negate(x)> in main differ: opcode add and negate"
    )


def test_dead_nodes_pair_by_their_users():
    def two_dead_pairs(swapped: bool) -> Module:
        module, graph = module_with()
        x = graph.add_parameter(F32_2)
        opcodes = ("sine", "cosine") if swapped else ("cosine", "sine")
        dead = {opcode: apply(opcode, x) for opcode in opcodes}
        apply("abs", dead["sine"])
        apply("sign", dead["cosine"])
        graph.set_output(x)
        return module

    assert equal(two_dead_pairs(False), two_dead_pairs(True))


DIFFERENCES: dict[str, tuple[Callable[[Module], object], str]] = {
    "type": (
        lambda m: m.entry.set_type(of(m, "total"), F32_3),
        "<total = f32[2] add(x, y)> in main and <total = f32[3] add(x, y)> in main differ: type f32[2] and f32[3]",
    ),
    "layout": (
        lambda m: m.entry.set_type(of(m, "total"), F32_2.with_layout(Layout((0,)))),
        "<total = f32[2] add(x, y)> in main and <total = f32[2]{0} add(x, y)> in main differ: type f32[2] and f32[2]{0}",
    ),
    "op": (
        lambda m: m.entry.set_function(of(m, "total"), OPS["multiply"]),
        "<total = f32[2] add(x, y)> in main and <total = f32[2] multiply(x, y)> in main differ: opcode add and multiply",
    ),
    "operand order": (
        lambda m: m.entry.set_operands(of(m, "total"), reversed(of(m, "total").operands)),
        "<y = f32[2] parameter()> in main cannot stand for <x = f32[2] parameter()> in main: "
        "it stands for <y = f32[2] parameter()> in main",
    ),
    "operand count": (
        lambda m: m.entry.set_operands(of(m, "result"), of(m, "result").operands[:1]),
        "<result = f32[2] call(total, total)> in main and <result = f32[2] call(total)> in main differ: operand count 2 and 1",
    ),
    "output": (
        lambda m: m.entry.set_output(of(m, "total")),
        "<result = f32[2] call(total, total)> in main and <total = f32[2] add(x, y)> in main differ: opcode call and add",
    ),
    "attribute": (
        lambda m: m.entry.set_attributes(of(m, "result"), of(m, "result").attributes.changed(is_composite=True)),
        "<result = f32[2] call(total, total)> in main and <result = f32[2] call(total, total)> in main differ: "
        "attribute is_composite False and True",
    ),
    "called graph": (
        lambda m: m["reducer"].set_function(m["reducer"]["add"], OPS["maximum"]),  # type: ignore[arg-type]
        "<add = f32[2] add(left, right)> in reducer and <add = f32[2] maximum(left, right)> in reducer differ: "
        "opcode add and maximum",
    ),
    "metadata": (
        lambda m: m.entry.set_metadata(of(m, "total"), "source_line=3"),
        "metadata Metadata(op_type='', op_name=''",
    ),
    "dead node": (
        lambda m: m.entry.erase(of(m, "dead")),
        "<graph main: 5 nodes> has 5 nodes, <graph main: 4 nodes> 4: <dead = f32[2] negate(x)> in main has no counterpart",
    ),
    "thread": (
        lambda m: setattr(m["reducer"], "execution_thread", "host"),
        "<graph reducer: 3 nodes> and <graph reducer: 3 nodes> differ: execution thread None and host",
    ),
    "header": (
        lambda m: setattr(m, "attributes", Attributes(replica_count=2)),
        "<module m: 2 graphs, 8 nodes> and <module m: 2 graphs, 8 nodes> differ: header attribute replica_count None and 2",
    ),
    "stack tables": (
        lambda m: setattr(m, "stack_tables", StackTables({1: "a.py"})),
        "<module m: 2 graphs, 8 nodes> and <module m: 2 graphs, 8 nodes> have different stack tables",
    ),
    "graph count": (
        lambda m: m.clone_graph(m["reducer"]),
        "<module m: 2 graphs, 8 nodes> and <module m: 3 graphs, 11 nodes> differ: graph count 2 and 3",
    ),
    "declared": (
        lambda m: m.declare_graph("other"),
        "<module m: 2 graphs, 8 nodes> and <module m: 2 graphs, 8 nodes> differ: declared graphs [] and ['other']",
    ),
    "entry": (
        lambda m: setattr(m, "_entry", None),
        "<module m: 2 graphs, 8 nodes> and <module m: 2 graphs, 8 nodes> have different entry graphs",
    ),
    "no output": (
        lambda m: setattr(m.entry, "output", None),
        "<graph main: 5 nodes> and <graph main: 5 nodes> differ: output <result = f32[2] call(total, total)> and None",
    ),
    "parameter": (
        lambda m: m.entry.add_parameter(F32_2),
        "<graph main: 5 nodes> and <graph main: 6 nodes> differ: parameter numbers [0, 1] and [0, 1, 2]",
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_first_difference_is_named(name: str):
    change, sentence = DIFFERENCES[name]
    module, other = changed(change)
    text = difference(module, other)
    assert text is not None and sentence in text
    assert "\n" not in text
    assert not equal(other, module)


def test_sharing_counts():
    def unshare(module: Module) -> None:
        x, y = module.entry["x"], module.entry["y"]
        again = module.entry.add_apply(OPS["add"], (x, y), F32_2, before=of(module, "result"))
        module.entry.set_operands(of(module, "result"), (of(module, "total"), again))
        module.entry.erase(of(module, "dead"))

    module, other = changed(unshare)
    assert module.node_count == other.node_count
    assert difference(module, other) == (
        "<total = f32[2] add(x, y)> in main cannot stand for <total = f32[2] add(x, y)> in main: "
        "it stands for <add = f32[2] add(x, y)> in main"
    )
    assert difference(other, module) == (
        "<total = f32[2] add(x, y)> in main cannot stand for <total = f32[2] add(x, y)> in main: "
        "<add = f32[2] add(x, y)> in main stands for it"
    )


def test_metadata_counts_as_values_unless_left_aside():
    module, other = changed(lambda m: m.entry.set_metadata(of(m, "total"), 'op_name="a" source_line=3'))
    assert not equal(module, other)
    assert equal(module, other, metadata=False)
    module.entry.set_metadata(of(module, "total"), 'source_line=3, op_name="a"')
    assert equal(module, other)


def test_malformed_metadata_counts_as_text():
    module, other = changed(lambda m: m.entry.set_metadata(of(m, "total"), "nonsense"))
    module.entry.set_metadata(of(module, "total"), "nonsense")
    assert equal(module, other)
    module.entry.set_metadata(of(module, "total"), "nonsense ")
    assert str(difference(module, other)).endswith("metadata nonsense  and nonsense")


def test_empty_metadata_says_nothing():
    assert equal(*changed(lambda m: m.entry.set_metadata(of(m, "total"), "")))


def test_carried_attributes_can_be_left_aside():
    def annotate(module: Module) -> None:
        for name in ("x", "total"):
            node = module.entry[name]
            module.entry.set_attributes(node, node.attributes.changed(sharding=Uniform("replicated")))
        module.attributes = Attributes(frontend_attributes=(("k", "v"),))

    module, other = changed(annotate)
    assert not equal(module, other)
    assert equal(module, other, carried=False)


def test_an_attribute_left_out_is_its_default():
    assert equal(
        *changed(
            lambda m: m.entry.set_attributes(of(m, "result"), of(m, "result").attributes.changed(is_composite=False))
        )
    )


def with_constant(value: object) -> Module:
    module, graph = module_with()
    graph.set_output(graph.add_constant(value, F32))  # type: ignore[arg-type]
    return module


def test_constants_count_bit_by_bit():
    zero, minus_zero = literal_of(0.0), literal_of(-0.0)
    assert equal(with_constant(zero), with_constant(literal_of(0.0)))
    text = difference(with_constant(zero), with_constant(minus_zero))
    assert text is not None and "differ: value" in text


def test_constants_left_out_of_a_text_are_the_same_by_type():
    assert equal(with_constant(Literal.elided(F32)), with_constant(Literal.elided(F32)))
    assert not equal(with_constant(Literal.elided(F32)), with_constant(literal_of(0.0)))
    assert not equal(with_constant(Literal.elided(F32)), with_constant(Literal.elided(F32_2)))


def test_ops_as_values_count_by_name():
    assert equal(with_constant(unknown_op("mystery")), with_constant(unknown_op("mystery")))
    assert str(difference(with_constant(OPS["add"]), with_constant(OPS["abs"]))).endswith("value add and abs")
    assert not equal(with_constant(OPS["add"]), with_constant(literal_of(0.0)))


def test_unknown_opcodes_count_by_name():
    def using(name: str) -> Module:
        module, graph = module_with()
        graph.set_output(graph.add_apply(unknown_op(name), (), F32))
        return module

    assert equal(using("mystery"), using("mystery"))
    assert not equal(using("mystery"), using("riddle"))


def test_declared_graphs_pair_by_name():
    def calling(*names: str) -> Module:
        module, graph = module_with()
        x = graph.add_parameter(F32_2)
        for name in names:
            x = apply("call", x, to_apply=module.declare_graph(name))
        graph.set_output(x)
        return module

    assert equal(calling("a", "b"), calling("a", "b"))
    assert str(difference(calling("a", "b"), calling("b", "a"))).endswith("declared name b and a")


def test_missing_nodes_pair_by_name():
    def using(name: str) -> Module:
        module, graph = module_with()
        missing = Missing(name, F32_2, graph)
        graph.missing.append(missing)
        graph.set_output(apply("negate", missing))
        return module

    assert equal(using("a"), using("a"))
    assert str(difference(using("a"), using("b"))).endswith("missing name a and b")


def test_control_predecessors_count():
    def with_predecessor(name: str) -> Module:
        module = diamond()
        attributes = of(module, "result").attributes.changed({"control-predecessors": (module.entry[name],)})
        module.entry.set_attributes(of(module, "result"), attributes)
        return module

    assert equal(with_predecessor("dead"), with_predecessor("dead"))
    assert not equal(with_predecessor("dead"), with_predecessor("total"))
    assert not equal(with_predecessor("dead"), diamond())


def test_what_a_closure_captures_counts():
    def with_capture(name: str) -> Module:
        module, main = module_with()
        x, y = main.add_parameter(F32_2, "x"), main.add_parameter(F32_2, "y")
        inner = module.add_graph("inner", parent=main)
        inner.set_output(apply("negate", x if name == "x" else y, graph=inner))
        held = main.add_constant(inner, inner.type)
        main.set_output(main.add_apply(held, (), F32_2))
        return module

    assert equal(with_capture("x"), with_capture("x"))
    assert not equal(with_capture("x"), with_capture("y"))


def test_graphs_of_one_module_can_be_compared():
    module = diamond()
    copy = module.clone_graph(module.entry)
    assert equal(module.entry, copy)
    copy.set_function(copy["total"], OPS["subtract"])  # type: ignore[arg-type]
    assert str(difference(module.entry, copy)).endswith("opcode add and subtract")


def test_two_nodes_that_closures_capture_are_two():
    module, main = module_with()
    constants = [main.add_constant(literal_of(1.0), F32) for _ in range(2)]
    graphs = [module.add_graph("inner", parent=main) for _ in constants]
    for graph, constant in zip(graphs, constants, strict=True):
        graph.set_output(graph.add_apply(OPS["negate"], (constant,), F32))
    assert str(difference(*graphs)).endswith("are two nodes of one graph")


def test_recursion_pairs_with_recursion():
    def recursive() -> Module:
        module, graph = module_with()
        graph.set_output(apply("call", graph.add_parameter(F32_2), to_apply=graph))
        return module

    assert equal(recursive(), recursive())


def test_graphs_that_nothing_reaches_count():
    def with_unreached(opcode: str) -> Module:
        module = diamond()
        callee = module.add_graph("callee")
        callee.set_output(apply(opcode, callee.add_parameter(F32_2)))
        caller = module.add_graph("caller")
        caller.set_output(apply("call", caller.add_parameter(F32_2), to_apply=callee))
        return module

    assert equal(with_unreached("abs"), with_unreached("abs"))
    assert str(difference(with_unreached("abs"), with_unreached("sign"))).endswith("opcode abs and sign")


def test_a_graph_reached_on_one_side_only_has_no_counterpart():
    module, other = diamond(), diamond()
    module.clone_graph(module["reducer"])
    reducer = other.clone_graph(other["reducer"])
    total = of(other, "total")
    other.entry.set_function(total, OPS["call"])
    other.entry.set_attributes(total, Attributes(to_apply=reducer))
    assert not equal(module, other)
    assert not equal(other, module)


def test_computed_calls_differ_from_ops():
    module, other = closure(), closure()
    assert equal(module, other)
    call = next(node for node in other.entry.nodes if node.opcode == "call-value")
    other.entry.set_function(call, OPS["negate"])  # type: ignore[arg-type]
    assert str(difference(module, other)).endswith("opcode call-value and negate")


def test_a_module_is_no_graph():
    module = diamond()
    assert difference(module, module.entry) == (
        "<module m: 2 graphs, 8 nodes> and <graph main: 5 nodes> are not of one kind"
    )


def test_a_graph_is_no_node():
    module, other = closure(), closure()
    for owner, value in ((module, (module["inner"],)), (other, (other.entry["x"],))):
        held = owner.entry["held"]
        owner.entry.set_attributes(held, Attributes({"control-predecessors": value}))
    assert str(difference(module, other)).endswith("are not of one kind")


def test_depth_and_length_are_no_limit():
    module = chain(20_000)
    assert equal(module, module.clone())
    deep = Module()
    parent: Graph | None = None
    for _ in range(3000):
        parent = deep.add_graph("g", parent)
        parent.set_output(parent.add_parameter(F32_2))
    deep.entry = deep.graphs[0]
    assert equal(deep, deep.clone())


def test_long_nodes_are_cut():
    module, graph = module_with()
    parameters: list[Node] = [graph.add_parameter(F32_2, f"parameter_with_a_name_{i}") for i in range(20)]
    graph.set_output(graph.add_apply(OPS["tuple"], parameters, F32_2))
    other = module.clone()
    other.entry.set_type(other.entry.root, F32_3)
    text = difference(module, other)
    assert text is not None and len(text) < 500 and "..." in text
    assert not any(isinstance(node, Constant) for node in module.nodes())

@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ("f32[] constant(1)", "f32[] constant(2)", "value 1 and 2"),
        ("f32[] constant(0)", "f32[] constant(-0.0)", "value 0 and -0.0"),
        ("f32[2,3] constant({{1,2,3},{4,5,6}})", "f32[2,3] constant({{1,2,3},{4,7,6}})", "value at {1,1} 5 and 7"),
        ("s4[3] constant({1,2,3})", "s4[3] constant({1,2,-3})", "value at {2} 3 and -3"),
        ("c64[] constant((1,2))", "c64[] constant((1,3))", "value (1, 2) and (1, 3)"),
        ("pred[2] constant({1,0})", "pred[2] constant({1,1})", "value at {1} false and true"),
        ("f32[2] constant({...})", "f32[2] constant({1, 2})", "value {...} and {1, 2}"),
        ("(f32[], s32[2]) constant((1, {1, 2}))", "(f32[], s32[2]) constant((1, {1, 3}))", "value in leaf 1 at {1} 2 and 3"),
    ],
)
def test_literals_that_differ_are_named(left: str, right: str, said: str):
    said_so = difference(*(parse(f"ENTRY e {{ ROOT c = {text} }}") for text in (left, right)))
    assert said_so is not None and said_so.endswith(f"differ: {said}"), said_so
