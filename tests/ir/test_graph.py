"""Editing keeps names, order and users right: one by one, and over random sequences against a recount.

Covers `nodes.py`, `module.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.formats.hlo import parse
from hloom.ir import (
    Apply,
    Attributes,
    Constant,
    Graph,
    Missing,
    Module,
    Node,
    Parameter,
    Unresolved,
    difference,
    equal,
    literal_of,
    verify,
)
from hloom.ops import OPS
from hloom.text import HloomError
from tests.helpers.properties import examples
from tests.ir.build import F32, F32_2, F32_3, apply, chain, closure, diamond, module_with

# Looking


def test_nodes_are_found_by_name():
    graph = diamond().entry
    assert graph["total"] is graph["%total"]
    assert "total" in graph and "other" not in graph
    assert [node.name for node in graph.nodes] == ["x", "y", "total", "dead", "result"]
    assert repr(graph) == "<graph main: 5 nodes>"
    assert repr(graph["total"]) == "<total = f32[2] add(x, y)>"


def test_a_name_that_is_not_there_has_near_misses():
    module = diamond()
    with pytest.raises(HloomError) as caught:
        module.entry["totl"]
    assert str(caught.value) == "graph main has no node 'totl'\n  near: total"
    with pytest.raises(HloomError, match=r"^graph main has no node '@'$"):
        module.entry["@"]
    with pytest.raises(HloomError) as caught:
        module["reducr"]
    assert str(caught.value) == "module m has no graph 'reducr'\n  near: reducer"


def test_a_graph_without_output_and_a_module_without_entry():
    module = Module()
    graph = module.add_graph("g")
    with pytest.raises(HloomError, match=r"^graph g has no output$"):
        _ = graph.root
    with pytest.raises(HloomError, match=r"^module module has no entry graph$"):
        _ = module.entry
    assert graph.type.result is None


def test_kinds_of_nodes():
    module = closure()
    held = module.entry["held"]
    call = module.entry.root
    assert isinstance(call, Apply)
    assert [node.opcode for node in module.entry.nodes] == ["parameter", "constant", "call-value"]
    assert list(held.called_graphs) == [module["inner"]]
    assert call.attribute("anything") is None
    with pytest.raises(TypeError, match=r"^call calls the value of held: it has no op row$"):
        _ = call.op
    assert Missing("lost", None, module.entry).opcode == "missing"
    assert call.operand_types() == (F32_2,)
    assert str(module.entry.type) == "(f32[2]) -> f32[2]"


def test_an_attribute_has_its_rows_default():
    module, graph = module_with()
    node = graph.add_apply(OPS["convolution"], (), F32_2, {"batch_group_count": 2})
    assert (node.attribute("feature_group_count"), node.attribute("batch_group_count")) == (1, 2)
    assert node.attribute("window") is None and node.attribute("unheard-of") is None
    assert module.node_count == 1


def test_free_variables():
    module = closure()
    inner, x = module["inner"], module.entry["x"]
    assert inner.free_variables() == [x]
    y = module.entry.add_parameter(F32_2, "y")
    inner.set_output(y)
    assert inner.free_variables() == [x, y]
    assert module.entry.free_variables() == []


def test_users_and_callers():
    module = diamond()
    main = module.entry
    assert [user.name for user in main["x"].users] == ["total", "dead"]
    assert main["total"].use_count == 2 and main["total"].users == (main["result"],)
    assert module["reducer"].callers == (main["result"],)
    assert main["result"].is_output and not main["x"].is_output
    predecessor = {"control-predecessors": (main["dead"],)}
    main.set_attributes(main["result"], main["result"].attributes.changed(predecessor))
    assert main["dead"].users == (main["result"],)


def test_the_list_of_nodes_in_hand_does_not_change():
    graph = diamond().entry
    nodes = graph.nodes
    before = list(nodes)
    for node in nodes:
        graph.add_apply(OPS["negate"], (node,), F32_2)
    assert list(nodes) == before
    assert len(graph.nodes) == 2 * len(before)


# Making


def test_names_are_made_unique():
    _, graph = module_with()
    names = [graph.add_parameter(F32, "a").name for _ in range(3)]
    assert names == ["a", "a.1", "a.2"]
    assert graph.add_parameter(F32, "a.1").name == "a.3"
    assert graph.unique_name("b.7") == "b.7"


def test_nodes_are_inserted_before_others():
    graph = diamond().entry
    x, total = graph["x"], graph["total"]
    graph.add_constant(literal_of(1.0), F32, "one", before=total)
    graph.add_apply(OPS["negate"], (x,), F32_2, before=total)
    graph.add_parameter(F32, "z")
    assert [node.name for node in graph.nodes] == ["x", "y", "one", "negate", "total", "dead", "result", "z"]


def test_order_queries_survive_many_insertions_at_one_place():
    graph = diamond().entry
    total = graph["total"]
    added = []
    for _ in range(100):
        added.append(graph.add_constant(literal_of(1.0), F32, before=total))
        assert graph.comes_before(added[0], total)
        assert not graph.comes_before(total, added[-1])
    assert all(graph.comes_before(a, b) for a, b in pairwise(added))
    first = graph.nodes[0]
    for _ in range(50):
        latest = graph.add_constant(literal_of(1.0), F32, before=first)
        assert graph.comes_before(latest, first)
        first = latest


# Changing


def test_a_node_of_another_graph_is_refused():
    module = diamond()
    for edit in (
        lambda g, n: g.set_operands(n, ()),
        lambda g, n: g.set_attributes(n, {}),
        lambda g, n: g.set_function(n, OPS["abs"]),
        lambda g, n: g.set_type(n, F32),
        lambda g, n: g.set_metadata(n, None),
        lambda g, n: g.rename(n, "other"),
        lambda g, n: g.move_before(n, n),
        lambda g, n: g.erase(n),
        lambda g, n: g.inline(n),
    ):
        with pytest.raises(HloomError, match=r"^total belongs to graph main, not to reducer$"):
            edit(module["reducer"], module.entry["total"])


def test_set_metadata_type_value_and_function():
    graph = diamond().entry
    graph.set_metadata(graph["total"], 'op_name="a"')
    assert graph["total"].metadata is not None and graph["total"].metadata.op_name == "a"
    assert graph["x"].metadata is None
    graph.set_type(graph["total"], F32_3)
    assert graph["total"].type is F32_3
    one = graph.add_constant(literal_of(1.0), F32)
    graph.set_value(one, literal_of(2.0))
    assert one.value == literal_of(2.0)
    graph.set_function(graph["total"], OPS["subtract"])  # type: ignore[arg-type]
    assert graph["total"].opcode == "subtract"


def test_renaming():
    module = diamond()
    graph = module.entry
    total = graph["total"]
    graph.rename(total, "x")
    assert total.name == "x.1" and graph["x.1"] is total and "total" not in graph
    graph.rename(total, "x.1")
    assert total.name == "x.1"
    module.rename_graph(module["reducer"], "main")
    assert [graph.name for graph in module] == ["main", "main.1"]


def test_replace_uses():
    module = diamond()
    graph = module.entry
    graph.set_attributes(
        graph["result"], graph["result"].attributes.changed({"control-predecessors": (graph["total"],)})
    )
    graph.replace_uses(graph["total"], graph["y"])
    assert graph["result"].operands == (graph["y"], graph["y"])
    assert graph["result"].attributes["control-predecessors"] == (graph["y"],)
    assert graph["total"].users == () and graph["y"].use_count == 4
    graph.replace_uses(graph["result"], graph["x"])
    assert graph.output is graph["x"]
    verify(module)


def test_replace_uses_reaches_computed_calls_and_closures():
    module = closure()
    main, inner = module.entry, module["inner"]
    y = main.add_parameter(F32_2, "y")
    main.replace_uses(main["x"], y)
    assert inner.root.operands == (inner["y"], y)
    other = main.add_constant(inner, inner.type, "other", before=main.root)
    call = main.root
    main.replace_uses(main["held"], other)
    assert isinstance(call, Apply) and call.function is other
    inner.set_output(y)
    main.replace_uses(y, main["x"])
    assert inner.output is main["x"]


def test_erase():
    graph = diamond().entry
    with pytest.raises(HloomError, match=r"^cannot erase total of graph main: it is used by result$"):
        graph.erase(graph["total"])
    with pytest.raises(
        HloomError, match=r"^cannot erase result of graph main: it is used by the graph, as its output$"
    ):
        graph.erase(graph["result"])
    dead = graph["dead"]
    graph.erase(dead)
    assert "dead" not in graph and dead not in graph.nodes
    assert dead not in graph["x"].users


def test_erasing_a_parameter_renumbers_the_others():
    _, graph = module_with()
    a, b, c = (graph.add_parameter(F32, name) for name in "abc")
    graph.set_output(c)
    graph.erase(a)
    assert [(p.name, p.number) for p in graph.parameters] == [("b", 0), ("c", 1)]
    assert graph.nodes == [b, c]


def test_the_output_of_a_closure_is_not_erased():
    module, main = module_with()
    x = main.add_parameter(F32_2, "x")
    main.set_output(main.add_parameter(F32_2, "y"))
    module.add_graph("inner", parent=main).set_output(x)
    with pytest.raises(HloomError, match=r"^cannot erase x of graph main: it is used by the graph, as its output$"):
        main.erase(x)


def test_move_before():
    module = diamond()
    graph = module.entry
    graph.move_before(graph["dead"], graph["y"])
    assert [node.name for node in graph.nodes] == ["x", "dead", "y", "total", "result"]
    graph.move_before(graph["dead"], graph["dead"])
    graph.move_before(graph["result"], graph["x"])
    assert [node.name for node in graph.nodes] == ["result", "x", "dead", "y", "total"]
    assert graph.comes_before(graph["result"], graph["x"])


# Calls and copies


def test_inline():
    module = diamond()
    graph = module.entry
    result = graph.inline(graph["result"])
    assert repr(result) == "<add = f32[2] add(total, total)>"
    assert graph.output is result and "result" not in graph
    assert module["reducer"].callers == ()
    verify(module)
    module.erase_graph(module["reducer"])
    assert [graph.name for graph in module] == ["main"]
    verify(module)


def test_inlining_a_graph_that_yields_its_parameter():
    module, graph = module_with()
    identity = module.add_graph("identity")
    identity.set_output(identity.add_parameter(F32_2))
    x = graph.add_parameter(F32_2, "x")
    call = apply("call", x, to_apply=identity)
    graph.set_output(call)
    assert graph.inline(call) is x
    assert graph.output is x


def test_inlining_once_into_oneself():
    module, graph = module_with()
    x = graph.add_parameter(F32_2, "x")
    graph.set_output(apply("call", x, to_apply=graph))
    result = graph.inline(graph.root)
    assert repr(result) == "<call.1 = f32[2] call(x)>"
    verify(module)


def test_what_cannot_be_inlined():
    module = diamond()
    graph = module.entry
    total = r"cannot inline <total = f32\[2\] add\(x, y\)>"
    with pytest.raises(HloomError, match=rf"^{total}: it does not call one defined graph with its operands$"):
        graph.inline(graph["total"])
    reducer = module["reducer"]
    graph.set_attributes(graph["total"], {"to_apply": reducer, "control-predecessors": (graph["x"],)})
    with pytest.raises(HloomError, match=rf"^{total}: it has control predecessors$"):
        graph.inline(graph["total"])
    graph.set_attributes(graph["total"], {"to_apply": reducer})
    reducer.missing.append(Missing("lost", None, reducer))
    with pytest.raises(HloomError, match=rf"^{total}: reducer has missing names or nested graphs$"):
        graph.inline(graph["total"])
    reducer.missing.clear()
    module.add_graph("nested", parent=reducer)
    with pytest.raises(HloomError, match=rf"^{total}: reducer has missing names or nested graphs$"):
        graph.inline(graph["total"])


def test_cloning_a_graph_shares_what_it_calls():
    module = diamond()
    module.entry.missing.append(Missing("lost", F32_2, module.entry))
    module.entry.set_operands(module.entry["dead"], module.entry.missing)
    module.index_users()
    copy = module.clone_graph(module.entry)
    assert copy.name == "main.1"
    assert module["reducer"].callers == (module.entry["result"], copy["result"])
    assert copy["dead"].operands[0] is copy.missing[0]
    verify(module)


def test_cloning_a_graph_clones_what_is_nested_in_it():
    module = closure()
    copy = module.clone_graph(module.entry, "again")
    assert [graph.name for graph in module] == ["main", "inner", "again", "inner.1"]
    assert module["inner.1"].parent is copy and module["inner.1"].free_variables() == [copy["x"]]
    assert list(copy["held"].called_graphs) == [module["inner.1"]]
    assert equal(module.entry, copy)
    verify(module)


def test_a_clone_of_a_module_shares_nothing():
    module = closure()
    module.stack_tables, module.notes = None, ["a note"]
    module.declare_graph("nowhere")
    copy = module.clone()
    assert equal(module, copy)
    assert not {id(node) for node in module.nodes()} & {id(node) for node in copy.nodes()}
    assert copy["inner"].parent is copy.entry
    assert copy["inner"].free_variables() == [copy.entry["x"]]
    assert copy.notes == ["a note"] and copy.has_closures
    copy.entry.rename(copy.entry["x"], "z")
    assert "x" in module.entry


def test_a_clone_keeps_parameter_numbers():
    module, graph = module_with()
    a, b = graph.add_parameter(F32, "a"), graph.add_parameter(F32, "b")
    a.number, b.number = 1, 0
    graph.parameters.reverse()
    graph.set_output(a)
    copy = module.clone().entry
    assert [(p.name, p.number) for p in copy.parameters] == [("b", 0), ("a", 1)]
    assert [node.name for node in copy.nodes] == ["a", "b"]


def test_missing_nodes_cannot_be_copied():
    module = diamond()
    lost = Missing("lost", None, module.entry)
    with pytest.raises(AssertionError, match="cannot be copied"):
        module.entry.copy_nodes([lost], {})


def test_erasing_a_graph():
    module = diamond()
    with pytest.raises(HloomError, match=r"^cannot erase graph reducer: it is used by result$"):
        module.erase_graph(module["reducer"])
    with pytest.raises(HloomError, match=r"^cannot erase graph main: it is used by the module, as its entry$"):
        module.erase_graph(module.entry)


def test_declared_graphs_and_what_is_unresolved():
    module = diamond()
    declared = module.declare_graph("later")
    module.entry.missing.append(Missing("lost", None, module.entry))
    assert module.unresolved == [Unresolved("later", "computation"), Unresolved("lost", "operand", "main")]
    assert [str(name) for name in module.unresolved] == ["computation later", "operand lost in main"]
    module.append_graph(declared)
    assert module["later"] is declared and not declared.is_declared and not module.declared
    assert repr(module) == "<module m: 3 graphs, 8 nodes>"
    assert "later" in module and not module.is_scheduled


def test_depth_is_no_limit():
    module = chain(50_000)
    copy = module.clone()
    copy.entry.replace_uses(copy.entry["x"], copy.entry["x"])
    assert copy.node_count == module.node_count == 50_001


# Random edits against a recount


def check(module: Module) -> None:
    """The order is a permutation that the links agree on, and the index of users is what a recount gives."""
    verify(module)
    for graph in module.graphs:
        nodes = list(graph.nodes)
        if graph._linked:
            assert list(graph._walk()) == nodes
            assert [node._previous for node in nodes] == [None, *nodes][: len(nodes)]
        pairs = random.Random(0).sample(range(len(nodes)), min(6, len(nodes)))
        for i, j in zip(pairs[::2], pairs[1::2], strict=False):
            assert graph.comes_before(nodes[i], nodes[j]) == (i < j)
        assert {node.name: node for node in nodes} == graph._names
        for node in nodes:
            uses: Counter[Node] = Counter()
            for user in module.nodes():
                count = user.operands.count(node) + user.attributes.get("control-predecessors", ()).count(node)
                count += isinstance(user, Apply) and user.function is node
                if count:
                    uses[user] = count
            assert node.use_count == uses.total()
            assert set(node.users) == set(uses)
        callers = {node for node in module.nodes() if graph in node.called_graphs}
        assert set(graph.callers) == callers


class Editor:
    """Takes random steps, each of which keeps definitions before uses."""

    def __init__(self, choices: random.Random) -> None:
        self.choices = choices
        self.module = closure()
        reducer = self.module.add_graph("reducer")
        reducer.set_output(apply("add", reducer.add_parameter(F32_2), reducer.add_parameter(F32_2)))
        self.reducer = reducer

    @property
    def graph(self) -> Graph:
        return self.module.entry

    def pick(self, *kinds: type[Node]) -> Any:
        candidates = [node for node in self.graph.nodes if isinstance(node, kinds or Node)]
        return self.choices.choice(candidates) if candidates else None

    def earlier(self, before: Node) -> list[Node]:
        nodes = self.graph.nodes
        return [node for node in nodes[: list(nodes).index(before)] if node.type is F32_2]

    def insert(self) -> None:
        before = self.pick(Apply)
        if before:
            inputs = self.choices.choices(self.earlier(before), k=2)
            self.graph.add_apply(OPS["add"], inputs, F32_2, before=before)

    def append(self) -> None:
        inputs = self.choices.choices([node for node in self.graph.nodes if node.type is F32_2], k=2)
        node = self.graph.add_apply(OPS["call"], inputs, F32_2, {"to_apply": self.reducer})
        if self.choices.random() < 0.5:
            self.graph.set_output(node)

    def add_parameter(self) -> None:
        self.graph.add_parameter(F32_2)

    def replace(self) -> None:
        node = self.pick(Apply)
        if node and node.type is F32_2:
            self.graph.replace_uses(node, self.choices.choice(self.earlier(node)))

    def erase(self) -> None:
        for node in reversed(self.graph.nodes):
            if not node.users and not node.is_output and not isinstance(node, Constant):
                self.graph.erase(node)
                return

    def inline(self) -> None:
        calls = [node for node in self.graph.nodes if node.opcode == "call" and len(node.attributes) == 1]
        if calls:
            self.graph.inline(self.choices.choice(calls))

    def predecessor(self) -> None:
        node = self.pick(Apply)
        if node:
            predecessors = tuple(self.choices.choices(self.earlier(node), k=2))
            self.graph.set_attributes(node, node.attributes.changed({"control-predecessors": predecessors}))

    def reset(self) -> None:
        node = self.pick(Apply)
        if node:
            self.graph.set_operands(node, [self.choices.choice(self.earlier(node)) for _ in node.operands])

    def move(self) -> None:
        nodes = list(self.graph.nodes)
        index = self.choices.randrange(1, len(nodes))
        before, node = nodes[index - 1], nodes[index]
        if before not in node.operands and before not in node.attributes.referents() and not isinstance(before, Constant):
            self.graph.move_before(node, before)

    def rename(self) -> None:
        self.graph.rename(self.pick(), self.choices.choice(["a", "b", "add"]))

    def clone(self) -> None:
        copy = self.module.clone_graph(self.graph)
        assert copy.parent is None and len(copy.nodes) == len(self.graph.nodes)

    def erase_copy(self) -> None:
        copies = [graph for graph in self.module.graphs if graph.name.startswith("reducer.")]
        if copies:
            self.module.erase_graph(copies[0])
        else:
            self.module.clone_graph(self.reducer)


STEPS = [
    name for name, value in vars(Editor).items() if callable(value) and name not in ("__init__", "pick", "earlier")
]


@examples(25)
@given(st.lists(st.sampled_from(STEPS), max_size=25), st.randoms(use_true_random=False), st.booleans())
def test_random_edits_keep_order_and_users(steps: list[str], choices: random.Random, index_first: bool):
    editor = Editor(choices)
    if index_first:
        check(editor.module)
    for step in steps:
        getattr(editor, step)()
        if index_first:
            check(editor.module)
    check(editor.module)
    assert equal(editor.module, editor.module.clone())


def test_attributes_of_parameters_are_kept_by_cloning():
    module, graph = module_with()
    parameter = graph.add_parameter(F32, "p", Attributes(backend_config="c"), "source_line=1")
    graph.set_output(parameter)
    copy = module.clone().entry.parameters[0]
    assert isinstance(copy, Parameter)
    assert (copy.attributes, copy.raw_metadata) == ({"backend_config": "c"}, "source_line=1")


def test_inlining_several_calls_at_once():
    def made() -> Module:
        return parse("""
            ENTRY e { x = f32[2] parameter(0)  y = f32[2] call(x), to_apply=square  z = f32[2] call(y), to_apply=square
              w = f32[2] call(z), to_apply=same  ROOT m = f32[2] negate(w), control-predecessors={z} }
            square { a = f32[2] parameter(0)  ROOT x = f32[2] multiply(a, a) }
            same { ROOT a = f32[2] parameter(0) }
        """)

    one_by_one, at_once = made(), made()
    for name in "yzw":
        one_by_one.entry.inline(one_by_one.entry[name])
    at_once.entry.inline_all([at_once.entry[name] for name in "yzw"])
    assert verify(at_once) == verify(one_by_one)
    assert str(difference(one_by_one, at_once)) == "None"
    assert [node.name for node in at_once.entry.nodes] == [node.name for node in one_by_one.entry.nodes]
    at_once.entry.inline_all([])
    assert at_once["square"].callers == ()


def test_keeping_some_nodes():
    module = chain(3)
    graph = module.entry
    unused = graph.add_apply(OPS["negate"], (graph["x"],), F32_2, name="unused")
    kept = {node for node in graph.nodes if node is not unused}
    assert graph.keep_only(kept) == 1
    assert "unused" not in graph and set(graph.nodes) == kept
    assert graph.keep_only(kept) == 0
    assert graph.add_apply(OPS["negate"], (graph["x"],), F32_2, name="unused").name == "unused"
    assert unused not in graph["x"].users
    verify(module)


def test_a_node_answers_for_its_dimensions_and_its_element_type():
    lines = "x = bf16[2,3] parameter(0) n = s32[] constant(1) t = (bf16[2,3], s32[]) tuple(x, n)"
    nodes = parse(f"ENTRY e {{ {lines} ROOT r = token[] after-all() }}").entry.nodes
    assert [(node.name, node.dims, node.rank, node.dtype and node.dtype.name) for node in nodes] == [
        ("x", (2, 3), 2, "bf16"),
        ("n", (), 0, "s32"),
        ("t", (), 0, None),
        ("r", (), 0, None),
    ]
