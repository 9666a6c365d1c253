"""Programs over many devices.

`propagation` derives the shardings of all values from some, `partitioner` predicts which collectives XLA's partitioner
emits, and `planner` searches for the best sharding. `microbatch`, `remat` and `pipeline` change the program, and `fit`
searches over all of them. To add a way to distribute a program, add a package here and a kind of combination in `fit`.
"""
