"""Compilers of particular devices: `cpu` is a model of XLA's CPU compiler, `compiler` runs the targets' own compilers.

To add a model of another compiler, make a package here with its fusion, order and buffers. Rates of devices are in
`analysis/devices.toml`; kernels for GPUs and TPUs are chosen in `passes/fusion`. Names of targets that can be compiled
for are in `compiler/target.py`.
"""
