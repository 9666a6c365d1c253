"""Other IRs: one package each, with its op rows, its values and its lowering to HLO.

To add a dialect, make a package like `oneflow` and read its texts with `hloom.formats.mlir.parse(text, rows=...)`.
Lowerings are arithmetic on arrays (`arrays.py`).
"""
