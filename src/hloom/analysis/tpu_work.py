"""What one instruction of an optimised TPU program does: bytes by memory, vector registers, matrix tiles, windows.

A TPU core computes on vector registers of 8 x 128 lanes of 32 bits, and multiplies matrices in a systolic array that
holds a tile of one factor while rows of the other stream through. Optimised modules say where arrays stand (`S(1)` is
the on-chip memory, VMEM), how they are padded (`T(8,128)`), and in how many windows an instruction moves its operands
through VMEM (`window_config` in `backend_config`). Counts here follow from these and from shapes; what an instruction's
`estimated_cycles` says is read by `compiler_cycles` alone, never by the model.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hloom.analysis.stored_sizes import DEVICE_MEMORY, memory_space, stored_bytes
from hloom.ir import Apply, Graph, Node, TensorType, Trait, Type
from hloom.ops import with_trait

VMEM = 1
"""The memory space of a TPU's vector memory, on the chip: S(1)."""
LANES = 8 * 128
"""The 32-bit lanes of a vector register."""
TILE = 128
"""Output features whose groups fill the diagonal of one tile, also in arrays of 256 x 256."""
MET_BY_BATCHES = 1.01
"""Fewer positions than this meet each result if a convolution's window stands for batches: one, but for rounding."""
MOST_WINDOWS = 1 << 40
"""Larger products of iteration bounds are taken for this: no program has them, but a text may."""
_WINDOWS = re.compile(r'"iteration_bounds":\[((?:"[0-9]{1,18}",?){0,16})\]')
_CYCLES = re.compile(r'"estimated_cycles":"([0-9]{1,18})"')
FREE = frozenset(
    ("parameter", "constant", "bitcast", "tuple", "get-tuple-element", "broadcast", "abs", "negate", "copy", "reshape")
)
"""Opcodes that take no vector operations inside a fusion: what they do is part of another operation's load."""
MOVES = with_trait(Trait.MOVES_DATA) | {"iota", "concatenate", "pad", "slice", "dynamic-slice", "dynamic-update-slice"}
COMPARISONS = frozenset(("compare", "select", "and", "or", "not", "xor", "is-finite"))
PARTIAL = frozenset(("slice", "dynamic-slice", "gather"))
"""Opcodes that touch only the part of their first operand that they yield."""


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """A product as a systolic array runs it: `passes` products of `rows` by `contracted` by `columns`.

    `results` are the vector registers of a result that is narrower than 32 bits, `element_bits` the width of the wider
    factor's elements. Unless `streams_rows`, the compiler may stream any of the three sizes through tiles of the other
    two.
    """

    rows: float
    contracted: float
    columns: float
    results: float
    element_bits: int
    passes: int = 1
    streams_rows: bool = False


@dataclass(frozen=True, slots=True)
class TpuWork:
    """The work of one run of an instruction: bytes, f32 vector registers by class of operation, products, windows.

    `loaded` and `stored` are bytes of the device's main memory (HBM), `local` bytes read of arrays that stand in VMEM,
    whole tiles each. `windows` is the number of pieces in which operands pass through VMEM. `fills_tiles` is false if
    the tiles of a result are smaller than a register, such as T(4,128).
    """

    loaded: int
    stored: int
    local: int
    windows: int
    registers: Mapping[str, float]
    products: tuple[MatrixWork, ...] = ()
    has_operands: bool = True
    fills_tiles: bool = True

    @property
    def moved(self) -> int:
        """Bytes from and to HBM."""
        return self.loaded + self.stored


def compiler_cycles(node: Node) -> int | None:
    """The cycles that the TPU compiler itself estimates for an instruction, if its configuration says them."""
    found = _CYCLES.search(str(node.attributes.get("backend_config") or ""))
    return int(found[1]) if found else None


