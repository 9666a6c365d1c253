"""OneFlow's ops: their rows, their lowering to HLO, by which numpy computes them, and the passes that fuse them.

Importing this package teaches `hloom.evaluate` its ops and offers its passes by name (`passes/`). To add an op, write
its row in the family's file (`linear.py`, `elementwise.py`, ...) and its lowering in `*_lowering.py` of its family.
"""

from hloom.dialects.oneflow import evaluation as evaluation
from hloom.dialects.oneflow.lowering import lower as lower
from hloom.dialects.oneflow.ops import HINTS as HINTS
from hloom.dialects.oneflow.ops import OPS as OPS
from hloom.dialects.oneflow.ops import parse as parse
from hloom.dialects.oneflow.ops import to_text as to_text
from hloom.dialects.oneflow.passes import all_rules as all_rules
