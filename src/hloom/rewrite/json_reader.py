"""JSON data with paths, so that errors name the faulty part of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hloom.rewrite.codecs import decode_value
from hloom.rewrite.registry import RuleError
from hloom.rewrite.type_guards import is_list, is_object

MAX_ITEMS = 1_000
"""The maximum number of items of a list, unless specified otherwise."""


class JsonReader:
    """A part of the data and its path; asking for a missing or mistyped part raises RuleError."""

    __slots__ = ("data", "path")

    def __init__(self, data: object, path: str) -> None:
        self.data = data
        self.path = path

    def error(self, message: str, hint: str | None = None) -> RuleError:
        return RuleError(f"{self.path.lstrip('.') or 'the rule'}: {message}", hint=hint)

    def fields(self, *known: str) -> Mapping[str, Any]:
        if not is_object(self.data):
            raise self.error("it must be an object")
        unknown = [name for name in self.data if name not in known]
        if unknown:
            raise self.error(f"nothing is called '{unknown[0]:.40}' here", hint=f"it may have {', '.join(known)}")
        return self.data

    def has(self, name: str) -> bool:
        return is_object(self.data) and name in self.data

    def __getitem__(self, name: str) -> JsonReader:
        if not is_object(self.data) or name not in self.data:
            raise self.error(f"it has no '{name}'")
        return JsonReader(self.data[name], f"{self.path}.{name}")

    def items(self, name: str, most: int = MAX_ITEMS) -> list[JsonReader]:
        """The items of a list; none if it is absent."""
        if not self.has(name):
            return []
        part = self[name]
        if not is_list(part.data):
            raise part.error("it must be a list")
        if len(part.data) > most:
            raise part.error(f"it has more than {most:,} parts")
        return [JsonReader(item, f"{part.path}[{index}]") for index, item in enumerate(part.data)]

    def named(self, name: str) -> list[tuple[str, JsonReader]]:
        """The members of an object; none if it is absent."""
        if not self.has(name):
            return []
        part = self[name]
        if not is_object(part.data):
            raise part.error("it must be an object")
        return [(key, part[key]) for key in part.data]

    def text(self) -> str:
        if not isinstance(self.data, str) or len(self.data) > 100_000:
            raise self.error("it must be a text")
        return self.data

    def integer(self, least: int, most: int) -> int:
        if not isinstance(self.data, int) or isinstance(self.data, bool) or not least <= self.data <= most:
            raise self.error(f"it must be a whole number from {least} to {most}")
        return self.data

    def flag(self, name: str) -> bool:
        """A boolean; false if it is absent."""
        value = self.data.get(name, False) if is_object(self.data) else False
        if not isinstance(value, bool):
            raise self[name].error("it must be true or false")
        return value

    def value(self) -> Any:
        return decode_value(self.data, self.path.lstrip("."))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(item.text() for item in self.items(name))
