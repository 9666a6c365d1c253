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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hloom.analysis.stored_sizes import DEVICE_MEMORY, memory_space, stored_bytes
from hloom.ir import Apply, Graph, Node, TensorType, Trait, Type
from hloom.ops import with_trait

VMEM = 1
"""The memory space of a TPU's vector memory, on the chip: S(1)."""
LANES = 8 * 128
"""The 32-bit lanes of a vector register."""
MET_BY_BATCHES = 1.01
"""Fewer positions than this meet each result if a convolution's window stands for batches: one, but for rounding."""
TILE = 128
"""Lanes of a vector register, to which the features of a position are padded."""
ALIGNED_EMITTERS = ("EmitOutputBatch", "EmitBatchGroup")
"""How the names of emitters begin that contract each position of a convolution's window in lanes of its own."""
PATCH_EMITTER = "EmitAllInputFeaturePacked"
"""How the names of emitters begin that hold the patch of one position of the result in the array."""
PATCH_ROWS = 64
"""The rows that stream in the time of loading a patch, at least."""
DEPTHWISE_PASSES = {"EmitDepthwiseAllBatchInLanes": 2}
"""Passes of a depthwise emitter for each position; others take one."""
BF16_PASSES = {"high": 3.0, "highest": 6.0}
"""Products of bf16 parts whose sum is a product of f32 at a precision."""
INTEGER_PASSES = 0.5
"""The time of a product of 8-bit integers in that of bf16, on all TPUs that have either (TPU book)."""
MOST_WINDOWS = 1 << 40
"""Larger products of iteration bounds are taken for this: no program has them, but a text may."""
_WINDOWS = re.compile(r'"iteration_bounds":\[((?:"[0-9]{1,18}",?){0,16})\]')
_EMITTER = re.compile(r'"emitter":"(\w{1,99})"')
_CYCLES = re.compile(r'"estimated_cycles":"([0-9]{1,18})"')
FREE = frozenset(("parameter", "constant", "bitcast", "tuple", "get-tuple-element", "abs", "negate", "copy", "reshape"))
"""Opcodes that take no vector operations inside a fusion: what they do is part of another operation's load."""
MOVES = with_trait(Trait.MOVES_DATA) | {"iota", "concatenate", "pad", "slice", "dynamic-slice", "dynamic-update-slice"}
COMPARISONS = frozenset(("compare", "select", "and", "or", "not", "xor", "is-finite"))
PARTIAL = frozenset(("slice", "dynamic-slice", "gather"))
"""Opcodes that touch only the part of their first operand that they yield."""


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """A product as a systolic array runs it: `passes` products of `rows` by `contracted` by `columns`.

    Columns are those in the lanes of the result's registers, rows all others with their padding: whichever factor the
    compiler keeps in the array, it streams as many.
    """

    rows: float
    contracted: float
    columns: float
    passes: float = 1.0


@dataclass(frozen=True, slots=True)
class TpuWork:
    """The work of one run of an instruction: bytes, f32 vector registers by class of operation, products, windows.

    `loaded` and `stored` are bytes of the device's main memory (HBM), `local` bytes read of arrays that stand in VMEM,
    whole tiles each. `windows` is the number of pieces in which operands pass through VMEM. `fills_tiles` is false if
    the tiles of a result are smaller than a register, such as T(4,128). `fetches` is how many
    factors of products stand in HBM, `rounded` the bytes in f32 of a product's result that is written in another form,
    and `is_sent` says whether the last result goes to HBM.
    """

    loaded: int
    stored: int
    local: int
    windows: int
    registers: Mapping[str, float]
    products: tuple[MatrixWork, ...] = ()
    has_operands: bool = True
    fills_tiles: bool = True
    fetches: int = 0
    rounded: int = 0
    is_sent: bool = False

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
    graph = called if isinstance(called, Graph) else None
    emitter = _emitter(node)
    for member in _members(graph) if graph is not None else (node,):
        if _is_product(member):
            products.append(_product(member, flops(member), emitter))
        elif graph is not None:
            _count(member, registers, emitter)
    if graph is not None:
        _count_packing(graph, registers)
    elif not products:
        _count_single(node, registers, emitter)
    if products:
        return _product_work(node, graph, registers, products)
    loaded, local = _operand_bytes(node, graph, "reduce-window" in registers)
    stored = sum(_stored_sizes(node, graph))
    return TpuWork(
        loaded,
        stored,
        local,
        window_count(node),
        dict(registers),
        has_operands=any(_is_array(operand.type) for operand in node.operands),
        fills_tiles=_fills_tiles(node.type),
        fetches=int(loaded > 0),
        is_sent=stored > 0,
    )


