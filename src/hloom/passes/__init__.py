"""The standard rules and passes, one subject per file, and how passes are named and put together.

To add a rule to `simplify`, decorate a function in the file of its subject in `rules`; to add a pass, write
`run(module) -> Report` in a file of its own and offer it here.
"""

from hloom.passes import cse as _cse  # noqa: F401  each of these offers its passes by name
from hloom.passes import dce as _dce  # noqa: F401
from hloom.passes import hoisting as _hoisting  # noqa: F401
from hloom.passes import inline as _inline  # noqa: F401
from hloom.passes import outline as _outline  # noqa: F401
from hloom.passes import simplify as _simplify  # noqa: F401
from hloom.passes import unroll as _unroll  # noqa: F401
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
