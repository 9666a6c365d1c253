"""Parses Shardy's texts: shardings, shardings per value, meshes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from hloom.ir import AxisRef, ExplicitDevices
from hloom.sharding.mesh import Mesh
from hloom.sharding.sdy import BARE_NAME, SdyDimension, SdySharding
from hloom.text import Cursor, HloomError, Source, mlir_strings

Value = TypeVar("Value")

_NUMBER = re.compile(r"[0-9]{1,18}(?![0-9])")
_PRIORITY = re.compile(r"p([0-9]{1,9})(?!\w)")
_WORD = re.compile(r"[a-z_]+")


def read_sdy(text: str) -> SdySharding:
    """A sharding; raises ParseError with the location of anything else.

    >>> str(read_sdy('#sdy.sharding<@mesh, [{"x"}, {}, {"y":(1)2, ?}], replicated={"z"}>'))
    '#sdy.sharding<@mesh, [{"x"}, {}, {"y":(1)2, ?}], replicated={"z"}>'
    """
    return _read_all(text, lambda cursor: _after(cursor, "#sdy.sharding", _sharding))


def read_sdy_per_value(text: str) -> tuple[SdySharding, ...]:
    """The shardings of `#sdy.sharding_per_value<[<@mesh, []>, ...]>`; a sharding alone is that of one value."""
    if not text.lstrip().startswith("#sdy.sharding_per_value"):
        return (read_sdy(text),)

    def shardings(cursor: Cursor) -> tuple[SdySharding, ...]:
        cursor.expect("<")
        read = _list(cursor, _sharding, "[", "]")
        cursor.expect(">")
        return read

    return _read_all(text, lambda cursor: _after(cursor, "#sdy.sharding_per_value", shardings))


def read_sdy_mesh(text: str) -> Mesh:
    """A mesh; raises ParseError with the location of anything else.

    >>> print(read_sdy_mesh('#sdy.mesh<["x"=2, "y"=4]>'))
    x=2,y=4
    """
    return _read_all(text, lambda cursor: _after(cursor, "#sdy.mesh", _mesh))


def read_sdy_meshes(text: str) -> dict[str, Mesh]:
    """The meshes of a module by name, from the text that `xla.sdy.meshes` holds.

    >>> read_sdy_meshes('{mesh = #sdy.mesh<["x"=2]>}')["mesh"].size("x")
    2
    """

    def entry(cursor: Cursor) -> tuple[str, Mesh]:
        name = _name(cursor)
        cursor.expect("=", "and a mesh")
        return name, _after(cursor, "#sdy.mesh", _mesh)

    return dict(_read_all(text, lambda cursor: _list(cursor, entry)))


def _read_all(text: str, read: Callable[[Cursor], Value]) -> Value:
    cursor = Cursor(Source(text))
    value = read(cursor)
    if cursor.peek():
        raise cursor.error(f"expected the end of the text, found {cursor.next_token()}")
    return value


def _after(cursor: Cursor, word: str, read: Callable[[Cursor], Value]) -> Value:
    cursor.expect(word)
    return read(cursor)


def _list(
    cursor: Cursor, element: Callable[[Cursor], Value], opening: str = "{", closing: str = "}"
) -> tuple[Value, ...]:
    cursor.expect(opening)
    if cursor.accept(closing):
        return ()
    values = [element(cursor)]
    while cursor.accept(","):
        values.append(element(cursor))
    cursor.expect(closing)
    return tuple(values)


def _sharding(cursor: Cursor) -> SdySharding:
    """`<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced={"z"}>`."""
    cursor.expect("<")
    mesh = _name(cursor) if cursor.accept("@") else _after(cursor, "mesh", _mesh)
    cursor.expect(",", "and the dimensions")
    dimensions = _list(cursor, _dimension, "[", "]")
    lists: dict[str, tuple[AxisRef, ...]] = {}
    while cursor.accept(","):
        start = cursor.skip()
        word = cursor.read(_WORD, "replicated or unreduced")[0]
        if word not in ("replicated", "unreduced") or word in lists:
            raise cursor.error(f"expected replicated= or unreduced=, each once, found '{word}'", start)
        cursor.expect("=")
        lists[word] = _list(cursor, _axis)
    cursor.expect(">")
    return SdySharding(mesh, dimensions, lists.get("replicated", ()), lists.get("unreduced", ()))


def _dimension(cursor: Cursor) -> SdyDimension:
    """`{"x", "y":(1)2, ?}p1`."""
    axes: list[AxisRef] = []
    is_open = False
    cursor.expect("{")
    while not cursor.accept("}"):
        if axes:
            cursor.expect(",", "or '}'")
        if cursor.accept("?"):
            is_open = True
            cursor.expect("}", "after '?'")
            break
        axes.append(_axis(cursor))
    priority = cursor.match(_PRIORITY)
    return SdyDimension(tuple(axes), is_open, int(priority[1]) if priority else None)


def _axis(cursor: Cursor) -> AxisRef:
    name = _string(cursor, "an axis name in quotes")
    if not cursor.accept(":"):
        return AxisRef(name)
    cursor.expect("(")
    before = _number(cursor)
    cursor.expect(")")
    return AxisRef(name, before, _number(cursor))


def _mesh(cursor: Cursor) -> Mesh:
    """`<["x"=2, "y"=4], device_ids=[0, 1, ...]>`."""
    start = cursor.skip()
    cursor.expect("<")
    axes = _list(cursor, _mesh_axis, "[", "]")
    devices = None
    if cursor.accept(","):
        cursor.expect("device_ids=")
        devices = ExplicitDevices(_list(cursor, _number, "[", "]"))
    cursor.expect(">")
    try:
        return Mesh(tuple(name for name, _ in axes), tuple(size for _, size in axes), devices)
    except HloomError as problem:
        raise cursor.error(problem.message, start) from None


def _mesh_axis(cursor: Cursor) -> tuple[str, int]:
    name = _string(cursor, "an axis name in quotes")
    cursor.expect("=", "and the size of the axis")
    return name, _number(cursor)


def _name(cursor: Cursor) -> str:
    bare = cursor.match(BARE_NAME)
    return bare[0] if bare else _string(cursor, "the name of a mesh")


def _number(cursor: Cursor) -> int:
    return int(cursor.read(_NUMBER, "a number")[0])


def _string(cursor: Cursor, what: str) -> str:
    start = cursor.skip()
    text = cursor.read(mlir_strings.STRING, what)[1]
    try:
        return mlir_strings.unescape(text)
    except ValueError as problem:
        raise cursor.error(str(problem), start) from None
