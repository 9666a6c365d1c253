"""Plans that people write by hand, recognised from the graph: starting points, baselines and names."""

from hloom.distribute.planner.experts.description import describe as describe
from hloom.distribute.planner.experts.recipes import experts as experts
