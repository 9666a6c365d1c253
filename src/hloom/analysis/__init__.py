"""Analyses of a module: what it contains and costs. An analysis takes a module and returns a value without changing it.

Rates of devices, such as an H100's memory bandwidth, are in `devices.toml`; the time of an instruction is in
`roofline.py` (on TPUs in `tpu_time.py`), what overlaps in `timeline.py`, the price of a collective in
`collective_cost.py`. `alias_info.py` says which results share an operand's buffer, `fusion.py` which instructions are
assumed to be fused, `scopes.py` which scope an instruction is in.

To add a line to the summary of a module, edit `summary.py`. To teach all analyses an opcode that calls computations or
forwards values, add a row to `control_flow.py`. To cost an opcode, add a rule to its family's file in `rules/`; to cost
the target of a custom call, a row in `rules/custom_calls`. To recognise another form of loop, edit
`scalar_evolution.py` (how counters are computed) or `trip_counts.py` (how conditions compare them); to group costs by
something else, `op_names.py`.
"""

from typing import TYPE_CHECKING

from hloom.text import imports_names_lazily

if TYPE_CHECKING or not imports_names_lazily(__name__):
    from hloom.analysis.alias_info import ELEMENTWISE as ELEMENTWISE
    from hloom.analysis.alias_info import OVERWRITTEN as OVERWRITTEN
    from hloom.analysis.alias_info import AliasInfo as AliasInfo
    from hloom.analysis.call_graph import MALFORMED as MALFORMED
    from hloom.analysis.call_graph import CallGraph as CallGraph
    from hloom.analysis.call_graph import build_call_graph as build_call_graph
    from hloom.analysis.call_graph import call_graph_of as call_graph_of
    from hloom.analysis.collective_cost import HOST as HOST
    from hloom.analysis.collective_cost import CollectiveCost as CollectiveCost
    from hloom.analysis.collective_cost import collective_line as collective_line
    from hloom.analysis.collective_cost import collective_seconds as collective_seconds
    from hloom.analysis.collective_cost import comm_bytes as comm_bytes
    from hloom.analysis.collective_cost import comm_factor as comm_factor
    from hloom.analysis.collective_cost import group_members as group_members
    from hloom.analysis.collective_cost import group_size as group_size
    from hloom.analysis.collective_cost import step_count as step_count
    from hloom.analysis.collective_rates import CollectiveLine as CollectiveLine
    from hloom.analysis.collective_rates import MessageTime as MessageTime
    from hloom.analysis.compute_time import ComputeTime as ComputeTime
    from hloom.analysis.control_flow import CallSite as CallSite
    from hloom.analysis.control_flow import Phi as Phi
    from hloom.analysis.control_flow import Position as Position
    from hloom.analysis.control_flow import call_sites as call_sites
    from hloom.analysis.control_flow import called_computations as called_computations
    from hloom.analysis.control_flow import callee_of as callee_of
    from hloom.analysis.control_flow import callees as callees
    from hloom.analysis.control_flow import element_type as element_type
    from hloom.analysis.control_flow import flow_of as flow_of
    from hloom.analysis.control_flow import forwarded as forwarded
    from hloom.analysis.control_flow import forwarded_from as forwarded_from
    from hloom.analysis.control_flow import graphs_run_by as graphs_run_by
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
    from hloom.analysis.cost import CustomCallCost as CustomCallCost
    from hloom.analysis.cost import Loop as Loop
    from hloom.analysis.cost import NodeCost as NodeCost
    from hloom.analysis.cost import cost as cost
    from hloom.analysis.cost import uncounted_text as uncounted_text
    from hloom.analysis.cost_analysis import LOOPED as LOOPED
    from hloom.analysis.cost_analysis import MATHEMATICAL as MATHEMATICAL
    from hloom.analysis.cost_analysis import CostAnalysis as CostAnalysis
    from hloom.analysis.cost_groups import CostGroups as CostGroups
    from hloom.analysis.cost_groups import GroupLevel as GroupLevel
    from hloom.analysis.cost_groups import cost_groups as cost_groups
    from hloom.analysis.cost_properties import Cost as Cost
    from hloom.analysis.device_files import check_devices as check_devices
    from hloom.analysis.devices import DEFAULT_DEVICE as DEFAULT_DEVICE
    from hloom.analysis.devices import Device as Device
    from hloom.analysis.devices import Interconnect as Interconnect
    from hloom.analysis.devices import as_device as as_device
    from hloom.analysis.devices import device as device
    from hloom.analysis.devices import devices as devices
    from hloom.analysis.devices import shipped_devices as shipped_devices
    from hloom.analysis.disjoint_sets import DisjointSets as DisjointSets
    from hloom.analysis.fusion import BRANCHING as BRANCHING
    from hloom.analysis.fusion import BROADCASTS as BROADCASTS
    from hloom.analysis.fusion import DATA_MOVEMENT as DATA_MOVEMENT
    from hloom.analysis.fusion import EXPENSIVE as EXPENSIVE
    from hloom.analysis.fusion import SLICES as SLICES
    from hloom.analysis.fusion import VIEWS as VIEWS
    from hloom.analysis.fusion import FusionPolicy as FusionPolicy
    from hloom.analysis.liveness import Donations as Donations
    from hloom.analysis.liveness import Liveness as Liveness
    from hloom.analysis.liveness import liveness as liveness
    from hloom.analysis.liveness import liveness_by_space as liveness_by_space
    from hloom.analysis.matmul_time import Matmul as Matmul
    from hloom.analysis.memory import Donatable as Donatable
    from hloom.analysis.memory import LiveBuffer as LiveBuffer
    from hloom.analysis.memory import MemoryReport as MemoryReport
    from hloom.analysis.memory import SpaceMemory as SpaceMemory
    from hloom.analysis.memory import XlaAccount as XlaAccount
    from hloom.analysis.memory import XlaAllocation as XlaAllocation
    from hloom.analysis.memory import memory_report as memory_report
    from hloom.analysis.memory_model import DEVICE_MEMORY as DEVICE_MEMORY
    from hloom.analysis.memory_model import GPU as GPU
    from hloom.analysis.memory_model import MAIN_MEMORY as MAIN_MEMORY
    from hloom.analysis.memory_model import SPACE_SHORT_NAMES as SPACE_SHORT_NAMES
    from hloom.analysis.memory_model import TARGET as TARGET
    from hloom.analysis.memory_model import MemoryModel as MemoryModel
    from hloom.analysis.memory_model import memory_model as memory_model
    from hloom.analysis.memory_model import model_of_target as model_of_target
    from hloom.analysis.op_names import BY as BY
    from hloom.analysis.op_names import OUTSIDE as OUTSIDE
    from hloom.analysis.op_names import UNKNOWN as UNKNOWN
    from hloom.analysis.op_names import layer as layer
    from hloom.analysis.op_names import op_name_of as op_name_of
    from hloom.analysis.op_names import source_of as source_of
    from hloom.analysis.partition_state import BOUNDARIES as BOUNDARIES
    from hloom.analysis.partition_state import awaits_partitioning as awaits_partitioning
    from hloom.analysis.roofline import KernelWork as KernelWork
    from hloom.analysis.roofline import Roofline as Roofline
    from hloom.analysis.roofline import Timing as Timing
    from hloom.analysis.roofline import roofline as roofline
    from hloom.analysis.rules import CostRule as CostRule
    from hloom.analysis.rules import Instruction as Instruction
    from hloom.analysis.rules import cost_rule as cost_rule
    from hloom.analysis.rules import kind_of as kind_of
    from hloom.analysis.rules.contraction import products as products
    from hloom.analysis.scalar_evolution import Frame as Frame
    from hloom.analysis.scalar_evolution import ScalarEvolution as ScalarEvolution
    from hloom.analysis.scalar_evolution import Value as Value
    from hloom.analysis.schedule import SCHEDULES as SCHEDULES
    from hloom.analysis.schedule import ComputationSchedule as ComputationSchedule
    from hloom.analysis.schedule import Scheduler as Scheduler
    from hloom.analysis.schedule import as_written as as_written
    from hloom.analysis.schedule import instruction_post_order as instruction_post_order
    from hloom.analysis.schedule import list_schedule as list_schedule
    from hloom.analysis.scopes import NO_SCOPE as NO_SCOPE
    from hloom.analysis.scopes import ScopePath as ScopePath
    from hloom.analysis.scopes import ScopePaths as ScopePaths
    from hloom.analysis.scopes import pytree_path as pytree_path
    from hloom.analysis.scopes import scope_of_name as scope_of_name
    from hloom.analysis.scopes import scopes as scopes
    from hloom.analysis.size_note import ALL_KNOWN as ALL_KNOWN
    from hloom.analysis.size_note import SizeNote as SizeNote
    from hloom.analysis.size_note import qualifier as qualifier
    from hloom.analysis.size_note import size_note as size_note
    from hloom.analysis.size_note import varieties as varieties
    from hloom.analysis.sizes import elements as elements
    from hloom.analysis.sizes import first_array as first_array
    from hloom.analysis.sizes import leaf_bytes as leaf_bytes
    from hloom.analysis.sizes import shape_bytes as shape_bytes
    from hloom.analysis.stored_sizes import memory_space as memory_space
    from hloom.analysis.stored_sizes import stored_bytes as stored_bytes
    from hloom.analysis.summary import Call as Call
    from hloom.analysis.summary import CollectiveCount as CollectiveCount
    from hloom.analysis.summary import Summary as Summary
    from hloom.analysis.summary import Tensor as Tensor
    from hloom.analysis.summary import inspect as inspect
    from hloom.analysis.tables import Table as Table
    from hloom.analysis.timeline import Hint as Hint
    from hloom.analysis.timeline import StreamEvent as StreamEvent
    from hloom.analysis.timeline import Timeline as Timeline
    from hloom.analysis.timeline import timeline as timeline
    from hloom.analysis.trip_counts import derive_trip_count as derive_trip_count
    from hloom.analysis.trip_counts import find_trip_counts as find_trip_counts
    from hloom.analysis.trip_counts import loop_names as loop_names
