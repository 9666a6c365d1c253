"""Reads shardings over a mesh (V3): `{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}`."""

from __future__ import annotations

import re

from hloom.formats.hlo.mesh_reader import ATTRIBUTE, MESH, read_axis, read_mesh
from hloom.formats.hlo.tokens import IDENTIFIER, read_inside, read_integer, read_list
from hloom.ir import REDUCTIONS, AxisRef, DimensionAxes, HloMesh, Maximal, MeshSharding, Metadata, read_metadata
from hloom.text import Cursor

_MAXIMAL_MESH = re.compile(r"maximal_mesh(?![A-Za-z0-9_.=:-])")


def read_mesh_sharding(cursor: Cursor) -> MeshSharding | Maximal | None:
    """Read what follows the opening brace of a sharding, including its closing brace; None if it is not a mesh."""
    if cursor.match(_MAXIMAL_MESH):
        return _read_maximal_mesh(cursor)
    start = cursor.skip()
    if not cursor.match(MESH):
        return None
    cursor.position = start
    return _read_after_mesh(cursor, read_mesh(cursor))


def _read_maximal_mesh(cursor: Cursor) -> Maximal:
    """`[device_id=3]}` and metadata."""
    cursor.expect("[")
    start = cursor.skip()
    attribute = cursor.match(ATTRIBUTE)
    if attribute is None or attribute[1] != "device_id":
        raise cursor.error("expected 'device_id='", start)
    device = read_integer(cursor, "a device")
    cursor.expect("]")
    return Maximal(device, None, _read_last_metadata(cursor), in_mesh=True)


def _read_last_metadata(cursor: Cursor) -> tuple[Metadata, ...]:
    """Nothing or `, metadata=..`, and the closing brace."""
    metadata: tuple[Metadata, ...] = ()
    if cursor.accept(","):
        start = cursor.skip()
        attribute = cursor.match(ATTRIBUTE)
        if attribute is None or attribute[1] != "metadata":
            raise cursor.error("expected 'metadata='", start)
        metadata = read_metadata_list(cursor)
    cursor.expect("}", "to close the sharding")
    return metadata


def _read_after_mesh(cursor: Cursor, mesh: HloMesh) -> MeshSharding:
    """Read what follows the mesh: one word for all dimensions, or dimensions and lists of axes."""
    cursor.accept(",")
    if cursor.at("["):
        return _read_mesh_parts(cursor, mesh)
    start = cursor.skip()
    word = cursor.match(IDENTIFIER)
    word_text = word[0] if word else ""
    if word_text not in ("replicated", "unreduced", "manual"):
        cursor.position = start
        raise cursor.error(f"expected '[', replicated, unreduced or manual after the mesh, found {cursor.next_token()}")
    if not mesh.names and word_text != "replicated":
        raise cursor.error(f"a sharding over a mesh without axes cannot be {word_text}", start)
    whole = tuple(map(AxisRef, mesh.names))
    unreduced, manual = (whole if word_text == name else () for name in ("unreduced", "manual"))
    return MeshSharding(mesh, unreduced=unreduced, manual=manual, metadata=_read_last_metadata(cursor))


def _read_mesh_parts(cursor: Cursor, mesh: HloMesh) -> MeshSharding:
    taken: list[AxisRef] = []
    dimensions = read_list(cursor, lambda cursor: _read_dimension(cursor, mesh, taken), "[", "]")
    lists: dict[str, list[AxisRef]] = {"replicated": [], "unreduced": [], "manual": []}
    reduction, metadata = "sum", ()
    while not cursor.accept("}"):
        cursor.expect(",", "or '}'")
        start = cursor.skip()
        attribute = cursor.match(ATTRIBUTE)
        name = attribute[1] if attribute else ""
        if name == "metadata":
            metadata += read_metadata_list(cursor)
            continue
        if name not in lists:
            raise cursor.error(f"expected one of {', '.join(f'{entry}=' for entry in (*lists, 'metadata'))}", start)
        reduction = _read_reduction(cursor) if name == "unreduced" else reduction
        _read_axes(cursor, mesh, taken, lists[name])
    return MeshSharding(mesh, dimensions, *map(tuple, lists.values()), reduction=reduction, metadata=metadata)


def _read_reduction(cursor: Cursor) -> str:
    """`max` before the axes of `unreduced=max{..}`; sum is left out."""
    start = cursor.skip()
    word = cursor.match(IDENTIFIER)
    if word and word[0] not in REDUCTIONS:
        raise cursor.error(f"expected one of {', '.join(REDUCTIONS)} or '{{', found '{word[0]}'", start)
    return word[0] if word else "sum"


def _read_dimension(cursor: Cursor, mesh: HloMesh, taken: list[AxisRef]) -> DimensionAxes:
    """`{'x', 'y', ?}`."""
    axes: list[AxisRef] = []
    cursor.expect("{")
    if cursor.accept("}"):
        return DimensionAxes()
    while not axes or cursor.accept(","):
        if cursor.accept("?"):
            cursor.expect("}", "after '?'")
            return DimensionAxes(tuple(axes), is_open=True)
        axis = read_axis(cursor, mesh, taken, axes)
        axes.append(axis)
        taken.append(axis)
    cursor.expect("}")
    return DimensionAxes(tuple(axes))


def _read_axes(cursor: Cursor, mesh: HloMesh, taken: list[AxisRef], axes: list[AxisRef]) -> None:
    """`{'x','y'}`, sorted as in the mesh, added to the axes."""

    def read_next(cursor: Cursor) -> None:
        start = cursor.skip()
        axis = read_axis(cursor, mesh, taken, axes)
        if problem := mesh.misplaced(axis, axes):
            raise cursor.error(problem, start)
        axes.append(axis)
        taken.append(axis)

    read_list(cursor, read_next)


def read_metadata_list(cursor: Cursor) -> tuple[Metadata, ...]:
    """`{op_name="a"}` or `{{op_name="a"}, {op_name="b"}}`."""
    start = cursor.skip()
    cursor.expect("{")
    is_list = cursor.at("{")
    cursor.position = start
    return read_list(cursor, _read_braced_metadata) if is_list else (_read_braced_metadata(cursor),)


def _read_braced_metadata(cursor: Cursor) -> Metadata:
    return read_inside(cursor, read_metadata, "{", "}")
