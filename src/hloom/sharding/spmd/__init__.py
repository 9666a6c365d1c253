"""What XLA's SPMD partitioner makes of changes of spec and of contractions: the collectives, before XLA is asked."""
