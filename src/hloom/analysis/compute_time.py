"""The compute time of an instruction on a device: its FLOPs at the rate of its element type, precision and opcode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from hloom.analysis.control_flow import callee_of, flow_of
from hloom.analysis.cost_analysis import CostAnalysis
from hloom.analysis.cost_properties import Cost
from hloom.analysis.devices import Device
from hloom.analysis.matmul_time import Matmul, MatmulRates
from hloom.analysis.rules import CustomCall, computation_of, custom_call
from hloom.analysis.sizes import elements, leaf_elements
from hloom.ir import Apply, DType, Graph, Node, Runs, TensorType, Trait, TupleType, Type, Window, dtype
from hloom.ops import with_trait

MATRIX = with_trait(Trait.CONTRACTS) | {"cholesky", "triangular-solve"}
"""Opcodes whose FLOPs run at the matrix rate."""
SCANS = frozenset(("reduce-window",))


class ComputeTime:
    """Compute seconds on one device, from a cost analysis."""

    def __init__(self, device: Device, analysis: CostAnalysis) -> None:
        self.device = device
        self.analysis = analysis
        self._type_of = analysis.call_graph.type_of
        self._graphs: dict[Graph, tuple[float, Cost]] = {}
        self._holding: dict[Graph, MatmulRates | None] = {}

    def seconds(self, node: Apply) -> tuple[float, Cost]:
        """The compute seconds and the cost of an instruction, including functions applied inside it.

        For fusions and calls, the seconds of their instructions are added up.
        """
        called = _entered(node)
        if called is not None:
            seconds, cost = self._graph(called)
            return seconds, Cost(cost.flops, cost.transcendentals, self.analysis.own(node).bytes_accessed)
        cost = self.analysis.own(node)
        return self._one(node, cost), cost

    def matmul(self, node: Apply) -> Matmul | None:
        """The matrix product that an instruction is, if the device has measured rates of its type.

        A convolution is the product of its patches with its filters, and so is a library's call that multiplies.
        """
        if not self.device.matmul or not (node.has_trait(Trait.CONTRACTS) or node.opcode == "custom-call"):
            return None
        flops = self.analysis.own(node).flops
        types = [self._type_of(operand) for operand in node.operands[:2]]
        made, is_fast = self._type_of(node), _is_fast(node)
        if node.opcode == "custom-call":
            work = self._library_call(node).work
            if work is None or not work.matrix_types:
                return None
            types, is_fast = list(work.matrix_types), work.is_fast
            made = next(iter(made.leaves()), None) if isinstance(made, TupleType) else made
        dtype = _widest_dtype(types)
        rates = self.device.matmul_rates(dtype, is_fast)
        if rates is None or not flops or not isinstance(made, TensorType):
            return None
        batch, columns = _batch_and_columns(node, types, made)
        rows = max(elements(made) // (batch * columns), 1)
        contracted = max(round(flops / (2 * batch * rows * columns)), 1)
        units, bandwidth = self.device.multiprocessors, self.device.memory_bandwidth
        return Matmul(rates, units, bandwidth, dtype.bits / 8, batch, rows, columns, contracted)

    def held_matmul(self, node: Apply) -> MatmulRates | None:
        """The rates of a product that an instruction is or, as a fusion or call, holds; None if it has none."""
        called = _entered(node)
        if called is None:
            product = self.matmul(node)
            return None if product is None else product.rates
        self._graph(called)
        return self._holding[called]

    def _graph(self, graph: Graph) -> tuple[float, Cost]:
        pending = [] if graph in self._graphs else [graph]
        while pending:  # callees first
            current = pending[-1]
            applies = [node for node in current.nodes if isinstance(node, Apply)]
            waiting = [called for called in map(_entered, applies) if called and called not in self._graphs]
            if waiting:
                pending += waiting
                continue
            pending.pop()
            if current not in self._graphs:
                self._graphs[current] = self._sum(applies)
                held = (self.held_matmul(node) for node in applies if self.device.matmul)
                self._holding[current] = next((rates for rates in held if rates is not None), None)
        return self._graphs[graph]

    def _sum(self, nodes: list[Apply]) -> tuple[float, Cost]:
        total, cost = 0.0, Cost()
        for node in nodes:
            seconds, node_cost = self.seconds(node)
            total, cost = total + seconds, cost + node_cost
        return total, cost

    def _one(self, node: Apply, cost: Cost) -> float:
        opcode = node.opcode
        rate = self.device.opcodes.get(opcode)
        if rate:
            return self._work(node, cost) / rate
        if not cost.flops and not cost.transcendentals:
            return 0.0
        if opcode == "custom-call":
            return self._called(node, cost)
        if opcode in MATRIX:
            product = self.matmul(node)
            if product is not None:
                return product.seconds
            return cost.flops / self.device.matrix_rate(_dtype_of(node, self._type_of), _is_fast(node))
        flops = _scanned(node, cost.flops) if opcode in SCANS else cost.flops
        seconds = flops / self.device.vector_rate(_dtype_of(node, self._type_of))
        if cost.transcendentals:
            seconds += cost.transcendentals / self.device.transcendental_rate(opcode)
        return seconds

    def _called(self, node: Apply, cost: Cost) -> float:
        """The seconds of a library's call: matrix products at the rate of the types that are multiplied."""
        work, product = self._library_call(node).work, self.matmul(node)
        if product is not None:
            seconds = product.seconds
        elif work is not None and work.matrix_types:
            seconds = cost.flops / self.device.matrix_rate(_widest_dtype(work.matrix_types), work.is_fast)
        else:
            seconds = cost.flops / self.device.vector_rate(_dtype_of(node, self._type_of))
        if cost.transcendentals:
            seconds += cost.transcendentals / self.device.transcendental_rate("exponential")
        return seconds

    def _library_call(self, node: Apply) -> CustomCall:
        return custom_call(self.analysis.call_graph.instruction(node), self.analysis)

    def _work(self, node: Apply, cost: Cost) -> float:
        """The unit of an opcode's own rate: comparisons of a sort, elements gathered or scattered, else FLOPs."""
        kinds = [self._type_of(operand) for operand in node.operands]
        if node.opcode == "sort" and kinds and isinstance(kinds[0], TensorType):
            dims = node.attributes.get("dimensions") or (0,)
            length = kinds[0].dims[dims[0]] if kinds[0].dims else 1
            return elements(kinds[0]) * max(1, (length - 1).bit_length())
        if node.opcode == "scatter":
            return sum(map(elements, kinds[len(kinds) // 2 + 1 :]))
        if node.opcode == "gather":
            return leaf_elements(self._type_of(node))
        return cost.flops or leaf_elements(self._type_of(node))


def _entered(node: Apply) -> Graph | None:
    """The computation of a fusion, a plain call or a custom call that runs one: its instructions are timed one by one.
    """
    if node.opcode == "custom-call":
        return computation_of(node)
    flow = flow_of(node)
    return callee_of(node, Runs.ONCE) if flow is not None and (flow.is_embedded or flow.is_plain_call) else None


def _scanned(node: Apply, flops: float) -> float:
    """The FLOPs of a window as long as its dimension: a cumulative sum, which compilers compute in log n steps of n."""
    window, value_type = node.attributes.get("window"), node.type
    if not isinstance(window, Window) or not isinstance(value_type, TensorType):
        return flops
    sized = [dim for dim, window_dim in enumerate(window.dimensions) if window_dim.size != 1]
    if len(sized) != 1 or window.dimensions[sized[0]].size != value_type.dims[sized[0]]:
        return flops
    return min(flops, elements(value_type) * (value_type.dims[sized[0]] - 1).bit_length())


def _batch_and_columns(node: Apply, types: Sequence[Type | None], made: TensorType) -> tuple[int, int]:
    """Of a contraction, how many products it is, and how many columns the result of each has."""
    left, right = (*types, None, None)[:2]
    if node.opcode == "dot" and isinstance(left, TensorType) and isinstance(right, TensorType):
        batch, summed = (
            math.prod(left.dims[dim] for dim in node.attributes.get(name) or ())
            for name in ("lhs_batch_dims", "lhs_contracting_dims")
        )
        return batch, max(elements(right) // (batch * summed), 1)
    if node.opcode == "convolution":
        groups = max(node.attributes.get("feature_group_count") or 1, node.attributes.get("batch_group_count") or 1)
        return groups, max(made.dims[node.attributes["dim_labels"].output.index("f")] // groups, 1)
    batch = math.prod(made.dims[:-2]) if len(made.dims) == 3 else 1  # of cuBLAS's strided batches
    return max(batch, 1), max(made.dims[-1] if made.dims else 1, 1)


def _dtype_of(node: Node, type_of: Callable[[Node], Type | None]) -> DType:
    """The widest element type of an instruction's operands, or of the result if it has none; f32 if none is known."""
    return _widest_dtype([type_of(operand) for operand in node.operands] or [type_of(node)])


def _widest_dtype(types: Iterable[Type | None]) -> DType:
    return max(_dtypes(types), key=lambda element_type: element_type.bits, default=dtype("f32"))


def _dtypes(types: Iterable[Type | None]) -> Iterable[DType]:
    for value_type in types:
        leaves = value_type.leaves() if isinstance(value_type, TupleType) else (value_type,)
        yield from (leaf.dtype for leaf in leaves if isinstance(leaf, TensorType))


def _is_fast(node: Node) -> bool:
    """Whether a device may multiply f32 with fewer bits, its default."""
    return not any(precision in ("high", "highest") for precision in node.attributes.get("operand_precision") or ())
