"""Decompression with limits; formats are recognised by their first bytes."""

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
"""Bytes to decompress between checks of the limits."""
PACKED_PIECE = 1 << 10
"""Compressed bytes of zstd to feed at once: 4 of them may expand to 128 KiB."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on decompressed size: an absolute maximum and, above `free` bytes, a maximum ratio.

    HLO text compresses 10 to 100 times; a file that expands a thousand times is a decompression bomb.
    """

    bytes: int = 8 << 30
    ratio: float = 500.0
    free: int = 64 << 20

    def allowed(self, packed: int) -> int:
        """The maximum decompressed size for this many compressed bytes, whether the prefix or the whole of the data."""
        return int(min(self.bytes, max(self.free, packed * self.ratio)))


LIMITS = Limits()


def decompress(data: bytes, name: str, limits: Limits = LIMITS) -> bytes:
    """The decompressed data, or the data itself if it is not compressed.

    Raises HloomError if it is damaged or exceeds the limits, Unsupported if zstandard is needed but not installed.
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
    """Compress data as the suffix says, `.gz` or `.zst`; the result is deterministic."""
    if suffix == ".gz":
        return gzip.compress(data, 6, mtime=0)
    return _zstandard().ZstdCompressor(level=10, write_content_size=True).compress(data)


COMPRESSED = (".gz", ".zst")
"""The suffixes of compressed files."""


def _opening(data: bytes) -> Callable[[IO[bytes]], Any] | None:
    if data.startswith(GZIP_MAGIC):
        return lambda stream: gzip.GzipFile(fileobj=stream)
    if data.startswith(ZSTD_MAGIC):
        return _ZstdStream
    return None


class _ZstdStream:
    """Decompresses a stream of zstd frames; raises EOFError if the last frame is incomplete.

    zstandard's own stream_reader treats a truncated file as complete.
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
        """The next decompressed piece, of whatever size; empty at the end."""
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
    """Decompress a whole stream; the limits apply to the amount of compressed data consumed so far."""
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
