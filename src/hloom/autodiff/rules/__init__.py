"""How each opcode is differentiated, one file per family.

To differentiate an opcode, give it a rule in the family's file, or say why it has none.
"""

from hloom.autodiff.rules import contraction, elementwise, indexing, reduction, shaping, structure
from hloom.autodiff.rules.table import RULES as RULES
from hloom.autodiff.rules.table import TRANSPOSITIONS as TRANSPOSITIONS
from hloom.autodiff.rules.table import Rule as Rule

__all__ = ["contraction", "elementwise", "indexing", "reduction", "shaping", "structure"]
