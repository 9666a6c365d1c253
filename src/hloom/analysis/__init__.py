"""What a module contains and costs, as data: an analysis takes a module and returns a value, and changes nothing.

To add a line to the summary of a module, edit `summary.py`. To teach all analyses an opcode that calls computations or
forwards values, add a row to `control_flow.py`. To count an opcode, give it a rule in its family's file of `rules/`; to
recognise a further form of loop, edit `scalar_evolution.py` (what counters are made with) or `trip_counts.py` (how
conditions compare them); to add costs up by something else, `op_names.py`. Which results share an operand's buffer,
`alias_info.py` says; what is fused, `fusion.py`; what collectives cost, `collective_cost.py`.
"""

from hloom.analysis.alias_info import ELEMENTWISE as ELEMENTWISE
from hloom.analysis.call_graph import MALFORMED as MALFORMED
from hloom.analysis.call_graph import build_call_graph as build_call_graph
from hloom.analysis.collective_cost import HOST as HOST
from hloom.analysis.collective_cost import CollectiveCost as CollectiveCost
from hloom.analysis.collective_cost import alpha_beta_seconds as alpha_beta_seconds
from hloom.analysis.collective_cost import collective_seconds as collective_seconds
from hloom.analysis.collective_cost import comm_bytes as comm_bytes
from hloom.analysis.collective_cost import comm_factor as comm_factor
from hloom.analysis.collective_cost import group_members as group_members
from hloom.analysis.collective_cost import group_size as group_size
from hloom.analysis.collective_cost import step_count as step_count
from hloom.analysis.control_flow import FLOWS as FLOWS
from hloom.analysis.control_flow import CallSite as CallSite
from hloom.analysis.control_flow import Forwarding as Forwarding
from hloom.analysis.control_flow import OpFlow as OpFlow
from hloom.analysis.control_flow import Phi as Phi
from hloom.analysis.control_flow import Position as Position
from hloom.analysis.control_flow import Runs as Runs
from hloom.analysis.control_flow import call_sites as call_sites
from hloom.analysis.control_flow import called_computations as called_computations
from hloom.analysis.control_flow import callee_of as callee_of
from hloom.analysis.control_flow import callees as callees
from hloom.analysis.control_flow import element_type as element_type
from hloom.analysis.control_flow import flow_of as flow_of
from hloom.analysis.control_flow import forwarded as forwarded
from hloom.analysis.control_flow import initial_state as initial_state
from hloom.analysis.control_flow import is_branch as is_branch
from hloom.analysis.control_flow import is_control_flow as is_control_flow
from hloom.analysis.control_flow import is_loop as is_loop
from hloom.analysis.control_flow import is_plain_call as is_plain_call
from hloom.analysis.control_flow import phis as phis
from hloom.analysis.control_flow import resolved as resolved
from hloom.analysis.control_flow import with_callees as with_callees
from hloom.analysis.cost import Conditional as Conditional
from hloom.analysis.cost import CostReport as CostReport
from hloom.analysis.cost import Loop as Loop
from hloom.analysis.cost import NodeCost as NodeCost
from hloom.analysis.cost import cost as cost
from hloom.analysis.cost_analysis import LOOPED as LOOPED
from hloom.analysis.cost_properties import Cost as Cost
from hloom.analysis.device_files import check_devices as check_devices
from hloom.analysis.devices import Device as Device
from hloom.analysis.devices import Interconnect as Interconnect
from hloom.analysis.devices import device as device
from hloom.analysis.devices import devices as devices
from hloom.analysis.fusion import BROADCASTS as BROADCASTS
from hloom.analysis.fusion import DATA_MOVEMENT as DATA_MOVEMENT
from hloom.analysis.fusion import EXPENSIVE as EXPENSIVE
from hloom.analysis.fusion import SLICES as SLICES
from hloom.analysis.fusion import VIEWS as VIEWS
from hloom.analysis.fusion import FusionPolicy as FusionPolicy
from hloom.analysis.liveness import Donations as Donations
from hloom.analysis.liveness import Liveness as Liveness
from hloom.analysis.liveness import liveness as liveness
from hloom.analysis.memory import Donatable as Donatable
from hloom.analysis.memory import LiveBuffer as LiveBuffer
from hloom.analysis.memory import MemoryReport as MemoryReport
from hloom.analysis.memory import bytes_of as bytes_of
from hloom.analysis.memory import memory_report as memory_report
from hloom.analysis.op_names import BY as BY
from hloom.analysis.op_names import UNKNOWN as UNKNOWN
from hloom.analysis.op_names import layer as layer
from hloom.analysis.op_names import op_name_of as op_name_of
from hloom.analysis.op_names import source_of as source_of
from hloom.analysis.partition_state import BOUNDARIES as BOUNDARIES
from hloom.analysis.partition_state import awaits_partitioning as awaits_partitioning
from hloom.analysis.roofline import Roofline as Roofline
from hloom.analysis.roofline import Timing as Timing
from hloom.analysis.roofline import roofline as roofline
from hloom.analysis.rules import COST_RULES as COST_RULES
from hloom.analysis.rules import CostRule as CostRule
from hloom.analysis.rules import Instruction as Instruction
from hloom.analysis.rules.contraction import products as products
from hloom.analysis.scalar_evolution import ScalarEvolution as ScalarEvolution
from hloom.analysis.schedule import SCHEDULES as SCHEDULES
from hloom.analysis.schedule import ComputationSchedule as ComputationSchedule
from hloom.analysis.schedule import Scheduler as Scheduler
from hloom.analysis.schedule import as_written as as_written
from hloom.analysis.sizes import elements as elements
from hloom.analysis.sizes import leaf_bytes as leaf_bytes
from hloom.analysis.summary import Call as Call
from hloom.analysis.summary import CollectiveCount as CollectiveCount
from hloom.analysis.summary import Summary as Summary
from hloom.analysis.summary import Tensor as Tensor
from hloom.analysis.summary import summary as summary
from hloom.analysis.tables import Table as Table
from hloom.analysis.trip_counts import derive_trip_count as derive_trip_count
from hloom.analysis.trip_counts import find_trip_counts as find_trip_counts
