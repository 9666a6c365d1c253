"""The solvers: each takes a problem and returns a choice of one strategy per cluster.

To add one, write a file here with a function of the form of `Planner` and name it in PLANNERS.
"""

from hloom.distribute.planner.solvers import ilp, recursive
from hloom.distribute.planner.solvers.assignment import Assignment as Assignment
from hloom.distribute.planner.solvers.assignment import Planner as Planner

PLANNERS: dict[str, Planner] = {"ilp": ilp.plan, "recursive": recursive.plan}
"""The planners by name."""