def _product_work(
    node: Apply, called: Graph | None, registers: Mapping[str, float], products: Sequence[MatrixWork]
) -> TpuWork:
    """The work of a product and of what is fused with it; what stands in VMEM moves for nothing."""
    members = [node] if called is None else [member for member in _members(called) if _is_product(member)]
    made = max((member.type for member in members), key=registers_of)
    sources = _sources(node)
    fetches, loaded, factors = 0, 0, set[Node]()
    for factor in (factor for member in members for factor in member.operands[:2]):
        found = _in_main_memory(factor, node, sources)
        fetches += bool(found)
        loaded += sum(min(_stored(value.type), _f32_bytes(factor.type)) for value in found)
        factors |= found
    for parameter, operand in zip(called.parameters if called is not None else (), node.operands, strict=False):
        if operand not in factors and _is_matrix_in_main_memory(operand):
            touched = _touched(parameter)
            size = _stored(operand.type) if touched is None else sum(map(_stored, touched))
            loaded += min(size, _f32_bytes(made))
    main = _last_root(node, called)
    is_in_place = main.opcode == "dynamic-update-slice"
    is_rounded = _is_narrow(made) or (not is_in_place and _is_narrow(main.type)) or not _fills_tiles(main.type)
    is_rounded |= registers_of(_written(main)) < registers_of(made)
    leaves = list(node.type.leaves()) if node.type is not None else []
    return TpuWork(
        loaded,
        sum(_stored_sizes(node, called)),
        0,
        window_count(node),
        dict(registers),
        tuple(products),
        fetches=fetches,
        rounded=_f32_bytes(made) if is_rounded else 0,
        is_sent=not leaves or _space(leaves[-1]) != VMEM,
    )


def _last_root(node: Apply, called: Graph | None) -> Node:
    """What makes the last array of an instruction's result."""
    root = node if called is None or called.output is None else called.output
    while root.opcode in ("tuple", "bitcast") and root.operands:
        root = root.operands[-1]
    return root


def _f32_bytes(kind: Type | None) -> int:
    return round(registers_of(kind) * LANES * 4)


def _is_narrow(kind: Type | None) -> bool:
    return kind is not None and any(leaf.dtype.bits < 32 for leaf in kind.leaves() if isinstance(leaf, TensorType))


def _sources(node: Apply) -> Mapping[Node, Node]:
    """The operands that the parameters of a fusion, and of fusions inside it, stand for."""
    sources: dict[Node, Node] = {}
    pending, seen = [node], set[Graph]()
    while pending:
        fusion = pending.pop()
        called = fusion.attributes.get("calls") if fusion.opcode == "fusion" else None
        if isinstance(called, Graph) and called not in seen:
            seen.add(called)
            sources.update(zip(called.parameters, fusion.operands, strict=False))
            pending += [member for member in called.nodes if isinstance(member, Apply)]
    return sources


def _in_main_memory(factor: Node, node: Apply, sources: Mapping[Node, Node]) -> set[Node]:
    """The operands of an instruction that stand in HBM and feed this factor of a product in it."""
    found, pending, seen = set[Node](), [factor], {factor}
    while pending:
        value = pending.pop()
        while value in sources:
            value = sources[value]
        called = value.attributes.get("calls") if value.opcode == "fusion" else None
        if value.graph is node.graph:
            found |= {value} if _is_matrix_in_main_memory(value) else set()
        elif isinstance(called, Graph) and called.output is not None:
            pending.append(called.output)
        elif not _is_product(value):
            followed = value.operands[:1] if value.opcode in PARTIAL else value.operands
            pending += [operand for operand in followed if operand not in seen]
            seen.update(followed)
    return found


def _is_matrix_in_main_memory(value: Node) -> bool:
    """Whether a value stands in HBM; vectors are not waited for."""
    return isinstance(value.type, TensorType) and len(value.type.dims) > 1 and _space(value.type) != VMEM


def _emitter(node: Apply) -> str:
    """What the compiler calls the way in which it emits a product or a window."""
    found = _EMITTER.search(str(node.attributes.get("backend_config") or ""))
    return found[1] if found else ""


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


def _count(node: Apply, registers: defaultdict[str, float], emitter: str) -> None:
    """Add the vector operations of an instruction inside a fusion."""
    opcode = node.opcode
    if opcode in FREE:
        return
    if opcode == "broadcast":
        registers["spread"] += _spread_registers(node)
    elif opcode == "reduce":
        registers[opcode] += max((registers_of(operand.type) for operand in node.operands), default=0.0)
    elif opcode == "reduce-window":
        registers[opcode] += _windowed_registers(node, emitter)
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


