"""Reads what shardings and replica groups share: sizes, device ranges, meshes and mesh axes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from hloom.formats.hlo.tokens import parse_integer, read_integer, read_list, read_natural, read_sequence, read_string
from hloom.ir import AxisRef, Devices, ExplicitDevices, HloMesh, IotaDevices
from hloom.text import Cursor

ATTRIBUTE = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*+)=")
MESH = re.compile(r"mesh(?![A-Za-z0-9_.=:-])")
_DEVICE_IDS = re.compile(r"device_ids=")
_PLAIN_LIST = re.compile(r"[0-9]{1,18}+(?:,[0-9]{1,18}+)*+(?= ?[a-z})])")
_AXIS_NUMBER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)


def read_sizes(cursor: Cursor) -> tuple[int, ...]:
    """`[2,4]`, at least one."""
    start = cursor.skip()
    sizes = read_list(cursor, read_natural, "[", "]")
    if not sizes:
        raise cursor.error("expected at least one size between '[' and ']'", start)
    return sizes


def read_numbers(cursor: Cursor) -> tuple[int, ...]:
    """`0,1,2`, at least one, without brackets."""
    plain = cursor.match(_PLAIN_LIST)
    if plain:
        return tuple(map(int, plain[0].split(",")))
    return read_sequence(cursor, lambda inner: read_integer(inner, "a device"))


def read_iota(cursor: Cursor) -> IotaDevices:
    """`[8]` or `[2,4]T(1,0)`: a permutation is written if and only if there are several sizes."""
    sizes = read_sizes(cursor)
    if len(sizes) == 1:
        return IotaDevices(sizes)
    cursor.expect("T", "and the permutation of several sizes")
    start = cursor.skip()
    permutation = read_list(cursor, read_natural, "(", ")")
    if sorted(permutation) != list(range(len(sizes))):
        numbers = ", ".join(map(str, range(len(sizes))))
        raise cursor.error(f"expected a permutation of {numbers}, found {permutation}", start)
    return IotaDevices(sizes, permutation)


def read_mesh(cursor: Cursor) -> HloMesh:
    """`mesh['x'=2,'y'=4]`, with `, device_ids=(..)` if devices are not in row-major order."""
    cursor.read(MESH, "'mesh'")
    axes: dict[str, int] = {}
    cursor.expect("[")
    while not cursor.at("]") or axes:
        start = cursor.skip()
        name = read_string(cursor, "an axis name in quotes")
        if name in axes:
            raise cursor.error(f"axis '{name}' is given twice", start)
        cursor.expect("=", "and the size of the axis")
        axes[name] = read_natural(cursor)
        if not cursor.accept(","):
            break
    cursor.expect("]")
    return HloMesh(tuple(axes), tuple(axes.values()), _read_device_ids(cursor, math.prod(axes.values())))


def _read_device_ids(cursor: Cursor, count: int) -> Devices | None:
    start = cursor.skip()
    if not cursor.accept(",") or not cursor.match(_DEVICE_IDS):
        cursor.position = start
        return None
    cursor.expect("(")
    start = cursor.skip()
    devices = read_iota(cursor) if cursor.at("[") else ExplicitDevices(read_numbers(cursor))
    cursor.expect(")")
    if isinstance(devices, IotaDevices):
        return devices
    if devices.count != count:
        raise cursor.error(f"a mesh of {count} devices needs as many device_ids, found {devices.count}", start)
    if sorted(devices.numbers) != list(range(count)):
        raise cursor.error(f"device_ids must be 0 to {count - 1} in some order", start)
    if devices.numbers == tuple(range(count)):
        raise cursor.error("device_ids in their natural order are not written", start, "leave device_ids=(..) out")
    return devices


def read_axis(cursor: Cursor, mesh: HloMesh, taken: Sequence[AxisRef], neighbours: Sequence[AxisRef]) -> AxisRef:
    """`'x'` or `'x':(1)2`: an axis by name or, if no axis has that name, by number.

    It must not overlap those taken, nor form one larger part with the last of its neighbours.
    """
    start = cursor.skip()
    axis = AxisRef(_read_axis_name(cursor, mesh))
    if cursor.accept(":"):
        cursor.expect("(")
        pre_size = read_integer(cursor)
        cursor.expect(")")
        axis = AxisRef(axis.name, pre_size, read_integer(cursor))
    problem = mesh.problem(axis) or mesh.clash(axis, taken, neighbours)
    if problem:
        raise cursor.error(problem, start)
    return axis


def _read_axis_name(cursor: Cursor, mesh: HloMesh) -> str:
    name = read_string(cursor, "an axis name in quotes")
    if name in mesh.names or not _AXIS_NUMBER.fullmatch(name):
        return name
    number = parse_integer(name.strip())
    return mesh.names[number] if 0 <= number < len(mesh.names) else name
