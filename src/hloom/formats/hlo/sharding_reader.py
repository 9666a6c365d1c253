"""Reads shardings: `{replicated}`, `{devices=[2,4]<=[8]}`, `{mesh['x'=2], [{'x'}]}` and tuples of them.

Shardings that XLA canonicalises as it reads them are canonicalised here: see `canonical`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hloom.formats.hlo.mesh_reader import ATTRIBUTE, read_iota, read_numbers, read_sizes
from hloom.formats.hlo.mesh_sharding_reader import read_mesh_sharding, read_metadata_list
from hloom.formats.hlo.tokens import IDENTIFIER, read_integer, read_list
from hloom.ir import (
    SUBGROUP_KINDS,
    Devices,
    ExplicitDevices,
    LeafSharding,
    Maximal,
    Metadata,
    ShardGroup,
    Sharding,
    Tiled,
    TupleSharding,
    Uniform,
    canonical,
)
from hloom.text import Cursor


def read_sharding(cursor: Cursor) -> Sharding:
    """One sharding, or a tuple of them in another pair of braces.

    >>> from hloom.text import Source
    >>> print(read_sharding(Cursor(Source("{ {replicated}, {devices=[2,1]<=[2]} }"))))
    {{replicated}, {devices=[2,1]<=[2]}}
    """
    cursor.expect("{", "to open a sharding")
    if cursor.accept("}"):
        return TupleSharding()
    if not cursor.at("{"):
        return _read_leaf(cursor)
    elements = []
    while not elements or cursor.accept(","):
        cursor.expect("{", "to open a sharding")
        elements.append(_read_leaf(cursor))
    cursor.expect("}", "to close the tuple")
    return TupleSharding(tuple(elements))


def _read_leaf(cursor: Cursor) -> LeafSharding:
    """A sharding after its opening brace."""
    return read_mesh_sharding(cursor) or _read_plain(cursor)


@dataclass(slots=True)
class _Written:
    """The parts of one sharding as they are read, and the position of the devices."""

    words: set[str] = field(default_factory=set)
    tile: tuple[int, ...] = ()
    devices: Devices | None = None
    device: int | None = None
    devices_at: int = 0
    subgroups: tuple[str, ...] = ()
    group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] = ()


def _read_plain(cursor: Cursor) -> LeafSharding:
    """A sharding without a mesh: words and attributes in any order."""
    written, start = _Written(), cursor.skip()
    while not cursor.accept("}"):
        position = cursor.skip()
        attribute = cursor.match(ATTRIBUTE)
        word = None if attribute else cursor.match(IDENTIFIER)
        if attribute and attribute[1] in _ATTRIBUTES:
            _ATTRIBUTES[attribute[1]](cursor, written, position)
        elif word and word[0] in _WORDS:
            _WORDS[word[0]](cursor, written, word[0])
        else:
            cursor.position = position
            raise cursor.error(f"expected a part of a sharding, found {cursor.next_token()}", position, _HINT)
    return _finish(cursor, written, start)


def _read_devices(cursor: Cursor, written: _Written, position: int) -> None:
    if written.tile:
        raise cursor.error("devices= is given twice", position)
    written.devices_at = position
    written.tile = read_sizes(cursor)
    written.devices = read_iota(cursor) if cursor.accept("<=") else ExplicitDevices(read_numbers(cursor))


def _read_device(cursor: Cursor, written: _Written, position: int) -> None:
    written.devices_at = position
    written.device = read_integer(cursor, "a device")


def _read_last_tile_dims(cursor: Cursor, written: _Written, position: int) -> None:
    written.subgroups += read_list(cursor, _read_subgroup_kind)


def _read_subgroup_kind(cursor: Cursor) -> str:
    start = cursor.skip()
    word = cursor.read(IDENTIFIER, "a kind of subgroup")[0]
    if word not in SUBGROUP_KINDS:
        raise cursor.error(f"expected one of {', '.join(SUBGROUP_KINDS)}, found '{word}'", start)
    return word


def _read_metadata(cursor: Cursor, written: _Written, position: int) -> None:
    written.metadata += read_metadata_list(cursor)


def _read_word(cursor: Cursor, written: _Written, word: str) -> None:
    written.words.add(word)


def _read_shard_group(cursor: Cursor, written: _Written, word: str) -> None:
    as_wins = written.group is not None and written.group.kind == "shard_as"
    written.group = ShardGroup("shard_as" if as_wins else word, read_integer(cursor))


_ATTRIBUTES: dict[str, Callable[[Cursor, _Written, int], None]] = {
    "device": _read_device,
    "devices": _read_devices,
    "last_tile_dims": _read_last_tile_dims,
    "metadata": _read_metadata,
}
_KINDS = ("replicated", "maximal", "manual", "unknown", "unreduced")
"""If several of these words occur, the first one counts."""

_WORDS: dict[str, Callable[[Cursor, _Written, str], None]] = {
    **dict.fromkeys((*_KINDS, "last_tile_dim_replicate"), _read_word),
    **dict.fromkeys(("shard_as", "shard_like"), _read_shard_group),
}
_HINT = f"a sharding has {', '.join(_WORDS)}, {', '.join(f'{name}=' for name in _ATTRIBUTES)}, or begins with mesh[..]"


def _finish(cursor: Cursor, written: _Written, start: int) -> LeafSharding:
    kind_word = next((kind_word for kind_word in _KINDS if kind_word in written.words), None)
    named = isinstance(written.devices, ExplicitDevices) or written.device is not None
    if kind_word == "maximal":
        return Maximal(_only_device(cursor, written, start), written.group, written.metadata)
    if kind_word is not None and named:
        raise cursor.error(f"a sharding that is {kind_word} takes no devices", written.devices_at)
    if kind_word is not None:
        return Uniform(kind_word, written.group, written.metadata)
    return _finish_tiled(cursor, written, start)


def _only_device(cursor: Cursor, written: _Written, start: int) -> int:
    listed = written.devices.numbers if isinstance(written.devices, ExplicitDevices) else ()
    devices = listed if written.device is None else (*listed, written.device)
    if len(devices) != 1 or (written.devices is not None and not listed):
        raise cursor.error("a sharding that is maximal takes exactly one device", written.devices_at or start)
    return devices[0]


def _finish_tiled(cursor: Cursor, written: _Written, start: int) -> LeafSharding:
    if written.devices is None:
        raise cursor.error("expected devices=[..] or what the sharding is", start, _HINT)
    if written.device is not None:
        raise cursor.error("device= is for a sharding that is maximal, devices=[..] is given too", written.devices_at)
    if isinstance(written.devices, ExplicitDevices) and written.devices.count < 2:
        raise cursor.error("a list of devices must have more than one", written.devices_at, "write {maximal device=0}")
    replicate = "last_tile_dim_replicate" in written.words
    if replicate and written.subgroups:
        raise cursor.error("last_tile_dim_replicate and last_tile_dims= exclude each other", start)
    subgroups = ("replicated",) if replicate else written.subgroups
    if len(subgroups) > len(written.tile):
        raise cursor.error(f"{len(subgroups)} last tile dims, but only {len(written.tile)} in all", written.devices_at)
    return canonical(Tiled(written.tile, written.devices, subgroups, written.group, written.metadata))
