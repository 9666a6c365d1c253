"""Files and texts of programs.

`hlo` reads and writes HLO text and protos, `mlir` MLIR's generic operation text; `protobuf` holds the messages of XLA,
Paddle and MindSpore. To add a format that `hloom.load` reads, add a `FileFormat` in `api/load.py`.
"""
