"""Evaluates graphs with numpy: for constant folding, and as a small oracle independent of XLA.

`evaluate` runs a module, `evaluate_graph` a graph, `evaluate_node` one node; `first_not_finite` says where a NaN first
arises. To teach it an opcode, register a function in the file of the opcode's family, as `table.py` says; a further
family file stands in `families.py`.
"""

from hloom.evaluate.families import FAMILIES as FAMILIES
from hloom.evaluate.inputs import Inputs as Inputs
from hloom.evaluate.inputs import inputs_in_order as inputs_in_order
from hloom.evaluate.inputs import keeps as keeps
from hloom.evaluate.inputs import leaves_of as leaves_of
from hloom.evaluate.inputs import listed_inputs as listed_inputs
from hloom.evaluate.integers import EXPONENT_BITS as EXPONENT_BITS
from hloom.evaluate.limits import MOST_BYTES as MOST_BYTES
from hloom.evaluate.limits import MOST_STEPS as MOST_STEPS
from hloom.evaluate.limits import LimitReached as LimitReached
from hloom.evaluate.not_finite import NotFinite as NotFinite
from hloom.evaluate.not_finite import first_not_finite as first_not_finite
from hloom.evaluate.runner import CannotEvaluate as CannotEvaluate
from hloom.evaluate.runner import GraphRunner as GraphRunner
from hloom.evaluate.runner import Observer as Observer
from hloom.evaluate.runner import evaluate as evaluate
from hloom.evaluate.runner import evaluate_graph as evaluate_graph
from hloom.evaluate.runner import evaluate_node as evaluate_node
from hloom.evaluate.runner import literal_value as literal_value
from hloom.evaluate.table import TABLE as TABLE
from hloom.evaluate.table import TOKEN_VALUE as TOKEN_VALUE
from hloom.evaluate.table import Runner as Runner
from hloom.evaluate.table import Value as Value
from hloom.evaluate.table import evaluator as evaluator
from hloom.evaluate.table import none as none
from hloom.evaluate.table import pointwise as pointwise
from hloom.text import make_callable

make_callable(__name__, evaluate)
