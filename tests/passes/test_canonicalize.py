"""The form in which a module is planned: the same function, every loop with graphs of its own, every tuple written."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.analysis.control_flow import called_computations
from hloom.formats.hlo import parse
from hloom.ir import Module, TupleType
from hloom.passes import canonicalize, is_loop_or_branch
from tests.distribute.planner.loops import BRANCHES, COUNTDOWN, SCAN


def inputs(module: Module) -> list[np.ndarray]:
    source = np.random.default_rng(1)
    return [
        np.array(True) if not parameter.type.dims else source.standard_normal(parameter.type.dims).astype(np.float32)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
        for parameter in module.entry.parameters
    ]


def flat(value) -> list[np.ndarray]:
    return [item for part in value for item in flat(part)] if isinstance(value, tuple | list) else [np.asarray(value)]


@pytest.mark.parametrize("text", [SCAN, BRANCHES, COUNTDOWN])
def test_it_is_the_same_function(text: str):
    module = parse(text)
    form, given = canonicalize(module), inputs(module)
    hloom.verify(form)
    expected, result = (flat(hloom.evaluate(item, given)) for item in (module, form))
    for one, other in zip(expected, result, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("text", [SCAN, BRANCHES, COUNTDOWN])
def test_tuples_are_written_out_and_graphs_are_run_once(text: str):
    form = canonicalize(parse(text))
    running = [node for graph in form.graphs for node in graph.nodes if is_loop_or_branch(node)]
    called = [graph for node in running for graph in called_computations(node)]
    assert running
    assert len(set(called)) == len(called)
    for node in running:
        given = node.operands[node.opcode == "conditional" :]
        assert all(value.opcode == "tuple" for value in given if isinstance(value.type, TupleType))
        assert all(user.opcode == "get-tuple-element" for user in node.users if isinstance(node.type, TupleType))
    assert all(graph.root.opcode == "tuple" for graph in called if isinstance(graph.root.type, TupleType))


def test_names_stay_and_are_the_modules_own():
    module = parse(SCAN)
    form = canonicalize(module)
    assert {node.name for node in module.entry.nodes} - {node.name for node in form.entry.nodes} == {"squared"}
    names = [node.name for graph in form.graphs for node in graph.nodes]
    assert len(set(names)) == len(names)


def test_normal_form_is_its_own():
    form = canonicalize(parse(SCAN))
    assert hloom.print(canonicalize(form)) == hloom.print(form)


def test_a_module_without_calls_is_copied():
    module = parse("ENTRY main {\n  ROOT x = f32[8] parameter(0)\n}\n")
    assert hloom.print(canonicalize(module)) == hloom.print(module)
