"""Random numbers."""

from hloom.ir import required
from hloom.ops.rows import ENUM, INTEGER, row, table

DISTRIBUTIONS = ("rng_uniform", "rng_normal")
RNG_ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")

ROWS = table(
    row("rng", 2, {"distribution": required(ENUM, choices=DISTRIBUTIONS)}),
    row("rng-bit-generator", 1, {"algorithm": required(ENUM, choices=RNG_ALGORITHMS)}),
    row("rng-get-and-update-state", 0, {"delta": required(INTEGER)}),
)
