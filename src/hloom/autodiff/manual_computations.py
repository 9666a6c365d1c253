"""Rewrites Shardy's manual computations in GSPMD's form, which says which devices share which part.

    parts = (f32[2,4], f32[4]) custom-call(x, y), custom_call_target="xla.sdy.GlobalToLocalShape"
    z = f32[2] call(...), to_apply=xla.sdy.manual_computation_body
    w = f32[8] custom-call(z), custom_call_target="xla.sdy.LocalToGlobalShape"
      ->
    a = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
    b = f32[2,4] custom-call(a), custom_call_target="SPMDFullToShardShape", sharding={manual}        and so on

Source of both forms: jax/_src/shard_map.py, _shard_map_lowering_shardy, _xla_shard and _xla_unshard.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hloom.ir import Apply, IotaDevices, Module, Node, Sharding, Tiled, TupleType, Type, Uniform
from hloom.ops import OPS
from hloom.sharding import Mesh, SdySharding, from_sdy, read_sdy, read_sdy_meshes, read_sdy_per_value, to_tiled
from hloom.text import HloomError, Unsupported

TO_PARTS, TO_WHOLE = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_SHARDINGS = {TO_PARTS: "xla.sdy.in_shardings", TO_WHOLE: "xla.sdy.out_shardings"}
_MESHES, _SHARDING, _AXES = "xla.sdy.meshes", "xla.sdy.sharding", "xla.sdy.manual_axes"
_BODY, _FRONTEND = "manual_computation_body", "frontend_attributes"


def for_gspmd(module: Module) -> None:
    """Write the manual computations of a module for GSPMD, and with them its other shardings.

    Raises HloomError for those that do not say how their operands are sharded, or stand in another.
    """
    calls = [node for graph in module.graphs for node in graph.nodes if node.opcode == "custom-call"]
    nodes = [node for node in calls if _target(node) in _SHARDINGS]
    if not nodes:
        return
    frontend = _frontend(module)
    meshes = read_sdy_meshes(frontend.pop(_MESHES, "{}"))
    for node in nodes:
        if node.graph.name.startswith(f"xla.sdy.{_BODY}"):
            raise Unsupported(f"{node.graph.name}: {node.name}: a manual computation in another has no derivative here")
        assert isinstance(node, Apply), "a custom call"
        _rewrite(node, meshes)
    for graph in list(module.graphs):
        if graph.name.startswith(f"xla.sdy.{_BODY}"):
            module.rename_graph(graph, _BODY)
    for node in list(module.nodes()):
        if node.attributes.get(_FRONTEND):
            _without_shardy(node, meshes)
    count = max((mesh.device_count for mesh in meshes.values()), default=1)
    partitions = module.attributes.get("num_partitions") or count
    kept = tuple(frontend.items()) or None
    module.attributes = module.attributes.changed({_FRONTEND: kept, "num_partitions": partitions})


def _target(node: Node) -> str:
    return node.attributes.get("custom_call_target", "") if node.opcode == "custom-call" else ""


def _frontend(item: Module | Node) -> dict[str, str]:
    return dict(item.attributes.get(_FRONTEND) or ())


def _rewrite(node: Apply, meshes: Mapping[str, Mesh]) -> None:
    """Exchange a custom call for two for each of its operands."""
    target, own = _target(node), _frontend(node)
    if _SHARDINGS[target] not in own:
        raise HloomError(f"{node.graph.name}: {node.name}: '{target}' does not say how its operands are sharded")
    shardings = read_sdy_per_value(own[_SHARDINGS[target]])
    manual = re.findall(r'"([^"\\]*)\\?"', own.get(_AXES, ""))
    if len(shardings) != len(node.operands):
        raise HloomError(
            f"{node.graph.name}: {node.name}: {len(shardings)} shardings for {len(node.operands)} operands"
        )
    types = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    made = []
    for operand, sharding, result in zip(node.operands, shardings, types, strict=True):
        mesh = _mesh_of(sharding, meshes)
        whole = to_tiled(from_sdy(sharding, mesh), mesh)
        part = _part(mesh, manual, len(sharding.dimensions))
        first, second, opposite = (whole, part, "SPMDFullToShardShape")
        if target == TO_WHOLE:
            first, second, opposite = part, whole, "SPMDShardToFullShape"
        marked = _call(node, operand, "Sharding", first, operand.type)
        made.append(_call(node, marked, opposite, second, result))
    if len(made) == 1 and node.type is made[0].type:
        node.graph.replace_uses(node, made[0])
    for user in node.users:
        node.graph.replace_uses(user, made[user.attributes["index"]])
        node.graph.erase(user)
    node.graph.erase(node)


def _mesh_of(sharding: SdySharding, meshes: Mapping[str, Mesh]) -> Mesh:
    """The mesh of a sharding, devices in natural order: jax numbers them by their positions."""
    mesh = sharding.mesh if isinstance(sharding.mesh, Mesh) else meshes.get(sharding.mesh)
    if mesh is None:
        raise HloomError(f"{sharding} names a mesh that the module does not declare")
    return Mesh(mesh.names, mesh.sizes)


def _call(node: Apply, operand: Node, target: str, sharding: Sharding, value_type: Type | None) -> Node:
    attributes: dict[str, object] = {"custom_call_target": target, "sharding": sharding}
    if isinstance(sharding, Tiled) and set(sharding.subgroups) == {"manual", "replicated"}:
        attributes["backend_config"] = f"unspecified_dims=[{','.join(map(str, range(sharding.rank)))}]"
    return node.graph.add_apply(OPS["custom-call"], (operand,), value_type, attributes, before=node)


def _part(mesh: Mesh, manual: list[str], rank: int) -> Sharding:
    """The sharding of a part: manual along some axes, and as the partitioner likes along the others."""
    axes = dict(zip(mesh.names, mesh.sizes, strict=True))
    if all(name in manual for name, size in axes.items() if size > 1):
        return Uniform("manual")
    order = sorted(range(len(axes)), key=lambda number: mesh.names[number] not in manual)
    count = mesh.count(name for name in mesh.names if name in manual)
    tile = (*[1] * rank, count, mesh.device_count // count)
    return Tiled(tile, IotaDevices(tuple(mesh.sizes), tuple(order)), ("manual", "replicated"))


def _without_shardy(node: Node, meshes: Mapping[str, Mesh]) -> None:
    """Write an instruction's sharding for GSPMD, and leave out what else is for Shardy."""
    own = _frontend(node)
    text = own.get(_SHARDING, "")
    kept = tuple((name, value) for name, value in own.items() if not name.startswith("xla.sdy."))
    changes: dict[str, object] = {_FRONTEND: kept or None}
    if text.startswith("#sdy.sharding<"):
        sharding = read_sdy(text)
        mesh = _mesh_of(sharding, meshes)
        changes["sharding"] = to_tiled(from_sdy(sharding, mesh), mesh)
    node.graph.set_attributes(node, node.attributes.changed(changes))
    if _target(node) == "xla.sdy.FuncResultSharding":
        node.graph.replace_uses(node, node.operands[0])
        node.graph.erase(node)
