"""Preserves the meshes and shardings of a function lowered into another module, which the conversion would drop.

Shardy's operations pass through HLO as custom calls whose attributes name meshes. A mesh is named by a hash of its axes
and devices, so that equal ones share a name, and is declared in the module that the function is merged into.
"""

from __future__ import annotations

import zlib
from typing import Any

from hloom.ir import Module
from hloom.ops import OPS
from hloom.runtime.jax_internals import jax_internals
from hloom.text import Unsupported

_LIFT_MESHES = "builtin.module(sdy-lift-inlined-meshes)"
_MESH = "sdy.mesh"
_SHARDING = "mhlo.sharding"
_RESULTS = "res_attrs"
_FRONTEND, _MESHES = "mhlo.frontend_attributes", "xla.sdy.meshes"


def lift_meshes(program: Any) -> None:
    """Declare the meshes that a program's operations hold, each named by a hash of its text."""
    internals = jax_internals()
    internals.passes.PassManager.parse(_LIFT_MESHES, context=program.context).run(program.operation)
    symbols = internals.ir.SymbolTable(program.operation)
    for mesh in _meshes(program):
        text = str(mesh.attributes["mesh"])
        old, name = mesh.attributes["sym_name"].value, f"mesh_{zlib.crc32(text.encode()):08x}"
        if old == name:
            continue
        symbols.replace_all_symbol_uses(old, name, program.operation)
        if name in symbols:
            mesh.erase()
        else:
            symbols.set_symbol_name(mesh, name)


def move_meshes(program: Any, outer: Any) -> None:
    """Declare a program's meshes in the outer module, and remove them from the program."""
    for name, attribute in _declared_meshes(program).items():
        if name not in outer.symbol_table:
            _declare_mesh(outer, name, attribute)
    for mesh in _meshes(program):
        mesh.erase()


def _declared_meshes(program: Any) -> dict[str, Any]:
    """Meshes by name: those that are operations, and those that HLO carried in an attribute of the module."""
    meshes = {mesh.attributes["sym_name"].value: mesh.attributes["mesh"] for mesh in _meshes(program)}
    attributes = program.operation.attributes
    if _FRONTEND in attributes and _MESHES in attributes[_FRONTEND]:
        text = attributes[_FRONTEND][_MESHES].value
        meshes |= {mesh.name: mesh.attr for mesh in jax_internals().ir.Attribute.parse(text, context=program.context)}
    return meshes


def _declare_mesh(outer: Any, name: str, attribute: Any) -> None:
    ir = jax_internals().ir
    point = ir.InsertionPoint.at_block_begin(outer.module.body)
    attributes = {"sym_name": ir.StringAttr.get(name), "mesh": attribute}
    mesh = ir.Operation.create(_MESH, attributes=attributes, ip=point, loc=ir.Location.unknown(outer.context))
    outer.symbol_table.insert(mesh)


def _meshes(program: Any) -> list[Any]:
    return [operation.operation for operation in program.body.operations if operation.operation.name == _MESH]


def insert_sharding_calls(module: Module, subject: str) -> None:
    """Move shardings of parameters to `Sharding` custom calls: XLA ignores those of a called function's arguments.

    x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
      ->
    y = f32[8] parameter(0)
    x = f32[8] custom-call(y), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
    """
    entry = module.entry
    if entry.root.opcode == "tuple" and "sharding" in entry.root.attributes:
        raise Unsupported(f"{subject}: the sharding of a tuple of results is lost", hint="shard its elements")
    for parameter in entry.parameters:
        sharding = parameter.attributes.get("sharding")
        if sharding is None:
            continue
        attributes = {"custom_call_target": "Sharding", "sharding": sharding}
        users = set(parameter.users)
        after = next((node for node in entry.nodes if node in users), None)
        marked = entry.add_apply(OPS["custom-call"], (), parameter.type, attributes, parameter.name, before=after)
        entry.replace_uses(parameter, marked)
        entry.set_operands(marked, (parameter,))
        entry.set_attributes(parameter, parameter.attributes.changed(sharding=None))


def drop_result_shardings(program: Any) -> None:
    """Remove the shardings of functions' results: their operations have them, and they would make XLA use GSPMD."""
    ir, context = jax_internals().ir, program.context
    for function in program.body.operations:
        if _RESULTS not in function.attributes:
            continue
        results = [
            {attribute.name: attribute.attr for attribute in result if attribute.name != _SHARDING}
            for result in function.attributes[_RESULTS]
        ]
        attributes = [ir.DictAttr.get(kept, context=context) for kept in results]
        function.attributes[_RESULTS] = ir.ArrayAttr.get(attributes, context=context)
