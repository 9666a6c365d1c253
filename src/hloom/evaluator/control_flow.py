"""Tuples, calls, loops, branches, asynchronous pairs, and what passes values on."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from hloom.evaluator.inputs import context
from hloom.evaluator.table import TOKEN_VALUE, Control, GraphCall, Runner, Value, Values, evaluator, pointwise
from hloom.ir import Apply, Graph
from hloom.text import Unsupported


@pointwise("add-dependency", "copy", "domain", "opt-barrier")
def _pass_on(node: Apply, operands: Values, run: Runner) -> Value:
    return operands[0]


@pointwise("tuple")
def _tuple(node: Apply, operands: Values, run: Runner) -> Value:
    return operands


@pointwise("get-tuple-element")
def _element(node: Apply, operands: Values, run: Runner) -> Value:
    whole = operands[0]
    if not isinstance(whole, tuple):
        raise Unsupported("its operand is not a tuple")
    return whole[node.attribute("index")]


@evaluator("tuple-select")
def _tuple_select(node: Apply, operands: Values, run: Runner) -> Value:
    return operands[1] if operands[0] else operands[2]


@evaluator("after-all")
def _after_all(node: Apply, operands: Values, run: Runner) -> Value:
    return TOKEN_VALUE


@evaluator("call", "fusion")
def _call(node: Apply, operands: Values, run: Runner) -> Control:
    return (yield GraphCall(called_graph(node), operands))


@evaluator("map")
def _map(node: Apply, operands: Values, run: Runner) -> Value:
    return run.map(node.attribute("to_apply"), cast("tuple[np.ndarray, ...]", operands))


@evaluator("while")
def _while(node: Apply, operands: Values, run: Runner) -> Control:
    condition, body = node.attribute("condition"), node.attribute("body")
    state = operands[0]
    while (yield GraphCall(condition, (state,))):
        state = yield GraphCall(body, (state,))
    return state


@evaluator("conditional")
def _conditional(node: Apply, operands: Values, run: Runner) -> Control:
    """Run one branch on its operand; an index out of range means the last one."""
    index: Any = operands[0]
    branches = node.attribute("branch_computations")
    if branches is None:
        chosen = 0 if index else 1
        branches = (node.attribute("true_computation"), node.attribute("false_computation"))
    elif index.dtype == np.bool_:
        chosen = 0 if index else 1
    else:
        chosen = int(index) if 0 <= index < len(branches) else len(branches) - 1
    return (yield GraphCall(branches[chosen], (operands[chosen + 1],)))


@evaluator("async-start")
def _async_start(node: Apply, operands: Values, run: Runner) -> Control:
    """((operands), outputs, context...): all is done when it starts; the context is made of zeros."""
    outputs = yield GraphCall(called_graph(node), operands)
    return (operands, outputs, *context(node))


@evaluator("async-update")
def _async_update(node: Apply, operands: Values, run: Runner) -> Value:
    return operands[0]


@evaluator("async-done", "all-gather-done", "collective-permute-done")
def _async_done(node: Apply, operands: Values, run: Runner) -> Value:
    state = operands[0]
    if not isinstance(state, tuple) or len(state) < 2:
        raise Unsupported("its operand is not what starts it")
    return state[1]


@evaluator("copy-start")
def _copy_start(node: Apply, operands: Values, run: Runner) -> Value:
    return operands[0], operands[0], np.zeros((), np.uint32)


@evaluator("copy-done")
def _copy_done(node: Apply, operands: Values, run: Runner) -> Value:
    state = operands[0]
    if not isinstance(state, tuple):
        raise Unsupported("its operand is not what starts it")
    return state[0]


def called_graph(node: Apply) -> Graph:
    """The one graph that a node calls; raises Unsupported where there is none."""
    called = next(iter(node.called_graphs), None)
    if called is None:
        raise Unsupported("it calls no graph")
    return called
