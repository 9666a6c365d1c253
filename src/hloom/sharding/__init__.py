"""Spreading a program over a mesh of devices: how arrays lie on it, what follows from that, and what it costs.

To add a form that shardings are written in, edit `forms.py`; how a tiling passes an op follows from the op's axis map,
so it is edited in the room `ops`. To add a planner, write a file in `planners`.

`choose`, `explain` and what they give load a solver, when they are first used. `measure` needs XLA, which this room
does not know: it comes from `hloom.planning`, the file above that puts the rooms together.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hloom.sharding.conflicts import Conflict as Conflict
from hloom.sharding.enumeration import Enumeration as Enumeration
from hloom.sharding.enumeration import Tiling as Tiling
from hloom.sharding.enumeration import enumerate_tilings as enumerate_tilings
from hloom.sharding.mesh import Link as Link
from hloom.sharding.mesh import Mesh as Mesh
from hloom.sharding.needs import Collective as Collective
from hloom.sharding.needs import Partial as Partial
from hloom.sharding.propagation import Propagation as Propagation
from hloom.sharding.propagation import propagate as propagate
from hloom.sharding.spec import Spec as Spec
from hloom.sharding.spec import parse_spec as parse_spec
from hloom.sharding.spec import spec_of as spec_of

if TYPE_CHECKING:
    from hloom.sharding.candidates import Candidate as Candidate
    from hloom.sharding.candidates import Chosen as Chosen
    from hloom.sharding.choosing import choose as choose
    from hloom.sharding.explaining import Explanation as Explanation
    from hloom.sharding.explaining import explain as explain
    from hloom.sharding.plan import Plan as Plan
    from hloom.sharding.plan_files import plan_from_json as plan_from_json
    from hloom.sharding.pricing import Rates as Rates

    measure: Any

_LATE = {
    "Candidate": "sharding.candidates",
    "Chosen": "sharding.candidates",
    "Explanation": "sharding.explaining",
    "Plan": "sharding.plan",
    "Rates": "sharding.pricing",
    "choose": "sharding.choosing",
    "explain": "sharding.explaining",
    "measure": "planning",
    "plan_from_json": "sharding.plan_files",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'hloom.sharding' has no attribute '{name}'")
    return globals().setdefault(name, getattr(import_module(f"hloom.{_LATE[name]}"), name))
