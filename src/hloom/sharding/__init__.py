"""Meshes of devices, how arrays are sharded over them, and the texts that say so in HLO, Shardy, jax and JSON.

To add a notation of shardings, add a file here beside `hlo_sharding.py`. Those
of Shardy (`sdy`, `sdy_parser`), jax (`partition_spec`) and JSON (`json_specs`) are imported from their own modules, as
is `axis_links`, which loads `hloom.analysis`.
"""

from hloom.sharding.hlo_sharding import from_hlo as from_hlo
from hloom.sharding.hlo_sharding import from_hlo_mesh as from_hlo_mesh
from hloom.sharding.hlo_sharding import from_tuple as from_tuple
from hloom.sharding.hlo_sharding import to_explicit as to_explicit
from hloom.sharding.hlo_sharding import to_hlo_mesh as to_hlo_mesh
from hloom.sharding.hlo_sharding import to_mesh_sharding as to_mesh_sharding
from hloom.sharding.hlo_sharding import to_tiled as to_tiled
from hloom.sharding.hlo_sharding import to_tuple as to_tuple
from hloom.sharding.mesh import AxisLink as AxisLink
from hloom.sharding.mesh import Mesh as Mesh
from hloom.sharding.spec import REDUCERS as REDUCERS
from hloom.sharding.spec import Axes as Axes
from hloom.sharding.spec import Spec as Spec
from hloom.sharding.spec import parse_spec as parse_spec
from hloom.sharding.spec import spec_of as spec_of
