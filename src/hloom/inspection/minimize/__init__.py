"""Minimisation: finds a smallest module that still shows a fault, by delta debugging on graphs.

To add a reduction, write a function of the search in `reductions.py` (or in `shape_reduction.py` for shapes) and put it
into its table; to add a predicate, write a class in `predicates.py`, or `numeric_predicates.py` if it compares numbers.
`pass_bisection.py` finds the pass that introduces a fault.
"""

from hloom.inspection.minimize.ddmin import minimize_items as minimize_items
from hloom.inspection.minimize.minimization import STEPS as STEPS
from hloom.inspection.minimize.minimization import FaultNotShown as FaultNotShown
from hloom.inspection.minimize.minimization import Minimization as Minimization
from hloom.inspection.minimize.minimization import minimize as minimize
from hloom.inspection.minimize.numeric_predicates import DiffersBetweenFlags as DiffersBetweenFlags
from hloom.inspection.minimize.numeric_predicates import DiffersFromEvaluator as DiffersFromEvaluator
from hloom.inspection.minimize.numeric_predicates import NumericPredicate as NumericPredicate
from hloom.inspection.minimize.pass_bisection import PassesChangeNumbers as PassesChangeNumbers
from hloom.inspection.minimize.pass_bisection import PassFault as PassFault
from hloom.inspection.minimize.pass_bisection import ShowsAfterPasses as ShowsAfterPasses
from hloom.inspection.minimize.pass_bisection import XlaPassFault as XlaPassFault
from hloom.inspection.minimize.pass_bisection import bisect_passes as bisect_passes
from hloom.inspection.minimize.pass_bisection import bisect_xla_passes as bisect_xla_passes
from hloom.inspection.minimize.pass_bisection import minimize_passes as minimize_passes
from hloom.inspection.minimize.predicates import STATUSES as STATUSES
from hloom.inspection.minimize.predicates import TIMEOUT as TIMEOUT
from hloom.inspection.minimize.predicates import CommandPredicate as CommandPredicate
from hloom.inspection.minimize.predicates import FaultPredicate as FaultPredicate
from hloom.inspection.minimize.predicates import FunctionPredicate as FunctionPredicate
from hloom.inspection.minimize.predicates import SlowerThan as SlowerThan
from hloom.inspection.minimize.predicates import Verdict as Verdict
from hloom.inspection.minimize.predicates import XlaCrashes as XlaCrashes
from hloom.inspection.minimize.predicates import XlaRefuses as XlaRefuses
from hloom.inspection.minimize.search import MinimizationProgress as MinimizationProgress
