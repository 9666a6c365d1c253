"""Caches of a quantised program: which parameters and results are narrow, and their scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hloom.analysis import leaf_bytes
from hloom.compress.quantization.arithmetic import scale_dims
from hloom.compress.quantization.cache_flow import CacheSlots, follow
from hloom.compress.quantization.cache_rewriter import CacheRewriter
from hloom.compress.quantization.dequantization import add_companions
from hloom.compress.quantization.insertion_point import first_instruction, packed
from hloom.compress.quantization.kv_cache import Cache, LayoutRules, find_caches
from hloom.compress.quantization.masked_sums import select_masked_sums
from hloom.compress.quantization.quantized_value import SCALE, QuantizedValue
from hloom.compress.quantization.recipe import WeightFormat
from hloom.compress.quantization.weights import Exclusion
from hloom.ir import InputOutputAlias, Module, Node, Parameter, TensorType
from hloom.text import Record


@dataclass(frozen=True, slots=True)
class QuantizedCache(Record):
    """A cache that has a narrow type now: a parameter and a result of the program, or what a loop carries.

    Elements of a block of `blocks` share a scale. `number` and `output` are the parameter's and the result's, None
    where a loop carries the cache. `writes` are the instructions that quantise what they write, `uses` the dots that
    read it.
    """

    name: str
    number: int | None
    output: int | None
    type: TensorType
    quantized_type: TensorType
    blocks: tuple[int, ...]
    writes: tuple[str, ...]
    uses: tuple[str, ...]
    companions: Mapping[str, int]
    """The numbers of the further parameters: `scale`."""
    output_companions: Mapping[str, int]
    """The numbers of the further results."""
    companion_types: Mapping[str, TensorType]
    format: WeightFormat
    json_keys = (
        "name type=type.__str__ quantized_type=bare_type format=format.__str__ blocks bytes used_by=uses output "
        "written_by=writes"
    )

    @property
    def bytes_before(self) -> int:
        return leaf_bytes(self.type)

    @property
    def bytes_after(self) -> int:
        return leaf_bytes(self.quantized_type) + sum(map(leaf_bytes, self.companion_types.values()))

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes before and after, scales included."""
        return self.bytes_before, self.bytes_after

    @property
    def bare_type(self) -> str:
        """The narrow type without its layout."""
        return str(self.quantized_type.with_layout(None))


def narrow_caches(
    module: Module, wanted: WeightFormat | Mapping[str, WeightFormat]
) -> tuple[list[QuantizedCache], list[Exclusion]]:
    """Hold the caches of a module in canonical form in a narrow type; returns them, and why others do not qualify.

    Raises HloomError if there are none, and for a name that is not a cache's.
    """
    select_masked_sums(module)
    slots = CacheSlots(module)
    caches, exclusions = find_caches(module, slots, wanted)
    flow = follow(slots, {cache.node: cache.layout for cache in caches}, LayoutRules())
    first = first_instruction(module.entry)
    seeds: dict[Node, QuantizedValue] = {}
    before = {cache.node: cache.node.array_type for cache in caches}
    for cache in caches:
        node, layout, type_ = cache.node, cache.layout, before[cache.node].with_layout(None)
        if not isinstance(node, Parameter) or node.graph is not module.entry:
            continue
        shape = scale_dims(type_.dims, layout.blocks)
        wanted_companions = {SCALE: (layout.format.number_format.scale_type(type_.dtype), shape)}
        companions = add_companions(node, layout.format.number_format.dtype, wanted_companions, first)
        seeds[node] = QuantizedValue(node, companions, {SCALE: layout.blocks}, type_)
    rewriter = CacheRewriter(module, flow, seeds)
    outputs = sorted({number for cache in caches if cache.node in seeds for number in cache.outputs})
    rewriter.rewrite(outputs)
    made = [_record(cache, before[cache.node], seeds.get(cache.node), rewriter.outputs) for cache in caches]
    _share_buffers(module, made)
    return made, exclusions


def _share_buffers(module: Module, caches: list[QuantizedCache]) -> None:
    """Let scales be updated where they are if their cache is."""
    known: tuple[InputOutputAlias, ...] = tuple(module.attributes.get("input_output_alias") or ())
    shared: dict[int, InputOutputAlias] = {alias.parameter: alias for alias in known}
    further: list[InputOutputAlias] = []
    is_tuple = module.entry.root.opcode == "tuple"
    for cache in caches:
        alias = shared.get(cache.number) if cache.number is not None else None
        if alias is None:
            continue
        for name, number in cache.companions.items():
            index = (cache.output_companions[name],)
            further.append(InputOutputAlias(index, number, (), alias.kind))
    if further and is_tuple:
        moved = [
            InputOutputAlias(alias.output_index or (0,), alias.parameter, alias.parameter_index, alias.kind)
            for alias in known
        ]
        module.attributes = module.attributes.changed(input_output_alias=(*moved, *further))


def _record(cache: Cache, type_: TensorType, seed: QuantizedValue | None, outputs: Mapping[int, int]) -> QuantizedCache:
    form, plain = cache.layout.format, type_.with_layout(None)
    scale = TensorType(form.number_format.scale_type(plain.dtype), scale_dims(plain.dims, cache.layout.blocks))
    output = cache.outputs[0] if seed is not None else None
    return QuantizedCache(
        cache.node.name,
        cache.node.number if isinstance(cache.node, Parameter) and seed is not None else None,
        output,
        plain,
        packed(type_.with_dtype(form.number_format.dtype)),
        cache.layout.blocks,
        tuple(dict.fromkeys(node.name for node in cache.writes)),
        tuple(node.name for node in cache.readers),
        {} if seed is None else {name: _number(node) for name, node in seed.companions.items()},
        {} if output is None else {SCALE: outputs[output]},
        {SCALE: scale},
        form,
    )


def _number(node: Node) -> int:
    assert isinstance(node, Parameter), "companions of parameters are parameters"
    return node.number
