"""Microbatches: turns a program over a batch into a loop over slices of the batch that combines their results.

To teach it an op that is linear, and so works on sums of slices, edit `linearity.py`. How a dimension passes through an
op is the op's axis map in `ops`.
"""

from hloom.distribute.microbatch.batch_state import MixedExamples as MixedExamples
from hloom.distribute.microbatch.microbatch import Batch as Batch
from hloom.distribute.microbatch.microbatch import MicrobatchLoop as MicrobatchLoop
from hloom.distribute.microbatch.microbatch import Proposal as Proposal
from hloom.distribute.microbatch.microbatch import check_batch_names as check_batch_names
from hloom.distribute.microbatch.microbatch import check_likeliest_batch as check_likeliest_batch
from hloom.distribute.microbatch.microbatch import microbatch as microbatch
from hloom.distribute.microbatch.microbatch import microbatch_in_place as microbatch_in_place
from hloom.distribute.microbatch.microbatch import microbatch_loop as microbatch_loop
from hloom.distribute.microbatch.microbatch import propose_batch as propose_batch
