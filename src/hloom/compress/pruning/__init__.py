"""Pruning: zeroing weights by magnitude or activations, and removing the least important channels of programs.

    pruned = hloom.prune(module, arrays, 0.5)
    smaller = hloom.prune_structured(module, arrays, 0.5)
    outputs = hloom.run(smaller.module, smaller.convert(arrays)).outputs

To add an option, give it a field in `options.py`; to add a method, score elements in `scores.py`; to add a pattern,
give it a class in `pattern.py` and its masks in `masks.py`. To support another opcode when positions are removed, list
it in `dimension_dependency.py` (`PASSING`) or describe there how it moves them, and describe its result in
`removed_values.py` and its size attributes in `removal.py`.
"""

from hloom.compress.pruning.axis_class import AXES as AXES
from hloom.compress.pruning.options import DEFAULT_AXES as DEFAULT_AXES
from hloom.compress.pruning.options import GROUPS as GROUPS
from hloom.compress.pruning.options import OPCODES as OPCODES
from hloom.compress.pruning.options import SPARSITY as SPARSITY
from hloom.compress.pruning.options import PruningOptions as PruningOptions
from hloom.compress.pruning.options import StructuredPruningOptions as StructuredPruningOptions
from hloom.compress.pruning.pattern import BlockPattern as BlockPattern
from hloom.compress.pruning.pattern import GroupPattern as GroupPattern
from hloom.compress.pruning.prune import PrunedWeight as PrunedWeight
from hloom.compress.pruning.prune import Pruning as Pruning
from hloom.compress.pruning.prune import prune as prune
from hloom.compress.pruning.prune import prune_with as prune_with
from hloom.compress.pruning.scores import METHODS as METHODS
from hloom.compress.pruning.sparsity_report import PruningReport as PruningReport
from hloom.compress.pruning.sparsity_report import random_arrays as random_arrays
from hloom.compress.pruning.sparsity_report import report as report
from hloom.compress.pruning.sparsity_report import stored_bytes as stored_bytes
from hloom.compress.pruning.structure_report import StructureReport as StructureReport
from hloom.compress.pruning.structure_report import structure_report as structure_report
from hloom.compress.pruning.structured import PrunedAxis as PrunedAxis
from hloom.compress.pruning.structured import StructuredPruning as StructuredPruning
from hloom.compress.pruning.structured import prune_structured as prune_structured
from hloom.compress.pruning.structured import prune_structured_with as prune_structured_with
