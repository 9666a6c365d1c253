"""OneFlow's ops: their rows, their lowering to HLO (which also gives them values), and the passes that fuse them.

Importing this package teaches `hloom.evaluate` its ops and registers its passes by name (`passes/`). To add an op,
write its row in its family's file (`linear.py`, `elementwise.py`, ...) and its lowering in the family's
`*_lowering.py`.
"""

from hloom.dialects.oneflow import evaluation as evaluation
from hloom.dialects.oneflow.lowering import lower as lower
from hloom.dialects.oneflow.ops import HINTS as HINTS
from hloom.dialects.oneflow.ops import OPS as OPS
from hloom.dialects.oneflow.ops import parse as parse
from hloom.dialects.oneflow.ops import to_text as to_text
from hloom.dialects.oneflow.passes import all_rules as all_rules
