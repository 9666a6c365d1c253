"""The planners: each takes a problem and gives a choice of one strategy per cluster.

To add one, write a file here with a function of the same form and name it in PLANNERS.
"""

from hloom.sharding.planners.ilp import Choice as Choice
from hloom.sharding.planners.ilp import plan as ilp

PLANNERS = {"ilp": ilp}
"""The planners by name."""
