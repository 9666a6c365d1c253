"""Every JAX program of the corpus, by name.

To add one, write a function under `@family(shapes...)` in the family's file; its name is the program's.
"""

from .contraction import contraction
from .control import control
from .elementwise import elementwise
from .indexing import indexing
from .linalg import linalg
from .models import models
from .program import Program
from .random import random
from .reduction import reduction
from .sharding import sharding
from .values import values

FAMILIES = {
    "elementwise": elementwise,
    "contraction": contraction,
    "reduction": reduction,
    "indexing": indexing,
    "control": control,
    "random": random,
    "linalg": linalg,
    "sharding": sharding,
    "models": models,
    "values": values,
}
PROGRAMS: dict[str, Program] = {
    f"{family}.{name}": program for family, programs in FAMILIES.items() for name, program in programs.items()
}

__all__ = ["FAMILIES", "PROGRAMS", "Program"]
