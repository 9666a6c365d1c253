"""Evaluates graphs with numpy: for constant folding, and as a small oracle independent of XLA.

`evaluate` runs a module, `evaluate_graph` a graph, `evaluate_node` one node; `first_not_finite` finds where a NaN first
arises. To add an opcode, register a function in its family's file, as `table.py` explains; to add a family, list its
file in `families.py`.
"""

from hloom.evaluator.families import FAMILIES as FAMILIES
from hloom.evaluator.inputs import Inputs as Inputs
from hloom.evaluator.inputs import inputs_in_order as inputs_in_order
from hloom.evaluator.inputs import keeps as keeps
from hloom.evaluator.inputs import leaves_of as leaves_of
from hloom.evaluator.inputs import listed_inputs as listed_inputs
from hloom.evaluator.integers import EXPONENT_BITS as EXPONENT_BITS
from hloom.evaluator.limits import MOST_BYTES as MOST_BYTES
from hloom.evaluator.limits import MOST_STEPS as MOST_STEPS
from hloom.evaluator.limits import LimitReached as LimitReached
from hloom.evaluator.not_finite import NotFinite as NotFinite
from hloom.evaluator.not_finite import first_not_finite as first_not_finite
from hloom.evaluator.runner import CannotEvaluate as CannotEvaluate
from hloom.evaluator.runner import GraphRunner as GraphRunner
from hloom.evaluator.runner import Observer as Observer
from hloom.evaluator.runner import evaluate as evaluate
from hloom.evaluator.runner import evaluate_graph as evaluate_graph
from hloom.evaluator.runner import evaluate_node as evaluate_node
from hloom.evaluator.runner import literal_value as literal_value
from hloom.evaluator.table import TABLE as TABLE
from hloom.evaluator.table import TOKEN_VALUE as TOKEN_VALUE
from hloom.evaluator.table import Runner as Runner
from hloom.evaluator.table import Value as Value
from hloom.evaluator.table import evaluator as evaluator
from hloom.evaluator.table import none as none
from hloom.evaluator.table import pointwise as pointwise
