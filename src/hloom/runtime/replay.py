"""Replays a module with operations of `jax.lax`, instruction by instruction, so that jax can batch it.

    replayed(module)(*arrays) -> a list of arrays; raises Unsupported for what has no form in `jax.lax`

A batched conditional runs all branches and selects, and a batched loop runs until its last element is done. So a loop
is told for which elements the surrounding branch or iteration is active, and does not run for the others: it might not
terminate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.ir import Apply, Constant, Graph, Literal, Module, Node, Parameter, TensorType, TupleType
from hloom.rewrite import called_function
from hloom.runtime.jax_internals import jax_internals
from hloom.text import Unsupported

Operation = Callable[[Any, Apply, list[Any]], Any]

UNARY = {
    "abs": "abs", "negate": "neg", "sign": "sign", "floor": "floor", "ceil": "ceil", "exponential": "exp",
    "exponential-minus-one": "expm1", "log": "log", "log-plus-one": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "cbrt": "cbrt", "sine": "sin", "cosine": "cos", "tan": "tan", "tanh": "tanh", "logistic": "logistic", "erf": "erf",
    "not": "bitwise_not", "popcnt": "population_count", "count-leading-zeros": "clz", "real": "real", "imag": "imag",
    "is-finite": "is_finite", "opt-barrier": "optimization_barrier",
}  # fmt: skip
BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "remainder": "rem", "power": "pow",
    "maximum": "max", "minimum": "min", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "shift-left": "shift_left", "shift-right-arithmetic": "shift_right_arithmetic",
    "shift-right-logical": "shift_right_logical", "atan2": "atan2", "complex": "complex",
}  # fmt: skip
COMPARISONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}
SCATTERS = {"add": "scatter_add", "multiply": "scatter_mul", "minimum": "scatter_min", "maximum": "scatter_max"}
LAPACK = re.compile(r"lapack_[sdcz][a-z0-9]+_ffi")
OPTION = re.compile(r"(\w+) = (\d+) : ui8")
MOST_BRANCHES = 3
"""The maximum number of branches of a conditional in a loop: recursion becomes a loop over many, and a batch would run
them all.
"""
TABLE: dict[str, Operation] = {}
"""For each opcode, a function of `jax.lax`, the instruction and its operands that makes the result."""


def replayed(module: Module) -> Callable[..., list[Any]]:
    """A module as a function that computes it by `jax.lax`."""

    def run(*arrays: Any) -> list[Any]:
        result = _Replay().graph(module.entry, list(arrays), None)
        return list(result) if isinstance(result, tuple) else [result]

    return run


class _Replay:
    """The replay of one module; `counts`, where it is known, is false for elements whose values do not matter."""

    def __init__(self) -> None:
        self.lax = jax_internals().jax.lax
        self._has_loops: dict[Graph, bool] = {}

    def graph(self, graph: Graph, arguments: Sequence[Any], counts: Any) -> Any:
        values: dict[Node, Any] = dict(zip(graph.parameters, arguments, strict=True))
        for node in graph.nodes:
            if isinstance(node, Parameter):
                continue
            if isinstance(node, Constant):
                values[node] = _constant(node)
                continue
            assert isinstance(node, Apply)
            values[node] = self._value(node, [values[operand] for operand in node.operands], counts)
        return values[graph.root]

    def _value(self, node: Apply, operands: list[Any], counts: Any) -> Any:
        structural = {"call": self._call, "while": self._while, "conditional": self._conditional}.get(node.opcode)
        if structural is not None:
            return structural(node, operands, counts)
        if node.opcode in UNARY:
            return getattr(self.lax, UNARY[node.opcode])(*operands)
        if node.opcode in BINARY:
            return getattr(self.lax, BINARY[node.opcode])(*operands)
        operation = TABLE.get(node.opcode)
        if operation is None:
            raise Unsupported(f"{node.name}: {node.opcode} has no form in jax.lax")
        return operation(self.lax, node, operands)

    def _call(self, node: Apply, operands: list[Any], counts: Any) -> Any:
        own = called_function(node)
        if own is None:
            return self.graph(next(iter(node.called_graphs)), operands, counts)
        leaves = jax_internals().jax.tree.leaves(own.function(*operands, **own.keywords))
        return tuple(leaves) if isinstance(node.type, TupleType) else leaves[0]

    def _while(self, node: Apply, operands: list[Any], counts: Any) -> Any:
        condition, body = node.attributes["condition"], node.attributes["body"]
        if any(len(inner.attributes.get("branch_computations") or ()) > MOST_BRANCHES for inner in body.nodes):
            raise Unsupported(f"{node.name}: a batch would run all of many branches in each iteration")

        def goes_on(state: Any) -> Any:
            truth = self.graph(condition, [state], None)
            return truth if counts is None else self.lax.bitwise_and(truth, counts)

        is_nested = self._holds_loops(body)
        return self.lax.while_loop(
            goes_on, lambda state: self.graph(body, [state], goes_on(state) if is_nested else None), operands[0]
        )

    def _conditional(self, node: Apply, operands: list[Any], counts: Any) -> Any:
        lax, (chooser, *given) = self.lax, operands
        listed = node.attributes.get("branch_computations")
        graphs = list(listed or (node.attributes["true_computation"], node.attributes["false_computation"]))
        last = len(graphs) - 1
        chooser = lax.convert_element_type(chooser, "int32")
        if listed is None:
            index = 1 - chooser
        else:  # out of range means the last
            is_outside = lax.bitwise_or(lax.lt(chooser, chooser * 0), lax.gt(chooser, chooser * 0 + last))
            index = lax.select(is_outside, chooser * 0 + last, chooser)

        def branch(number: int) -> Callable[..., Any]:
            def run(*values: Any) -> Any:
                inner = counts
                if self._holds_loops(graphs[number]):
                    is_chosen = lax.eq(values[0], values[0] * 0 + number)
                    inner = is_chosen if counts is None else lax.bitwise_and(is_chosen, counts)
                return self.graph(graphs[number], [values[1 + number]], inner)

            return run

        return lax.switch(index, [branch(number) for number in range(len(graphs))], index, *given)

    def _holds_loops(self, graph: Graph) -> bool:
        held = self._has_loops.get(graph)
        if held is None:
            held = any(
                node.opcode == "while" or any(map(self._holds_loops, node.called_graphs)) for node in graph.nodes
            )
            self._has_loops[graph] = held
        return held


def _constant(node: Constant) -> Any:
    if not isinstance(node.type, TensorType) or not isinstance(node.value, Literal):
        raise Unsupported(f"{node.name}: a constant {node.type} has no form in jax.lax")
    return jax_internals().jax.numpy.asarray(node.value.numpy())


def _operation(*opcodes: str) -> Callable[[Operation], Operation]:
    def enter(operation: Operation) -> Operation:
        TABLE.update(dict.fromkeys(opcodes, operation))
        return operation

    return enter


def _type(node: Node) -> TensorType:
    if not isinstance(node.type, TensorType):
        raise Unsupported(f"{node.name}: a {node.opcode} of several arrays has no form in jax.lax")
    return node.type


@_operation("copy", "bitcast")
def _same(lax: Any, node: Apply, operands: list[Any]) -> Any:
    if node.opcode == "bitcast" and _type(node).dims != _type(node.operands[0]).dims:
        return lax.reshape(operands[0], _type(node).dims)
    return operands[0]


@_operation("tuple")
def _tuple(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return tuple(operands)


@_operation("get-tuple-element")
def _element(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return operands[0][node.attributes["index"]]


@_operation("compare")
def _compare(lax: Any, node: Apply, operands: list[Any]) -> Any:
    operand = _type(node.operands[0])
    if node.attribute("type") == "TOTALORDER" and operand.dtype.is_float:
        raise Unsupported(f"{node.name}: the total order of floating-point numbers has no form in jax.lax")
    return getattr(lax, COMPARISONS[node.attributes["direction"]])(*operands)


@_operation("select")
def _select(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.select(*operands)


@_operation("clamp")
def _clamp(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.clamp(*operands)


@_operation("round-nearest-even")
def _round_to_even(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.round(operands[0], lax.RoundingMethod.TO_NEAREST_EVEN)


@_operation("round-nearest-afz")
def _round_away_from_zero(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.round(operands[0], lax.RoundingMethod.AWAY_FROM_ZERO)


@_operation("convert")
def _convert(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.convert_element_type(operands[0], _type(node).dtype.numpy)


@_operation("bitcast-convert")
def _bitcast_convert(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.bitcast_convert_type(operands[0], _type(node).dtype.numpy)


@_operation("iota")
def _iota(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.broadcasted_iota(_type(node).dtype.numpy, _type(node).dims, node.attribute("iota_dimension"))


@_operation("broadcast")
def _broadcast(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.broadcast_in_dim(operands[0], _type(node).dims, tuple(node.attribute("dimensions") or ()))


@_operation("reshape")
def _reshape(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.reshape(operands[0], _type(node).dims)


@_operation("transpose")
def _transpose(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.transpose(operands[0], tuple(node.attribute("dimensions")))


@_operation("reverse")
def _reverse(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.rev(operands[0], tuple(node.attribute("dimensions")))


@_operation("concatenate")
def _concatenate(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.concatenate(operands, node.attribute("dimensions")[0])


@_operation("slice")
def _slice(lax: Any, node: Apply, operands: list[Any]) -> Any:
    parts = node.attribute("slice")
    return lax.slice(
        operands[0], [part.start for part in parts], [part.limit for part in parts], [part.stride for part in parts]
    )


@_operation("pad")
def _pad(lax: Any, node: Apply, operands: list[Any]) -> Any:
    return lax.pad(*operands, [(part.low, part.high, part.interior) for part in node.attribute("padding")])


@_operation("dynamic-slice")
def _dynamic_slice(lax: Any, node: Apply, operands: list[Any]) -> Any:
    operand, *starts = operands
    sizes = tuple(node.attribute("dynamic_slice_sizes"))
    return lax.dynamic_slice(operand, starts, sizes, allow_negative_indices=False)


@_operation("dynamic-update-slice")
def _dynamic_update_slice(lax: Any, node: Apply, operands: list[Any]) -> Any:
    operand, update, *starts = operands
    return lax.dynamic_update_slice(operand, update, starts, allow_negative_indices=False)


@_operation("dot")
def _dot(lax: Any, node: Apply, operands: list[Any]) -> Any:
    sides = [
        tuple(node.attribute(f"{side}_{part}_dims") or ())
        for part in ("contracting", "batch")
        for side in ("lhs", "rhs")
    ]
    precisions = {str(precision).lower() for precision in node.attribute("operand_precision") or ()}
    if precisions - {"default"} or node.attributes.get("algorithm"):
        raise Unsupported(f"{node.name}: a dot of a precision of its own")
    numbers = ((sides[0], sides[1]), (sides[2], sides[3]))
    return lax.dot_general(*operands, numbers, preferred_element_type=_type(node).dtype.numpy)


@_operation("convolution")
def _convolution(lax: Any, node: Apply, operands: list[Any]) -> Any:
    window, labels = node.attribute("window"), node.attribute("dim_labels")
    precisions = {str(precision).lower() for precision in node.attribute("operand_precision") or ()}
    if precisions - {"default"} or any(dimension.reversal for dimension in window.dimensions):
        raise Unsupported(f"{node.name}: this convolution has no form in jax.lax")
    sides = (labels.lhs, "b", "f"), (labels.rhs, "o", "i"), (labels.output, "b", "f")
    numbers = [(text.index(first), text.index(second), *labels.spatial(text)) for text, first, second in sides]
    return lax.conv_general_dilated(
        *operands,
        window_strides=[dimension.stride for dimension in window.dimensions],
        padding=[(dimension.padding_low, dimension.padding_high) for dimension in window.dimensions],
        lhs_dilation=[dimension.base_dilation for dimension in window.dimensions],
        rhs_dilation=[dimension.window_dilation for dimension in window.dimensions],
        dimension_numbers=lax.ConvDimensionNumbers(*numbers),
        feature_group_count=node.attribute("feature_group_count"),
        batch_group_count=node.attribute("batch_group_count"),
        preferred_element_type=_type(node).dtype.numpy,
    )


@_operation("custom-call")
def _custom_call(lax: Any, node: Apply, operands: list[Any]) -> Any:
    """A routine of LAPACK: jaxlib's take any number of leading dimensions."""
    target = node.attribute("custom_call_target")
    types = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    results = [made for made in types if isinstance(made, TensorType)]
    given = [made for made in node.attribute("operand_layout_constraints") or () if isinstance(made, TensorType)]
    options = _options(node.attribute("backend_config") or "{}")
    is_plain = len(results) == len(types) and len(given) == len(operands)
    if not LAPACK.fullmatch(target) or options is None or not is_plain:
        raise Unsupported(f"{node.name}: a custom-call of {target} has no form in jax.lax")
    jax = jax_internals().jax
    called = jax.ffi.ffi_call(
        target,
        [jax.ShapeDtypeStruct(made.dims, made.dtype.numpy) for made in results],
        vmap_method="broadcast_all",
        input_layouts=[_major_to_minor(made) for made in given],
        output_layouts=[_major_to_minor(made) for made in results],
    )
    made = tuple(called(*operands, **options))
    return made if isinstance(node.type, TupleType) else made[0]