def tpu_work(node: Apply, flops: Callable[[Apply], float]) -> TpuWork:
    """The work of an instruction of an optimised module; `flops` gives the mathematical FLOPs of a convolution."""
    registers: defaultdict[str, float] = defaultdict(float)
    products: list[MatrixWork] = []
    called = node.attributes.get("calls") if node.opcode == "fusion" else None
    if isinstance(called, Graph):
        for member in _members(called):
            if _is_product(member):
                products.append(_product(member, flops(member)))
            else:
                _count(member, registers)
        _count_packing(called, registers)
    elif _is_product(node):
        products.append(_product(node, flops(node)))
    else:
        _count_single(node, registers)
    is_product = bool(products) or "reduce-window" in registers
    loaded, local = _operand_bytes(node, called if isinstance(called, Graph) else None, is_product)
    sizes = _stored_sizes(node, called if isinstance(called, Graph) else None)
    stored = max(sizes, default=0) if products else sum(sizes)  # a product hides what is stored beside its result
    return TpuWork(
        loaded,
        stored,
        local,
        window_count(node),
        dict(registers),
        tuple(products),
        any(_is_array(operand.type) for operand in node.operands),
        _fills_tiles(node.type),
    )


def _is_product(node: Node) -> bool:
    return node.opcode in ("convolution", "dot")


def window_count(node: Node) -> int:
    """The number of windows in which an instruction's operands pass through VMEM; 1 if its configuration has none."""
    found = _WINDOWS.search(str(node.attributes.get("backend_config") or ""))
    if found is None:
        return 1
    return min(MOST_WINDOWS, math.prod(max(1, int(bound)) for bound in re.findall("[0-9]+", found[1])))


def _members(graph: Graph) -> Iterator[Apply]:
    """The instructions of a fused computation and of fusions inside it, each computation once."""
    pending, seen = [graph], {graph}
    while pending:
        for node in pending.pop().nodes:
            if not isinstance(node, Apply):
                continue
            inner = node.attributes.get("calls") if node.opcode == "fusion" else None
            if isinstance(inner, Graph) and inner not in seen:
                seen.add(inner)
                pending.append(inner)
            else:
                yield node


def registers_of(value_type: Type | None) -> float:
    """The f32 vector registers that hold all arrays of a value: their lanes, padded to tiles, over 1,024."""
    if value_type is None:
        return 0.0
    return sum(_padded(leaf) for leaf in value_type.leaves() if isinstance(leaf, TensorType)) / LANES


