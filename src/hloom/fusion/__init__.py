"""Kernels chosen by cost: which instructions run as one, written as HLO fusions, and what the fusions of a module hold.

    fused, report = hloom.apply(module, "cluster(target=h100)")

To let kernels hold an opcode, edit the tables of `kernel_model.py`, and say there at which indices it reads its
operands; to add a backend or a limit of its kernels, edit `target.py`. What is stored is decided in
`frontier_search.py`, which kernels become one in `kernel_merger.py`.
"""

from hloom.fusion.cluster import Clustering as Clustering
from hloom.fusion.cluster import cluster as cluster
from hloom.fusion.cluster import clustered as clustered
from hloom.fusion.fusion_report import FusionReport as FusionReport
from hloom.fusion.fusion_report import FusionRow as FusionRow
from hloom.fusion.fusion_report import MissedFusion as MissedFusion
from hloom.fusion.fusion_report import counted as counted
from hloom.fusion.fusion_report import fusions as fusions
from hloom.fusion.target import FusionTarget as FusionTarget
from hloom.fusion.target import fusion_target as fusion_target
