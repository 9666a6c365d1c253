"""How fast hloom is, always as a ratio against a peer that runs beside it: `python -m benchmarks`.

To add a figure, yield one from a function of its subject's file and, for a new function, name it in `sections.py`.
"""
