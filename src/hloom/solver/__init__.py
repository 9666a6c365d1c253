"""Optimisation problems in the form that solvers accept, independent of programs.

To add a problem, state it as costs, bounds and `Constraint`s for `minimize`, which passes integer programs to HiGHS, or
as columns and rows for `solver_of`.
"""

from hloom.solver.highs_model import BoundedRow as BoundedRow
from hloom.solver.highs_model import Columns as Columns
from hloom.solver.highs_model import solver_of as solver_of
from hloom.solver.integer_program import GAP as GAP
from hloom.solver.integer_program import Constraint as Constraint
from hloom.solver.integer_program import minimize as minimize
