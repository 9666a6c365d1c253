"""How each opcode is differentiated, one file per family.

To differentiate an opcode, give it a rule in the family's file, or say why it has none.
"""

from hloom.autodiff.rules import (
    collective,
    contraction,
    convolution,
    cumulative,
    custom,
    data_movement,
    elementwise,
    factorization,
    functions,
    hessenberg,
    indexing,
    linalg,
    normalisation,
    orthogonal,
    reduction,
    scans,
    schur,
    sort,
    spectral,
    structure,
    windows,
)
from hloom.autodiff.table import RULES as RULES
from hloom.autodiff.table import TRANSPOSITIONS as TRANSPOSITIONS
from hloom.autodiff.table import DerivativeRule as DerivativeRule

__all__ = [
    "collective",
    "contraction",
    "convolution",
    "cumulative",
    "custom",
    "data_movement",
    "elementwise",
    "factorization",
    "functions",
    "hessenberg",
    "indexing",
    "linalg",
    "normalisation",
    "orthogonal",
    "reduction",
    "scans",
    "schur",
    "sort",
    "spectral",
    "structure",
    "windows",
]
