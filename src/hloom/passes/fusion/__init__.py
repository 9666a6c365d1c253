"""Cost-based fusion: chooses which instructions run as one kernel, writes them as HLO fusions, and reports on fusions.

    fused, report = hloom.opt(module, "cluster(target=h100)")

To allow an opcode inside kernels, edit the tables of `kernel_model.py`, including the indices at which it reads its
operands; to add a backend or a kernel limit, edit `target.py`. `frontier_search.py` decides what is stored,
`kernel_merger.py` which kernels are merged.
"""

from hloom.passes.fusion.cluster import Clustering as Clustering
from hloom.passes.fusion.cluster import cluster as cluster
from hloom.passes.fusion.cluster import clustered as clustered
from hloom.passes.fusion.fusion_report import FusionReport as FusionReport
from hloom.passes.fusion.fusion_report import FusionRow as FusionRow
from hloom.passes.fusion.fusion_report import LibraryCalls as LibraryCalls
from hloom.passes.fusion.fusion_report import MissedFusion as MissedFusion
from hloom.passes.fusion.fusion_report import counted as counted
from hloom.passes.fusion.fusion_report import fusions as fusions
from hloom.passes.fusion.target import FusionTarget as FusionTarget
from hloom.passes.fusion.target import fusion_target as fusion_target
