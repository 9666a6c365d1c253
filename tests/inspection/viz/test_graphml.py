"""GraphML: read back as XML and by rustworkx."""

from __future__ import annotations

from xml.etree import ElementTree

import rustworkx
from hypothesis import given

from hloom.inspection.viz import drawing_of, to_graphml
from hloom.inspection.viz.graphml import NAMESPACE
from tests.inspection.viz.build import F32_2, apply, fused, module_with, random_modules, strange_text


def elements(text: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text.encode()).iter(f"{{{NAMESPACE}}}{name}"))


def data(element: ElementTree.Element) -> dict[str, str]:
    return {str(item.get("key")): item.text or "" for item in element}


def test_nodes_and_edges():
    text = to_graphml(fused())
    fusion = next(node for node in elements(text, "node") if node.get("id") == "main/fusion")
    assert data(fusion) == {
        "node_name": "fusion",
        "node_label": "fusion\nfusion\nkind=kLoop, calls=fused\nf32[2]",
        "node_opcode": "fusion",
        "node_family": "control",
        "node_type": "f32[2]",
        "node_computation": "main",
    }
    edges = [(edge.get("source"), edge.get("target"), data(edge)) for edge in elements(text, "edge")]
    assert ("main/x", "main/sum", {"edge_port": "1", "edge_kind": "operand"}) in edges
    assert ("main/loop", "body/b", {"edge_kind": "call", "edge_attribute": "body"}) in edges


def test_rustworkx_reads_it(tmp_path):
    (tmp_path / "m.graphml").write_text(to_graphml(fused()), encoding="utf-8")
    (graph,) = rustworkx.read_graphml(str(tmp_path / "m.graphml"))
    drawing = drawing_of(fused())
    assert graph.num_nodes() == 10
    assert graph.num_edges() == len(drawing.edges) + len(drawing.calls)
    assert graph.nodes()[0]["opcode"] == "parameter"
    assert graph.nodes()[3]["is_output"] is True


@given(random_modules())
def test_ids_are_unique_and_edges_refer_to_them(module):
    text = to_graphml(module)
    known = [node.get("id") for node in elements(text, "node")]
    assert len(known) == len(set(known)) == module.node_count
    assert {edge.get(end) for edge in elements(text, "edge") for end in ("source", "target")} <= set(known)


@given(strange_text, strange_text)
def test_any_text_is_xml_and_reads_back(name, text):
    module, main = module_with(text)
    apply("custom-call", main.add_parameter(F32_2, name), name=text, custom_call_target=text)
    read = [(node.get("id"), data(node)) for node in elements(to_graphml(module), "node")]
    assert [(identifier, fields.get("node_label")) for identifier, fields in read] == [
        (node.id, node.label) for node in drawing_of(module).nodes
    ]
