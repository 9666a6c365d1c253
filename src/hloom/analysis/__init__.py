"""What a module holds and costs, as data: an analysis takes a module and returns a value, and changes nothing.

To add a line to the account of a module, edit `summary.py`; what a program shows of it is the program's business.
To count an opcode, give it a rule in its family's file of `rules/`; to recognise a further form of loop, edit
`linear.py` (what counters are made with) or `trips.py` (how conditions ask); to add costs up by something else,
`grouping.py`.
"""

from hloom.analysis.collectives import Wire as Wire
from hloom.analysis.cost import Conditional as Conditional
from hloom.analysis.cost import CostReport as CostReport
from hloom.analysis.cost import Loop as Loop
from hloom.analysis.cost import NodeCost as NodeCost
from hloom.analysis.cost import cost as cost
from hloom.analysis.counts import Cost as Cost
from hloom.analysis.grouping import BY as BY
from hloom.analysis.grouping import source_of as source_of
from hloom.analysis.rules import RULES as RULES
from hloom.analysis.rules import Rule as Rule
from hloom.analysis.summary import Call as Call
from hloom.analysis.summary import Collective as Collective
from hloom.analysis.summary import Summary as Summary
from hloom.analysis.summary import Tensor as Tensor
from hloom.analysis.summary import summary as summary
from hloom.analysis.tables import Table as Table
