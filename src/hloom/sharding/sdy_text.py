r"""The names, axes and meshes of Shardy's texts.

Names follow MLIR: `\22` is a quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hloom.ir import Axis
from hloom.ir.devices import as_iota
from hloom.sharding.mesh import Mesh

BARE_NAME = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
"""Names that stand without quotes after an `@`."""
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def quoted(name: str) -> str:
    r"""A name in quotes, with MLIR's escapes.

    >>> quoted('a"é')
    '"a\\22\\C3\\A9"'
    """
    if _PLAIN.fullmatch(name):
        return f'"{name}"'
    data = name.encode("utf-8", "surrogateescape")
    return '"' + "".join(map(_escaped, data)) + '"'


def _escaped(byte: int) -> str:
    if byte == ord("\\"):
        return "\\\\"
    return chr(byte) if 32 <= byte < 127 and byte != ord('"') else f"\\{byte:02X}"


def name_text(name: str) -> str:
    """The name of a mesh, quoted where necessary."""
    return name if BARE_NAME.fullmatch(name) else quoted(name)


def axis_text(axis: Axis) -> str:
    """An axis, or part of one.

    >>> axis_text(Axis("x", 2, 4))
    '"x":(2)4'
    """
    return quoted(axis.name) + ("" if axis.size is None else f":({axis.pre_size}){axis.size}")


def axes_text(axes: Iterable[Axis]) -> str:
    """Axes between braces."""
    return "{" + ", ".join(map(axis_text, axes)) + "}"


def mesh_text(mesh: Mesh) -> str:
    """The text after `#sdy.mesh`: devices are listed where they do not stand in their own order.

    A mesh without axes is one device, which is listed.
    """
    axes = ", ".join(f"{quoted(name)}={size}" for name, size in zip(mesh.names, mesh.sizes, strict=True))
    order = mesh.order.ids().tolist() if mesh.devices and not _is_natural(mesh) else []
    return f"<[{axes}]" + (f", device_ids=[{', '.join(map(str, order))}]>" if order else ">")


def _is_natural(mesh: Mesh) -> bool:
    iota = as_iota(mesh.order)
    return bool(mesh.names) and iota is not None and len(iota.dims) == 1
