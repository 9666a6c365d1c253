"""Plans in other notations: Shardy's HLO, the arguments of `jax.jit`, and constraints inside a function.

GSPMD reads `sharding=` of parameters, instructions and the result: `Plan.annotate` writes it. Shardy ignores it. In the
HLO that XLA passes to Shardy, a parameter's sharding is a frontend attribute, an instruction's is a custom call after
it, and a result's is another custom call; `annotate_for_shardy` writes these:

    x = f32[8,8] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"data\\"}, {}]>"}
    y = f32[8,8] sine(x)
    z = f32[8,8] custom-call(y), custom_call_target="Sharding", frontend_attributes={xla.sdy.sharding="..."}
    ROOT w = f32[8,8] custom-call(z), custom_call_target="xla.sdy.FuncResultSharding", ...

Inside `jax.jit`, jax determines the shardings of parameters and results, and only those of instructions are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from hloom.distribute.planner.plan import Plan
from hloom.ir import Graph, MeshSharding, Module, Node, Parameter, TensorType
from hloom.ops import OPS
from hloom.sharding import (
    MESH_NAME,
    Mesh,
    Spec,
    from_tuple,
    meshes_text,
    per_value,
    read_sdy_meshes,
    to_mesh_sharding,
    to_sdy,
    to_tiled,
)
from hloom.text import HloomError

SHARDING_KEY, MESHES_KEY = "xla.sdy.sharding", "xla.sdy.meshes"
"""The frontend attributes in which HLO carries Shardy's shardings and meshes."""
CONSTRAINT, RESULT = "Sharding", "xla.sdy.FuncResultSharding"
"""The targets of the custom calls that carry the sharding of an instruction's value, and of a result."""


def annotate_for_shardy(plan: Plan, module: Module) -> Module:
    """A copy of the module with the plan's shardings on parameters, instructions and results, in Shardy's form."""
    results = result_specs(plan, module)
    copy = plan.form(module)
    name = _declare_mesh(copy, plan.mesh)
    for parameter in copy.entry.parameters:
        if isinstance(parameter.type, TensorType):
            text = str(to_sdy(_parameter_spec(plan, parameter), plan.mesh, name))
            _set_frontend(parameter, SHARDING_KEY, text)
    _put_operand_specs(plan, copy, name)
    _constrain(list(_instructions(plan, copy)), plan.mesh, name)
    _constrain_results(copy, results, plan.mesh, name)
    return copy


def constrain(plan: Plan, module: Module) -> None:
    """Put the plan's shardings on instructions, editing the module, where GSPMD reads them.

    The module is brought into the plan's form. Devices are numbered as in jax's programs. Parameters that `even_spec`
    cannot split as planned are split inside.
    """
    inside = _inside(plan)
    inside.bring_into_form(module)
    _constrain(_uneven_parameters(plan, module), inside.mesh, None)
    inside.annotate_instructions(module)


def constrain_for_shardy(plan: Plan, module: Module) -> None:
    """The same as `constrain`, where Shardy reads it."""
    inside = _inside(plan)
    inside.bring_into_form(module)
    marked_values = [*_uneven_parameters(plan, module), *_instructions(plan, module)]
    if marked_values or plan.operand_specs:
        name = _declare_mesh(module, inside.mesh)
        _put_operand_specs(inside, module, name)
        _constrain(marked_values, inside.mesh, name)


def parameter_specs(plan: Plan, module: Module) -> list[Spec]:
    """The spec of each parameter of the entry, by number."""
    return [_parameter_spec(plan, parameter) for parameter in module.entry.parameters]


def result_specs(plan: Plan, module: Module) -> list[Spec]:
    """The spec of each result of the entry: an alias of a parameter has the parameter's."""
    root = plan.annotate(module).entry.root
    assert root.type is not None
    return list(from_tuple(root.attributes["sharding"], plan.mesh, root.type))


def parameter_shardings(plan: Plan, module: Module) -> list[MeshSharding]:
    """How each parameter is value_spec by jax, in V3: see `even_spec`."""
    kinds = [parameter.type for parameter in module.entry.parameters]
    return [
        _v3(spec, value_type, plan.mesh) for spec, value_type in zip(parameter_specs(plan, module), kinds, strict=True)
    ]


def result_shardings(plan: Plan, module: Module) -> list[MeshSharding]:
    """How each result is value_spec by jax, in V3: see `even_spec`."""
    assert module.entry.root.type is not None
    kinds = list(module.entry.root.type.leaves())
    return [
        _v3(spec, value_type, plan.mesh) for spec, value_type in zip(result_specs(plan, module), kinds, strict=True)
    ]


def even_spec(spec: Spec, dims: Sequence[int], mesh: Mesh) -> Spec:
    """The part of a spec that jax can express: jax has no uneven arrays, so axes that do not divide a dimension are
    dropped.

    >>> mesh = Mesh.parse("x=2,y=4")
    >>> print(even_spec(Spec((("x", "y"),)), (6,), mesh), even_spec(Spec((("x", "y"),)), (16,), mesh))
    [x] [x.y]
    """
    if spec.rank != len(dims):
        raise HloomError(f"the plan has {spec} for an array of rank {len(dims)}", hint="is it another module's plan?")
    return replace(spec, dims=tuple(_dividing(axes, size, mesh) for axes, size in zip(spec.dims, dims, strict=True)))


def _dividing(axes: tuple[str, ...], size: int, mesh: Mesh) -> tuple[str, ...]:
    count = next(count for count in range(len(axes), -1, -1) if size % mesh.count(axes[:count]) == 0)
    return axes[:count]


def _v3(spec: Spec, value_type: object, mesh: Mesh) -> MeshSharding:
    dims = value_type.dims if isinstance(value_type, TensorType) else ()
    return to_mesh_sharding(even_spec(spec, dims, mesh), mesh)


