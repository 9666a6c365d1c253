"""Finds the KV caches of a decode step, and which of their elements share a scale.

A cache is an array that dots read, of which some elements are overwritten (by a dynamic-update-slice, a scatter, a
select or a concatenation), and whose new value is an output of the program, or carried by a loop. A scale is shared by
one row of a head: the elements summed up in the product with the queries, or those left of the values once all rows are
summed up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hloom.analysis import called_computations, graphs_run_by
from hloom.compress.quantization.arithmetic import scale_dims
from hloom.compress.quantization.cache_flow import (
    CacheFlow,
    CacheSlot,
    CacheSlots,
    follow,
    is_same_along,
    is_write,
    window_dims,
    written_dims,
)
from hloom.compress.quantization.contraction_blocks import group_blocks
from hloom.compress.quantization.movement import MovedDims, Piece, moved, unmoved
from hloom.compress.quantization.parameter_names import ParameterNames
from hloom.compress.quantization.quantized_value import SCALE, Spread, movement_of
from hloom.compress.quantization.recipe import WeightFormat
from hloom.compress.quantization.weights import LEAST_BITS, Exclusion
from hloom.ir import Apply, Graph, Module, Node, Parameter, TensorType
from hloom.text import HloomError

UNWRITTEN = "nothing is written into it; as a weight it may be quantised"


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """How a value of a cache is held: its format, and how many elements of every dimension share a scale."""

    blocks: tuple[int, ...]
    format: WeightFormat


@dataclass(frozen=True, slots=True)
class Cache:
    """A value that is a cache before the first write: a parameter of the entry, or a value carried by a loop.

    `outputs` are the numbers of the entry's results that it is afterwards; `writes` and `readers` instructions.
    """

    node: Node
    layout: CacheLayout
    outputs: tuple[int, ...]
    writes: tuple[Apply, ...]
    readers: tuple[Apply, ...]


@dataclass(frozen=True, slots=True)
class _Dims:
    """Where the dimensions of a cache go; unless they `go_on_as_rows`, only of what rows are written into."""

    go_on_as_rows: bool = True

    def moved(self, node: Apply, operand_index: int, known: MovedDims) -> MovedDims | None:
        return moved(node, operand_index, known)

    def written(self, node: Apply, known: MovedDims) -> MovedDims | None:
        return known

    def holding(self, node: Apply, operand_index: int, known: MovedDims) -> MovedDims | None:
        sizes, held = node.array_type.dims, node.operands[operand_index].array_type.dims
        if len(sizes) != len(held):
            return None
        if not self.go_on_as_rows:
            is_most = node.opcode == "concatenate" and all(
                2 * part > size for size, part in zip(sizes, held, strict=True)
            )
            return known if is_most else None
        return tuple(
            pieces if size == part else (Piece(frozenset().union(*(piece.dims for piece in pieces)), size),)
            for size, part, pieces in zip(sizes, held, known, strict=True)
        )


class LayoutRules:
    """How values of caches are held after a movement or a write; None where a block would be cut."""

    def moved(self, node: Apply, operand_index: int, known: CacheLayout) -> CacheLayout | None:
        if operand_index != 0 or node.operands.count(node.operands[0]) != 1:
            return None
        dims = node.operands[0].array_type.dims
        if not all(dims):
            return None
        spreads = {SCALE: Spread(known.blocks, scale_dims(dims, known.blocks))}
        movement = movement_of(dims, spreads, node)
        return None if movement is None else CacheLayout(movement.blocks[SCALE], known.format)

    def written(self, node: Apply, known: CacheLayout) -> CacheLayout | None:
        return known if can_write(node, known.blocks) else None

    def holding(self, node: Apply, operand_index: int, known: CacheLayout) -> CacheLayout | None:
        blocks = known.blocks
        if node.opcode == "scatter":
            target = [1] * node.array_type.rank
            for update, dim in window_dims(node):
                target[dim] = blocks[update]
            blocks = tuple(target)
        if len(blocks) != node.array_type.rank or not can_write(node, blocks):
            return None
        return CacheLayout(blocks, known.format) if row_blocks(node, operand_index, blocks) == known.blocks else None


def can_write(write: Apply, blocks: Sequence[int]) -> bool:
    """Whether a write replaces blocks as a whole."""
    shared = [dim for dim, block in enumerate(blocks) if block > 1]
    dims = write.array_type.dims
    match write.opcode:
        case "dynamic-update-slice":
            update = write.operands[1].array_type.dims
            return all(update[dim] == dims[dim] for dim in shared)
        case "scatter":
            update = write.operands[2].array_type.dims
            windows = {dim: target for target, dim in window_dims(write)}
            return all(dim in windows and update[windows[dim]] == dims[dim] for dim in shared)
        case "concatenate":
            return not any(dim in shared for dim in write.attributes["dimensions"])
    return all(is_same_along(write.operands[0], dim) for dim in shared)


def row_blocks(write: Apply, operand_index: int, blocks: Sequence[int]) -> tuple[int, ...]:
    """The blocks of what is written, so that those of the cache are these."""
    if write.opcode != "scatter":
        return tuple(blocks)
    made = [1] * write.operands[operand_index].array_type.rank
    for update, dim in window_dims(write):
        made[update] = blocks[dim]
    return tuple(made)


def find_caches(
    module: Module, slots: CacheSlots, wanted: WeightFormat | Mapping[str, WeightFormat]
) -> tuple[list[Cache], list[Exclusion]]:
    """The caches of a module in canonical form, all or the named ones, and why others do not qualify.

    Raises HloomError if a name is not a cache's, and if there are none.
    """
    if isinstance(wanted, Mapping):
        return _named_caches(module, slots, wanted), []
    caches: list[Cache] = []
    exclusions: list[Exclusion] = []
    reasons: list[Exclusion] = []
    covered: set[Node] = set()
    for parameter in _candidates(module, slots):
        made, flow = _cache(module, slots, parameter, wanted)
        covered |= flow.known.keys()
        if isinstance(made, Cache):
            caches.append(made)
            continue
        reason = Exclusion(parameter.name, f"it is not a cache: {made}")
        reasons.append(reason)
        if made != UNWRITTEN and any(is_write(value) for value in flow.known):
            exclusions.append(reason)
    for slot in _carried(module, slots):
        if slot.names[0] in covered:
            continue
        made, flow = _cache(module, slots, slot.names[0], wanted)
        if isinstance(made, Cache) and _is_read_where_written(made, slot):
            caches.append(made)
            covered |= flow.known.keys()
    if not caches:
        first = next(iter([*exclusions, *reasons]), None)
        why = f"; {first.name}: {first.reason}" if first is not None else ""
        raise HloomError(
            f"{module.name} has no cache to quantise{why}",
            hint="a cache is a parameter that dots read, that is written into, and that an output then is",
        )
    return caches, exclusions


def _named_caches(module: Module, slots: CacheSlots, wanted: Mapping[str, WeightFormat]) -> list[Cache]:
    names = ParameterNames(module.entry.parameters)
    carried = {name.name: slot for slot in _carried(module, slots) for name in slot.names}
    caches: dict[Node, Cache] = {}
    for name, form in wanted.items():
        node = names.get(name) or (carried[name].names[0] if name in carried else None) or names[name]
        reason = _reason_against(node)
        made = reason if reason is not None else _cache(module, slots, node, form)[0]
        if not isinstance(made, Cache):
            raise HloomError(f"{node.name} is not a cache: {made}")
        if node in caches:
            raise HloomError(f"the cache {node.name} is named twice")
        caches[node] = made
    if not caches:
        raise HloomError("no cache is named", hint="cache='int8', or --cache int8, means all of them")
    return list(caches.values())


def _candidates(module: Module, slots: CacheSlots) -> list[Parameter]:
    """The parameters that an output may be, after some writes."""
    types = {output.type.with_layout(None) for output in slots.outputs if isinstance(output.type, TensorType)}
    return [
        parameter
        for parameter in module.entry.parameters
        if _reason_against(parameter) is None and any(_is_grown(parameter.array_type, type_) for type_ in types)
    ]


def _is_grown(before: TensorType, after: TensorType) -> bool:
    """Whether an array may be another after rows were written or added."""
    return (
        before.dtype is after.dtype
        and before.rank == after.rank
        and sum(one != other for one, other in zip(before.dims, after.dims, strict=True)) <= 1
    )


def _carried(module: Module, slots: CacheSlots) -> list[CacheSlot]:
    """The elements that loops carry and may change, those of outer loops first."""
    made: dict[int, CacheSlot] = {}
    for graph in module.graphs:
        for node in graph.nodes:
            slot = slots.of_name.get(node)
            if slot is None or not slot.is_loop or node.graph is not slot.holder.attributes["body"]:
                continue
            if _reason_against(node) is None and slot.later_sources[0] is not node:
                made.setdefault(id(slot), slot)
    depth = {graph: number for number, graph in enumerate(_from_the_entry(module))}
    return sorted(made.values(), key=lambda slot: depth.get(slot.holder.graph, len(depth)))


def _from_the_entry(module: Module) -> list[Graph]:
    order: dict[Graph, None] = {module.entry: None}
    pending = [module.entry]
    for graph in pending:
        for node in graph.nodes:
            for called in called_computations(node):
                if called not in order:
                    order[called] = None
                    pending.append(called)
    return list(order)


def _is_read_where_written(cache: Cache, slot: CacheSlot) -> bool:
    """Whether a dot reads what a loop carries in the loop itself: else it is collected there to be read behind it."""
    inside = graphs_run_by(slot.holder.attributes["body"])
    return any(reader.graph in inside for reader in cache.readers)


def _reason_against(node: Node) -> str | None:
    type_ = node.type
    if not isinstance(type_, TensorType) or not type_.is_static:
        return f"it is {type_}: no array of a known size"
    if not type_.dtype.is_float or type_.dtype.bits < LEAST_BITS:
        return f"it is {type_}: only floats of {LEAST_BITS} bits and more are quantised"
    if type_.rank < 2 or not type_.element_count:
        return f"it is {type_}: it has no rows"
    return None


def _cache(
    module: Module, slots: CacheSlots, node: Node, form: WeightFormat
) -> tuple[Cache | str, CacheFlow[MovedDims]]:
    """The cache that a value is, or why it is not one."""
    type_ = node.array_type
    flow = follow(slots, {node: unmoved(type_)}, _Dims())
    writes = [value for value in flow.known if is_write(value)]
    written = frozenset(
        origin
        for write in writes
        for dim in written_dims(write)
        for piece in flow.known[write][dim]
        for origin in piece.dims
    )
    reads = [
        (user, operand_index, dims)
        for value, dims in flow.known.items()
        for user in value.users
        if isinstance(user, Apply) and user.opcode == "dot"
        for operand_index, operand in enumerate(user.operands)
        if operand is value
    ]
    ends = sorted(
        number
        for value in flow.known
        for number in slots.output_numbers.get(value, ())
        if _is_grown(type_, value.array_type) and value is not node
    )
    if not reads:
        return "no dot reads it", flow
    core = follow(slots, {node: unmoved(type_)}, _Dims(go_on_as_rows=False))
    if not written or not any(is_write(value) for value in core.known):
        return UNWRITTEN, flow
    if isinstance(node, Parameter) and node.graph is module.entry and not ends:
        return f"no output is what it is after {writes[-1].name}", flow
    if len(ends) > 1:
        return f"the outputs {', '.join(map(str, ends))} may all be what it is after the step", flow
    shared: dict[int, int] | None = None
    for user, operand_index, dims in reads:
        own = _shared_dims(user, operand_index, dims, written, type_.dims)
        shared = own if shared is None else {dim: size for dim, size in own.items() if shared.get(dim) == size}
    if not shared:
        return "of what is written at once the dots that read it sum up nothing", flow
    blocks: tuple[int, ...] | None = tuple(shared.get(dim, 1) for dim in range(type_.rank))
    count = prod(shared.values())
    if form.group is not None and form.group < count:
        pieces = [Piece(frozenset((dim,)), size, stride=1) for dim, size in sorted(shared.items())]
        blocks = group_blocks(type_.dims, pieces, form.group)
        if blocks is None:
            return f"groups of {form.group} of the {count:,} elements of a row are not blocks of its dimensions", flow
    made = Cache(
        node,
        CacheLayout(blocks, form),
        tuple(ends),
        tuple(writes),
        tuple(dict.fromkeys(user for user, _, _ in reads)),
    )
    return _held_throughout(slots, made), flow


def _held_throughout(slots: CacheSlots, cache: Cache) -> Cache | str:
    """The cache, where it keeps its layout up to the output; else what does not."""
    flow = follow(slots, {cache.node: cache.layout}, LayoutRules())
    for number in cache.outputs:
        output = slots.outputs[number]
        if output not in flow.known or flow.known[output].blocks != cache.layout.blocks:
            cut = next((w for w in cache.writes if w not in flow.known), None)
            what = f"{cut.name} does not write whole rows" if cut is not None else f"output {number} is computed of it"
            return f"it cannot stay narrow: {what}"
    if not isinstance(cache.node, Parameter) and not any(write in flow.known for write in cache.writes):
        return "what is written into it is not a whole rows"
    return cache


def _shared_dims(
    dot: Apply, operand_index: int, dims: MovedDims, written: frozenset[int], sizes: Sequence[int]
) -> dict[int, int]:
    """The dimensions of a cache that are a row of a head in a dot that reads it, and how many elements of them."""
    side = ("lhs", "rhs")[operand_index]
    batch = tuple(dot.attribute(f"{side}_batch_dims") or ())
    contracting = tuple(dot.attribute(f"{side}_contracting_dims") or ())
    summed = [piece for dim in contracting for piece in dims[dim] if piece.size > 1]
    if summed and all(piece.dims <= written for piece in summed):  # values: the rows are summed up
        free = [dim for dim in range(len(dims)) if dim not in (*batch, *contracting)]
        summed = [piece for dim in free for piece in dims[dim]]
    shared: dict[int, int] = {}
    for piece in summed:
        if len(piece.dims) == 1 and not piece.dims <= written:
            (dim,) = piece.dims
            shared[dim] = shared.get(dim, 1) * piece.size
    return {dim: size for dim, size in shared.items() if size > 1 and sizes[dim] % size == 0}
