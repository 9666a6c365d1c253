"""How long a device computes at one instruction: FLOPs by element type, transcendental functions by opcode."""

from __future__ import annotations

from hloom.analysis.control_flow import Runs, callee_of, flow_of
from hloom.analysis.cost_analysis import CostAnalysis
from hloom.analysis.cost_properties import Cost
from hloom.analysis.devices import Device
from hloom.analysis.sizes import elements, leaf_elements
from hloom.ir import Apply, DType, Graph, TensorType, TupleType, Type, Window, dtype

MATRIX = frozenset(("convolution", "dot", "ragged-dot", "scaled-dot", "cholesky", "triangular-solve"))
"""Opcodes whose FLOPs run at the matrix rate."""
SCANS = frozenset(("reduce-window",))


class ComputeTime:
    """Seconds of computing on one device, by a cost analysis."""

    def __init__(self, device: Device, analysis: CostAnalysis) -> None:
        self.device = device
        self.analysis = analysis
        self._type_of = analysis.call_graph.type_of
        self._graphs: dict[Graph, tuple[float, Cost]] = {}

    def seconds(self, node: Apply) -> tuple[float, Cost]:
        """How long an instruction computes, and what it costs, the functions that run inside it included.

        Inside fusions and calls the seconds of their instructions add up.
        """
        called = _entered(node)
        if called is not None:
            seconds, cost = self._graph(called)
            return seconds, Cost(cost.flops, cost.transcendentals, self.analysis.own(node).bytes_accessed)
        cost = self.analysis.own(node)
        return self._one(node, cost), cost

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
        element_type = self._dtype(node)
        if opcode in MATRIX:
            return cost.flops / self.device.matrix_rate(element_type, _is_fast(node))
        flops = _scanned(node, cost.flops) if opcode in SCANS else cost.flops
        seconds = flops / self.device.vector_rate(element_type)
        if cost.transcendentals:
            seconds += cost.transcendentals / self.device.transcendental_rate(opcode)
        return seconds

    def _work(self, node: Apply, cost: Cost) -> float:
        """What an opcode's own rate counts: comparisons of a sort, elements gathered or scattered, else FLOPs."""
        kinds = [self._type_of(operand) for operand in node.inputs]
        if node.opcode == "sort" and kinds and isinstance(kinds[0], TensorType):
            dims = node.attributes.get("dimensions") or (0,)
            length = kinds[0].dims[dims[0]] if kinds[0].dims else 1
            return elements(kinds[0]) * max(1, (length - 1).bit_length())
        if node.opcode == "scatter":
            return sum(map(elements, kinds[len(kinds) // 2 + 1 :]))
        if node.opcode == "gather":
            return leaf_elements(self._type_of(node))
        return cost.flops or leaf_elements(self._type_of(node))

    def _dtype(self, node: Apply) -> DType:
        """The widest element type of an instruction's operands; of the result where it has none."""
        types = [self._type_of(operand) for operand in node.inputs] or [self._type_of(node)]
        dtypes = [leaf.dtype for value_type in types for leaf in _leaves(value_type)]
        return max(dtypes, key=lambda element_type: element_type.bits, default=dtype("f32"))


def _entered(node: Apply) -> Graph | None:
    """The computation whose instructions are timed one by one: of a fusion or a plain call."""
    flow = flow_of(node)
    return callee_of(node, Runs.ONCE) if flow is not None and (flow.is_embedded or flow.is_plain_call) else None


def _leaves(value_type: Type | None) -> list[TensorType]:
    if isinstance(value_type, TupleType):
        return [leaf for leaf in value_type.leaves() if isinstance(leaf, TensorType)]
    return [value_type] if isinstance(value_type, TensorType) else []


def _is_fast(node: Apply) -> bool:
    """Whether a dot leaves the precision to the device."""
    return not any(precision in ("high", "highest") for precision in node.attributes.get("operand_precision") or ())


def _scanned(node: Apply, flops: float) -> float:
    """The FLOPs of a window as long as its dimension: a running sum, which compilers make in log n steps of n."""
    window, value_type = node.attributes.get("window"), node.type
    if not isinstance(window, Window) or not isinstance(value_type, TensorType):
        return flops
    sized = [dim for dim, window_dim in enumerate(window.dimensions) if window_dim.size != 1]
    if len(sized) != 1 or window.dimensions[sized[0]].size != value_type.dims[sized[0]]:
        return flops
    return min(flops, elements(value_type) * (value_type.dims[sized[0]] - 1).bit_length())
