"""The planner: how to shard a module over a mesh, what the plan costs, and why it was chosen.

`search.py` runs the search, `cost_tables.py` prices the choices, and `solvers` make them. To add a solver, write a file
in `solvers`; to recognise another handwritten plan, edit `experts`. `annotation` (plans as shardings of HLO, of Shardy
and of jax) is public as a module.
"""

from hloom.distribute.planner.candidates import RUNS as RUNS
from hloom.distribute.planner.candidates import CandidatePlan as CandidatePlan
from hloom.distribute.planner.candidates import SearchResult as SearchResult
from hloom.distribute.planner.candidates import compare as compare
from hloom.distribute.planner.candidates import with_comparisons as with_comparisons
from hloom.distribute.planner.constraints import Forbidden as Forbidden
from hloom.distribute.planner.cost_model import Rates as Rates
from hloom.distribute.planner.device_program import device_program as device_program
from hloom.distribute.planner.experts import experts as experts
from hloom.distribute.planner.explanation import Alternative as Alternative
from hloom.distribute.planner.explanation import Cause as Cause
from hloom.distribute.planner.explanation import Explanation as Explanation
from hloom.distribute.planner.explanation import explain as explain
from hloom.distribute.planner.explanation import other_plans as other_plans
from hloom.distribute.planner.partitioned import Comparison as Comparison
from hloom.distribute.planner.partitioned import PartitionedProgram as PartitionedProgram
from hloom.distribute.planner.partitioned import read_compiled as read_compiled
from hloom.distribute.planner.partitioned import read_partitioned as read_partitioned
from hloom.distribute.planner.plan import ENTRY as ENTRY
from hloom.distribute.planner.plan import Plan as Plan
from hloom.distribute.planner.plan_json import plan_from_json as plan_from_json
from hloom.distribute.planner.plan_space import PlanSpace as PlanSpace
from hloom.distribute.planner.plannable import check_plannable as check_plannable
from hloom.distribute.planner.search import complete_plan as complete_plan
from hloom.distribute.planner.search import predict_plan as predict_plan
from hloom.distribute.planner.search import search_plans as search_plans
from hloom.distribute.planner.search import solver_of as solver_of
from hloom.distribute.planner.tensor_families import FamilyTable as FamilyTable
