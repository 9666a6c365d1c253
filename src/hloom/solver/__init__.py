"""Optimisation problems as solvers take them; it knows nothing of programs.

To add a problem, say it as costs, bounds and `Constraint`s for `minimize`, which gives integer programs to HiGHS.
"""

from hloom.solver.integer_program import Constraint as Constraint
from hloom.solver.integer_program import minimize as minimize
