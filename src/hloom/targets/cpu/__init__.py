"""A model of XLA's CPU compiler for memory: which values of a program are stored, and for how long.

`memory` reports the memory of a module's run; `simulate_buffers` applies the model to an uncompiled module. Each file
names the files and functions it follows, of openxla/xla in the sources of early 2026; everything is checked against
executables of jaxlib 0.10.2 (tests/targets/cpu/).

To change which operands are copied into another layout, edit `layout_assignment.py`; which instructions run as one
kernel, `instruction_fusion.py` and `library_fusion.py`; the order of kernels, `bfs_scheduler.py`.
"""

from hloom.targets.cpu.buffer_simulation import simulate_buffers as simulate_buffers
from hloom.targets.cpu.memory import COMPILED as COMPILED
from hloom.targets.cpu.memory import SCHEDULES as SCHEDULES
from hloom.targets.cpu.memory import memory as memory
