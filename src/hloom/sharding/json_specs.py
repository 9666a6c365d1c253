"""Specs and meshes as JSON, as plans write them.

A spec is a list with null, an axis or a list of axes per dimension, or the text of an HLO sharding. Anything more is an
object: `{"dims": [...], "partial": {"x": "add"}, "manual": ["y"]}`, and for a mesh with a device order
`{"axes": {"x": 2}, "devices": [...]}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.ir import ExplicitDevices, Sharding, TupleSharding
from hloom.ops import REDUCERS
from hloom.sharding.hlo_sharding import from_hlo
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Spec, spec_of
from hloom.text import HloomError

Reader = Callable[[str], Sharding]
"""A parser of the text of an HLO sharding."""


def spec_to_json(spec: Spec) -> Any:
    """A spec as JSON.

    >>> spec_to_json(Spec((("x",), (), ("y", "z"))))
    ['x', None, ['y', 'z']]
    """
    dims = [axes[0] if len(axes) == 1 else list(axes) or None for axes in spec.dims]
    if not spec.partial and not spec.manual:
        return dims
    extra = {"partial": dict(spec.partial), "manual": list(spec.manual)}
    return {"dims": dims, **{name: value for name, value in extra.items() if value}}


def spec_from_json(value: Any, mesh: Mesh, rank: int, read: Reader | None = None) -> Spec:
    """The spec of an array of this rank; null and an empty list are replicated.

    `read` parses HLO text. Raises HloomError for an invalid spec, for axes that the mesh does not have, and for a wrong
    rank.
    """
    if isinstance(value, str):
        return _from_text(value, mesh, rank, read)
    parts = value if isinstance(value, dict) else {"dims": value}
    dims, partial, manual = parts.get("dims") or [None] * rank, parts.get("partial", {}), parts.get("manual", [])
    is_known = parts.keys() <= {"dims", "partial", "manual"}
    if not is_known or not _are_dims(dims) or not _are_reducers(partial) or not _are_axes(manual):
        hint = 'write null, an axis or a list of axes per dimension: ["x", null]'
        raise HloomError(f"{value!r} is not a spec", hint=hint)
    if len(dims) != rank:
        raise HloomError(f"{value!r} has {len(dims)} entries for an array of rank {rank}")
    spec = spec_of(dims, partial.items(), manual)
    for axis in (*spec.axes, *partial, *manual):
        mesh.size(axis)  # raises where there is none
    return spec


def mesh_to_json(mesh: Mesh) -> dict[str, Any]:
    """A mesh as JSON: its axes, major to minor.

    >>> mesh_to_json(Mesh.parse("data=2,model=4"))
    {'data': 2, 'model': 4}
    """
    axes = dict(zip(mesh.names, mesh.sizes, strict=True))
    return axes if mesh.devices is None else {"axes": axes, "devices": mesh.devices.ids().tolist()}


def mesh_from_json(value: Any) -> Mesh:
    """The mesh of its JSON; raises HloomError for anything else."""
    parts = value if isinstance(value, dict) and isinstance(value.get("axes"), dict) else {"axes": value}
    axes, devices = parts["axes"], parts.get("devices")
    is_known = parts.keys() <= {"axes", "devices", "links"}  # older files have links of axes, which devices have now
    if not is_known or not _are_sizes(axes) or not _is_order(devices):
        raise HloomError(f"{value!r} is not a mesh", hint='write the sizes of its axes: {"data": 2, "model": 4}')
    return Mesh(tuple(axes), tuple(axes.values()), None if devices is None else ExplicitDevices(tuple(devices)))


def _from_text(text: str, mesh: Mesh, rank: int, read: Reader | None) -> Spec:
    if read is None:
        raise HloomError(
            f"{text} is an HLO sharding, and `read` is missing", hint="pass a parser of HLO shardings as `read`"
        )
    sharding = read(text)
    if isinstance(sharding, TupleSharding):
        raise HloomError(f"{text} is for a tuple, not for an array")
    return from_hlo(sharding, mesh, rank)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_axes(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(axis, str) for axis in value)


def _are_dims(value: Any) -> bool:
    return isinstance(value, list) and all(axes is None or isinstance(axes, str) or _are_axes(axes) for axes in value)


def _are_reducers(value: Any) -> bool:
    return isinstance(value, dict) and all(reducer in REDUCERS for reducer in value.values())


def _are_sizes(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_integer, value.values()))


def _is_order(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_integer, value)))
