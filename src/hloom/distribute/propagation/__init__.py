"""Sharding propagation: derives the shardings of all values of a module from given ones.

To change how a sharding passes through an op, edit the op's axis map in `ops`; for calls, loops and branches, edit
`hloom.analysis.control_flow`.
"""

from hloom.distribute.propagation.conflicts import Conflict as Conflict
from hloom.distribute.propagation.dimension_equations import DataflowGraph as DataflowGraph
from hloom.distribute.propagation.dimension_equations import Equation as Equation
from hloom.distribute.propagation.dimension_equations import Leaf as Leaf
from hloom.distribute.propagation.enumeration import LIMIT as LIMIT
from hloom.distribute.propagation.enumeration import Enumeration as Enumeration
from hloom.distribute.propagation.enumeration import Tiling as Tiling
from hloom.distribute.propagation.enumeration import enumerate_tilings as enumerate_tilings
from hloom.distribute.propagation.propagation import Propagation as Propagation
from hloom.distribute.propagation.propagation import propagate as propagate
from hloom.distribute.propagation.propagation import runs_by_graph as runs_by_graph
from hloom.distribute.propagation.required_collectives import Partial as Partial
from hloom.distribute.propagation.required_collectives import RequiredCollective as RequiredCollective
from hloom.distribute.propagation.sharding_rule import SUMMING as SUMMING
from hloom.distribute.propagation.sharding_rule import ShardingRule as ShardingRule
