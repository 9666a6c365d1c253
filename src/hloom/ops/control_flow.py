"""Tuples, calls, loops, branches, fusions, asynchronous pairs, and order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hloom.ir import (
    TOKEN,
    Arguments,
    AttributeKind,
    AxisMap,
    Callee,
    Domain,
    Effect,
    ForwardedElement,
    Graph,
    OpFlow,
    Runs,
    TensorType,
    Trait,
    TupleType,
    Type,
    TypeProblem,
    dtype,
    optional,
    required,
    same_shape,
    without_layout,
)
from hloom.ops.call_checks import check_branches, check_composite, check_fusion, check_loop
from hloom.ops.leaf_axes import (
    dims_of,
    identity_axes,
    leaves_of,
    must_be,
    passed_on,
    result_of_graph,
    separate_axes,
)
from hloom.ops.pair_checks import check_async_start, end_of, start_of
from hloom.ops.rows import (
    ALIASING,
    ANY,
    BOOLEAN,
    ENUM,
    GRAPH,
    GRAPHS,
    INTEGER,
    INTEGERS,
    SAME_BUFFER,
    STRING,
    TO_APPLY,
    row,
    table,
    typed_row,
)

FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")
PREDICATE = TensorType(dtype("pred"))
BRANCH_INDEX = TensorType(dtype("s32"))

_THREAD = {"async_execution_thread": optional(STRING)}


def _after_all(*operands: Type) -> Type:
    for number, operand in enumerate(operands):
        must_be(operand, TOKEN, f"operand {number} of after-all")
    return TOKEN


def _tuple(*operands: Type) -> Type:
    return TupleType([without_layout(operand) for operand in operands])


def _element(operand: Type, *, index: int) -> Type:
    if not isinstance(operand, TupleType):
        raise TypeProblem(f"get-tuple-element takes a tuple, not {operand}")
    if not 0 <= index < len(operand.elements):
        raise TypeProblem(f"index={index}, but the tuple {operand} has {len(operand.elements)} elements")
    return without_layout(operand.elements[index])


def _element_axes(operand: Type, *, index: int) -> AxisMap:
    assert isinstance(operand, TupleType), "inferred before"
    skipped = len(leaves_of(operand.elements[:index]))
    yielded = list(operand.elements[index].leaves())
    return passed_on(leaves_of([operand]), yielded, [(skipped + dim, dim) for dim in range(len(yielded))])


def _call(*operands: Type, to_apply: Graph, result: Type | None) -> Type:
    return _called(to_apply, operands, result, "the computation")


def _fusion(*operands: Type, calls: Graph, result: Type | None) -> Type:
    return _called(calls, operands, result, "the fused computation")


def _called(graph: Graph, operands: Sequence[Type], result: Type | None, what: str) -> Type:
    yielded = result_of_graph(graph, operands, what) or result
    if yielded is None:
        raise TypeProblem(f"{what} {graph.name} is not defined here: the type must be written")
    return without_layout(yielded)


def _map(*operands: Type, to_apply: Graph, dimensions: tuple[int, ...] | None, result: Type | None) -> Type:
    if not operands:
        raise TypeProblem("map takes at least one operand")
    first = operands[0]
    if not isinstance(first, TensorType):
        raise TypeProblem(f"map takes arrays, not {first}")
    for operand in operands[1:]:
        if dims_of(operand) != first.dims or not isinstance(operand, TensorType):
            raise TypeProblem(f"map takes arrays of the same dimensions, but is given {first} and {operand}")
    if dimensions is not None and dimensions != tuple(range(first.rank)):
        raise TypeProblem(f"map works on all dimensions in order, so dimensions must be 0 to {first.rank - 1}")
    scalars = [TensorType(operand.dtype) for operand in operands if isinstance(operand, TensorType)]
    yielded = result_of_graph(to_apply, scalars, "the mapped computation")
    if yielded is None:
        if result is None:
            raise TypeProblem(f"the mapped computation {to_apply.name} is not defined here: the type must be written")
        return without_layout(result)
    if not isinstance(yielded, TensorType) or yielded.rank:
        raise TypeProblem(f"the mapped computation {to_apply.name} must yield a scalar, not {yielded}")
    return TensorType(yielded.dtype, first.dims, None, first.dynamic)


def _map_axes(*operands: Type) -> AxisMap:
    count = len(operands)
    leaves = leaves_of(operands)
    shared = passed_on(leaves[:1], leaves[:1], [(0, 0)])
    return AxisMap(shared.factors, shared.operands * count, shared.results)


def known_trip_count(attributes: Mapping[str, Any]) -> int | None:
    """The trip count that XLA writes into a loop's backend config: {"known_trip_count":{"n":"12"}}."""
    config = attributes.get("backend_config")
    if not isinstance(config, str) or "known_trip_count" not in config:
        return None
    try:
        count = int(json.loads(config)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        return None
    return count if count >= 0 else None


def _while(operand: Type, *, condition: Graph, body: Graph) -> Type:
    must_be(result_of_graph(condition, [operand], "the condition"), PREDICATE, "what the condition yields")
    yielded = result_of_graph(body, [operand], "the body")
    if yielded is not None:
        must_be(yielded, operand, "what the body yields")
    return without_layout(operand)


def _conditional(
    index: Type,
    *operands: Type,
    true_computation: Graph | None,
    false_computation: Graph | None,
    branch_computations: tuple[Graph, ...] | None,
    result: Type | None,
) -> Type:
    pair = (true_computation, false_computation)
    branches = branch_computations if branch_computations is not None else tuple(g for g in pair if g is not None)
    must_be(index, BRANCH_INDEX if branch_computations is not None else PREDICATE, "the branch index")
    if not branches or len(branches) != len(operands):
        raise TypeProblem(f"conditional has {len(branches)} branches and {len(operands)} operands for them")
    results = [result_of_graph(g, [o], "the branch") for g, o in zip(branches, operands, strict=True)]
    known = [(graph, array_type) for graph, array_type in zip(branches, results, strict=True) if array_type is not None]
    for graph, array_type in known[1:]:
        if not same_shape(array_type, known[0][1]):
            raise TypeProblem(
                f"branch {known[0][0].name} yields {known[0][1]}, but branch {graph.name} yields {array_type}"
            )
    yielded = known[0][1] if known else result
    if yielded is None:
        raise TypeProblem("no branch is defined here: the type must be written")
    return without_layout(yielded)


def _async_start(*operands: Type, calls: Graph, result: Type | None) -> Type:
    yielded = result_of_graph(calls, operands, "the asynchronous computation")
    if not isinstance(result, TupleType) or len(result.elements) < 2:
        raise TypeProblem(f"async-start yields a tuple ((operands), outputs, ...), not {result}")
    must_be(result.elements[0], TupleType(operands), "the first element of what async-start yields")
    if yielded is not None:
        must_be(result.elements[1], yielded, "the second element of what async-start yields")
    return without_layout(result)


def _async_update(operand: Type, *_: Type) -> Type:
    return without_layout(_async_state(operand, "async-update"))


def _async_done(operand: Type) -> Type:
    return without_layout(_async_state(operand, "async-done").elements[1])


def _async_state(operand: Type, what: str) -> TupleType:
    if not isinstance(operand, TupleType) or len(operand.elements) < 2:
        raise TypeProblem(f"{what} takes what async-start yields, ((operands), outputs, ...), not {operand}")
    return operand


def _domain(operand: Type, *, domain: Domain) -> Type:
    if domain.kind != "sharding":
        raise TypeProblem(f"domains are of the kind 'sharding', not '{domain.kind}'")
    return without_layout(operand)


_BRANCHES = OpFlow(
    (
        Callee("branch_computations", Runs.IF_TAKEN),
        Callee("true_computation", Runs.IF_TAKEN),
        Callee("false_computation", Runs.IF_TAKEN),
    ),
    Arguments.SEPARATE,
    first_operand=1,
    holds_operands=True,
)
_ASYNC_START = OpFlow(
    (Callee("calls"),), result_index=(1,), holds_operands=True, forwards=(ForwardedElement((), (0,)),)
)

ROWS = table(
    row("after-all", ANY, infer=_after_all, axes=separate_axes, effect=Effect.ORDER),
    row(
        "tuple",
        ANY,
        infer=_tuple,
        axes=identity_axes,
        takes_buffers=True,
        traits=(Trait.TUPLE,),
        flow=OpFlow(forwards=(ForwardedElement((), ()),)),
    ),
    row(
        "get-tuple-element",
        1,
        {"index": required(INTEGER)},
        infer=_element,
        takes_buffers=True,
        axes=_element_axes,
        traits=(Trait.TUPLE,),
        flow=OpFlow(forwards=(ForwardedElement((0, "index"), ()),)),
    ),
    row(
        "call",
        ANY,
        {**TO_APPLY, "is_composite": optional(BOOLEAN, False)},
        infer=_call,
        check=check_composite,
        axes=separate_axes,
        effect=Effect.CALLS,
        flow=OpFlow((Callee("to_apply"),)),
    ),
    row("map", ANY, {"dimensions": optional(INTEGERS), **TO_APPLY}, infer=_map, axes=_map_axes, effect=Effect.CALLS),
    row(
        "while",
        1,
        {"condition": required(GRAPH), "body": required(GRAPH)},
        infer=_while,
        check=check_loop,
        takes_buffers=True,
        axes=identity_axes,
        effect=Effect.CALLS,
        flow=OpFlow(
            (Callee("body", Runs.PER_ITERATION), Callee("condition", Runs.PER_TEST)), trip_count=known_trip_count
        ),
    ),
    row(
        "conditional",
        (1, None),
        {
            "true_computation": optional(GRAPH),
            "false_computation": optional(GRAPH),
            "branch_computations": optional(GRAPHS),
        },
        infer=_conditional,
        check=check_branches,
        axes=separate_axes,
        effect=Effect.CALLS,
        flow=_BRANCHES,
    ),
    typed_row(
        "fusion",
        ANY,
        {"kind": required(ENUM, choices=FUSION_KINDS), **ALIASING, "calls": required(GRAPH)},
        infer=_fusion,
        check=check_fusion,
        axes=separate_axes,
        effect=Effect.CALLS,
        flow=OpFlow((Callee("calls"),), is_embedded=True),
    ),
    typed_row(
        "async-start",
        ANY,
        {**_THREAD, **ALIASING, "calls": required(GRAPH)},
        infer=_async_start,
        check=check_async_start,
        takes_buffers=True,
        axes=separate_axes,
        effect=Effect.CALLS,
        traits=(Trait.ASYNC_START,),
        flow=_ASYNC_START,
    ),
    typed_row(
        "async-update",
        (1, None),
        {**_THREAD, "calls": optional(GRAPH)},
        infer=_async_update,
        check=start_of("async-update", "async-done"),
        takes_buffers=True,
        axes=separate_axes,
        effect=Effect.CALLS,
        traits=(Trait.ASYNC_UPDATE,),
        flow=OpFlow(forwards=(ForwardedElement((0,), ()),)),
    ),
    typed_row(
        "async-done",
        1,
        {**_THREAD, "calls": optional(GRAPH)},
        infer=_async_done,
        check=end_of("async-start", "async-update"),
        takes_buffers=True,
        axes=separate_axes,
        effect=Effect.CALLS,
        traits=(Trait.ASYNC_DONE,),
        flow=OpFlow(forwards=(ForwardedElement((0, 1), ()),)),
    ),
    row(
        "domain",
        1,
        {"domain": required(AttributeKind.DOMAIN)},
        infer=_domain,
        axes=identity_axes,
        effect=Effect.ORDER,
        flow=SAME_BUFFER,
    ),
)
