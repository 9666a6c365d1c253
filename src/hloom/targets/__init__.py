"""Models of compilers for particular devices: `cpu` is a model of XLA's CPU compiler.

To add a model of another compiler, make a package here with its fusion, order and buffers. Rates of devices are in
`analysis/devices.toml`; kernels for GPUs and TPUs are chosen in `passes/fusion`.
"""
