"""Programs over many devices.

`propagation` says what a sharding of some values means for all others, `partitioner` which collectives XLA's
partitioner emits; `planner` searches shardings, `microbatch`, `remat` and `pipeline` change the program, `fit` searches
over all of them. To add a way to distribute a program, add a package here and a kind of combination in `fit`.
"""
