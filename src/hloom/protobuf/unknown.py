"""Fields that stand in the bytes but not in our schema: a newer or older XLA wrote them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet


@dataclass(frozen=True, slots=True)
class UnknownField:
    """One field that the schema does not name, in the message at `path` (`computations[0].instructions[3]`)."""

    path: str
    message: str
    number: int
    data: Any


def unknown_fields(message: Message) -> list[UnknownField]:
    """Return every unknown field of a message and of all messages inside it, outermost first.

    Serialising the message again keeps them, so they are lost only by who builds a new message.
    """
    fields: list[UnknownField] = []
    waiting = deque([("", message)])
    while waiting:
        path, part = waiting.popleft()
        name = part.DESCRIPTOR.name
        fields.extend(UnknownField(path, name, field.field_number, field.data) for field in UnknownFieldSet(part))
        waiting.extend(_messages_inside(path, part))
    return fields


def _messages_inside(path: str, message: Message) -> Iterator[tuple[str, Message]]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        field_path = f"{path}.{field.name}" if path else field.name
        if isinstance(value, Message):
            yield field_path, value
            continue
        entries = value.items() if field.message_type.GetOptions().map_entry else enumerate(value)
        yield from ((f"{field_path}[{key}]", entry) for key, entry in entries if isinstance(entry, Message))
