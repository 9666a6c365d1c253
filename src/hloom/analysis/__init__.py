"""What a module holds and costs, as data: an analysis takes a module and returns a value, and changes nothing.

To add a line to the account of a module, edit `summary.py`; what a program shows of it is the program's business.
To count an opcode, give it a rule in its family's file of `rules/`; to recognise a further form of loop, edit
`linear.py` (what counters are made with) or `trips.py` (how conditions ask); to add costs up by something else,
`grouping.py`. To teach the account of memory which results lie in an operand's buffer, edit `sharing.py`; how values
pass through an opcode, `values.py`; what is fused where no compiler has fused yet, `fused.py`.
"""

from hloom.analysis.collective_cost import CollectiveCost as CollectiveCost
from hloom.analysis.cost import Conditional as Conditional
from hloom.analysis.cost import CostReport as CostReport
from hloom.analysis.cost import Loop as Loop
from hloom.analysis.cost import NodeCost as NodeCost
from hloom.analysis.cost import cost as cost
from hloom.analysis.cost_properties import Cost as Cost
from hloom.analysis.device_files import check_devices as check_devices
from hloom.analysis.devices import Device as Device
from hloom.analysis.devices import Interconnect as Interconnect
from hloom.analysis.devices import device as device
from hloom.analysis.devices import devices as devices
from hloom.analysis.memory import Donatable as Donatable
from hloom.analysis.memory import LiveBuffer as LiveBuffer
from hloom.analysis.memory import MemoryReport as MemoryReport
from hloom.analysis.memory import bytes_of as bytes_of
from hloom.analysis.memory import memory as memory
from hloom.analysis.op_names import BY as BY
from hloom.analysis.op_names import source_of as source_of
from hloom.analysis.partitioning import awaits_partitioning as awaits_partitioning
from hloom.analysis.roofline import Roofline as Roofline
from hloom.analysis.roofline import Timing as Timing
from hloom.analysis.roofline import roofline as roofline
from hloom.analysis.rules import COST_RULES as COST_RULES
from hloom.analysis.rules import CostRule as CostRule
from hloom.analysis.schedule import SCHEDULES as SCHEDULES
from hloom.analysis.summary import Call as Call
from hloom.analysis.summary import Collective as Collective
from hloom.analysis.summary import Summary as Summary
from hloom.analysis.summary import Tensor as Tensor
from hloom.analysis.summary import summary as summary
from hloom.analysis.tables import Table as Table
