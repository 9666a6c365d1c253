"""A model of XLA's GPU compiler for memory: which values of a program are stored, and for how long.

It is an estimate (docs/accuracy.md says how near), of the compiler without autotuning: Triton's kernels compute the
dots, and libraries take no scratch memory. Each file names the files and functions it follows, of openxla/xla in the
sources of early 2026. To change what runs as one kernel, edit `priority_fusion.py`, `dot_fusion.py` and
`softmax_fusion.py`; which dots are computed in parts, `split_k.py`; the layouts of convolutions,
`convolution_layout.py`.
"""

from hloom.targets.gpu.buffer_simulation import simulate_buffers as simulate_buffers
