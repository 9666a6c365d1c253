"""JSON: the structure, and that it is complete and consistent whatever the text."""

from __future__ import annotations

import json

from hypothesis import given

from hloom.inspection.viz import to_json
from hloom.ir import Module
from tests.inspection.viz.build import F32_2, apply, chain, fused, module_with, random_modules, scalar, strange_text


def test_a_small_module():
    module, main = module_with()
    x = main.add_parameter(F32_2, "x")
    sum_ = apply(
        "add", x, scalar(main, 2.0, "two"), name="sum", metadata='op_name="a/b" source_file="f.py" source_line=3'
    )
    main.set_output(sum_)
    assert json.loads(to_json(module)) == {
        "schema_version": 1,
        "module": "m",
        "center": None,
        "nodes": [
            {
                "id": "main/x",
                "name": "x",
                "label": "x\nparameter 0\nf32[2]",
                "opcode": "parameter",
                "family": "parameter",
                "type": "f32[2]",
                "scope": "",
                "computation": "main",
                "output": False,
                "cut": False,
                "number": 0,
            },
            {
                "id": "main/two",
                "name": "two",
                "label": "two\nconstant 2\nf32[]",
                "opcode": "constant",
                "family": "constant",
                "type": "f32[]",
                "scope": "",
                "computation": "main",
                "output": False,
                "cut": False,
                "value": "2",
            },
            {
                "id": "main/sum",
                "name": "sum",
                "label": "sum\nadd\nf32[2]",
                "opcode": "add",
                "family": "elementwise",
                "type": "f32[2]",
                "scope": "a/b",
                "computation": "main",
                "cut": False,
                "metadata": {"op_name": "a/b", "source_file": "f.py", "source_line": 3},
                "location": "f.py:3",
                "output": True,
            },
        ],
        "edges": [
            {"source": "main/x", "target": "main/sum", "port": 0, "kind": "operand"},
            {"source": "main/two", "target": "main/sum", "port": 1, "kind": "operand"},
        ],
        "calls": [],
        "computations": [{"name": "main", "entry": True, "node_count": 3, "parent": None, "execution_thread": None}],
    }


def test_calls_and_attributes():
    drawn = json.loads(to_json(fused()))
    assert drawn["calls"][0] == {"source": "main/fusion", "computation": "fused", "attribute": "calls"}
    fusion = next(node for node in drawn["nodes"] if node["name"] == "fusion")
    assert fusion["attributes"] == {"kind": "kLoop", "calls": "fused"}


def test_a_neighbourhood_names_its_center_and_its_border():
    drawn = json.loads(to_json(chain(3), around="x", hops=1))
    assert drawn["center"] == "main/x"
    assert [node.get("cut", False) for node in drawn["nodes"]] == [False, True]


def test_an_empty_module():
    drawn = json.loads(to_json(Module("empty")))
    lists = {"nodes": [], "edges": [], "calls": [], "computations": []}
    assert drawn == {"schema_version": 1, "module": "empty", "center": None, **lists}


@given(random_modules())
def test_every_node_and_use_is_there(module):
    drawn = json.loads(to_json(module))
    known = [node["id"] for node in drawn["nodes"]]
    assert len(known) == len(set(known)) == module.node_count
    assert sum(edge["kind"] == "operand" for edge in drawn["edges"]) == sum(len(node.operands) for node in module.nodes())
    assert {end for edge in drawn["edges"] for end in (edge["source"], edge["target"])} <= set(known)
    assert {call["source"] for call in drawn["calls"]} <= set(known)
    assert {call["computation"] for call in drawn["calls"]} <= {
        computation["name"] for computation in drawn["computations"]
    }


@given(strange_text, strange_text)
def test_any_text_is_json_in_utf_8_and_ids_stay_unique(name, text):
    module, main = module_with(text)
    x = main.add_parameter(F32_2, name)
    apply("negate", x, name=text)
    apply("negate", x, name=text.replace("\0", "\1"))
    drawn = json.loads(to_json(module).encode())
    assert len({node["id"] for node in drawn["nodes"]}) == 3
