"""User shardings: `param:dim=axis`, and the values that the names mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from hloom.ir import Module, Node
from hloom.propagation.dimension_equations import DataflowGraph
from hloom.propagation.solver import AxisSharding, ShardedDim
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError

Seeds = Mapping[Any, Spec] | Iterable[str]
"""Specs by instruction (one, or its name), or texts: `x:0=data`, `x:1=model.expert`, `state{2}:0=data`."""

_SETTING = re.compile(r"(?P<name>[^:{}]+)(\{(?P<leaf>\d+)\})?:(?P<dimension>\d+)=(?P<axes>[\w.]+)")
_NUMBERED = re.compile(r"\.\d+$")


def axis_shardings_of(seeds: Seeds, dataflow: DataflowGraph, mesh: Mesh) -> list[AxisSharding]:
    """One axis sharding for each axis of the mesh that is set somewhere, in the mesh's order.

    Raises HloomError for what is not in the module or the mesh, for an axis that is set twice in one value, for two
    settings of one dimension, and where a dimension would be cut into more parts than it has elements.
    """
    specs = _from_specs(seeds, dataflow) if isinstance(seeds, Mapping) else _from_texts(seeds, dataflow)
    places: dict[str, list[ShardedDim]] = {}
    for leaf, spec in specs.items():
        for dimension, axes in enumerate(spec.dims):
            major = 1
            for axis in axes:
                places.setdefault(axis, []).append((leaf, dimension, major))
                major *= mesh.size(axis)
            _check_size(dataflow, leaf, dimension, major)
    for axis in places:
        mesh.size(axis)  # raises where there is none
    return [AxisSharding(axis, mesh.size(axis), tuple(sorted(places[axis]))) for axis in mesh.names if axis in places]


def find_node(module: Module, name: str) -> Node:
    """The instruction of a name: `x`, `body/x`, or `param_9` for the only one called so up to its number.

    Raises HloomError, with near misses, where there is none or several.
    """
    computation, _, own = name.rpartition("/")
    graph = module[computation] if computation else module.entry
    own = own.lstrip("%")
    if own in graph:
        return graph[own]
    matches = [node for node in graph.nodes if _NUMBERED.sub("", node.name) == own]
    if len(matches) == 1:
        return matches[0]
    near = [node.name for node in matches] or get_close_matches(own, [node.name for node in graph.nodes], 3)
    hint = f"near: {', '.join(near[:5])}" if near else None
    raise HloomError(f"graph {graph.name} has {'several nodes' if matches else 'no node'} called '{own}'", hint=hint)


def _from_specs(seeds: Mapping[Any, Spec], dataflow: DataflowGraph) -> dict[int, Spec]:
    specs: dict[int, Spec] = {}
    for key, spec in seeds.items():
        node = find_node(dataflow.module, key) if isinstance(key, str) else key
        leaf = _leaf(dataflow, node, None)
        if spec.rank != len(dataflow.leaves[leaf].dims):
            raise HloomError(f"{node.name} is {dataflow.leaves[leaf].type}: {spec} is for arrays of rank {spec.rank}")
        if spec.partial or spec.manual:
            raise HloomError(f"{node.name}: only dimensions are set, not {spec}")
        specs[leaf] = spec
    return specs


def _from_texts(texts: Iterable[str], dataflow: DataflowGraph) -> dict[int, Spec]:
    specs: dict[int, Spec] = {}
    for text in texts:
        match = _SETTING.fullmatch(text.strip())
        if match is None:
            raise HloomError(f"'{text}' sets nothing", hint="write NAME:DIMENSION=AXIS, as in x:0=data")
        node = find_node(dataflow.module, match["name"])
        leaf = _leaf(dataflow, node, int(match["leaf"]) if match["leaf"] else None)
        dims, dimension = dataflow.leaves[leaf].dims, int(match["dimension"])
        if dimension >= len(dims):
            raise HloomError(f"'{text}': {node.name} is {dataflow.leaves[leaf].type}, of rank {len(dims)}")
        spec = specs.get(leaf, Spec.replicated(len(dims)))
        if spec.dims[dimension]:
            raise HloomError(
                f"'{text}': dimension {dimension} of {node.name} is set already, to {'.'.join(spec.dims[dimension])}",
                hint="several axes stand in one setting, major to minor: x:0=data.model",
            )
        specs[leaf] = spec.split(dimension, match["axes"].split("."))
    return specs


def _leaf(dataflow: DataflowGraph, node: Node, number: int | None) -> int:
    leaves = dataflow.values.get(node)
    if leaves is None:
        raise HloomError(f"{node.name} is in {node.graph.name}, which does not run")
    if not leaves or (number is not None and number >= len(leaves)):
        raise HloomError(f"{node.name} has {len(leaves)} arrays, and no number {number or 0}")
    if number is None and len(leaves) > 1:
        raise HloomError(f"{node.name} is a tuple of {len(leaves)} arrays", hint=f"say which: {node.name}{{0}}:0=axis")
    return leaves[number or 0]


def _check_size(dataflow: DataflowGraph, leaf: int, dimension: int, parts: int) -> None:
    value = dataflow.leaves[leaf]
    if 0 <= value.dims[dimension] < parts:
        size = value.dims[dimension]
        raise HloomError(f"dimension {dimension} of {value.node.name} has {size} elements: too few for {parts} parts")
