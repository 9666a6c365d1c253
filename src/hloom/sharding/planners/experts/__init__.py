"""The plans that people write by hand, recognised from the graph: starting points, baselines and names."""

from hloom.sharding.planners.experts.naming import describe as describe
from hloom.sharding.planners.experts.recipes import experts as experts
