"""Plans that people write by hand, recognised from the graph: starting points, baselines and names."""

from hloom.planner.experts.description import describe as describe
from hloom.planner.experts.recipes import experts as experts
