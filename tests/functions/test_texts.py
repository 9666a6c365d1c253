"""The texts of compiled functions: nodes have the names of variables and their source lines; stages are cumulative.

Covers `functions/store.py`, `api/function.py`.
"""

from __future__ import annotations

import itertools
import re

import hloom
from hloom.ir import dump


def newton(a, tolerance=1e-12):
    x = a
    while abs(x * x - a) > tolerance:
        x = 0.5 * (x + a / x)
    return x


def tuples(p, f32):
    """`f32` is not a name of an instruction of HLO."""
    total, (a, b) = 0.0, p
    for _ in range(9):
        total = total + a * b * f32
    scaled = total * 2
    return scaled, a


def test_nodes_are_named_after_variables():
    text = hloom.function(newton).ir(2.0)
    assert "subgraph @newton(%para1_a)" in text
    body = text.partition("subgraph @body")[2]
    assert re.search(r"%[0-9]+\(x\) = get-tuple-element", body)
    assert re.search(r"%[0-9]+\(x\.1\) = multiply", body)
    line = newton.__code__.co_firstlineno + 3
    assert f"# In file {__file__}:{line}" in body


def test_names_reach_hlo_and_are_names_there():
    module = hloom.function(tuples).hlo((3.0, 4.0), 7.0)
    names = [node.name for node in module.nodes()]
    assert {"p", "p.1", "scaled"} <= set(names)
    assert "f32" not in names
    assert hloom.parse(hloom.print(module)).node_count == module.node_count


def test_names_and_lines_are_the_same_each_time():
    assert hloom.function(tuples).ir((3.0, 4.0), 7.0) == hloom.function(tuples).ir((3.0, 4.0), 7.0)


def test_stages_follow_each_other(tmp_path):
    function = hloom.function(tuples)
    written = function.stages((3.0, 4.0), 7.0, directory=tmp_path)
    texts = [path.read_text() for path in written if path.suffix == ".ir"]
    assert len(texts) >= 3
    assert all(before != after for before, after in itertools.pairwise(texts))
    assert texts[0] == function.ir((3.0, 4.0), 7.0)
    assert texts[-1] == dump(function.hlo((3.0, 4.0), 7.0))
    assert {path.suffix for path in written} == {".ir", ".dot"}
