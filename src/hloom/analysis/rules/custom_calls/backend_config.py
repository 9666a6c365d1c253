"""Backend configurations of custom calls, read with care: a dump may hold anything.

```
{"gemm_backend_config":{"alpha_real":1, ...}, "operation_queue_id":"0"}     since 2023: JSON around the library's part
"{\\"alpha_real\\":1, ...}"                                                   before: the library's part alone, quoted
{lower = true, algorithm = 0 : ui8}                                         typed FFI: an MLIR dictionary
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

MOST_CACHED = 1 << 14
"""Characters of the longest configuration that is kept after reading; longer ones hold a kernel's code."""
LARGEST_COUNT = (1 << 63) - 1
"""The largest number that a configuration may give: XLA's fields have 64 bits."""
MOST_SETTINGS = 1 << 14
"""Characters of a typed FFI's dictionary that are searched for settings; those of libraries have fewer than 2,000."""
_SETTING = re.compile(r'(?<!\w)(\w{1,64}) = ("[^"\\]{0,256}"|\[[^\]]{0,256}\]|-?[\w.+-]{1,64})')


class Uncountable(Exception):
    """Raised if a custom call does not say what its cost depends on."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CallConfig:
    """The settings of a custom call by name; empty if its configuration is missing or in no known form."""

    values: Mapping[str, Any] = field(default_factory=dict)

    def part(self, name: str) -> CallConfig:
        """A message inside the configuration; the configuration itself if it is the message, as in old texts."""
        inner = self.values.get(name)
        return CallConfig(inner) if isinstance(inner, dict) else self

    def message(self, name: str) -> CallConfig:
        """A message inside the configuration; raises Uncountable if it is missing."""
        inner = self.values.get(name)
        if not isinstance(inner, dict):
            raise Uncountable(f"its configuration has no {name}")
        return CallConfig(inner)

    def text(self, name: str, default: str = "") -> str:
        """A setting as text."""
        value = self.values.get(name, default)
        return value.strip('"') if isinstance(value, str) else default

    def number(self, name: str, default: float) -> float:
        """A setting that scales values; the default if it is missing or no number."""
        value = self.values.get(name, default)
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            return default

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A setting that is true or false, also as the letter that LAPACK takes: N for no, or its code."""
        value = self.values.get(name)
        if isinstance(value, bool) or value is None:
            return default if value is None else value
        return str(value).strip('"') not in ("false", "0", "N", str(ord("N")))

    def count(self, name: str, default: int | None = None) -> int:
        """A count; raises Uncountable if it is missing and has no default, or is none."""
        value = self.values.get(name, default)
        if value is None:
            raise Uncountable(f"its configuration has no {name}")
        return _count(name, value)

    def counts(self, name: str) -> tuple[int, ...]:
        """A list of counts, empty if missing, as in protobuf's JSON; raises Uncountable if it holds anything else."""
        value = self.values.get(name, ())
        if not isinstance(value, list | tuple):
            raise Uncountable(f"{name} of its configuration is not a list")
        return tuple(_count(name, entry) for entry in value)


def read_config(text: object) -> CallConfig:
    """The settings in the text of a `backend_config`."""
    if not isinstance(text, str) or not text:
        return CallConfig()
    return _cached(text) if len(text) <= MOST_CACHED else _read(text)


def _read(text: str) -> CallConfig:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return CallConfig(_settings(text))
    return CallConfig(values) if isinstance(values, dict) else CallConfig()


_cached = lru_cache(maxsize=4096)(_read)


def _settings(text: str) -> dict[str, Any]:
    """The scalars of an MLIR dictionary, without their types: `lower = true, mode = 83 : ui8`."""
    if not text.lstrip().startswith("{"):
        return {}
    settings: dict[str, Any] = {}
    for name, value in _SETTING.findall(text[:MOST_SETTINGS]):
        settings.setdefault(name, {"true": True, "false": False}.get(value, value))
    return settings


def _count(name: str, value: object) -> int:
    """A count that protobuf's JSON writes as a number or, with 64 bits, as a string."""
    if isinstance(value, str) and len(value) < 24 and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_COUNT:
        raise Uncountable(f"{name} of its configuration is not a count")
    return value
