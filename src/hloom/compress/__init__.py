"""Smaller models: `quantization` stores weights in narrow types, `pruning` removes weights and dimensions.

To add a method, add a file to its package and a row to the table that the package's docstring names.
"""
