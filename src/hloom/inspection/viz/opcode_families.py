"""The families of opcodes, and the colour of each.

The families are the files of the package `ops`, so that a new opcode has a colour with no row here.
"""

from __future__ import annotations

from hloom.ops import (
    collective,
    contraction,
    control_flow,
    custom,
    data_movement,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
)

COLOURS: dict[str, str] = {
    "parameter": "#ffcc80",
    "constant": "#e0e0e0",
    "contraction": "#90caf9",
    "elementwise": "#fff59d",
    "shaping": "#ffffff",
    "reduction": "#ce93d8",
    "indexing": "#a5d6a7",
    "collective": "#ef9a9a",
    "control": "#b0bec5",
    "random": "#f8bbd0",
    "linalg": "#80cbc4",
    "custom": "#d7ccc8",
    "missing": "#ff5252",
    "other": "#eeeeee",
}
"""What each family is filled with: light enough for black text."""

_ROWS = {
    "contraction": contraction.ROWS,
    "elementwise": elementwise.ROWS,
    "shaping": data_movement.ROWS,
    "reduction": reduction.ROWS,
    "indexing": indexing.ROWS,
    "collective": collective.ROWS,
    "control": control_flow.ROWS,
    "random": random.ROWS,
    "linalg": linalg.ROWS,
    "custom": custom.ROWS,
}
FAMILIES: dict[str, str] = {
    "parameter": "parameter",
    "constant": "constant",
    "missing": "missing",
    "call-value": "control",
    **{opcode: family for family, rows in _ROWS.items() for opcode in rows},
}
"""The family of every opcode that is known."""


def family(opcode: str) -> str:
    """The family of an opcode; one that no table knows is of the family `other`.

    >>> family("dot"), family("tanh"), family("all-reduce"), family("frobnicate")
    ('contraction', 'elementwise', 'collective', 'other')
    """
    return FAMILIES.get(opcode, "other")
