"""The planner: how to shard a module over a mesh, what that costs, and why.

To add a solver, write a file in `solvers`; to recognise a further plan that people write by hand, edit `experts`.
"""

from hloom.planner.candidates import Candidate as Candidate
from hloom.planner.candidates import SearchResult as SearchResult
from hloom.planner.cost_model import Rates as Rates
from hloom.planner.explanation import Explanation as Explanation
from hloom.planner.explanation import explain as explain
from hloom.planner.plan import Plan as Plan
from hloom.planner.plan_json import plan_from_json as plan_from_json
from hloom.planner.search import search_plans as search_plans
