"""Specs and meshes as Shardy writes them: `#sdy.sharding<@mesh, [{"x"}, {?}]>` and `#sdy.mesh<["x"=2, "y"=4]>`.

In HLO they are frontend attributes: `xla.sdy.sharding` of an instruction, with one sharding per value if it has several
results, and `xla.sdy.meshes` of the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hloom.ir import AxisRef, DimensionAxes, MeshSharding, as_iota
from hloom.sharding.hlo_sharding import from_hlo, to_hlo_mesh
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Spec
from hloom.text import HloomError, Unsupported, mlir_strings

MESH_NAME = "mesh"
"""The name that jax gives its mesh."""
BARE_NAME = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
"""Names that need no quotes after an `@`; other names are quoted as MLIR does."""


@dataclass(frozen=True, slots=True)
class SdyDimension:
    """The axes of one dimension; propagation may add axes to an open one, low priorities first.

    >>> print(SdyDimension((AxisRef("x"), AxisRef("y", 1, 2)), is_open=True, priority=1))
    {"x", "y":(1)2, ?}p1
    """

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False
    priority: int | None = None

    def __str__(self) -> str:
        inside = ", ".join([*map(_axis_text, self.axes), *("?" if self.is_open else "")])
        return f"{{{inside}}}" + ("" if self.priority is None else f"p{self.priority}")


@dataclass(frozen=True, slots=True)
class SdySharding:
    """One value's sharding; `mesh` is the name of a mesh, or an inlined mesh.

    >>> print(SdySharding("mesh", (SdyDimension((AxisRef("x"),)), SdyDimension()), replicated=(AxisRef("z"),)))
    #sdy.sharding<@mesh, [{"x"}, {}], replicated={"z"}>
    """

    mesh: str | Mesh
    dimensions: tuple[SdyDimension, ...] = ()
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()

    @property
    def body(self) -> str:
        """The text after `#sdy.sharding`."""
        mesh = f"@{_name_text(self.mesh)}" if isinstance(self.mesh, str) else f"mesh{_mesh_text(self.mesh)}"
        lists = (("replicated", self.replicated), ("unreduced", self.unreduced))
        named = "".join(f", {word}={_axes_text(axes)}" for word, axes in lists if axes)
        return f"<{mesh}, [{', '.join(map(str, self.dimensions))}]{named}>"

    def __str__(self) -> str:
        return f"#sdy.sharding{self.body}"


def to_sdy(spec: Spec, mesh: Mesh, name: str = MESH_NAME) -> SdySharding:
    """A spec for Shardy, every dimension closed; `name` is the mesh's in the module.

    Raises Unsupported if Shardy has no notation: partial results other than sums, manual axes.

    >>> print(to_sdy(Spec((("x",), ()), (("y", "add"),)), Mesh.parse("x=2,y=4")))
    #sdy.sharding<@mesh, [{"x"}, {}], unreduced={"y"}>
    """
    if spec.manual:
        raise Unsupported(
            f"{spec}: a Shardy sharding has no manual axes",
            hint="they are those of the sdy.manual_computation around it",
        )
    wrong = next((reducer for _, reducer in spec.partial if reducer != "add"), None)
    if wrong:
        raise Unsupported(f"{spec}: Shardy's partial results are sums, not partial {wrong}s")
    for axis in (*spec.axes, *(axis for axis, _ in spec.partial)):
        mesh.size(axis)  # raises where there is none
    unreduced = sorted((axis for axis, _ in spec.partial), key=mesh.names.index)
    dimensions = tuple(SdyDimension(tuple(map(AxisRef, axes))) for axes in spec.dims)
    return SdySharding(name, dimensions, (), tuple(map(AxisRef, unreduced)))


def from_sdy(sharding: SdySharding, meshes: Mesh | Mapping[str, Mesh], onto: Mesh | None = None) -> Spec:
    """The spec on the mesh that the sharding names, or on another of the same devices.

    `meshes` is the module's only mesh, or its meshes by name. Raises Unsupported as `from_hlo` does, with the
    refinement as a hint where part of an axis splits a dimension. Open dimensions count as closed.
    """
    mesh = _mesh_of(sharding, meshes)
    for axis in (*(axis for dimension in sharding.dimensions for axis in dimension.axes), *sharding.unreduced):
        problem = to_hlo_mesh(mesh).problem(axis)
        if problem:
            raise HloomError(f"{sharding}: {problem}")
    dimensions = tuple(DimensionAxes(dimension.axes, dimension.is_open) for dimension in sharding.dimensions)
    written = MeshSharding(to_hlo_mesh(mesh), dimensions, sharding.replicated, sharding.unreduced)
    return from_hlo(written, onto or mesh, len(dimensions))


def per_value(shardings: Iterable[SdySharding]) -> str:
    """The shardings of an instruction with several results.

    >>> per_value([SdySharding("mesh"), SdySharding("mesh", (SdyDimension((AxisRef("x"),)),))])
    '#sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}]>]>'
    """
    return f"#sdy.sharding_per_value<[{', '.join(sharding.body for sharding in shardings)}]>"


def meshes_text(meshes: Mapping[str, Mesh]) -> str:
    """The meshes of a module, as `xla.sdy.meshes` holds them.

    >>> meshes_text({"mesh": Mesh.parse("x=2,y=4")})
    '{mesh = #sdy.mesh<["x"=2, "y"=4]>}'
    """
    return "{" + ", ".join(f"{_name_text(name)} = #sdy.mesh{_mesh_text(mesh)}" for name, mesh in meshes.items()) + "}"


def sdy_mesh(mesh: Mesh) -> str:
    """One mesh.

    >>> sdy_mesh(Mesh.parse("x=2,y=4"))
    '#sdy.mesh<["x"=2, "y"=4]>'
    """
    return f"#sdy.mesh{_mesh_text(mesh)}"


def _mesh_of(sharding: SdySharding, meshes: Mesh | Mapping[str, Mesh]) -> Mesh:
    if isinstance(sharding.mesh, Mesh):
        return sharding.mesh
    if isinstance(meshes, Mesh):
        return meshes
    if sharding.mesh not in meshes:
        raise HloomError(f"{sharding} names an unknown mesh", hint=f"there are {', '.join(meshes) or 'none'}")
    return meshes[sharding.mesh]


def _name_text(name: str) -> str:
    """The name of a mesh, quoted where necessary."""
    return name if BARE_NAME.fullmatch(name) else mlir_strings.quote(name)


def _axis_text(axis: AxisRef) -> str:
    """An axis, or part of one.

    "x"   "x":(2)4
    """
    return mlir_strings.quote(axis.name) + ("" if axis.size is None else f":({axis.pre_size}){axis.size}")


def _axes_text(axes: Iterable[AxisRef]) -> str:
    """Axes between braces."""
    return "{" + ", ".join(map(_axis_text, axes)) + "}"


def _mesh_text(mesh: Mesh) -> str:
    """The text after `#sdy.mesh`: devices are listed if they are not in natural order.

    A mesh without axes is one device, which is listed.
    """
    axes = ", ".join(f"{mlir_strings.quote(name)}={size}" for name, size in zip(mesh.names, mesh.sizes, strict=True))
    order = mesh.order.ids().tolist() if mesh.devices and not _is_natural(mesh) else []
    return f"<[{axes}]" + (f", device_ids=[{', '.join(map(str, order))}]>" if order else ">")


def _is_natural(mesh: Mesh) -> bool:
    iota = as_iota(mesh.order)
    return bool(mesh.names) and iota is not None and len(iota.dims) == 1
