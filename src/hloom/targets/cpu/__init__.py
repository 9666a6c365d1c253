"""A model of XLA's CPU compiler for memory: which values of a program are stored, and for how long.

`simulate_buffers` applies the model to an uncompiled module. Each file
names the files and functions it follows, of openxla/xla in the sources of early 2026; everything is checked against
executables of jaxlib 0.10.2 (tests/targets/cpu/).

To change which operands are copied into another layout, edit `layout_assignment.py`; which instructions run as one
kernel, `instruction_fusion.py` and `library_fusion.py`; the order of kernels, `bfs_scheduler.py`. The model of the GPU
compiler shares the passes that both compilers run.
"""

from hloom.targets.cpu.algebraic_simplifier import simplify as simplify
from hloom.targets.cpu.bfs_scheduler import append_kernel as append_kernel
from hloom.targets.cpu.bfs_scheduler import kernel_operands as kernel_operands
from hloom.targets.cpu.buffer_simulation import NOT_HOISTED as NOT_HOISTED
from hloom.targets.cpu.buffer_simulation import KernelScheduler as KernelScheduler
from hloom.targets.cpu.buffer_simulation import simulate_buffers as simulate_buffers
from hloom.targets.cpu.copy_insertion import insert_copies as insert_copies
from hloom.targets.cpu.flatten_call_graph import flatten_call_graph as flatten_call_graph
from hloom.targets.cpu.float_normalization import UNCHANGED as UNCHANGED
from hloom.targets.cpu.float_normalization import normalize_floats as normalize_floats
from hloom.targets.cpu.gather_simplifier import simplify_gathers as simplify_gathers
from hloom.targets.cpu.layout_assignment import assign_layouts as assign_layouts
from hloom.targets.cpu.layout_assignment import clear_layouts as clear_layouts
from hloom.targets.cpu.select_and_scatter_expander import expand_select_and_scatter as expand_select_and_scatter
