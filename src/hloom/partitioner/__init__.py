"""The model of XLA's SPMD partitioner: which collectives it emits where specs change and for dots, before XLA is asked.

To change what is emitted for dots, edit `dot_handler.py` and the files that it calls; for changes of spec,
`reshard.py`.
"""
