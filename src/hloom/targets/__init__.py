"""Compilers of devices: `cpu` is a model of XLA's CPU compiler.

To add a model of another compiler, add a package beside it with fusion, order and buffers as its compiler has them.
"""
