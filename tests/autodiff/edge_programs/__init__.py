"""Small programs with the edges of differentiation in them, by family.

`PROGRAMS` holds JAX functions; the collectives, which need several devices, are HLO texts in `collectives`.
"""

from __future__ import annotations

from . import algorithms, arrays, linear_algebra, loops, numbers, stacks
from .program import BOTH as BOTH
from .program import DIFFERENCES as DIFFERENCES
from .program import JAX as JAX
from .program import Program as Program

FAMILIES = {
    "loops": loops.PROGRAMS,
    "stacks": stacks.PROGRAMS,
    "linear algebra": linear_algebra.PROGRAMS,
    "numbers": numbers.PROGRAMS,
    "arrays": arrays.PROGRAMS,
    "algorithms": algorithms.PROGRAMS,
}
PROGRAMS: dict[str, Program] = {
    f"{family}: {name}": program for family, programs in FAMILIES.items() for name, program in programs.items()
}
