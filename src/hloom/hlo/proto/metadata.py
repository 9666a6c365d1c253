"""Where an instruction comes from, as OpMetadata, both ways; the payloads that it points at are in the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom import protobuf
from hloom.ir import METADATA_FIELDS, Metadata
from hloom.text import HloomError

_SIMPLE = tuple(name for name in METADATA_FIELDS if name not in ("profile_type", "metadata_payload"))


def write_metadata(metadata: Metadata) -> Any:
    """Metadata as OpMetadata, its payload in place."""
    proto = protobuf.OpMetadata(
        **{name: value for name in _SIMPLE if (value := getattr(metadata, name))}, profile_type=metadata.profile_type
    )
    if metadata.metadata_payload:
        proto.metadata_payload.value = to_bytes(metadata.metadata_payload)
    return proto


def read_metadata(proto: Any, payloads: Sequence[bytes] = ()) -> Metadata:
    """OpMetadata as metadata, its payload looked up; HloomError where there is none of that number."""
    values = {name: getattr(proto, name) for name in _SIMPLE}
    if proto.profile_type:
        values["profile_type"] = tuple(proto.profile_type)
    if proto.HasField("metadata_payload"):
        values["metadata_payload"] = to_text(read_payload(proto.metadata_payload, payloads))
    return Metadata(**values)


def read_payload(proto: Any, payloads: Sequence[bytes]) -> bytes:
    """The bytes of a Payload, which stand in place or in the module."""
    if proto.WhichOneof("payload_source") != "id":
        return proto.value
    if not 0 <= proto.id < len(payloads):
        raise HloomError(f"there is no payload number {proto.id}: the module has {len(payloads)}")
    return payloads[proto.id]


def to_bytes(text: str) -> bytes:
    """The bytes of a text; those that were not UTF-8 come back as they were."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """Bytes as text; those that are not UTF-8 become surrogates."""
    return data.decode("utf-8", "surrogateescape")
