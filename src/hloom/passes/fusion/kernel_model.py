"""The cost model of kernels: bytes read and written, and what is computed how often.

A kernel is a set of instructions and those of them that it stores. It takes the longer of moving bytes and computing,
and its launch, as `analysis/roofline.py` has it for instructions. Its instructions are computed at indices that follow
from the result's:

    add(a, b)            at the same index: what two instructions read at one index is computed once
    broadcast(a)         at an index of its own, as often as the broadcast's: an element is computed several times
    reduce(a)            as often as the reduction's, times the elements that are reduced

As XLA's emitters do it (xla/service/elemental_ir_emitter.cc, xla/service/fusion_node_indexing_evaluation.cc).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hloom.analysis import (
    BRANCHING,
    BROADCASTS,
    DATA_MOVEMENT,
    ELEMENTWISE,
    VIEWS,
    CallGraph,
    ComputeTime,
    elements,
    first_array,
    leaf_bytes,
)
from hloom.ir import Apply, Constant, Graph, Node, Op, TensorType, Trait, TupleType, Type, default_layout
from hloom.ops import PRODUCTS
from hloom.passes.fusion.in_place_update import buffer_of, reads_itself, reads_overwritten
from hloom.passes.fusion.reduction_dimensions import TILE, ReductionDimensions, reduction_dimensions
from hloom.passes.fusion.target import MAX_MEMBERS, MAX_OPERANDS_AND_RESULTS, MAX_REDUCTIONS, FusionTarget

NOT_FUSED = frozenset(("stochastic-convert",))
"""Elementwise opcodes that are not part of kernels: XLA's fusions do not take them."""
FUSED = (
    ELEMENTWISE | VIEWS | DATA_MOVEMENT | {"slice", "dynamic-slice", "gather", "dynamic-update-slice", "reduce"}
) - (NOT_FUSED)
"""Opcodes that kernels hold."""
CARRIED = frozenset(("sharding", "frontend_attributes", "backend_config", "control-predecessors", "statistics"))
"""Attributes that fusing would lose; an instruction with any of them stays outside."""
MAX_INDICES = 15
"""At how many indices an instruction is computed in a kernel (`kAllowedCodeDuplication`)."""
MIN_BITS = 8
"""Narrower types, but for pred, are packed in memory, and stay outside."""

ONE_ELEMENT, HOISTED = 0, -1
"""The index of a single element, and of one that loops over many others need: compilers compute it before them, unless
it takes a loop itself."""
SAME, SCALAR, MAPPED, READ = range(4)
"""How an instruction reads an operand: at its own index, as one element, at another index, from memory only."""


_Box = tuple[tuple[int, int], ...]


class Edge(NamedTuple):
    """How an instruction reads an operand.

    `mapping` identifies the index map, `ratio` is the number of elements read per element of the result. `sliced` are
    the bytes read of an operand in memory, None for the whole.
    """

    operand: int
    mode: int
    mapping: int
    ratio: float
    sliced: int | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """Instructions that run as one kernel, by their numbers in the computation, in order; the roots are stored."""

    roots: tuple[int, ...]
    members: tuple[int, ...]


class KernelCost(NamedTuple):
    """The cost of a kernel: seconds of computing, bytes read and written, and total seconds.

    `once` are the seconds of computing if everything were computed once.
    """

    compute: float
    read: int
    written: int
    seconds: float
    once: float


