"""Where an attribute is stored in an instruction's message, and constructors for the common cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.proto.metadata import to_bytes, to_text
from hloom.ir import Type
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class Context:
    """What an attribute's encoding depends on besides its own fields: the types around it, the module's payloads."""

    type: Type | None = None
    operands: Sequence[Type | None] = ()
    payloads: Sequence[bytes] = ()


Write = Callable[[Any, Any, Context], None]
Read = Callable[[Any, Context], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """How one attribute is stored: the message's fields it uses, how to write it and how to read it (None: absent).

    `path` leads through submessages to the field if the value is stored unchanged as numbers or text.
    """

    names: tuple[str, ...]
    write: Write
    read: Read
    path: tuple[str, ...] = ()


def number(name: str) -> Field:
    """A number or boolean under its own name; 0 and false are stored explicitly."""
    return Field(
        (name,), lambda proto, value, _: setattr(proto, name, value), lambda proto, _: getattr(proto, name), (name,)
    )


def unless_empty(field: Field) -> Field:
    """The same field, absent if it is 0 or empty."""
    return replace(field, read=lambda proto, context: field.read(proto, context) or None)


def part(name: str, write: Callable[[Any, Any], None], read: Callable[[Any], Any]) -> Field:
    """A submessage, or a list of them, whose absence is itself a value."""
    return Field(
        (name,), lambda proto, value, _: write(getattr(proto, name), value), lambda proto, _: read(getattr(proto, name))
    )


def text(name: str) -> Field:
    """Bytes that hold text, absent if empty."""
    return Field(
        (name,),
        lambda proto, value, _: setattr(proto, name, to_bytes(value)),
        lambda proto, _: to_text(getattr(proto, name)) or None,
    )


def numbers(name: str) -> Field:
    """A list, for which empty is a value too."""
    return Field(
        (name,),
        lambda proto, value, _: getattr(proto, name).extend(value),
        lambda proto, _: tuple(getattr(proto, name)),
        (name,),
    )


def only_number(name: str) -> Field:
    """A single number that the message stores in a list."""

    def read(proto: Any, _: Context) -> int | None:
        values = tuple(getattr(proto, name))
        if len(values) > 1:
            raise HloomError(f"{name} lists {len(values)} numbers where there is one")
        return values[0] if values else None

    return Field((name,), lambda proto, value, _: getattr(proto, name).append(value), read)


def inside(path: str, name: str) -> Field:
    """A list or a number in a submessage; dots lead deeper."""

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
    """A submessage, or a list of them."""
    field = part(name, write, read)

    def read_present(proto: Any, context: Context) -> Any:
        is_repeated = proto.DESCRIPTOR.fields_by_name[name].is_repeated
        return field.read(proto, context) if (getattr(proto, name) if is_repeated else proto.HasField(name)) else None

    return replace(field, read=read_present)


def rows_of(row_class: type, *names: str) -> tuple[Callable[[Any, Any], None], Callable[[Any], tuple[Any, ...]]]:
    """How to write dataclasses as a list of messages and read them back; `names` are the message's field names in
    order.
    """
    own = [field.name for field in fields(row_class)]

    def write(protos: Any, rows: Iterable[Any]) -> None:
        for row in rows:
            protos.add(**{name: getattr(row, field) for name, field in zip(names, own, strict=True)})

    def read(protos: Any) -> tuple[Any, ...]:
        return tuple(row_class(*(_value(getattr(proto, name)) for name in names)) for proto in protos)

    return write, read


def _value(field: Any) -> Any:
    """Scalars unchanged, a list of numbers as a tuple."""
    return field if isinstance(field, (int, float, bool)) else tuple(field)


def choice(name: str, enum: str, prefix: str = "", *, silent: int | None = None, path: str = "") -> Field:
    """A word stored as an enum's number; `silent` is the number that means absent."""

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
