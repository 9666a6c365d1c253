"""One attribute's place in an instruction's message, and the usual kinds of places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from hloom import protobuf
from hloom.hlo.proto.metadata import to_bytes, to_text
from hloom.ir import Type
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class Context:
    """What an attribute's meaning depends on besides its own fields: the types around it, the module's payloads."""

    type: Type | None = None
    operands: Sequence[Type | None] = ()
    payloads: Sequence[bytes] = ()


Write = Callable[[Any, Any, Context], None]
Read = Callable[[Any, Context], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One attribute's place: the message's fields it fills, how to write it, how to read it (None: it is not there).

    `path` leads to the field where the value as it is fills one of numbers or text, through messages.
    """

    names: tuple[str, ...]
    write: Write
    read: Read
    path: tuple[str, ...] = ()


def number(name: str) -> Field:
    """A number or truth value under its own name, where 0 and false are values too."""
    return Field(
        (name,), lambda proto, value, _: setattr(proto, name, value), lambda proto, _: getattr(proto, name), (name,)
    )


def unless_empty(field: Field) -> Field:
    """The same, but not there where it is 0 or empty."""
    return replace(field, read=lambda proto, context: field.read(proto, context) or None)


def part(name: str, write: Callable[[Any, Any], None], read: Callable[[Any], Any]) -> Field:
    """A message of its own, or a list of messages, whose absence is a value too."""
    return Field(
        (name,), lambda proto, value, _: write(getattr(proto, name), value), lambda proto, _: read(getattr(proto, name))
    )


def text(name: str) -> Field:
    """Bytes that are text, not there where they are empty."""
    return Field(
        (name,),
        lambda proto, value, _: setattr(proto, name, to_bytes(value)),
        lambda proto, _: to_text(getattr(proto, name)) or None,
    )


def numbers(name: str) -> Field:
    """A list, where an empty one is a value too."""
    return Field(
        (name,),
        lambda proto, value, _: getattr(proto, name).extend(value),
        lambda proto, _: tuple(getattr(proto, name)),
        (name,),
    )


def only_number(name: str) -> Field:
    """One number that the message keeps in a list."""

    def read(proto: Any, _: Context) -> int | None:
        values = tuple(getattr(proto, name))
        if len(values) > 1:
            raise HloomError(f"{name} lists {len(values)} numbers where there is one")
        return values[0] if values else None

    return Field((name,), lambda proto, value, _: getattr(proto, name).append(value), read)


def inside(path: str, name: str) -> Field:
    """A list or a number in a message inside the instruction's; dots lead deeper."""

    def owner(proto: Any) -> Any:
        for step in path.split("."):
            proto = getattr(proto, step)
        return proto

    def write(proto: Any, value: Any, _: Context) -> None:
        if isinstance(value, tuple):
            getattr(owner(proto), name).extend(value)
        else:
            setattr(owner(proto), name, value)

    def read(proto: Any, _: Context) -> Any:
        return _value(getattr(owner(proto), name))

    steps = path.split(".")
    return Field((steps[0],), write, read, (*steps, name))


def message(name: str, write: Callable[[Any, Any], None], read: Callable[[Any], Any]) -> Field:
    """A message of its own, or a list of messages."""
    field = part(name, write, read)

    def read_present(proto: Any, context: Context) -> Any:
        is_repeated = proto.DESCRIPTOR.fields_by_name[name].is_repeated
        return field.read(proto, context) if (getattr(proto, name) if is_repeated else proto.HasField(name)) else None

    return replace(field, read=read_present)


def rows_of(row_class: type, *names: str) -> tuple[Callable[[Any, Any], None], Callable[[Any], tuple[Any, ...]]]:
    """How a list of messages is written from dataclasses, and read: their fields in order, by the messages' names."""
    own = [field.name for field in fields(row_class)]

    def write(protos: Any, rows: Iterable[Any]) -> None:
        for row in rows:
            protos.add(**{name: getattr(row, field) for name, field in zip(names, own, strict=True)})

    def read(protos: Any) -> tuple[Any, ...]:
        return tuple(row_class(*(_value(getattr(proto, name)) for name in names)) for proto in protos)

    return write, read


def _value(field: Any) -> Any:
    """A scalar as it is, a list of numbers as a tuple."""
    return field if isinstance(field, (int, float, bool)) else tuple(field)


def choice(name: str, enum: str, prefix: str = "", *, silent: int | None = None, path: str = "") -> Field:
    """A word that the wire has as an enum's number; `silent` is the number that says nothing."""

    def owner(proto: Any) -> Any:
        return getattr(proto, path) if path else proto

    def write(proto: Any, value: str, _: Context) -> None:
        setattr(owner(proto), name, _enum(enum).Value(prefix + value.upper()))

    def read(proto: Any, _: Context) -> str | None:
        number = getattr(owner(proto), name)
        if number == silent:
            return None
        if number not in _enum(enum).values():
            raise HloomError(f"{name} is {number}, which no value of {enum} is")
        word = _enum(enum).Name(number).removeprefix(prefix)
        return word if word in _IN_CAPITALS or enum in _CAPITAL_ENUMS else word.lower()

    return Field((path or name,), write, read)


_IN_CAPITALS = frozenset(("FFT", "IFFT", "RFFT", "IRFFT"))
_CAPITAL_ENUMS = frozenset(
    ("PaddingType", "CustomCallSchedule", "CustomCallApiVersion", "TriangularSolveOptions.Transpose")
)


def _enum(name: str) -> Any:
    owner, _, inner = name.partition(".")
    return getattr(getattr(protobuf, owner), inner) if inner else getattr(protobuf, owner)
