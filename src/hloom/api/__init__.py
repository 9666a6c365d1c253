"""Public functions that combine several packages: planning with measurement, passes and plans inside jax.jit.

To add a function, write it in a file here and name it in `hloom/__init__.py`. Nothing below imports this package.
"""
