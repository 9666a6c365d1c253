"""Pruning: weights with zeros, whose masks go by magnitude or activations.

    pruned = hloom.prune(module, arrays, 0.5)
    outputs = hloom.run(pruned.module, pruned.convert(arrays)).outputs

To add a method, score elements in `scores.py`; to add a pattern, give it a class in `pattern.py` and its masks in
`masks.py`.
"""

from hloom.pruning.pattern import BlockPattern as BlockPattern
from hloom.pruning.pattern import GroupPattern as GroupPattern
from hloom.pruning.prune import GROUPS as GROUPS
from hloom.pruning.prune import OPCODES as OPCODES
from hloom.pruning.prune import SPARSITY as SPARSITY
from hloom.pruning.prune import PrunedWeight as PrunedWeight
from hloom.pruning.prune import Pruning as Pruning
from hloom.pruning.prune import prune as prune
from hloom.pruning.scores import METHODS as METHODS
from hloom.pruning.sparsity_report import PruningReport as PruningReport
from hloom.pruning.sparsity_report import random_arrays as random_arrays
from hloom.pruning.sparsity_report import report as report
from hloom.pruning.sparsity_report import stored_bytes as stored_bytes
