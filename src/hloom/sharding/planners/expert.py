"""The plans that people write by hand, recognised from the graph: starting points, baselines and names.

Parameters that an output aliases are state: weights where a dot, convolution or gather reads them on the way to the
result, optimizer state where only the update does. The others are the batch. Which dimension of a weight Megatron
splits follows from where split dimensions flow: a weight whose contracted dimension meets a split one is split by rows,
any other by columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hloom.ir import Apply, AxisMap, Module, Node, Parameter, TensorType
from hloom.sharding.clusters import Clusters
from hloom.sharding.mesh import Mesh
from hloom.sharding.plan import Plan
from hloom.sharding.problem import aliases, output_at
from hloom.sharding.spec import Axes, Spec

CONTRACTIONS = ("dot", "convolution")


@dataclass(frozen=True, slots=True)
class Roles:
    """What the parameters are; `family` names for each optimizer state the weight that it belongs to."""

    batch: tuple[Parameter, ...]
    weights: tuple[Parameter, ...]
    states: tuple[Parameter, ...]
    tables: tuple[Parameter, ...]
    family: dict[Parameter, Parameter]


def experts(module: Module, mesh: Mesh, clusters: Clusters) -> list[Plan]:
    """The plans, each with its name; those that the graph does not allow are left out."""
    roles = roles_of(module, clusters)
    every = tuple(name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1)
    found: list[Plan] = []
    if not every:
        return [Plan(mesh, name="one device")]
    found.append(_data_parallel(roles, mesh, every))
    found.append(_fully_sharded(roles, mesh, every, (*roles.weights, *roles.states), "fully sharded"))
    found.append(_fully_sharded(roles, mesh, every, roles.states, "ZeRO-1"))
    found += _tables(roles, mesh, every)
    found.append(_megatron(module, roles, mesh, clusters, (), every))
    for model in every if len(every) > 1 else ():
        data = tuple(axis for axis in every if axis != model)
        found.append(_megatron(module, roles, mesh, clusters, data, (model,)))
    return [plan for plan in found if plan.parameters]


def roles_of(module: Module, clusters: Clusters) -> Roles:
    """Sort the parameters of the entry."""
    entry = module.entry
    root = entry.output
    outputs = {a.parameter: output_at(root, a.output_index) for a in aliases(module) if root is not None}
    batch = tuple(p for p in entry.parameters if p.number not in outputs)
    aliased = [p for p in entry.parameters if p.number in outputs]
    leads = {cluster.lead for cluster in clusters if cluster.lead.opcode in (*CONTRACTIONS, "gather")}
    weights = tuple(p for p in aliased if _feeds(p, leads, outputs[p.number]))
    states = tuple(p for p in aliased if p not in weights)
    tables = tuple(p for p in weights if any(u.opcode == "gather" and u.inputs[0] is p for u in p.users))
    homes = {}
    for weight in weights:
        made = outputs[weight.number]
        cluster = clusters.of(made) if made is not None else None
        if cluster is not None:
            homes.setdefault((cluster.number, _dims(weight)), weight)
    family: dict[Parameter, Parameter] = {}
    for state in states:
        made = outputs[state.number]
        cluster = clusters.of(made) if made is not None else None
        weight = homes.get((cluster.number, _dims(state))) if cluster is not None else None
        if weight is not None:
            family[state] = weight
    return Roles(batch, weights, states, tables, family)


def _feeds(parameter: Parameter, leads: set[Node], update: Node | None) -> bool:
    """Whether a parameter is read by more than its own update: a lead, or an op that is no update."""
    waiting: list[Node] = [parameter]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        for user in node.users:
            if user in leads:
                return True
            if user not in seen and user is not update and user.opcode != "tuple":
                seen.add(user)
                waiting.append(user)
    return False


def _dims(node: Node | None) -> tuple[int, ...]:
    return node.type.dims if node is not None and isinstance(node.type, TensorType) else ()


def _split(node: Node, place: int, axes: Axes, mesh: Mesh) -> Spec | None:
    """A spec that splits one dimension; None where it does not divide."""
    dims = _dims(node)
    if not axes or place >= len(dims) or dims[place] % mesh.count(axes):
        return None
    return Spec(tuple(axes if each == place else () for each in range(len(dims))))


def _data_parallel(roles: Roles, mesh: Mesh, axes: Axes) -> Plan:
    specs = {p.number: spec for p in roles.batch if (spec := _split(p, 0, axes, mesh)) is not None}
    return Plan(mesh, specs, name="data parallel on " + ",".join(axes))


def _fully_sharded(roles: Roles, mesh: Mesh, axes: Axes, sharded: tuple[Parameter, ...], name: str) -> Plan:
    plan = _data_parallel(roles, mesh, axes)
    for parameter in sharded:
        dims = _dims(parameter)
        for place in sorted(range(len(dims)), key=lambda each: -dims[each]):
            spec = _split(parameter, place, axes, mesh)
            if spec is not None:
                plan.parameters[parameter.number] = spec
                break
    return Plan(mesh, plan.parameters, name=f"{name} on {','.join(axes)}")


def _tables(roles: Roles, mesh: Mesh, axes: Axes) -> Iterator[Plan]:
    """Data parallel with the tables split by rows or by columns."""
    if not roles.tables:
        return
    for place, word in ((0, "rows"), (1, "columns")):
        plan = _data_parallel(roles, mesh, axes)
        for table in roles.tables:
            spec = _split(table, place, axes, mesh)
            if spec is not None:
                plan.parameters[table.number] = spec
        yield Plan(mesh, plan.parameters, name=f"data parallel, tables by {word} on {','.join(axes)}")


def _megatron(module: Module, roles: Roles, mesh: Mesh, clusters: Clusters, data: Axes, model: Axes) -> Plan:
    plan = _data_parallel(roles, mesh, data) if data else Plan(mesh)
    found = _columns_and_rows(module, roles, clusters)
    for weight, place in found.items():
        spec = _split(weight, place, model, mesh)
        if spec is not None:
            plan.parameters[weight.number] = spec
    for state, weight in roles.family.items():
        spec = plan.parameters.get(weight.number)
        if spec is not None and weight in found:
            plan.parameters[state.number] = spec
    parts = [*(["data parallel on " + ",".join(data)] if data else []), "Megatron on " + ",".join(model)]
    return Plan(mesh, plan.parameters, name=", ".join(parts))


def _columns_and_rows(module: Module, roles: Roles, clusters: Clusters) -> dict[Parameter, int]:
    """By weight the dimension that tensor parallelism splits."""
    weights = set(roles.weights)
    found: dict[Parameter, int] = {}
    marked: dict[Node, int] = {}
    origin: dict[Node, tuple[Parameter, tuple[int, ...]]] = {
        weight: (weight, tuple(range(len(_dims(weight))))) for weight in roles.weights
    }
    for node in module.entry.nodes:
        axes = clusters.maps.get(node)
        if not isinstance(node, Apply) or axes is None:
            continue
        _trace(node, axes, origin)
        if node.opcode in CONTRACTIONS and len(node.inputs) == 2:
            _place_weight(node, axes, origin, marked, found)
        _mark(node, axes, marked, origin, found, weights)
    return found


def _trace(node: Apply, axes: AxisMap, origin: dict[Node, tuple[Parameter, tuple[int, ...]]]) -> None:
    """Follow a weight through transposes and casts: which of its dimensions is where."""
    if node.opcode not in ("transpose", "convert", "copy") or node.inputs[0] not in origin:
        return
    weight, dims = origin[node.inputs[0]]
    where = {factors: dims[place] for place, factors in enumerate(axes.operands[0])}
    origin[node] = (weight, tuple(where.get(factors, -1) for factors in axes.results[0]))


def _place_weight(
    node: Apply,
    axes: AxisMap,
    origin: dict[Node, tuple[Parameter, tuple[int, ...]]],
    marked: dict[Node, int],
    found: dict[Parameter, int],
) -> None:
    for side in (0, 1):
        weight = origin.get(node.inputs[side])
        other = node.inputs[1 - side]
        if weight is None or weight[0] in found or other in origin:
            continue
        split = axes.operands[1 - side][marked[other]] if other in marked else ()
        shown = {f for dimension in axes.results[0] for f in dimension}
        for place, factors in enumerate(axes.operands[side]):
            is_contracted = not any(f in shown for f in factors)
            if is_contracted == (split == factors and bool(split)) and (is_contracted or not _is_batch(axes, factors)):
                found[weight[0]] = weight[1][place]
                if not is_contracted:
                    marked[node] = axes.results[0].index(factors)
                break


def _is_batch(axes: AxisMap, factors: tuple[int, ...]) -> bool:
    return all(factors in operand for operand in axes.operands)


def _mark(
    node: Apply,
    axes: AxisMap,
    marked: dict[Node, int],
    origin: dict[Node, tuple[Parameter, tuple[int, ...]]],
    found: dict[Parameter, int],
    weights: set[Parameter],
) -> None:
    """Pass the split dimension on, and split what is added to it along with it."""
    if node not in marked:
        for place, operand in enumerate(node.inputs):
            if operand in marked and axes.operands[place]:
                factors = axes.operands[place][marked[operand]]
                major = factors[:1]
                where = [d for d, each in enumerate(axes.results[0]) if each[:1] == major and major]
                if where:
                    marked[node] = where[0]
                    break
    if node not in marked:
        return
    major = axes.results[0][marked[node]][:1]
    for place, operand in enumerate(node.inputs):
        vector = _vector_behind(operand, weights)
        if vector is None or vector in found or operand in marked:
            continue
        is_along = any(each[:1] == major for each in axes.operands[place])
        if is_along and _dims(vector) == (_size(axes, major),):
            found[vector] = 0


def _vector_behind(node: Node, weights: set[Parameter]) -> Parameter | None:
    """The vector that was broadcast into a value."""
    while isinstance(node, Apply) and node.opcode in ("broadcast", "reshape") and node.inputs:
        node = node.inputs[0]
    return node if isinstance(node, Parameter) and node in weights else None


def _size(axes: AxisMap, factors: tuple[int, ...]) -> int:
    return axes.factors[factors[0]].size if factors else 0
