"""What is drawn: all, one computation, or a neighbourhood, which a search by hand must agree with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.inspection.viz import Drawing, EdgeKind, drawing_of
from hloom.ir import Module, Node
from hloom.text import HloomError
from tests.inspection.viz.build import F32_2, apply, chain, fused, module_with, random_modules, scalar, unary_graph


def ids(drawing: Drawing) -> list[str]:
    return [node.id for node in drawing.nodes]


def graph_names(drawing: Drawing) -> list[str]:
    return [cluster.name for cluster in drawing.clusters]


def test_a_module_is_drawn_whole_and_in_order():
    drawing = drawing_of(fused())
    assert graph_names(drawing) == ["main", "fused", "body", "condition"]
    assert ids(drawing)[:5] == ["main/x", "main/fusion", "main/loop", "main/sum", "fused/p"]
    assert [(e.source, e.target, e.port) for e in drawing.edges[:4]] == [
        ("main/x", "main/fusion", 0),
        ("main/fusion", "main/loop", 0),
        ("main/loop", "main/sum", 0),
        ("main/x", "main/sum", 1),
    ]
    assert [(c.source, c.computation, c.attribute) for c in drawing.calls] == [
        ("main/fusion", "fused", "calls"),
        ("main/loop", "condition", "condition"),
        ("main/loop", "body", "body"),
    ]
    assert [cluster.is_entry for cluster in drawing.clusters] == [True, False, False, False]


def test_one_computation_is_drawn_without_what_it_calls():
    drawing = drawing_of(fused(), computation="main")
    assert graph_names(drawing) == ["main"]
    assert drawing.calls == ()
    module = fused()
    assert ids(drawing_of(module, computation=module["body"])) == ["body/b", "body/tanh"]


def test_collapsing_leaves_out_what_only_fusions_and_calls_hold():
    drawing = drawing_of(fused(), collapse_fusions=True)
    assert graph_names(drawing) == ["main", "body", "condition"]
    assert [call.attribute for call in drawing.calls] == ["condition", "body"]


def test_collapsing_leaves_out_what_stands_below_a_collapsed_computation():
    module, main = module_with()
    reducer = unary_graph(module, "inner")
    outer = module.add_graph("outer")
    outer.set_output(apply("map", outer.add_parameter(F32_2, "p"), to_apply=reducer))
    main.set_output(apply("fusion", main.add_parameter(F32_2, "x"), calls=outer))
    assert graph_names(drawing_of(module, collapse_fusions=True)) == ["main"]


def test_collapsing_keeps_what_a_loop_holds_as_well():
    module = fused()
    apply("while", module.entry["x"], body=module["fused"], condition=module["condition"])
    assert "fused" in graph_names(drawing_of(module, collapse_fusions=True))


def test_a_collapsed_computation_that_is_asked_for_is_drawn():
    assert graph_names(drawing_of(fused(), computation="fused", collapse_fusions=True)) == ["fused"]


@pytest.mark.parametrize(
    ("hops", "expected"),
    [
        (0, ["main/negate.2"]),
        (1, ["main/negate.1", "main/negate.2", "main/negate.3"]),
        (2, ["main/negate", "main/negate.1", "main/negate.2", "main/negate.3", "main/negate.4"]),
    ],
)
def test_a_neighbourhood_goes_both_ways(hops, expected):
    drawing = drawing_of(chain(9), around="negate.2", hops=hops)
    assert ids(drawing) == expected
    assert drawing.center == "main/negate.2"


def test_nodes_at_the_border_of_a_neighbourhood_are_marked():
    drawing = drawing_of(chain(4), around="x", hops=2)
    assert [(node.name, node.is_cut) for node in drawing.nodes] == [("x", False), ("negate", False), ("negate.1", True)]


def test_hops_go_across_calls_when_asked():
    assert ids(drawing_of(fused(), around="fusion", hops=1)) == ["main/x", "main/fusion", "main/loop"]
    across = drawing_of(fused(), around="fusion", hops=1, across_calls=True)
    assert ids(across) == ["main/x", "main/fusion", "main/loop", "fused/p", "fused/negate"]
    assert [call.computation for call in across.calls] == ["fused"]
    back = drawing_of(fused(), around="fused/p", hops=1, across_calls=True)
    assert ids(back) == ["main/fusion", "fused/p", "fused/negate"]


def test_hops_do_not_enter_collapsed_computations():
    drawing = drawing_of(fused(), around="fusion", hops=2, across_calls=True, collapse_fusions=True)
    assert graph_names(drawing) == ["main", "body", "condition"]


def test_control_predecessors_are_edges_and_neighbours():
    module, main = module_with()
    x = main.add_parameter(F32_2, "x")
    first = apply("negate", x, name="first")
    apply("tanh", x, name="second", **{"control-predecessors": (first,)})  # pyright: ignore[reportArgumentType]
    drawing = drawing_of(module, around="first", hops=1)
    assert ids(drawing) == ["main/x", "main/first", "main/second"]
    assert [(e.source, e.target) for e in drawing.edges if e.kind is EdgeKind.CONTROL] == [
        ("main/first", "main/second")
    ]


def test_closures_and_computed_calls():
    module, main = module_with()
    inner = module.add_graph("inner", main)
    x = main.add_parameter(F32_2, "x")
    inner.set_output(inner.add_apply(apply("negate", x).op, [x], F32_2, name="captures"))
    function = main.add_constant(inner, inner.type, "function")
    main.set_output(main.add_apply(function, [x], F32_2, name="result"))
    drawing = drawing_of(module)
    edges = [(e.source, e.target, e.kind.value) for e in drawing.edges]
    assert ("main/x", "inner/captures", "operand") in edges
    assert ("main/function", "main/result", "function") in edges
    assert [(c.source, c.computation, c.attribute) for c in drawing.calls] == [("main/function", "inner", "value")]
    assert drawing.clusters[1].parent == "main"


def test_names_are_looked_up_in_the_entry_first_then_in_all_computations():
    module = fused()
    assert drawing_of(module, around="%tanh", hops=0).center == "body/tanh"
    apply("negate", module.entry["x"], name="negate")
    assert drawing_of(module, around="negate", hops=0).center == "main/negate"
    assert drawing_of(module, around="negate", hops=0, computation="fused").center == "fused/negate"
    assert drawing_of(module, around=module["fused"]["negate"], hops=0).center == "fused/negate"


def test_a_missing_node_is_named_with_near_misses():
    with pytest.raises(HloomError) as caught:
        drawing_of(fused(), around="fusoin")
    assert str(caught.value) == "module m has no node 'fusoin'\n  near: fusion"


def test_a_missing_computation_is_named_with_near_misses():
    with pytest.raises(HloomError) as caught:
        drawing_of(fused(), computation="fussed")
    assert str(caught.value) == "module m has no computation 'fussed'\n  near: fused"


def test_a_name_that_stands_in_two_computations_is_refused():
    module = fused()
    unary_graph(module, "other")
    with pytest.raises(HloomError) as caught:
        drawing_of(module, around="negate")
    assert str(caught.value) == (
        "2 computations have a node 'negate': fused, other\n"
        "  say which one: computation='fused', or around='fused/negate'"
    )


def test_a_negative_number_of_hops_is_refused():
    with pytest.raises(HloomError, match=r"hops=-1: the number of hops around a node is 0 or more"):
        drawing_of(fused(), around="x", hops=-1)


def test_nodes_and_graphs_of_another_module_are_refused():
    other = fused()
    with pytest.raises(HloomError, match="node x is of another module than m"):
        drawing_of(fused(), around=other.entry["x"])
    with pytest.raises(HloomError, match="graph main is of another module than m"):
        drawing_of(fused(), computation=other.entry)


def test_a_fragment_without_entry_and_an_empty_module_are_drawn():
    assert list(drawing_of(Module("empty")).nodes) == []
    fragment = Module("fragment")
    unary_graph(fragment, "only")
    assert ids(drawing_of(fragment, collapse_fusions=True)) == ["only/p", "only/negate"]
    assert drawing_of(fragment, around="p", hops=0).center == "only/p"


def test_depth_is_no_limit():
    drawing = drawing_of(chain(20_000), around="x", hops=30_000)
    assert sum(1 for _ in drawing.nodes) == 20_001


def test_labels_say_opcode_attributes_type_and_sharding():
    module, main = module_with()
    x = main.add_parameter(F32_2, "x")
    broadcast = apply("broadcast", scalar(main, 0.5), name="wide", dimensions=(), sharding="{replicated}")
    apply("fusion", x, broadcast, name="f", kind="kLoop", calls=unary_graph(module, "body"), backend_config="{}")
    labels = {node.name: node.label for node in drawing_of(module, computation="main").nodes}
    assert labels == {
        "x": "x\nparameter 0\nf32[2]",
        "constant": "constant\nconstant 0.5\nf32[]",
        "wide": "wide\nbroadcast\ndimensions={}\nsharding={replicated}\nf32[2]",
        "f": "f\nfusion\nkind=kLoop, calls=body\nf32[2]",
    }


def by_hand(module: Module, center: Node, hops: int) -> set[str]:
    """The nodes within so many steps, over a list of pairs."""
    pairs: list[tuple[Node, Node]] = []
    for node in module.nodes():
        pairs += [(used, node) for used in node.operands]
        pairs += [(used, node) for used in node.attributes.get("control-predecessors", ())]
    reached = {center}
    for _ in range(hops):
        reached |= {b for a, b in pairs if a in reached} | {a for a, b in pairs if b in reached}
    return {f"{node.graph.name}/{node.name}" for node in reached}


@given(random_modules(), st.data(), st.integers(0, 4))
def test_neighbourhoods_agree_with_a_search_by_hand(module, data, hops):
    center = data.draw(st.sampled_from(list(module.nodes())))
    drawing = drawing_of(module, around=center, hops=hops)
    assert set(ids(drawing)) == by_hand(module, center, hops)
    inside = set(ids(drawing))
    assert all(edge.source in inside and edge.target in inside for edge in drawing.edges)
    wider = by_hand(module, center, hops + 1)
    assert any(node.is_cut for node in drawing.nodes) == (wider != inside)


@given(random_modules(), st.booleans())
def test_ids_are_unique_and_edges_refer_to_them(module, collapse):
    drawing = drawing_of(module, collapse_fusions=collapse)
    known = ids(drawing)
    assert len(set(known)) == len(known)
    assert all(edge.source in known and edge.target in known for edge in drawing.edges)
    assert {call.computation for call in drawing.calls} <= set(graph_names(drawing))


def test_an_unknown_keyword_is_refused_with_the_known_ones():
    with pytest.raises(HloomError) as caught:
        drawing_of(fused(), collapse=True)  # pyright: ignore[reportCallIssue]
    assert caught.value.message == "nothing is drawn by 'collapse'"
    assert caught.value.hint == "choose by computation, around, hops, across_calls, collapse_fusions"
