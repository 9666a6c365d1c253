"""Smaller models: `quantization` stores weights in narrow types, `pruning` removes weights and dimensions.

To add a method, follow the docstring of its package.
"""
