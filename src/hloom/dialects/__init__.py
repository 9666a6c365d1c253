"""Other IRs: one package for each, with its op rows, its values and its lowering to HLO.

To add a dialect, make a package beside `oneflow` and read its texts with `hloom.formats.mlir.parse(text, rows=...)`.
"""