class KernelModel:
    """The instructions of one computation by number, in order, and the cost of kernels of them."""

    def __init__(self, graph: Graph, target: FusionTarget, computing: ComputeTime, call_graph: CallGraph) -> None:
        self.graph = graph
        self.target = target
        self.nodes: Sequence[Node] = graph.nodes
        self.numbers = {node: number for number, node in enumerate(self.nodes)}
        self._computing = computing
        self._type_of = call_graph.type_of
        self._mappings: dict[object, int] = {}
        self._keys: dict[tuple[int, int], int] = {}
        count = len(self.nodes)
        self.bytes = [0] * count
        self.elements = [0] * count
        self.seconds = [0.0] * count
        self.edges: list[tuple[Edge, ...]] = [()] * count
        self.boxes: list[_Box | None] = [None] * count
        self.reductions = [self._reduction(node) for node in self.nodes]
        self.is_fusible = [self._may_fuse(number, node) for number, node in enumerate(self.nodes)]
        for number, node in enumerate(self.nodes):
            self._enter(number, node)
        self.is_stored = self._stored()
        self.is_transposing = [
            self.is_fusible[number] and _is_transposing(node) for number, node in enumerate(self.nodes)
        ]
        self.is_leaf = [
            self.is_free(number) and not any(self.is_fusible[edge.operand] for edge in edges)
            for number, edges in enumerate(self.edges)
        ]
        self.root_keys = [self._mapping(("root", self.kernel_dims(number))) for number in range(count)]
        self.tile_keys = [self._tile_key(number) for number in range(count)]

    def _enter(self, number: int, node: Node) -> None:
        node_type = self._type_of(node)
        self.bytes[number] = 0 if isinstance(node, Constant) and elements(node_type) <= 1 else leaf_bytes(node_type)
        self.elements[number] = elements(first_array(node_type) if self.is_fusible[number] else node_type)
        self.boxes[number] = _box(node)
        if node.opcode == "dynamic-update-slice" and self.is_fusible[number]:
            update = self._type_of(node.operands[1])
            self.bytes[number], self.elements[number] = leaf_bytes(update), elements(update)
        if self.is_fusible[number]:
            assert isinstance(node, Apply)
            self.seconds[number] = self._computing.seconds(node)[0]
            self.edges[number] = tuple(
                self._edge(node, position, operand) for position, operand in enumerate(node.operands)
            )

    def _stored(self) -> list[bool]:
        """The fusible instructions that must be stored: results, and those that are read from memory."""
        stored = [False] * len(self.nodes)
        for number, node in enumerate(self.nodes):
            if self.is_fusible[number]:
                for edge in self.edges[number]:
                    stored[edge.operand] |= edge.mode == READ
                stored[number] |= node.opcode == "dynamic-update-slice"
            for used in self.needs(number):
                stored[used] |= not self.is_fusible[number]
        if self.graph.output is not None and self.graph.output in self.numbers:
            stored[self.numbers[self.graph.output]] = True
        return [stored[number] and self.is_fusible[number] for number in range(len(stored))]

    def needs(self, number: int) -> list[int]:
        """The instructions of the computation that one waits for."""
        node = self.nodes[number]
        used = node.operands
        if node.attributes.refers:
            used = (*used, *[part for part in node.attributes.referents() if isinstance(part, Node)])
        return [self.numbers[operand] for operand in used if operand in self.numbers]

    def _reduction(self, node: Node) -> ReductionDimensions | None:
        """The dimensions of a reduction that makes its kernel an input fusion."""
        if not self.target.has_input_fusions or node.opcode != "reduce" or not node.operands:
            return None
        dims = reduction_dimensions(node)
        is_input = dims is not None and dims.is_contiguous and (dims.is_large or not self.target.has_warps)
        return dims if is_input else None

    def _may_fuse(self, number: int, node: Node) -> bool:
        if not isinstance(node, Apply) or not isinstance(node.function, Op):
            return False
        is_product = self.target.has_output_fusions and node.opcode in PRODUCTS
        if (node.opcode not in FUSED and not is_product) or not CARRIED.isdisjoint(node.attributes):
            return False
        if _is_plain_copy(node) or (node.opcode == "dynamic-update-slice" and reads_itself(node)):
            return False
        results = [node.type]
        if node.opcode == "reduce" and len(node.operands) != 2:
            if self.reductions[number] is None or not isinstance(node.type, TupleType):
                return False
            results = list(node.type.elements)
        operands = [value.type for value in node.operands]
        return all(map(_is_plain_array, (*results, *operands))) and all(
            value in self.numbers for value in node.operands
        )

    def _edge(self, node: Apply, position: int, operand: Node) -> Edge:
        number = self.numbers[operand]
        opcode, own, read = node.opcode, self._type_of(node), self._type_of(operand)
        own = first_array(own)
        assert isinstance(own, TensorType) and isinstance(read, TensorType)
        ratio = elements(read) / max(1, elements(own))
        sliced = leaf_bytes(own) if position == 0 and node.has_trait(Trait.READS_PART) else None
        if opcode in PRODUCTS or (position == 0 and opcode == "gather"):
            return Edge(number, READ, 0, ratio, sliced)
        if opcode == "dynamic-update-slice":
            if position == 0:
                return Edge(number, READ, 0, ratio, 0)  # updated in place
            return Edge(number, SCALAR if not read.dims else SAME, 0, 1.0, None)
        if elements(read) == 1:
            return Edge(number, SCALAR, 0, 0.0, sliced)
        if opcode in ELEMENTWISE and read.dims == own.dims:
            return Edge(number, SAME, 0, 1.0, None)
        if opcode in ("concatenate", "pad", "reduce", "gather"):
            own_attributes = tuple(node.attributes.get(name) for name in ("dimensions", "padding"))
            mapping = self._mapping((opcode, position, own_attributes, own.dims, read.dims))
            return Edge(number, MAPPED, mapping, min(1.0, ratio) if opcode == "pad" else ratio, None)
        described = tuple(node.attributes.get(name) for name in ("dimensions", "slice"))
        starts = node.operands[1:] if opcode == "dynamic-slice" else ()
        mapping = self._mapping((opcode, described, starts, own.dims, read.dims))
        return Edge(number, MAPPED, mapping, 1.0, sliced)

    def _mapping(self, description: object) -> int:
        return self._mappings.setdefault(description, len(self._mappings) + 1)

    def kernel_dims(self, root: int) -> tuple[int, ...]:
        """The dimensions a kernel iterates over for a result; an input fusion iterates over what it reduces.

        If results may have different dimensions, those of the viewed value are used.
        """
        node = self.nodes[root]
        value = node.operands[0] if self.is_input_root(root) else node
        value = self._seen_through(self.numbers[value])
        value_type = self._type_of(value)
        return value_type.dims if isinstance(value_type, TensorType) else ()

    def _seen_through(self, root: int) -> Node:
        """The value a result is a view of, if results may have different dimensions."""
        value = self.nodes[root]
        while self.target.has_input_fusions and value.opcode in VIEWS and self.is_fusible[self.numbers[value]]:
            value = value.operands[0]
        return value

    def _tile_key(self, root: int) -> int:
        """As `root_keys`, for the operand of a transposing result: a tiled kernel may iterate over either side."""
        value = self._seen_through(root) if self.is_fusible[root] else self.nodes[root]
        if not self.target.has_tiles or value.opcode != "transpose" or not self.is_transposing[self.numbers[value]]:
            return self.root_keys[root]
        value_type = self._type_of(value.operands[0])
        return self._mapping(("root", value_type.dims if isinstance(value_type, TensorType) else ()))

    def kernel_key(self, roots: Sequence[int]) -> int | None:
        """The index space common to all results of a kernel; None if there is none."""
        keys = [(self.root_keys[root], self.tile_keys[root]) for root in roots]
        candidates = [key for key in (keys[0] if keys else ()) if all(key in both for both in keys)]
        return candidates[0] if candidates else None

    def _tiled(self, kernel: Kernel) -> dict[int, int]:
        """Instructions that a kernel computes tile by tile: at its own index, and so are their operands."""
        key = self.kernel_key(kernel.roots)
        tiled: dict[int, int] = {}
        if key is None:
            return tiled
        for root in kernel.roots:
            if self.root_keys[root] != key:
                last, value = self._seen_through(root), self.nodes[root]
                while value is not last:
                    tiled[self.numbers[value]] = key
                    value = value.operands[0]
                tiled[self.numbers[last]] = key
        return tiled

    def is_tiled(self, kernel: Kernel) -> bool:
        """Whether a kernel iterates over the operands of some transposing results."""
        return bool(self._tiled(kernel))

    def is_input_root(self, number: int) -> bool:
        """Whether a result makes its kernel an input fusion."""
        return self.reductions[number] is not None and self.is_fusible[number]

    def passed_on(self, edge: Edge, keys: dict[int, float]) -> dict[int, float]:
        """At which indices, and how often, an operand is computed for an instruction's indices."""
        if edge.mode == SAME:
            return keys
        if edge.mode == SCALAR:
            is_one = HOISTED not in keys and (keys.keys() == {ONE_ELEMENT} or sum(keys.values()) <= 1)
            return {ONE_ELEMENT if is_one else HOISTED: 1.0}
        known, passed = self._keys, dict[int, float]()
        for key, count in keys.items():
            mapped = HOISTED if key == HOISTED else known.setdefault((edge.mapping, key), -2 - len(known))
            passed[mapped] = passed.get(mapped, 0.0) + count * edge.ratio
        return passed

    def root_demand(self, root: int) -> dict[int, float]:
        """At which index a result is computed, and how often."""
        return {self.root_keys[root]: float(self.elements[root])}

    def operand_demand(self, number: int, edge: Edge, keys: dict[int, float], is_root: bool) -> dict[int, float]:
        """As `passed_on`, except that an input fusion reads what it reduces at the kernel's own index."""
        if is_root and edge.mode == MAPPED and self.is_input_root(number):
            return {self.root_keys[number]: float(self.elements[edge.operand])}
        return self.passed_on(edge, keys)

    def may_compute(self, number: int, keys: dict[int, float], is_root: bool) -> bool:
        """Whether a kernel may compute an instruction at these indices.

        Reductions are not nested in another loop: the sum would run term by term, far below the vector rate.
        """
        if len(keys) > MAX_INDICES:
            return False
        opcode = self.nodes[number].opcode
        if opcode in PRODUCTS:
            return len(keys) == 1 and (is_root or self.root_keys[number] in keys)
        is_computed_again = sum(keys.values()) > self.elements[number]
        if opcode == "reduce" and not is_root and (self.target.has_input_fusions or is_computed_again):
            return False
        return opcode not in BRANCHING or (len(keys) == 1 and HOISTED not in keys)

    def compute_seconds(self, number: int, keys: dict[int, float]) -> float:
        """How long a kernel computes an instruction."""
        count = self.elements[number]
        return self.seconds[number] * sum(keys.values()) / count if count else 0.0

    def members(self, root: int, kept: Container[int], computed: Container[int]) -> tuple[int, ...]:
        """The instructions that the kernel of a result computes: back to those `kept` unless also in `computed`."""
        inside, pending = {root}, [root]
        while pending:
            for edge in self.edges[pending.pop()]:
                number = edge.operand
                is_computed = self.is_fusible[number] and (number not in kept or number in computed)
                if is_computed and edge.mode != READ and number not in inside:
                    inside.add(number)
                    pending.append(number)
        return tuple(sorted(inside))

    def cost(self, kernel: Kernel) -> KernelCost | None:
        """The cost of a kernel; None if the target does not allow it."""
        if len(kernel.members) > MAX_MEMBERS or (len(kernel.roots) > 1 and self._disagreement(kernel.roots)):
            return None
        cost, obstacle = self.assessed(kernel)
        return None if obstacle else cost

    def assessed(self, kernel: Kernel) -> tuple[KernelCost, str]:
        """The cost of a kernel, and the first reason why the target does not allow it, empty if it does."""
        roots, inside, tiled = set(kernel.roots), set(kernel.members), self._tiled(kernel)
        boxes: dict[int, list[_Box]] = {}
        obstacle = f"more than {MAX_MEMBERS} instructions" if len(inside) > MAX_MEMBERS else ""
        obstacle = obstacle or self._disagreement(kernel.roots)
        demands: dict[int, dict[int, float]] = {root: self.root_demand(root) for root in kernel.roots}
        demands.update({root: {tiled[root]: float(self.elements[root])} for root in kernel.roots if root in tiled})
        reads: dict[int, int] = {}
        compute = once = 0.0
        for number in reversed(kernel.members):
            keys = demands.get(number, {})
            is_root = number in roots
            if not obstacle and not self.may_compute(number, keys, is_root):
                obstacle = f"{self.nodes[number].name} would be computed again and again"
            compute += self.compute_seconds(number, keys)
            once += self.seconds[number]
            for edge in self.edges[number]:
                operand = edge.operand
                if edge.mode == READ and operand in roots:
                    obstacle = obstacle or f"{self.nodes[number].name} reads {self.nodes[operand].name} from memory"
                if operand in inside and edge.mode != READ:
                    passed = keys if number in tiled else self.operand_demand(number, edge, keys, is_root)
                    demands[operand] = joined(demands.get(operand), passed)
                else:
                    whole = self.whole_bytes(operand)
                    moved = whole if edge.sliced is None else edge.sliced
                    box = self.boxes[number]
                    if box is not None:
                        moved -= self._read_before(operand, box, boxes.setdefault(operand, []))
                    reads[operand] = min(whole, reads.get(operand, 0) + moved)
        if not obstacle and len(inside) > 1:
            obstacle = self._shortage(kernel, len(reads) + len(roots))
        read, written = sum(reads.values()), sum(self.bytes[root] for root in kernel.roots)
        seconds = 0.0 if self.is_view(kernel) else self.target.device.kernel_seconds(compute, read + written)
        return KernelCost(compute, read, written, seconds, once), obstacle

    def _read_before(self, operand: int, box: _Box, others: list[_Box]) -> int:
        """A lower bound on the bytes of a slice that other slices of its value cover already; records the slice."""
        shared = max((_common_elements(box, other) for other in others[:MAX_INDICES]), default=0)
        others.append(box)
        return shared * _element_bytes(self.nodes[operand])

    def whole_bytes(self, number: int) -> int:
        """The bytes of a value that is read; constants of one element are part of the code."""
        return leaf_bytes(self._type_of(self.nodes[number])) if self.bytes[number] else 0

    def reads(self, kernel: Kernel) -> list[int]:
        """The values a kernel reads, in order of use."""
        inside = set(kernel.members)
        used = [
            edge.operand
            for number in kernel.members
            for edge in self.edges[number]
            if edge.mode == READ or edge.operand not in inside
        ]
        return list(dict.fromkeys(used))

    def is_view(self, kernel: Kernel) -> bool:
        """Whether a kernel only reinterprets bytes."""
        return all(self.nodes[number].opcode in VIEWS for number in kernel.members)

    def is_free(self, number: int) -> bool:
        """Whether every kernel computes an instruction itself; a leaf's operands are computed by none."""
        return self.is_fusible[number] and self.nodes[number].opcode in BROADCASTS

    def _disagreement(self, roots: Sequence[int]) -> str:
        """Why one kernel cannot have these results: their dimensions differ, or they reduce others."""
        if len(roots) == 1:
            return ""
        if any(map(self.is_update, roots)) and not self._are_like_updates(roots):
            return "an update in its array is the one result of a kernel"
        if any(self.nodes[root].opcode in PRODUCTS for root in roots):
            return "a product is the one result of a kernel"
        reduced = {self.nodes[root].attributes.get("dimensions") for root in roots if self.is_input_root(root)}
        if sum(self.is_input_root(root) for root in roots) > MAX_REDUCTIONS:
            return f"more than {MAX_REDUCTIONS} reductions"
        if len(reduced) > 1 or self.kernel_key(roots) is None:
            return "the results have other dimensions"
        values = [self._seen_through(root) for root in roots if self.target.has_tiles]
        flipped = [
            value for value in values if value.opcode == "transpose" and self.is_transposing[self.numbers[value]]
        ]
        if len({value.attributes["dimensions"] for value in flipped}) > 1:
            return "the results are transposed in several ways"
        return ""

    def is_update(self, number: int) -> bool:
        """Whether a kernel changes a part of an array in place."""
        return self.nodes[number].opcode == "dynamic-update-slice"

    def _are_like_updates(self, roots: Sequence[int]) -> bool:
        """Whether results are several arrays, each updated in place, with updates of one type, as XLA's emitter asks.

        `CanEmitFusedDynamicUpdateSliceInPlaceForGpu`, xla/service/gpu/ir_emission_utils.cc.
        """
        if not self.target.has_several_updates or not all(map(self.is_update, roots)):
            return False
        arrays = {buffer_of(self.nodes[root].operands[0]) for root in roots}
        updates = [first_array(self._type_of(self.nodes[root].operands[1])) for root in roots]
        types = {(update.dtype, update.dims) for update in updates if isinstance(update, TensorType)}
        return len(arrays) == len(roots) and len(types) == 1

    def _reads_what_it_updates(self, kernel: Kernel) -> bool:
        """Whether a kernel may read elements of an array after overwriting them in place."""
        updates = [self.nodes[root] for root in kernel.roots if self.is_update(root)]
        members = [self.nodes[number] for number in kernel.members]
        is_alone = len(kernel.roots) == 1
        return any(reads_overwritten(update, members, may_read_slice=is_alone) for update in updates)

    def _shortage(self, kernel: Kernel, arrays: int) -> str:
        """Which limit of a backend's kernels one exceeds."""
        device = self.target.device
        if arrays > MAX_OPERANDS_AND_RESULTS:
            return f"more than {MAX_OPERANDS_AND_RESULTS} operands and results"
        products = sum(self.nodes[number].opcode in PRODUCTS for number in kernel.members)
        if products and (products > 1 or len(kernel.roots) > 1):
            return "a kernel holds one product, and nothing else"
        if device.block_shared_bytes and not self.target.has_shared_memory_for(self._tile_bytes(kernel)):
            return "shared memory cannot hold the tiles of this many reductions"
        if device.thread_registers and not self.target.has_registers_for(self._live_bytes(kernel)):
            return "a thread's registers cannot hold this many values"
        if len(kernel.roots) > 1 and not self.target.keeps_in_cache(self._transposed_bytes(kernel)):
            return "several arrays would be read across their rows at once"
        if self._reads_what_it_updates(kernel):
            return "an array would be read while it is updated in its place"
        has_reductions = len(kernel.roots) > 1 and any(self.is_input_root(root) for root in kernel.roots)
        if has_reductions and any(self.is_transposing[number] for number in kernel.members):
            return "a kernel has tiles of reductions, or of what it reads across its rows"
        return ""

    def _tile_bytes(self, kernel: Kernel) -> int:
        """The shared memory that a kernel's reductions and transposes take."""
        tiles = sum(
            TILE * _element_bytes(self.nodes[number]) for number in kernel.members if self.is_transposing[number]
        )
        for root in kernel.roots:
            dims = self.reductions[root]
            if dims is not None and self.is_fusible[root]:
                node = self.nodes[root]
                read = sum(_element_bytes(operand) for operand in node.operands[: len(node.operands) // 2])
                tiles += dims.shared_bytes(read)
        return tiles

    def _transposed_bytes(self, kernel: Kernel) -> list[int]:
        """The bytes of the arrays in memory that a kernel reads across their rows."""
        inside, flipped, read = set(kernel.members), set[int](), set[int]()
        for number in reversed(kernel.members):
            if self.is_transposing[number]:
                flipped.add(number)
            for edge in self.edges[number] if number in flipped else ():
                is_inside = edge.operand in inside and edge.mode != READ
                (flipped if is_inside else read).add(edge.operand)
        return [self.whole_bytes(number) for number in read]

    def _live_bytes(self, kernel: Kernel) -> int:
        """The maximum bytes of values live at once per element, in instruction order."""
        last: dict[int, int] = {}
        for number in kernel.members:
            for edge in self.edges[number]:
                last[edge.operand] = number
        ends: dict[int, int] = {}
        inside = set(kernel.members)
        alive = most = 0
        for number in kernel.members:
            size = _element_bytes(self.nodes[number])
            alive += size
            most = max(most, alive)
            alive -= ends.pop(number, 0)
            if number in last and last[number] in inside:
                ends[last[number]] = ends.get(last[number], 0) + size
            else:
                alive -= size
        return most


def joined(known: dict[int, float] | None, passed: dict[int, float]) -> dict[int, float]:
    """Indices at which an instruction is computed, for one reader and another."""
    if known is None:
        return passed
    both = dict(known)
    for key, count in passed.items():
        both[key] = max(both.get(key, 0.0), count)
    return both


def _is_plain_array(value_type: object) -> bool:
    if not isinstance(value_type, TensorType) or value_type.dynamic is not None:
        return False
    return value_type.dtype.bits >= MIN_BITS or value_type.dtype.name == "pred"


def _is_plain_copy(node: Node) -> bool:
    """Whether a copy only preserves a value in another buffer, without changing the layout."""
    if node.opcode != "copy":
        return False
    types = [value.type for value in (node, *node.operands)]
    layouts = [value_type.layout for value_type in types if isinstance(value_type, TensorType)]
    return None in layouts or len(set(layouts)) < 2


def _box(node: Node) -> _Box | None:
    """The first and last index that a slice reads per dimension; None if it is not a contiguous slice."""
    if node.opcode != "slice":
        return None
    parts = node.attributes["slice"]
    if any(part.stride != 1 for part in parts):
        return None
    return tuple((part.start, part.limit) for part in parts)


def _common_elements(one: _Box, other: _Box) -> int:
    count = 1
    for (start, limit), (other_start, other_limit) in zip(one, other, strict=True):
        first = start if start > other_start else other_start
        last = limit if limit < other_limit else other_limit
        if last <= first:
            return 0
        count *= last - first
    return count


def _is_transposing(node: Node) -> bool:
    """Whether elements adjacent in the memory of an instruction's result are not adjacent in its operand."""
    if node.opcode not in ("copy", "transpose"):
        return False
    result, operand = node.type, node.operands[0].type
    if not isinstance(result, TensorType) or not isinstance(operand, TensorType):
        return False
    inner = _inner_dim(result)
    if node.opcode == "transpose" and inner is not None:
        inner = node.attributes["dimensions"][inner]
    return inner != _inner_dim(operand)


def _inner_dim(array_type: TensorType) -> int | None:
    """The dimension along which elements are adjacent in memory; None for a single element."""
    order = (array_type.layout or default_layout(array_type.rank)).minor_to_major
    return next((dim for dim in order if array_type.dims[dim] != 1), None)


def _element_bytes(node: Node) -> int:
    """The bytes of an element; of several results, of one of each."""
    arrays: Sequence[Type | None] = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    return sum(array.dtype.byte_count for array in arrays if isinstance(array, TensorType))
