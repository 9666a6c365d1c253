"""How many examples a property is tried on: few in `make test`, ten times as many in `make test-long`.

`tests/conftest.py` loads the profile `quick`, `--hypothesis-profile long` the other one. A property without settings of
its own gets the profile's number.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

QUICK, LONG = "quick", "long"
EXAMPLES = 30
TIMES_AS_MANY = 10

settings.register_profile(QUICK, max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile(LONG, settings.get_profile(QUICK), max_examples=TIMES_AS_MANY * EXAMPLES)


def examples(count: int) -> settings:
    """Settings of a property: so many examples in the profile `quick`, and no deadline."""
    is_long = settings().max_examples == TIMES_AS_MANY * EXAMPLES
    return settings(settings.get_profile(QUICK), max_examples=count * (TIMES_AS_MANY if is_long else 1))
