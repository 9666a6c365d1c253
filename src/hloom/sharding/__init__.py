"""Spreading a program over a mesh of devices: how arrays lie on it, what follows from that, and what it costs.

To add a form that shardings are written in, edit `forms.py`; how a tiling passes an op follows from the op's axis map,
so it is edited in the room `ops`.
"""

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