def _spread_registers(node: Apply) -> float:
    """The registers whose lanes a broadcast fills from one lane of a column, once for all along the lanes."""
    made, read = node.type, node.operands[0].type
    if not isinstance(made, TensorType) or not isinstance(read, TensorType) or not read.dims:
        return 0.0
    order = made.layout.minor_to_major if made.layout is not None else ()
    if (order[0] if order else len(made.dims) - 1) in (node.attributes.get("dimensions") or ()):
        return 0.0
    return registers_of(made) / -(-_rows_and_lanes(made)[1] // TILE)


def _windowed_registers(node: Apply, emitter: str) -> float:
    """The registers of a sliding window's result, times half a step for each doubling of what the window meets.

    Windows over all lanes or sublanes are emitted as reductions, whatever their size.
    """
    made = registers_of(node.type)
    window = node.attributes.get("window")
    if window is None or emitter.startswith("EmitReduceWindow"):
        return made
    met = math.prod(max(1.0, dimension.size / max(1, dimension.base_dilation)) for dimension in window.dimensions)
    return made * (1 + math.log2(met) / 2)


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


def _count_single(node: Apply, registers: defaultdict[str, float], emitter: str) -> None:
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
    if node.opcode == "reduce-window":
        registers[node.opcode] += _windowed_registers(node, emitter)
    elif node.opcode == "reduce":
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


def _product(node: Apply, flops: float, emitter: str) -> MatrixWork:
    """The rows, contracted and output features of a product, and into how many passes its window divides it.

    The FLOPs say how many positions of a convolution's window meet each row of its result; what meets padding is left
    out. Positions are contracted together with the features; some emitters, and kernels that are reversed, give each
    position lanes of its own. If a row meets one position, the compiler wrote batches as a window. A depthwise kernel
    multiplies vectors, in the time that the array takes for a pass or two of each position.
    """
    kinds = [operand.type for operand in node.operands[:2]]
    right, made = kinds[-1] if kinds else None, node.type
    if not isinstance(right, TensorType) or not isinstance(made, TensorType):
        return MatrixWork(0.0, 0.0, 0.0)
    rows, columns = _rows_and_lanes(made)
    passes = max(BF16_PASSES.get(name, 1.0) for name in node.attributes.get("operand_precision") or ("default",))
    if all(isinstance(kind, TensorType) and kind.dtype.is_integer and kind.dtype.bits <= 8 for kind in kinds):
        passes = INTEGER_PASSES
    met = flops / 2 / max(1, math.prod(made.dims))
    labels = node.attributes.get("dim_labels")
    if labels is None or "o" not in labels.rhs or "i" not in labels.rhs:
        return MatrixWork(rows, met, columns, passes)
    features = max(1, right.dims[labels.rhs.index("i")])
    met /= features
    if met < MET_BY_BATCHES:
        return MatrixWork(rows, features, columns, passes)
    if emitter.startswith("EmitDepthwise"):
        return MatrixWork(rows, features, columns, met * DEPTHWISE_PASSES.get(emitter, 1))
    positions, inserted = _positions(node)
    if emitter.startswith(PATCH_EMITTER):
        spots = (size for size, name in zip(made.dims, labels.output, strict=False) if name.isdigit())
        rows = max(rows, PATCH_ROWS * math.prod(spots))
    if emitter.startswith(ALIGNED_EMITTERS) or _is_reversed(node):
        features = -(-features // TILE) * TILE
    share = met / positions * (1 if emitter.startswith(ALIGNED_EMITTERS) else inserted)
    return MatrixWork(rows, features * positions, columns, passes * share)


def _positions(node: Apply) -> tuple[int, int]:
    """The positions of a window, without dimensions that stand for batches, and how many times zeros multiply them."""
    window = node.attributes.get("window")
    dimensions = window.dimensions if window is not None else ()
    sliding = [dimension for dimension in dimensions if dimension.base_dilation == 1 or dimension.stride == 1]
    inserted = math.prod(max(1, dimension.base_dilation) for dimension in sliding)
    return max(1, math.prod(dimension.size for dimension in sliding)), inserted


def _rows_and_lanes(made: TensorType) -> tuple[int, int]:
    """The sizes of a result in registers: the dimension in the lanes, and all others with their padding."""
    order = made.layout.minor_to_major if made.layout is not None else ()
    sizes = [made.dims[number] for number in order] or [*reversed(made.dims)]
    lanes, sublanes, *others = [*sizes, 1, 1]
    return -(-sublanes // 8) * 8 * math.prod(others), max(1, lanes)


def _is_reversed(node: Apply) -> bool:
    window = node.attributes.get("window")
    return window is not None and any(dimension.reversal for dimension in window.dimensions)
