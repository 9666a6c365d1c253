"""Properties are tried on few examples, unless `--hypothesis-profile long` asks for more."""

from __future__ import annotations

from hypothesis import settings

from tests.helpers.properties import QUICK

settings.load_profile(QUICK)
