"""Sharding propagation: derives the shardings of all values of a module from given ones.

To change how a sharding passes through an op, edit the op's axis map in `ops`; for calls, loops and branches, edit
`hloom.analysis.control_flow`.
"""

from hloom.propagation.conflicts import Conflict as Conflict
from hloom.propagation.dimension_equations import DataflowGraph as DataflowGraph
from hloom.propagation.dimension_equations import Equation as Equation
from hloom.propagation.dimension_equations import Leaf as Leaf
from hloom.propagation.enumeration import LIMIT as LIMIT
from hloom.propagation.enumeration import Enumeration as Enumeration
from hloom.propagation.enumeration import Tiling as Tiling
from hloom.propagation.enumeration import enumerate_tilings as enumerate_tilings
from hloom.propagation.propagation import Propagation as Propagation
from hloom.propagation.propagation import propagate as propagate
from hloom.propagation.propagation import runs_by_graph as runs_by_graph
from hloom.propagation.required_collectives import Partial as Partial
from hloom.propagation.required_collectives import RequiredCollective as RequiredCollective
from hloom.propagation.sharding_rule import SUMMING as SUMMING
from hloom.propagation.sharding_rule import ShardingRule as ShardingRule
