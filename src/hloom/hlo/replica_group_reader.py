"""Read replica groups."""

from __future__ import annotations

from hloom.hlo.mesh_reader import MESH, read_axis, read_iota, read_mesh, read_sizes
from hloom.hlo.tokens import read_integers, read_list
from hloom.ir import AxisRef, ExplicitGroups, IotaGroups, MeshGroups, ReplicaGroups
from hloom.text import Cursor


def read_replica_groups(cursor: Cursor) -> ReplicaGroups:
    """`{{0,1},{2,3}}`, `[2,4]<=[4,2]T(1,0)` or `mesh['x'=2,'y'=4] {'x'}`.

    >>> from hloom.text import Source
    >>> read_replica_groups(Cursor(Source("[2,4]<=[4,2]T(1,0)"))).groups(8)
    ((0, 2, 4, 6), (1, 3, 5, 7))
    """
    if cursor.at("{"):
        return ExplicitGroups(read_list(cursor, read_integers))
    if cursor.at("["):
        return _read_iota_groups(cursor)
    start = cursor.skip()
    if cursor.match(MESH):
        cursor.position = start
        return _read_mesh_groups(cursor)
    raise cursor.error(f"expected replica groups, which begin with '{{', '[' or 'mesh', found {cursor.next_token()}")


def _read_iota_groups(cursor: Cursor) -> IotaGroups:
    start = cursor.skip()
    sizes = read_sizes(cursor)
    if len(sizes) != 2:
        raise cursor.error(f"expected [groups,devices per group], found {len(sizes)} sizes", start)
    cursor.expect("<=")
    return IotaGroups(*sizes, read_iota(cursor))


def _read_mesh_groups(cursor: Cursor) -> MeshGroups:
    mesh = read_mesh(cursor)
    cursor.accept(",")
    axes: list[AxisRef] = []

    def read_next(cursor: Cursor) -> None:
        axes.append(read_axis(cursor, mesh, axes, axes))

    read_list(cursor, read_next)
    return MeshGroups(mesh, tuple(axes))