def _padded(leaf: TensorType) -> int:
    if leaf.layout is not None and leaf.layout.tiles and leaf.dims and leaf.dtype.byte_count:
        return stored_bytes(leaf, memory_space(leaf)) // max(1, leaf.dtype.byte_count)
    if len(leaf.dims) < 2:
        return -(-math.prod(leaf.dims) // LANES) * LANES
    *outer, rows, columns = leaf.dims
    return math.prod(outer) * -(-rows // 8) * 8 * -(-columns // 128) * 128


def _count(node: Apply, registers: defaultdict[str, float]) -> None:
    """Add the vector operations of an instruction inside a fusion."""
    opcode = node.opcode
    if opcode in FREE:
        return
    if opcode in ("reduce", "reduce-window"):
        registers[opcode] += max((registers_of(operand.type) for operand in node.operands), default=0.0)
    elif opcode == "convert":
        registers["arithmetic" if _bits(node) == _bits(node.operands[0]) else "convert"] += registers_of(node.type)
    elif opcode == "dynamic-update-slice":
        registers["move"] += registers_of(node.operands[1].type)
    elif opcode in MOVES:
        registers["move"] += registers_of(node.type)
    elif opcode in COMPARISONS:
        registers["compare"] += registers_of(node.type)
    else:
        name = opcode if node.has_trait(Trait.TRANSCENDENTAL) or opcode in ("divide", "remainder") else "arithmetic"
        registers[name] += registers_of(node.type)


def _bits(node: Node) -> int:
    return node.type.dtype.bits if isinstance(node.type, TensorType) else 32


def _count_packing(graph: Graph, registers: defaultdict[str, float]) -> None:
    """Add what it takes to unpack or pack narrow arrays: the largest of the fusion's arrays that is not of 32 bits."""
    kinds: list[Type | None] = []
    for parameter in graph.parameters:
        touched = _touched(parameter)
        kinds += [parameter.type] if touched is None else touched
    if graph.output is not None:
        roots = graph.output.operands if graph.output.opcode == "tuple" else (graph.output,)
        kinds += [_written(root) for root in roots]
    leaves = [leaf for kind in kinds if kind is not None for leaf in kind.leaves() if isinstance(leaf, TensorType)]
    packed = [registers_of(leaf) for leaf in leaves if leaf.dtype.bits < 32]
    if packed:
        registers["packed"] += max(packed)


def _count_single(node: Apply, registers: defaultdict[str, float]) -> None:
    """Add the vector operations of an instruction outside fusions."""
    kinds = [node.type, *(operand.type for operand in node.operands)]
    if node.opcode in PARTIAL:
        kinds = [node.type]
    elif node.opcode == "dynamic-update-slice":
        kinds = [operand.type for operand in node.operands[1:]]
    size = max(map(registers_of, kinds), default=0.0)
    if is_transposing(node):
        registers["relayout"] += sum(registers_of(kind) for kind in kinds if _space(kind) != VMEM)
        return
    if node.opcode in ("reduce", "reduce-window"):
        registers[node.opcode] += size
    else:
        registers["single"] += size
    if _bits(node) < 32 or any(_bits(operand) < 32 for operand in node.operands):
        registers["packed"] += size


def is_transposing(node: Apply) -> bool:
    """Whether an instruction outside fusions only moves another dimension into the lanes."""
    if node.opcode == "transpose":
        return True
    made, read = node.type, node.operands[0].type if node.operands else None
    if node.opcode != "copy" or not isinstance(made, TensorType) or not isinstance(read, TensorType):
        return False
    if made.layout is None or read.layout is None or not made.layout.minor_to_major or not read.layout.minor_to_major:
        return False
    return made.layout.minor_to_major[0] != read.layout.minor_to_major[0]


def _operand_bytes(node: Apply, called: Graph | None, is_product: bool) -> tuple[int, int]:
    """Bytes read in HBM and in VMEM; of operands that are only sliced or updated in place, what is touched.

    What the previous program fetched into VMEM counts as in HBM, except for products: so the compiler estimates it.
    """
    main, local = 0, 0
    parameters = called.parameters if called is not None else ()
    for number, operand in enumerate(node.operands):
        touched = _touched(parameters[number]) if number < len(parameters) else None
        if called is None and node.opcode in PARTIAL and number == 0:
            touched = [node.type]
        elif called is None and node.opcode == "dynamic-update-slice" and number == 0:
            touched = []
        kinds = [operand.type] if touched is None else touched
        space = DEVICE_MEMORY if not is_product and _is_prefetched(operand) else _space(operand.type)
        size = sum(_stored(kind) for kind in kinds) if _is_array(operand.type) else 0
        main, local = (main + size, local) if space != VMEM else (main, local + size)
    return main, local


def _touched(parameter: Node) -> list[Type | None] | None:
    """The values that a fusion reads of a parameter instead of all of it; None if it reads all."""
    users = list(parameter.users)
    kinds: list[Type | None] = []
    for user in users:
        if user.opcode in PARTIAL and user.operands[0] is parameter:
            kinds.append(user.type)
        elif (
            user.opcode == "dynamic-update-slice"
            and user.operands[0] is parameter
            and user.operands[1] is not parameter
        ):
            continue
        else:
            return None
    return kinds


def _stored_sizes(node: Apply, called: Graph | None) -> list[int]:
    """Bytes of each result that is written in HBM; of results that are updated in place, the update."""
    made = [node.operands[1].type if node.opcode == "dynamic-update-slice" else node.type]
    if called is not None and called.output is not None:
        roots = called.output.operands if called.output.opcode == "tuple" else (called.output,)
        made = [_written(root) for root in roots]
    kinds = list(node.type.leaves()) if node.type is not None else []
    spaces = [_space(kind) for kind in kinds] or [DEVICE_MEMORY]
    return [_stored(written) for number, written in enumerate(made) if spaces[min(number, len(spaces) - 1)] != VMEM]


def _written(root: Node) -> Type | None:
    while root.opcode == "bitcast" and root.operands:
        root = root.operands[0]
    return root.operands[1].type if root.opcode == "dynamic-update-slice" else root.type


def _is_prefetched(node: Node) -> bool:
    """Whether a value in VMEM is a parameter that the previous program fetched."""
    start = node.operands[0] if node.opcode == "copy-done" and node.operands else node
    return start.opcode == "copy-start" and start.attributes.get("cross_program_prefetch_index") is not None


def _is_array(kind: Type | None) -> bool:
    """Whether a value is more than a scalar, which a TPU keeps in its scalar memory."""
    return not isinstance(kind, TensorType) or bool(kind.dims)


def _fills_tiles(kind: Type | None) -> bool:
    """Whether the tiles of each array of a value are whole registers, as far as its layout says."""
    leaves = (leaf for leaf in kind.leaves() if isinstance(leaf, TensorType)) if kind is not None else ()
    tiles = (leaf.layout.tiles[0] for leaf in leaves if leaf.layout is not None and leaf.layout.tiles)
    return all(math.prod(tile) >= LANES for tile in tiles)


def _space(kind: Type | None) -> int:
    return next((memory_space(leaf) for leaf in kind.leaves()), DEVICE_MEMORY) if kind is not None else DEVICE_MEMORY


def _stored(kind: Type | None) -> int:
    return sum(stored_bytes(leaf, memory_space(leaf)) for leaf in kind.leaves()) if kind is not None else 0


def _product(node: Apply, flops: float) -> MatrixWork:
    """The rows, contracted and output features of a product, and into how many passes its window divides it.

    The FLOPs say how many positions of a convolution's window meet each row of its result. If few of them do, the
    compiler wrote batches as a window: they count as contracted. Otherwise the longer of the rows and what is
    contracted streams: in the gradient of a kernel the positions, else the rows, with the positions along one dimension
    contracted together with the features and a pass for each of the others. Zeros that padding and dilation insert are
    multiplied as well. Feature groups fill the diagonal of a tile, one position at a time.
    """
    kinds = [operand.type for operand in node.operands[:2]]
    bits = max((kind.dtype.bits for kind in kinds if isinstance(kind, TensorType)), default=16)
    right, made = kinds[-1] if kinds else None, node.type
    labels = node.attributes.get("dim_labels")
    if not isinstance(right, TensorType) or not isinstance(made, TensorType):
        return MatrixWork(0.0, 0.0, 0.0, 0.0, bits)
    if labels is None or "o" not in labels.rhs or "i" not in labels.rhs:
        return _dot_product(node, right, flops, bits)
    columns, features = (max(1, right.dims[labels.rhs.index(name)]) for name in "oi")
    sizes = [size for size, name in zip(right.dims, labels.rhs, strict=False) if name not in "io"]
    positions, elements = max(1, math.prod(sizes)), max(1, math.prod(made.dims))
    rows, results = elements / columns, _narrow_registers(made)
    groups = max(node.attributes.get("feature_group_count") or 1, node.attributes.get("batch_group_count") or 1)
    if groups > 1:
        block = min(columns, TILE)
        filled = max(1.0, block * groups / columns)
        return MatrixWork(rows, features * filled, block, results, bits, positions * -(-columns // TILE), True)
    met = flops / 2 / elements / features
    if met < MET_BY_BATCHES or (met < positions / 2 and not _inserts_zeros(node)):
        return MatrixWork(rows * met / positions, features * positions, columns, results, bits)
    if features * positions > rows:
        return MatrixWork(features * positions, rows, columns, results, bits, 1, True)
    together = max(sizes, default=1)
    return MatrixWork(rows, features * together, columns, results, bits, positions // max(1, together), True)


def _narrow_registers(made: Type | None) -> float:
    """The vector registers of a product's result if its elements have to be packed."""
    return registers_of(made) if isinstance(made, TensorType) and made.dtype.bits < 32 else 0.0


def _inserts_zeros(node: Apply) -> bool:
    """Whether a convolution slides one by one over an operand with zeros between its elements."""
    dimensions = node.attributes["window"].dimensions if node.attributes.get("window") is not None else ()
    return any(dimension.base_dilation > 1 and dimension.stride == 1 for dimension in dimensions)


def _dot_product(node: Apply, right: TensorType, flops: float, bits: int) -> MatrixWork:
    """The rows, contracted and output features of a dot; batches count as contracted."""
    shared = {*(node.attributes.get("rhs_contracting_dims") or ()), *(node.attributes.get("rhs_batch_dims") or ())}
    columns = math.prod(size for dim, size in enumerate(right.dims) if dim not in shared)
    kernel = max(1, math.prod(right.dims))
    return MatrixWork(flops / 2 / kernel, kernel / max(1, columns), columns, _narrow_registers(node.type), bits)
