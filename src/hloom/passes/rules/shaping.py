"""All rules that only place elements, by subject: what `simplify` takes of them, and what `simplify-xla` adds.

To add a rule, put it into the file of its subject.
"""

from __future__ import annotations

from hloom.passes.rules.broadcasting import BROADCASTING, BROADCASTING_AS_XLA
from hloom.passes.rules.gathering import GATHERING, GATHERING_AS_XLA
from hloom.passes.rules.indexing import INDEXING, INDEXING_AS_XLA
from hloom.passes.rules.padding import PADDING
from hloom.passes.rules.reshaping import RESHAPING, RESHAPING_AS_XLA
from hloom.passes.rules.slicing import SLICING
from hloom.passes.rules.transposing import TRANSPOSING, TRANSPOSING_AS_XLA
from hloom.passes.rules.tuples import TUPLES
from hloom.passes.rules.updating import UPDATING, UPDATING_AS_XLA
from hloom.rewrite import Family

STRICT_SHAPING: tuple[Family, ...] = (
    RESHAPING, TRANSPOSING, BROADCASTING, SLICING, PADDING, INDEXING, UPDATING, GATHERING, TUPLES,
)  # fmt: skip
"""Rules that make programs smaller or move less."""

SHAPING_AS_XLA: tuple[Family, ...] = (
    RESHAPING_AS_XLA, TRANSPOSING_AS_XLA, BROADCASTING_AS_XLA, INDEXING_AS_XLA, UPDATING_AS_XLA, GATHERING_AS_XLA,
)  # fmt: skip
"""Rules for the forms that XLA prefers; they too keep every bit."""
