"""Meshes and shardings where a function enters another module: what would be lost there is put elsewhere.

Shardy's operations pass HLO as custom calls whose attributes name meshes. The meshes are named after what they are,
so that equal ones are one, and are declared in the module that the function enters.
"""

from __future__ import annotations

import zlib
from typing import Any

from hloom.ir import Module
from hloom.ops import OPS
from hloom.runtime.jax_names import names
from hloom.text import Unsupported

_LIFT_MESHES = "builtin.module(sdy-lift-inlined-meshes)"
_MESH = "sdy.mesh"
_SHARDING = "mhlo.sharding"
_RESULTS = "res_attrs"
_FRONTEND, _MESHES = "mhlo.frontend_attributes", "xla.sdy.meshes"


def lift_meshes(program: Any) -> None:
    """Declare the meshes that a program's operations hold, each named after what it is."""
    found = names()
    found.passes.PassManager.parse(_LIFT_MESHES, context=program.context).run(program.operation)
    symbols = found.ir.SymbolTable(program.operation)
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
    """Declare a program's meshes in the module around, and take them out of the program."""
    for name, attribute in _declared_meshes(program).items():
        if name not in outer.symbol_table:
            _declare_mesh(outer, name, attribute)
    for mesh in _meshes(program):
        mesh.erase()


def _declared_meshes(program: Any) -> dict[str, Any]:
    """Meshes by name: those that are operations, and those that HLO carried in an attribute of the module."""
    meshes = {each.attributes["sym_name"].value: each.attributes["mesh"] for each in _meshes(program)}
    attributes = program.operation.attributes
    if _FRONTEND in attributes and _MESHES in attributes[_FRONTEND]:
        text = attributes[_FRONTEND][_MESHES].value
        meshes |= {each.name: each.attr for each in names().ir.Attribute.parse(text, context=program.context)}
    return meshes


def _declare_mesh(outer: Any, name: str, attribute: Any) -> None:
    ir = names().ir
    point = ir.InsertionPoint.at_block_begin(outer.module.body)
    attributes = {"sym_name": ir.StringAttr.get(name), "mesh": attribute}
    mesh = ir.Operation.create(_MESH, attributes=attributes, ip=point, loc=ir.Location.unknown(outer.context))
    outer.symbol_table.insert(mesh)


def _meshes(program: Any) -> list[Any]:
    return [each.operation for each in program.body.operations if each.operation.name == _MESH]


def settle_shardings(module: Module, subject: str) -> None:
    """Put the shardings of parameters on values: those of a called function's arguments and results mean nothing.

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
        entry.set_inputs(marked, (parameter,))
        entry.set_attributes(parameter, parameter.attributes.changed(sharding=None))


def drop_result_shardings(program: Any) -> None:
    """Take shardings off functions' results: their operations have them, and they would make XLA forsake Shardy."""
    ir, context = names().ir, program.context
    for function in program.body.operations:
        if _RESULTS not in function.attributes:
            continue
        results = [
            {each.name: each.attr for each in result if each.name != _SHARDING}
            for result in function.attributes[_RESULTS]
        ]
        attributes = [ir.DictAttr.get(each, context=context) for each in results]
        function.attributes[_RESULTS] = ir.ArrayAttr.get(attributes, context=context)
