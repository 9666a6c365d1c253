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
    """A product as a systolic array runs it: `tiles` of the factor that stays, `rows` of the other through each."""

    rows: float
    contracted: float
    columns: float
    results: float
    element_bits: int


@dataclass(frozen=True, slots=True)
class TpuWork:
    """The work of one run of an instruction: bytes, f32 vector registers by class of operation, products, windows.

    `loaded` and `stored` are bytes of the device's main memory (HBM), `local` bytes of VMEM, whole tiles each.
    `windows` is the number of pieces in which operands pass through VMEM.
    """

    loaded: int
    stored: int
    local: int
    windows: int
    registers: Mapping[str, float]
    products: tuple[MatrixWork, ...] = ()
    has_operands: bool = True

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
            if member.opcode in PRODUCTS:
                products.append(_product(member, flops(member)))
            else:
                _count(member, registers)
        _count_packing(called, registers)
    elif node.opcode in PRODUCTS:
        products.append(_product(node, flops(node)))
    else:
        _count_single(node, registers)
    is_product = bool(products) or "reduce-window" in registers
    loaded, local_in = _operand_bytes(node, called if isinstance(called, Graph) else None, is_product)
    stored, local_out = _result_bytes(node, called if isinstance(called, Graph) else None)
    return TpuWork(
        loaded,
        stored,
        local_in + local_out,
        window_count(node),
        dict(registers),
        tuple(products),
        any(_is_array(operand.type) for operand in node.operands),
    )


PRODUCTS = frozenset(("convolution", "dot"))


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
        registers["relayout"] += size
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


def _result_bytes(node: Apply, called: Graph | None) -> tuple[int, int]:
    """Bytes written in HBM and in VMEM; of results that are updated in place, the update."""
    main, local = 0, 0
    made: list[tuple[Type | None, Type | None]] = [(node.type, node.type)]
    if called is not None and called.output is not None:
        roots = called.output.operands if called.output.opcode == "tuple" else (called.output,)
        made = [(root.type, _written(root)) for root in roots]
    elif node.opcode == "dynamic-update-slice":
        made = [(node.type, node.operands[1].type)]
    kinds = list(node.type.leaves()) if node.type is not None else []
    spaces = [_space(kind) for kind in kinds] or [DEVICE_MEMORY]
    for number, (_, written) in enumerate(made):
        space = spaces[min(number, len(spaces) - 1)]
        main, local = (main + _stored(written), local) if space != VMEM else (main, local + _stored(written))
    return main, local


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


def _space(kind: Type | None) -> int:
    return next((memory_space(leaf) for leaf in kind.leaves()), DEVICE_MEMORY) if kind is not None else DEVICE_MEMORY


def _stored(kind: Type | None) -> int:
    return sum(stored_bytes(leaf, memory_space(leaf)) for leaf in kind.leaves()) if kind is not None else 0


def _product(node: Apply, flops: float) -> MatrixWork:
    """The rows, contracted and output features of a product.

    The positions of a convolution's window, and the batches of a product that the compiler wrote as a convolution,
    count as contracted: the FLOPs say how many rows meet each.
    """
    kinds = [operand.type for operand in node.operands[:2]]
    bits = max((kind.dtype.bits for kind in kinds if isinstance(kind, TensorType)), default=16)
    right = kinds[-1] if kinds else None
    if not isinstance(right, TensorType):
        return MatrixWork(0.0, 0.0, 0.0, 0.0, bits)
    kernel = max(1, math.prod(right.dims))
    labels = node.attributes.get("dim_labels")
    if labels is not None and "o" in labels.rhs:
        columns = right.dims[labels.rhs.index("o")]
    else:
        shared = {*(node.attributes.get("rhs_contracting_dims") or ()), *(node.attributes.get("rhs_batch_dims") or ())}
        columns = math.prod(size for dim, size in enumerate(right.dims) if dim not in shared)
    return MatrixWork(flops / 2 / kernel, kernel / max(1, columns), columns, registers_of(node.type), bits)
