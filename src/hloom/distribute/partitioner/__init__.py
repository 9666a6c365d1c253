"""A model of XLA's SPMD partitioner: the collectives that it emits for reshards, dots and reductions.

It follows openxla/xla, xla/service/spmd/ (spmd_partitioner.cc, spmd_partitioner_util.cc, dot_handler.cc) and
xla/hlo/utils/hlo_sharding_util.cc, in the sources of early 2026, and is checked against jaxlib 0.10.2
(tests/distribute/partitioner/). Each file names the functions that it follows.

To change what is emitted for a dot, edit `dot_handler.py` and the files it calls; for a reshard, `reshard.py`; for the
queries of other packages, `spec_collectives.py`.
"""

from hloom.distribute.partitioner.dot import DotDimensions as DotDimensions
from hloom.distribute.partitioner.dot import dot_dimensions as dot_dimensions
from hloom.distribute.partitioner.spec_collectives import DimAxes as DimAxes
from hloom.distribute.partitioner.spec_collectives import ShardedArray as ShardedArray
from hloom.distribute.partitioner.spec_collectives import dot_collectives as dot_collectives
from hloom.distribute.partitioner.spec_collectives import reduction_collectives as reduction_collectives
from hloom.distribute.partitioner.spec_collectives import reshard_collectives as reshard_collectives
from hloom.distribute.partitioner.trace import TracedCollective as TracedCollective
