"""How much of many like cases is tried: a share in `make test`, all in `make test-long`.

`tests/conftest.py` loads the profile `quick`; `--hypothesis-profile long` asks for the other one. A property without
settings of its own gets the profile's number of examples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

QUICK, LONG = "quick", "long"
EXAMPLES = 30
TIMES_AS_MANY = 10

settings.register_profile(QUICK, max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile(LONG, settings.get_profile(QUICK), max_examples=TIMES_AS_MANY * EXAMPLES)

Value = TypeVar("Value")


def is_long() -> bool:
    """Whether everything is to be tried."""
    return settings().max_examples == TIMES_AS_MANY * EXAMPLES


def examples(count: int, many: int = 0) -> settings:
    """Settings of a property: so many examples in the profile `quick`, in `long` so many, and no deadline."""
    most = (many or count * TIMES_AS_MANY) if is_long() else count
    return settings(settings.get_profile(QUICK), max_examples=most)


def sample(values: dict[str, Value], share: int, offset: int = 0) -> dict[str, Value]:
    """One of every so many entries, from an offset on, or all of them in the profile `long`.

    Tests of several options take each another offset, so that together they see every entry.
    """
    if is_long():
        return values
    return {name: value for number, (name, value) in enumerate(values.items()) if number % share == offset % share}


def parameters(values: Iterable[Any], share: int, offset: int = 0) -> list[Any]:
    """Parameters of a test: one of every so many, the others marked `long`."""
    return [
        value if number % share == offset % share else pytest.param(value, marks=pytest.mark.long)
        for number, value in enumerate(values)
    ]
