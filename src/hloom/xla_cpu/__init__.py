"""What XLA's CPU compiler makes of one device's program, as far as memory goes: copies, kernels, and their order.

To change which operands are copied into another layout, edit `layout_assignment.py`; what runs as one kernel,
`instruction_fusion.py` and `library_fusion.py`; in which order, `bfs_scheduler.py`. Taken from XLA's sources and
checked against the executables of jaxlib 0.10.2.
"""

from hloom.xla_cpu.buffer_simulation import held as held
