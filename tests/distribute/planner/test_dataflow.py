"""Which values are one under several names, which may have any spec, and how often graphs run."""

from __future__ import annotations

from hloom.distribute.planner.dataflow import Dataflow
from hloom.formats.hlo import parse
from hloom.passes import canonicalize
from tests.distribute.planner.loops import BRANCHES, COUNTDOWN, SCAN


def test_loops_run_their_bodies_as_often_as_they_count():
    flow = Dataflow(canonicalize(parse(SCAN)))
    times = {graph.name: count for graph, count in flow.times.items()}
    assert times == {"main": 1, "body": 4, "condition": 5, "body.1": 4, "condition.1": 5}


def test_what_a_loop_carries_has_one_name():
    flow = Dataflow(canonicalize(parse(SCAN)))
    carried = {node.name for node in flow.phis}
    assert carried == {"i", "body.x", "body.ws", "body.1.i", "body.1.x", "body.1.ws"}
    result = {node.name: flow.origin(node).name for node in flow.aliases}
    assert result["y"] == "body.x"
    assert result["condition.i"] == "i"
    assert result["kx"] == "body.x"
    passed = {(phi_input.value.name, phi_input.phi.name) for phi_input in flow.phi_inputs}
    assert {("x", "body.x"), ("body.z", "body.x"), ("y", "body.1.x"), ("ws", "body.ws")} <= passed


def test_a_branch_takes_its_operands_as_they_are_sharded_and_yields_as_it_likes():
    flow = Dataflow(canonicalize(parse(BRANCHES)))
    result = {node.name: flow.origin(node).name for node in flow.aliases}
    assert (result["product.a"], result["product.b"], result["negated.a"]) == ("a", "b", "either.0")
    assert (result["first"], flow.origin(flow.module["negated"].root).name) == ("either.0", "negated.r")
    assert {node.name for node in flow.phis} == {"either.0", "either.1", "turned", "last.0", "last.1"}
    passed = {(phi_input.value.name, phi_input.phi.name) for phi_input in flow.phi_inputs}
    assert {("c", "either.0"), ("product.b", "either.1"), ("negated.r", "turned"), ("same.a", "turned")} <= passed


def test_a_loop_of_unknown_length_counts_once_and_is_named():
    flow = Dataflow(canonicalize(parse(COUNTDOWN)))
    assert [loop.name for loop in flow.unknown] == ["y"]
    assert flow.times[flow.unknown[0].attributes["body"]] == 1
    assert [node.name for node in flow.phis] == ["halve.x"]
