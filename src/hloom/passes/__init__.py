"""The standard rules and passes, one subject per file, and how passes are named and put together.

To add a rule to `simplify`, decorate a function in the file of its subject; to add a pass, write `run(module) ->
Report` in a file of its own and offer it here.
"""

from hloom.passes.pipeline import PASSES as PASSES
from hloom.passes.pipeline import Pass as Pass
from hloom.passes.pipeline import PassLike as PassLike
from hloom.passes.pipeline import Watch as Watch
from hloom.passes.pipeline import apply as apply
from hloom.passes.pipeline import apply_in_place as apply_in_place
from hloom.passes.pipeline import fixpoint as fixpoint
from hloom.passes.pipeline import offer as offer
from hloom.passes.pipeline import resolve as resolve
from hloom.passes.pipeline import rules_pass as rules_pass
from hloom.passes.pipeline import sequence as sequence
