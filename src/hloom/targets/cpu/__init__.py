"""A model of XLA's CPU compiler for memory: which values of a program are stored, and for how long.

`simulate_buffers` applies the model to an uncompiled module. Each file
names the files and functions it follows, of openxla/xla in the sources of early 2026; everything is checked against
executables of jaxlib 0.10.2 (tests/targets/cpu/).

To change which operands are copied into another layout, edit `layout_assignment.py`; which instructions run as one
kernel, `instruction_fusion.py` and `library_fusion.py`; the order of kernels, `bfs_scheduler.py`.
"""

from hloom.targets.cpu.buffer_simulation import simulate_buffers as simulate_buffers
