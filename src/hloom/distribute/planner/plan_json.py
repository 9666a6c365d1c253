"""Reads plans from JSON, for a module."""

from __future__ import annotations

from typing import Any

from hloom.distribute.planner.duplicates import Duplicate, put_known_duplicates
from hloom.distribute.planner.plan import ENTRY, OperandSpec, Plan, ValueSpec
from hloom.formats.hlo import read_sharding
from hloom.ir import Graph, Module, Sharding, TensorType, TupleType, Type
from hloom.passes import canonicalize
from hloom.sharding import Mesh, Spec, from_tuple, mesh_from_json, spec_from_json
from hloom.text import Cursor, HloomError, Source

MOST_DIGITS = 18
"""The maximum number of digits of a parameter or result number."""
SECTIONS = ("params", "outputs", "ops", "computations")


def plan_from_json(value: Any, module: Module | None, name: str = "") -> Plan:
    """The plan encoded in JSON, for a module that may lack some named values, or unchecked without a module.

    Raises HloomError for invalid plans, and for specs of the wrong rank.
    """
    if (
        not isinstance(value, dict)
        or "mesh" not in value
        or not all(_is_section(value.get(section)) for section in SECTIONS)
    ):
        hint = 'it has {"mesh": {"data": 8}, "params": {"0": ["data", null]}, "outputs": {}, "ops": {}}'
        raise HloomError("this is not a plan", hint=hint)
    mesh = mesh_from_json(value["mesh"])
    parameters, outputs, instructions, computations = (value.get(section) or {} for section in SECTIONS)
    duplicates = tuple(map(Duplicate.from_json, _list(value, "duplicates")))
    entry = module.entry if module is not None else None
    form = canonicalize(module) if module is not None and (computations or duplicates) else module
    if form is not None:
        put_known_duplicates(form, duplicates)
    given = {str(parameter.number): parameter.type for parameter in entry.parameters} if entry is not None else {}
    root = entry.output if entry is not None else None
    results = root.type.leaves() if root is not None and root.type is not None else ()
    known = {str(number): value_type for number, value_type in enumerate(results)}
    return Plan(
        mesh,
        {_number(key): _spec(spec, mesh, given.get(key)) for key, spec in parameters.items()},
        {_number(key): _spec(spec, mesh, known.get(key)) for key, spec in outputs.items()},
        _named(instructions, mesh, entry),
        name,
        {graph: _named(named, mesh, _graph(form, graph)) for graph, named in computations.items()},
        tuple(_operand_spec(operand_spec, mesh) for operand_spec in value.get("operands") or ()),
        duplicates,
    )


def _is_section(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _list(value: dict[str, Any], section: str) -> list[Any]:
    listed = value.get(section) or []
    if not isinstance(listed, list):
        raise HloomError(f"{section} of a plan are a list, not {listed!r}")
    return listed


def _number(key: str) -> int:
    if not key.isdecimal() or len(key) > MOST_DIGITS:
        raise HloomError(f"'{key}' is not a number of a parameter or result")
    return int(key)


def _named(specs: Any, mesh: Mesh, graph: Graph | None) -> dict[str, ValueSpec]:
    if not isinstance(specs, dict):
        raise HloomError(f"{specs!r} does not give specs to names")
    return {name: _value_specs(spec, mesh, _type_of(graph, name)) for name, spec in specs.items()}


def _value_specs(value: Any, mesh: Mesh, value_type: Type | None) -> ValueSpec:
    """The spec of an array, or those of a tuple's leaves, from the text of a sharding."""
    if isinstance(value_type, TupleType) and isinstance(value, str):
        return from_tuple(_read(value), mesh, value_type)
    return _spec(value, mesh, value_type)


def _spec(value: Any, mesh: Mesh, value_type: Type | None) -> Spec:
    """The spec of a value; of one that the module lacks, of the rank that the spec has."""
    if isinstance(value_type, TensorType):
        return spec_from_json(value, mesh, len(value_type.dims), _read)
    return spec_from_json(value, mesh, len(value) if isinstance(value, list) else 0, _read)


def _read(text: str) -> Sharding:
    return read_sharding(Cursor(Source(text, "plan")))


def _operand_spec(value: Any, mesh: Mesh) -> OperandSpec:
    if not isinstance(value, list) or len(value) != 4 or not isinstance(value[2], int):
        raise HloomError(f"{value!r} is not a spec of an operand")
    return OperandSpec(str(value[0]), str(value[1]), value[2], _spec(value[3], mesh, None))


def _graph(module: Module | None, name: str) -> Graph | None:
    if module is None:
        return None
    named = {graph.name: graph for graph in module.graphs}
    return module.entry if name == ENTRY else named.get(name)


def _type_of(graph: Graph | None, name: str) -> Type | None:
    return graph[name].type if graph is not None and name in graph else None
