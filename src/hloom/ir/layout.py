"""Layouts of arrays in memory, as values. Source: xla/layout.h."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

COMBINED = -1
"""A tile dimension written `*`: merged with the next more minor one."""


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """Where one dimension of a buffer is split across memories."""

    dimension: int
    indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{_ints(self.indices)})"


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of dimensions, most minor first, with its annotations; `str` gives HLO's text.

    `dim_level_types` is kept as read (`D,S+~`); XLA accepts and drops it. An absent layout means
    {rank-1,...,1,0}.
    """

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    tail_padding: int = 1
    index_type: str = ""
    pointer_type: str = ""
    element_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[SplitConfig, ...] = ()
    metadata_prefix_bytes: int = 0
    dim_level_types: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it specifies only the order of dimensions."""
        return self.tail_padding == 1 and not (
            self.tiles
            or self.element_bits
            or self.memory_space
            or self.index_type
            or self.pointer_type
            or self.split_configs
            or self.metadata_prefix_bytes
            or self.dim_level_types
        )

    def tiled_dims(self, dims: Sequence[int]) -> list[int]:
        """The dimensions of an array in memory, major to minor: numbers of whole tiles, then the tiles' dimensions.

        Source: xla/shape_util.cc, ShapeUtil::ArraySize. Layouts that XLA refuses have an answer, too: an order that is
        none of these dimensions is row-major, and a tile dimension of 0 counts as 1.

        >>> Layout((1, 0), ((8, 128), (2, 1))).tiled_dims((100, 40))
        [13, 1, 4, 128, 2, 1]
        """
        known = sorted(self.minor_to_major) == list(range(len(dims)))
        made = [dims[dim] for dim in reversed(self.minor_to_major)] if known else list(dims)
        for tile in self.tiles:
            made = _tiled(made, tile)
        return made

    def __str__(self) -> str:
        parts = "".join(self._parts())
        if not parts and not self.minor_to_major:
            return ""
        return f"{{{_ints(self.minor_to_major)}{':' if parts else ''}{parts}}}"

    def _parts(self) -> list[str]:
        texts = [f"D({self.dim_level_types})"] if self.dim_level_types else []
        if self.tiles:
            texts.append("T" + "".join(f"({_tile(tile)})" for tile in self.tiles))
        if self.tail_padding != 1:
            texts.append(f"L({self.tail_padding})")
        if self.index_type:
            texts.append(f"#({self.index_type})")
        if self.pointer_type:
            texts.append(f"*({self.pointer_type})")
        if self.element_bits:
            texts.append(f"E({self.element_bits})")
        if self.memory_space:
            texts.append(f"S({self.memory_space})")
        if self.split_configs:
            texts.append("SC" + "".join(map(str, self.split_configs)))
        if self.metadata_prefix_bytes:
            texts.append(f"M({self.metadata_prefix_bytes})")
        return texts


@lru_cache(maxsize=256)
def default_layout(rank: int) -> Layout:
    """The row-major layout, {rank-1,...,1,0}."""
    return Layout(tuple(range(rank - 1, -1, -1)))


def _tiled(dims: list[int], tile: tuple[int, ...]) -> list[int]:
    """The dimensions, major to minor, with the most minor ones tiled: numbers of tiles, then the tile's dimensions."""
    dims = [1] * (len(tile) - len(dims)) + dims
    outer, inner = dims[: len(dims) - len(tile)], dims[len(dims) - len(tile) :]
    counts: list[int] = []
    sizes: list[int] = []
    combined = 1
    for size, length in zip(inner, tile, strict=True):
        if length == COMBINED:
            combined *= size
            continue
        whole, combined = size * combined, 1
        counts.append(-(-whole // max(length, 1)))
        sizes.append(max(length, 1))
    return [*outer, *counts, *sizes]


def _ints(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _tile(tile: tuple[int, ...]) -> str:
    return ",".join("*" if size == COMBINED else str(size) for size in tile)
