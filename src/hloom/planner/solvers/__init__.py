"""The planners: each takes a problem and gives a choice of one strategy per cluster.

To add one, write a file here with a function of the form of `Planner` and name it in PLANNERS.
"""

from hloom.planner.solvers import ilp, recursive
from hloom.planner.solvers.assignment import Assignment as Assignment
from hloom.planner.solvers.assignment import Planner as Planner
from hloom.text import HloomError

PLANNERS: dict[str, Planner] = {"ilp": ilp.plan, "recursive": recursive.plan}
"""The planners by name."""


def by_name(name: str) -> Planner:
    """A planner; raises HloomError where there is none of this name."""
    if name not in PLANNERS:
        raise HloomError(f"there is no planner '{name}'", hint=f"there are {', '.join(PLANNERS)}")
    return PLANNERS[name]
