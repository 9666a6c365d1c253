"""What users call that several packages make together: planning with measurement, and passes and plans inside jax.jit.

To add a function, write it in a file here and name it in `hloom/__init__.py`. Nothing below imports this package.
"""
