"""Microbatches: a program over a batch, as a loop over slices of the batch that sums what the slices yield.

To teach it an op that is linear, and so works on sums of slices, edit `linearity.py`; how a dimension passes an op
is the op's axis map in `ops`.
"""

from hloom.microbatch.batch_state import MixedExamples as MixedExamples
from hloom.microbatch.microbatch import Proposal as Proposal
from hloom.microbatch.microbatch import microbatch as microbatch
from hloom.microbatch.microbatch import propose_batch as propose_batch
