"""What XLA's CPU compiler makes of one device's program, as far as memory goes: copies, kernels, and their order.

`held` is the door; `layouts` adds what dots and collectives want to read otherwise, `kernels` says what runs as one,
`order` when. Taken from XLA's sources and checked against the executables of jaxlib 0.10.2.
"""

from hloom.sharding.compiled.held import held as held