def _parameter_spec(plan: Plan, parameter: Parameter) -> Spec:
    rank = len(parameter.type.dims) if isinstance(parameter.type, TensorType) else 0
    return plan.parameters.get(parameter.number, Spec.replicated(rank))


def _uneven_parameters(plan: Plan, module: Module) -> list[tuple[Node, Spec]]:
    parameters: list[tuple[Node, Spec]] = []
    for parameter in module.entry.parameters:
        spec = _parameter_spec(plan, parameter)
        if isinstance(parameter.type, TensorType) and even_spec(spec, parameter.type.dims, plan.mesh) != spec:
            parameters.append((parameter, spec))
    return parameters


def _instructions(plan: Plan, module: Module) -> Iterator[tuple[Node, Spec]]:
    """The arrays that the plan names; the root's sharding is that of the result."""
    for node, value_spec in plan.instruction_specs(module):
        if isinstance(value_spec, Spec) and node is not module.entry.output:
            yield node, value_spec


def _inside(plan: Plan) -> Plan:
    """The plan with its mesh as the programs that jax lowers know it: a device's number is its position in the mesh."""
    return replace(plan, mesh=replace(plan.mesh, devices=None))


def _put_operand_specs(plan: Plan, module: Module, name: str) -> None:
    """Constrain the operands that the plan has in another spec than their values, on Shardy's mesh."""
    marker = partial(_mark, mesh=plan.mesh, name=name)
    made: dict[tuple[Node, Spec], Node] = {}
    for operand_spec in plan.operand_specs:
        operand_spec.put(module, marker, made)


def _constrain(specs: list[tuple[Node, Spec]], mesh: Mesh, name: str | None) -> None:
    """Put a sharding custom call between each value and all its users, on Shardy's mesh if that is named."""
    following: dict[Graph, dict[Node, Node | None]] = {}
    for node, spec in specs:
        graph = node.graph
        if graph not in following:
            following[graph] = _following(graph)
        marked = _marked(node, CONSTRAINT, spec, mesh, name, following[graph][node])
        graph.replace_uses(node, marked)
        graph.set_operands(marked, (node,))


def _mark(value: Node, spec: Spec, before: Node | None, *, mesh: Mesh, name: str | None) -> Node:
    """A custom call that constrains a value's sharding, for some of its users."""
    return _marked(value, CONSTRAINT, spec, mesh, name, before)


def _following(graph: Graph) -> dict[Node, Node | None]:
    """The node before which a copy of each value may stand: parameters stay together at the front."""
    following: dict[Node, Node | None] = {}
    after = None
    for node in reversed(graph.nodes):
        following[node] = after
        if not isinstance(node, Parameter):
            after = node
    return following


def _constrain_results(module: Module, specs: list[Spec], mesh: Mesh, name: str) -> None:
    entry = module.entry
    root = entry.root
    entry.set_attributes(root, root.attributes.changed(sharding=None))
    values = [root] if isinstance(root.type, TensorType) else _elements(root)
    before = root if root.opcode == "tuple" else None
    marked = [_marked(value, RESULT, spec, mesh, name, before) for value, spec in zip(values, specs, strict=True)]
    if root.opcode == "tuple":
        entry.set_operands(root, marked)
    else:
        entry.set_output(marked[0] if root is values[0] else entry.add_apply(OPS["tuple"], marked, root.type))


def _elements(root: Node) -> list[Node]:
    if root.opcode == "tuple":
        return list(root.operands)
    assert root.type is not None
    kinds = root.type.leaves()
    gte = OPS["get-tuple-element"]
    return [
        root.graph.add_apply(gte, (root,), element_type, {"index": index}) for index, element_type in enumerate(kinds)
    ]


def _marked(value: Node, target: str, spec: Spec, mesh: Mesh, name: str | None, before: Node | None) -> Node:
    """A custom call that attaches a sharding to a value."""
    graph = value.graph
    attributes: dict[str, object] = {"custom_call_target": target}
    if target == RESULT:
        attributes["custom_call_has_side_effect"] = True
    else:
        attributes["sharding"] = to_tiled(spec, mesh)
    if name is not None:
        attributes["frontend_attributes"] = ((SHARDING_KEY, per_value([to_sdy(spec, mesh, name)])),)
    return graph.add_apply(OPS["custom-call"], (value,), value.type, attributes, value.name, before=before)


def _declare_mesh(module: Module, mesh: Mesh) -> str:
    """Add a mesh to the module's header for Shardy's texts; returns its name."""
    frontend = dict(module.attributes.get("frontend_attributes") or ())
    meshes = read_sdy_meshes(frontend[MESHES_KEY]) if MESHES_KEY in frontend else {}
    same = next((name for name, declared in meshes.items() if _is_same(declared, mesh)), None)
    if same is not None:
        return same
    name, count = MESH_NAME, 0
    while name in meshes:
        name, count = f"{MESH_NAME}_{count}", count + 1
    frontend[MESHES_KEY] = meshes_text({**meshes, name: mesh})
    module.attributes = module.attributes.changed(frontend_attributes=tuple(sorted(frontend.items())))
    return name


def _is_same(one: Mesh, other: Mesh) -> bool:
    has_same_axes = (one.names, one.sizes) == (other.names, other.sizes)
    return has_same_axes and one.order.ids().tolist() == other.order.ids().tolist()


def _set_frontend(node: Node, key: str, text: str) -> None:
    frontend = {**dict(node.attributes.get("frontend_attributes") or ()), key: text}
    changed = node.attributes.changed(frontend_attributes=tuple(sorted(frontend.items())), sharding=None)
    node.graph.set_attributes(node, changed)