def _major_to_minor(made: TensorType) -> tuple[int, ...]:
    return made.layout.minor_to_major[::-1] if made.layout is not None else tuple(range(made.rank))


def _options(text: str) -> dict[str, Any] | None:
    """The options of a routine of LAPACK, which are letters: `{uplo = 76 : ui8}`; None for others."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip()
    rows = [OPTION.fullmatch(part.strip()) for part in inner.split(",")] if inner else []
    if any(row is None for row in rows):
        return None
    return {row[1]: np.uint8(int(row[2])) for row in rows if row is not None}


@_operation("reduce")
def _reduce(lax: Any, node: Apply, operands: list[Any]) -> Any:
    count = len(operands) // 2
    graph = node.attribute("to_apply")
    replay = _Replay()

    def combined(left: Any, right: Any) -> Any:
        return replay.graph(graph, [left, right] if count == 1 else [*left, *right], None)

    axes = tuple(node.attribute("dimensions"))
    if count == 1:
        return lax.reduce(operands[0], operands[1], combined, axes)
    return tuple(lax.reduce(tuple(operands[:count]), tuple(operands[count:]), combined, axes))


def _index_vectors(lax: Any, node: Apply, indices: Any) -> Any:
    """The indices with their vectors along the last dimension."""
    dimension = node.attribute("index_vector_dim")
    if dimension == len(indices.shape):
        return lax.expand_dims(indices, (dimension,))
    if dimension != len(indices.shape) - 1:
        raise Unsupported(f"{node.name}: index vectors along dimension {dimension} have no form in jax.lax")
    return indices


@_operation("gather")
def _gather(lax: Any, node: Apply, operands: list[Any]) -> Any:
    names = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
             "start_indices_batching_dims")  # fmt: skip
    numbers = lax.GatherDimensionNumbers(*(tuple(node.attribute(name) or ()) for name in names))
    indices = _index_vectors(lax, node, operands[1])
    sizes = tuple(node.attribute("slice_sizes"))
    return lax.gather(operands[0], indices, numbers, sizes, mode=lax.GatherScatterMode.CLIP)


@_operation("scatter")
def _scatter(lax: Any, node: Apply, operands: list[Any]) -> Any:
    if len(operands) != 3:
        raise Unsupported(f"{node.name}: a scatter of several arrays has no form in jax.lax")
    root = node.attribute("to_apply").root
    if isinstance(root, Parameter):
        name = "scatter" if root.number == 1 else None
    else:
        name = SCATTERS.get(root.opcode) if all(isinstance(used, Parameter) for used in root.operands) else None
        name = name if len(set(root.operands)) == 2 else None
    if name is None:
        raise Unsupported(f"{node.name}: a scatter by {root.opcode} has no form in jax.lax")
    names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
             "scatter_indices_batching_dims")  # fmt: skip
    numbers = lax.ScatterDimensionNumbers(*(tuple(node.attribute(name) or ()) for name in names))
    indices = _index_vectors(lax, node, operands[1])
    unique = bool(node.attribute("unique_indices"))
    scatter = getattr(lax, name)
    return scatter(
        operands[0], indices, operands[2], numbers, unique_indices=unique, mode=lax.GatherScatterMode.FILL_OR_DROP
    )


@_operation("sort")
def _sort(lax: Any, node: Apply, operands: list[Any]) -> Any:
    """A sort by one operand, in its own order: of whole numbers, for of floats there are two orders."""
    root = node.attribute("to_apply").root
    keys = [used.number for used in root.operands if isinstance(used, Parameter)]
    is_plain = root.opcode == "compare" and root.attributes["direction"] == "LT" and len(keys) == 2
    if not is_plain or keys != [keys[0], keys[0] + 1] or keys[0] % 2 or operands[keys[0] // 2].dtype.kind not in "biu":
        raise Unsupported(f"{node.name}: a sort by this order has no form in jax.lax")
    first = keys[0] // 2
    order = [first, *(number for number in range(len(operands)) if number != first)]
    made = lax.sort(tuple(operands[number] for number in order), dimension=node.attribute("dimensions")[0], num_keys=1)
    results = [made[order.index(number)] for number in range(len(operands))]
    return tuple(results) if isinstance(node.type, TupleType) else results[0]
