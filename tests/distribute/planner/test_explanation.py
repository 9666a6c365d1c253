"""Why a plan is as it is: families, causes, limits, other plans.

Covers `tensor_families.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hloom.analysis import Interconnect, step_count
from hloom.distribute.planner import SearchResult, explain, search_plans
from hloom.distribute.planner.cost_model import Rates, uniform_device
from hloom.distribute.planner.explanation import other_plans
from hloom.formats.hlo import parse
from hloom.sharding import Mesh
from tests.distribute.planner.test_plan import TWO_LAYERS

MESH = Mesh.parse("x=2,y=4")
LINKS = {"near": (100e9, 1e-7, 4), "far": (10e9, 1e-6)}
PLACED = TWO_LAYERS.replace(
    "y = f32[512,4096] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "y = f32[512,4096] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    'metadata={op_name="jit(f)/mlp/down" source_file="model.py" source_line=7}',
)


@pytest.fixture(scope="module")
def chosen() -> SearchResult:
    return search_plans(parse(PLACED), MESH, pins={"w": "[-,x.y]", "v": "[x.y,-]"})


def test_every_expected_collective_has_its_cause(chosen: SearchResult):
    result = explain(chosen)
    assert chosen.best.expected is not None
    assert sum(cause.sent for cause in result.causes) == pytest.approx(chosen.best.expected.sent)
    down = [cause for cause in result.causes if cause.instruction == "y"]
    assert [(item.scope, item.source, item.collective, item.group) for item in down] == [
        ("jit(f)/mlp/down", "model.py:7", down[0].collective, 8)
    ]
    assert down[0].why == "combines partial results"
    assert down[0].axes == ("x", "y")


def test_the_limits_are_the_whole_step(chosen: SearchResult):
    result = explain(chosen)
    assert sum(limit.share for limit in result.limits) == pytest.approx(1)
    assert sum(limit.seconds for limit in result.limits) == pytest.approx(chosen.best.step(chosen.rates))
    assert result.binding == result.limits[0].name


def test_memory_binds_where_the_budget_is_nearly_taken(chosen: SearchResult):
    held = chosen.best.held()
    assert held is not None
    tight = search_plans(parse(PLACED), MESH, pins={"w": "[-,x.y]", "v": "[x.y,-]"}, budget=held * 1.01)
    assert explain(tight).binding.startswith("memory")


def test_families_save_and_send(chosen: SearchResult):
    rows = {row.name: row for row in explain(chosen).table}
    assert rows["w"].whole_bytes == 4096 * 16384 * 4
    assert rows["w"].saved_bytes == rows["w"].whole_bytes * 7 / 8
    assert str(rows["w"].spec) == "[-,x.y]"
    assert sum(row.sent_bytes for row in rows.values()) == pytest.approx(
        chosen.best.expected.sent if chosen.best.expected else 0
    )
    assert str(explain(chosen).table).startswith("tensors ")
    assert len(str(explain(chosen).table).splitlines()) == len(rows) + 1


def test_repeated_layers_are_one_family():
    layers = "\n".join(
        f"  h{n} = f32[512,512] dot({f'h{n - 1}' if n else 'x'}, w{n}), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0}"
        for n in range(4)
    )
    weights = "\n".join(f"  w{n} = f32[512,512] parameter({n + 1})" for n in range(4))
    text = f"ENTRY e {{\n  x = f32[512,512] parameter(0)\n{weights}\n{layers}\n  ROOT y = f32[512,512] tanh(h3)\n}}\n"
    result = search_plans(parse(text), Mesh.parse("x=4"), pins={"x": "[x,-]", **{f"w{n}": "[-,-]" for n in range(4)}})
    rows = {(row.name, row.count) for row in explain(result).table}
    assert ("w*", 4) in rows


def test_other_plans_differ(chosen: SearchResult):
    result = other_plans(search_plans(parse(PLACED), MESH))
    assert 0 < len(result) <= 5
    assert all(item.differences for item in result)
    assert [item.seconds for item in result] == sorted(item.seconds for item in result)


def test_it_is_json(chosen: SearchResult):
    result = json.loads(json.dumps(explain(chosen).to_json()))
    assert {item["instruction"] for item in result["collectives"]} == {
        cause.instruction for cause in explain(chosen).causes
    }


def test_each_axis_pays_for_its_own_link():
    near, far = (Interconnect(name, name, "switch", *own) for name, own in LINKS.items())
    rates = Rates(replace(uniform_device(), links=(near, far)))
    result = search_plans(parse(PLACED), Mesh.parse("x=2,y=4"), rates=rates, pins={"x": "[x,y]"})
    price, solution = result.best.expected, result.best.solution
    assert price is not None and solution is not None
    for axes, (sent, seconds) in price.traffic.items():
        steps = [made for made in solution.forecast.collectives if made.step.axes == axes]
        hops = sum(step_count(made.step.opcode, made.step.group_size) * made.times for made in steps)
        bandwidth, latency = LINKS["near"][:2] if axes == ("y",) else LINKS["far"][:2]
        if len(axes) == 1:
            assert seconds == pytest.approx(sent / bandwidth + hops * latency)
    assert any(axes == ("y",) for axes in price.traffic)
