"""Device meshes, shardings of arrays over them, and their notations in HLO, Shardy, jax and JSON.

To add a notation for shardings, add a file like `hlo_sharding.py`. How a sharding passes through an op is in `ops`.
"""

from hloom.sharding.hlo_sharding import check_reductions as check_reductions
from hloom.sharding.hlo_sharding import from_hlo as from_hlo
from hloom.sharding.hlo_sharding import from_hlo_mesh as from_hlo_mesh
from hloom.sharding.hlo_sharding import from_tuple as from_tuple
from hloom.sharding.hlo_sharding import to_explicit as to_explicit
from hloom.sharding.hlo_sharding import to_hlo_mesh as to_hlo_mesh
from hloom.sharding.hlo_sharding import to_mesh_sharding as to_mesh_sharding
from hloom.sharding.hlo_sharding import to_tiled as to_tiled
from hloom.sharding.hlo_sharding import to_tuple as to_tuple
from hloom.sharding.json_specs import mesh_from_json as mesh_from_json
from hloom.sharding.json_specs import mesh_to_json as mesh_to_json
from hloom.sharding.json_specs import spec_from_json as spec_from_json
from hloom.sharding.json_specs import spec_to_json as spec_to_json
from hloom.sharding.mesh import Mesh as Mesh
from hloom.sharding.mesh import as_mesh as as_mesh
from hloom.sharding.sdy import MESH_NAME as MESH_NAME
from hloom.sharding.sdy import SdyDimension as SdyDimension
from hloom.sharding.sdy import SdySharding as SdySharding
from hloom.sharding.sdy import from_sdy as from_sdy
from hloom.sharding.sdy import meshes_text as meshes_text
from hloom.sharding.sdy import per_value as per_value
from hloom.sharding.sdy import sdy_mesh as sdy_mesh
from hloom.sharding.sdy import to_sdy as to_sdy
from hloom.sharding.sdy_parser import read_sdy as read_sdy
from hloom.sharding.sdy_parser import read_sdy_mesh as read_sdy_mesh
from hloom.sharding.sdy_parser import read_sdy_meshes as read_sdy_meshes
from hloom.sharding.sdy_parser import read_sdy_per_value as read_sdy_per_value
from hloom.sharding.spec import Axes as Axes
from hloom.sharding.spec import Spec as Spec
from hloom.sharding.spec import from_partition as from_partition
from hloom.sharding.spec import parse_spec as parse_spec
from hloom.sharding.spec import spec_of as spec_of
from hloom.sharding.spec import to_partition as to_partition
from hloom.sharding.spec import unreduced_axes as unreduced_axes
