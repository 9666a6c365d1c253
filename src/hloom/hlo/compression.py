"""Compressed data: known by their first bytes, unpacked up to a limit."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from hloom.text import HloomError, Unsupported

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
PIECE = 1 << 20
"""How many bytes are unpacked between two looks at the limits."""
PACKED_PIECE = 1 << 10
"""How many bytes of zstd are unpacked at once: 4 of them may become 128 KiB."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far data may grow when they are unpacked: to so many bytes, and beyond `free` bytes to so many times.

    HLO text shrinks 10 to 100 times; a file that grows a thousand times was made to fill the memory.
    """

    bytes: int = 8 << 30
    ratio: float = 500.0
    free: int = 64 << 20

    def allowed(self, packed: int) -> int:
        """How many bytes so many packed ones may become, the data's first ones no less than all of them."""
        return int(min(self.bytes, max(self.free, packed * self.ratio)))


LIMITS = Limits()


def decompress(data: bytes, name: str, limits: Limits = LIMITS) -> bytes:
    """The data unpacked, or as they are where they are not packed.

    Raises HloomError where they are damaged or pass the limits, Unsupported where zstandard is needed and missing.
    """
    opening = _opening(data)
    if opening is None:
        return data
    try:
        packed = io.BytesIO(data)
        with opening(packed) as stream:
            return _read(stream, packed, name, limits)
    except (EOFError, zlib.error, gzip.BadGzipFile, *_zstd_errors()) as problem:
        raise HloomError(f"{name}: the compressed data are damaged: {problem}") from None


def compress(data: bytes, suffix: str) -> bytes:
    """The data packed as the suffix says, `.gz` or `.zst`; the same data give the same bytes every time."""
    if suffix == ".gz":
        return gzip.compress(data, 6, mtime=0)
    return _zstandard().ZstdCompressor(level=10, write_content_size=True).compress(data)


COMPRESSED = (".gz", ".zst")
"""The suffixes of packed files."""


def _opening(data: bytes) -> Callable[[IO[bytes]], Any] | None:
    if data.startswith(GZIP_MAGIC):
        return lambda stream: gzip.GzipFile(fileobj=stream)
    if data.startswith(ZSTD_MAGIC):
        return _ZstdStream
    return None


class _ZstdStream:
    """What a stream of zstd frames holds; raises EOFError where the last frame has no end.

    zstandard's own stream_reader takes the end of a cut file for the end of its data.
    """

    def __init__(self, packed: IO[bytes]) -> None:
        self.packed = packed
        self.decompressor = _zstandard().ZstdDecompressor()
        self.frame = None

    def __enter__(self) -> _ZstdStream:
        return self

    def __exit__(self, *problem: object) -> None:
        self.frame = None

    def read(self, size: int) -> bytes:
        """What the next bytes unpack to, whatever its size; nothing at the end."""
        del size
        while data := self.packed.read(PACKED_PIECE):
            self.frame = self.frame or self.decompressor.decompressobj()
            unpacked = self.frame.decompress(data)
            if self.frame.eof:
                self.packed.seek(-len(self.frame.unused_data), io.SEEK_CUR)
                self.frame = None
            if unpacked:
                return unpacked
        if self.frame is not None:
            raise EOFError("the last zstd frame has no end")
        return b""


def _read(stream: IO[bytes], packed: IO[bytes], name: str, limits: Limits) -> bytes:
    """All that a stream unpacks, which is held to the limits by what was taken of the packed data so far."""
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(PIECE):
        size += len(piece)
        taken = packed.tell()
        if size > (allowed := limits.allowed(taken)):
            raise HloomError(
                f"{name}: {taken:,} compressed bytes become more than {allowed:,}",
                hint="if you trust the file, unpack it first or give limits=hloom.Limits(bytes=..., ratio=...)",
            )
        pieces.append(piece)
    return b"".join(pieces)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise Unsupported("reading and writing .zst needs zstandard", hint="pip install 'hloom[zst]'") from None
    return zstandard


def _zstd_errors() -> tuple[type[Exception], ...]:
    """The exceptions of zstandard, where it is installed."""
    try:
        return (_zstandard().ZstdError,)
    except Unsupported:
        return ()
