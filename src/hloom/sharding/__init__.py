"""Spreading a program over a mesh of devices: how arrays lie on it, what follows from that, and what it costs.

To add a form that shardings are written in, edit `forms.py`; how a tiling passes an op follows from the op's axis map,
so it is edited in the room `ops`.
"""

from hloom.sharding.mesh import Link as Link
from hloom.sharding.mesh import Mesh as Mesh
from hloom.sharding.spec import Spec as Spec
from hloom.sharding.spec import parse_spec as parse_spec
from hloom.sharding.spec import spec_of as spec_of
