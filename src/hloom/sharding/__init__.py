"""Meshes of devices, how arrays are sharded over them, and the texts in which others write that.

To add a text that shardings are written in, add a file here beside `hlo_sharding.py`.
"""

from hloom.sharding.mesh import Link as Link
from hloom.sharding.mesh import Mesh as Mesh
from hloom.sharding.spec import Spec as Spec
from hloom.sharding.spec import parse_spec as parse_spec
from hloom.sharding.spec import spec_of as spec_of
