"""Models of compilers for particular devices: `cpu` is a model of XLA's CPU compiler.

To model another compiler, add a package here with the compiler's fusion, order and buffers. Rates of devices are in
`analysis/devices.toml`; kernels for GPUs and TPUs are chosen in `passes/fusion`.
"""
